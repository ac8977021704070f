"""Every operation that a fault can strike at: the tables it begins with, its job, and its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

from hiveacid.jobs.checks import Holds, InRange, NoRows, NotNull, RowCount, Unique
from hiveacid.jobs.definition_jobs import (
    AlterColumnsJob,
    ColumnSpec,
    ConvertJob,
    CreateTableLikeJob,
    CreateViewJob,
    DropTableJob,
    PartitionsJob,
)
from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.quarantine import FAILED_CHECKS, RUN
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import BatchSource, ChangesSource, QuerySource, TableSource
from hiveacid.jobs.stage_jobs import PublishJob, StageJob
from hiveacid.jobs.stream_job import StreamJob, StreamSource
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.rules.partitions import KeyComparison
from hiveacid.rules.schema import ColumnChange, TableKind
from tests.faults.after import SPECIAL, After
from tests.faults.catalog import create_namespace
from tests.faults.rows import DELETED, ERASED, LARGEST, Change, Row, change, write_source
from tests.faults.without_spark import carry_out
from tests.places import place_of
from tests.versions import VENDOR, VERSIONS

FIRST = [Row(n, "first", p) for n, p in ((1, "a"), (2, "a"), (3, "b"), (4, "b"))]
SECOND = [Row(n, ERASED, p) for n, p in ((5, "a"), (6, "b"))]
CHANGES = [
    Row(1, "merged", "a"),
    Row(3, "merged", "b"),
    Row(4, DELETED, "b"),
    Row(20, "new", "a"),
    Row(21, "new", "d"),
]


# The rows of each table, by its full name.
Rows = dict[str, list[Row]]


class Tables:
    """The tables of one scenario, in a database of its own.

    Attributes:
        main: The table that is struck at.
        other: Another one, for transactions over both.
        folder: A place for sources.
        creations: The number of tables that were created again.
        staged: The change that was staged before a publication.
    """

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        self.client = client
        self.main, self.other = TableRef(database, "main"), TableRef(database, "other")
        self.folder = folder
        self.creations = 0
        self.staged: Job | None = None
        client.create_database(database)

    @property
    def both(self) -> Sequence[TableRef]:
        """The tables that there are."""
        names = self.client.get_tables(self.main.database)
        return [ref for ref in (self.main, self.other) if ref.name in names]

    def create(self, ref: TableRef, kind: TableKind = TableKind.FULL_ACID) -> None:
        """A table with the partitions a and b, empty."""
        columns = [HiveColumn("id", "int"), HiveColumn("v", "string")]
        new = HiveTable.new(ref, columns, partition_keys=[HiveColumn("p", "string")], kind=kind)
        if kind is TableKind.NOT_ACID:
            new.raw.parameters.clear()
        self.client.create_table(new)
        table = self.client.get_table(ref)
        self.client.add_partitions(ref, [HivePartition.new(table, [p]) for p in "ab"])

    def fill(self, ref: TableRef, *, delete: bool = True) -> None:
        """Two inserts and a delete: six rows, one of them deleted again."""
        for rows in (FIRST, SECOND):
            self.run(self.insert(ref, self.of_creation(rows)))
        if delete:
            self.run(DeleteJob(target=str(ref), where="id IN (2)"))

    def of_creation(self, rows: Sequence[Row]) -> list[Row]:
        """Rows as they are in this creation of a table: none has those of an earlier one."""
        suffix = f" {self.creations}" if self.creations else ""
        return [row._replace(v=row.v + suffix) for row in rows]

    def insert(self, ref: TableRef, rows: Sequence[Row], *, overwrite: bool = False) -> InsertJob:
        source = self.source(rows)
        return InsertJob(target=str(ref), source=source, overwrite=overwrite, on_empty="ok")

    def source(self, rows: Sequence[Row]):
        number = len(list(self.folder.iterdir()))
        return write_source(self.folder / f"source-{number}.json", rows)

    def run(self, job: Job):
        """Carry out a job in this very process."""
        return carry_out(replace(job, metastore=self.client.options))


@dataclass(frozen=True)
class Operation:
    """Something that is done to tables.

    Attributes:
        build: Makes a table.
        job: Makes the job, without metastore and token.
        both: Whether there are two tables.
        rebuild: Makes a table that was dropped again; None is as at first.
        restores: The rows of the version that is restored.
        versions: The versions of the metastore that it works on.
        excludes: The actions that others cannot take concurrently without a change of the expected
            result.
        includes: The special actions that concern it.
    """

    build: Callable[[Tables, TableRef], None]
    job: Callable[[Tables], Job]
    both: bool = False
    rebuild: Callable[[Tables, TableRef], None] | None = None
    restores: Sequence[Row] = ()
    versions: Sequence[str] = VERSIONS
    excludes: frozenset[After] = frozenset()
    includes: frozenset[After] = frozenset()

    def afters(self, version: str) -> list[After]:
        """The actions that others can take concurrently."""
        old = set() if version in REBALANCING else {After.REBALANCE}
        excluded = (SPECIAL - self.includes) | self.excludes | old
        return [after for after in After if after not in excluded]

    def begin(self, tables: Tables) -> None:
        """Make all tables."""
        for ref in (tables.main, tables.other) if self.both else (tables.main,):
            self.build(tables, ref)

    def expected(self, job: Job, before: Rows, tables: Tables) -> Rows:
        """The rows of the tables when the job is done, by those before it."""
        jobs = {each.target: each for each in _statements(job, tables)}
        return {
            name: self._change(jobs[name], rows, tables).of(rows) if name in jobs else sorted(rows)
            for name, rows in before.items()
        }

    def expected_in_main(self, job: Job, before: list[Row], tables: Tables) -> list[Row]:
        """The rows of the first table when the job is done, by those before it."""
        name = str(tables.main)
        return self.expected(job, {name: before}, tables)[name]

    def counts(self, job: Job, before: Rows, tables: Tables) -> tuple[int, int, int]:
        """The numbers of rows that the job inserts, updates and deletes."""
        changes = [
            self._change(each, before[each.target], tables) for each in _statements(job, tables)
        ]
        updated = sum(each.updated for each in changes)
        come, gone = (
            sum(len(each.come) for each in changes),
            sum(len(each.gone) for each in changes),
        )
        return come - updated, updated, gone - updated

    def _change(self, job: Job, rows: Sequence[Row], tables: Tables) -> Change:
        if not self.restores:
            return change(job, rows)
        then = tables.of_creation(self.restores)
        if self.build in (_filled_insert_only, _overwritten_insert_only):
            return Change(come=then, replaces=True)
        come = [row for row in then if row not in rows]
        return Change([row for row in rows if row not in then], come)


def _statements(job: Job, tables: Tables) -> Sequence[Any]:
    """The changes that are visible when a job is done."""
    if isinstance(job, StageJob):
        return []
    if isinstance(job, PublishJob):
        assert tables.staged is not None
        return _statements(tables.staged, tables)
    return job.parts if isinstance(job, TransactionJob | InsertJob) else [job]


def _filled(tables: Tables, ref: TableRef) -> None:
    tables.create(ref)
    tables.fill(ref)


def _filled_insert_only(tables: Tables, ref: TableRef) -> None:
    tables.create(ref, TableKind.INSERT_ONLY)
    tables.fill(ref, delete=False)


def _overwritten_insert_only(tables: Tables, ref: TableRef) -> None:
    """Three versions; the first two are kept only until the next cleaning."""
    _filled_insert_only(tables, ref)
    tables.run(tables.insert(ref, NEW[:2], overwrite=True))


def _updated(tables: Tables, ref: TableRef) -> None:
    """Six rows, two of them in files of the fourth write id."""
    _filled(tables, ref)
    tables.run(UpdateJob(target=str(ref), set={"v": "'changed'"}, where="id IN (1, 3)"))


def _compacted_twice(tables: Tables, ref: TableRef) -> None:
    """A table whose early versions are kept only until a cleaner comes."""
    _updated(tables, ref)
    tables.run(CompactJob(target=str(ref), type="major", parallel=1))
    tables.run(DeleteJob(target=str(ref), where="id IN (5, 6)"))


def _plain_files(tables: Tables, ref: TableRef) -> None:
    tables.create(ref, TableKind.NOT_ACID)
    for partition in tables.client.get_partitions(tables.client.get_table(ref)):
        folder = place_of(partition.folder)
        rows = [row for row in FIRST if row.p == partition.values[0]]
        columns = {"id": pa.array([r.id for r in rows], pa.int32()), "v": [r.v for r in rows]}
        with (folder / "000000_0").open("wb") as sink:
            orc.write_table(pa.table(columns), sink)


def _compacted(tables: Tables, ref: TableRef) -> None:
    """Work for a cleaner: the directories that a compaction replaced, and those of an abort."""
    _filled(tables, ref)
    txn = tables.client.open_txn("somebody", "host", None)
    write_id = tables.client.allocate_write_id(txn, ref)
    tables.client.add_dynamic_partitions(txn, write_id, ref, ["p=a"], 2)
    table = tables.client.get_table(ref)
    root = place_of(table.folder)
    left = root / "p=a" / f"delta_{write_id:07d}_{write_id:07d}_0000"
    left.mkdir()
    (left / "bucket_00000").write_bytes(b"half a file")
    staging = root / f"_tmp_hiveacid_{txn}_x"
    staging.mkdir()
    (staging / "file").write_text("half a file")
    tables.client.abort_txn(txn)
    tables.run(CompactJob(target=str(ref), type="major", parallel=1))


def _erasure(tables: Tables) -> Job:
    # Beside the table: the records of the request count as well.
    folder = place_of(tables.client.get_table(tables.main).folder).parent / "erasures"
    return EraseJob(
        request="r1",
        keys=QuerySource(f"VALUES ('{ERASED}')"),
        columns={str(tables.main): "v"},
        folder=f"file:{folder}",
        retention="0",
    )


def _both(tables: Tables) -> Job:
    return TransactionJob(statements=(_merge(tables), _update(tables, tables.other)))


def _checked(tables: Tables) -> Job:
    """Change two tables, with checks of the written rows and of whole tables that are satisfied."""
    main, other = str(tables.main), str(tables.other)
    negative = NoRows(
        sql="SELECT id FROM o WHERE id < 0", table=main, inputs={"o": TableSource(other)}
    )
    checks = [
        NotNull(columns=["id", "v"], table=main, whole_table=True),
        Unique(columns=["id", "p"], table=main),
        Holds(sql="v = 'updated'", table=other),
        negative,
        RowCount(table=other, of="updated", min=1, severity="warn"),
    ]
    statements = (_merge(tables), _update(tables, tables.other))
    return TransactionJob(statements=statements, checks=checks)


def _filled_with_quarantine(tables: Tables, ref: TableRef) -> None:
    """The other table is the quarantine."""
    _filled(tables, ref)
    if ref == tables.other:
        texts = [(name, "string") for name in ("v", FAILED_CHECKS, RUN)]
        columns = [ColumnSpec(name, type_) for name, type_ in [("id", "int"), *texts]]
        tables.run(AlterColumnsJob(target=str(ref), columns=columns))


def _quarantine(tables: Tables) -> Job:
    """Insert rows, of which the quarantine receives those with large numbers."""
    check = InRange(column="id", max=LARGEST, severity="quarantine")
    insert = tables.insert(tables.main, NEW)
    return replace(insert, checks=[check], quarantine=str(tables.other))


def _publication(tables: Tables) -> Job:
    """Publish a change of two tables, which accepts rows that others append."""
    update, insert = _update(tables, tables.main), tables.insert(tables.other, NEW)
    tables.staged = TransactionJob(statements=(update, insert))
    staging = StageJob(change=tables.staged, run_token="an earlier run")
    return PublishJob.of(tables.run(staging).to_dict())


def _inserts(tables: Tables) -> Job:
    inserts = (tables.insert(tables.main, NEW), tables.insert(tables.other, NEW))
    return TransactionJob(statements=inserts)


def _restore(version: int) -> Callable[[Tables], Job]:
    return lambda tables: RestoreJob(target=str(tables.main), as_of=str(version))


def _update_rows(tables: Tables) -> Job:
    update = UpdateJob(target=str(tables.main), set={"v": "'updated'"}, where="id IN (3)")
    return replace(update, conflict_policy="rows")


def _export(tables: Tables) -> Job:
    changes = ChangesSource(str(tables.main), after="0", up_to="3", net=True)
    return ExportChangesJob(source=changes, path=f"file:{tables.folder}/export", format="json")


def _script(tables: Tables) -> Job:
    """Insert by a table that the script creates, fills, and drops."""
    own = f"{tables.main.database}.own"
    rows = QuerySource("SELECT * FROM s", {"s": TableSource(own)})
    return ScriptJob.of(
        [
            CreateTableLikeJob(target=own, like=str(tables.main), if_not_exists=True),
            InsertJob(target=own, source=tables.source(NEW)),
            InsertJob(target=str(tables.main), source=rows),
            DropTableJob(target=own, if_exists=True),
        ]
    )


def _stream(tables: Tables) -> Job:
    for number, row in enumerate(NEW):
        folder = tables.folder / "stream"
        folder.mkdir(exist_ok=True)
        write_source(folder / f"{number}.json", [row])
    return StreamJob(
        name="feed",
        source=StreamSource(
            format="json",
            options={"path": f"file:{tables.folder}/stream"},
            schema="id INT, v STRING, p STRING",
        ),
        statements=(InsertJob(target=str(tables.main), source=BatchSource()),),
        checkpoint=f"file:{tables.folder}/checkpoint",
        trigger="available_now",
    )


def _mirror(tables: Tables) -> Job:
    """Update a mirror that lacks the last two changes of the table."""
    # Beside the table: the changes of these files count as well.
    lake = place_of(tables.client.get_table(tables.main).folder).parent / "lake"
    lake.mkdir()
    job = IcebergExportJob(
        target=str(tables.main),
        table="lake.mirror",
        catalog="faults",
        catalog_options={
            "type": "sql",
            "uri": f"sqlite:///{lake}/catalog.db",
            "warehouse": f"file://{lake}",
        },
    )
    create_namespace(job)
    tables.run(job)
    tables.run(tables.insert(tables.main, NEW))
    tables.run(DeleteJob(target=str(tables.main), where="id IN (1)"))
    return job


def _drop_partition(tables: Tables) -> Job:
    clause = (KeyComparison("p", DROPPED),)
    return PartitionsJob(target=str(tables.main), action="drop", partitions=(clause,))


def _add_partitions(tables: Tables) -> Job:
    clauses = [(KeyComparison("p", p),) for p in ADDED]
    return PartitionsJob(target=str(tables.main), action="add", partitions=clauses)


def _rename_column(tables: Tables) -> Job:
    return AlterColumnsJob(target=str(tables.main), change=ColumnChange("v", name="w"))


def _views(tables: Tables) -> Job:
    """Replace a view, create another one, and drop a third one."""
    for name in ("replaced", "dropped"):
        tables.run(_view(tables, name, 1, "create"))
    dropped = f"{tables.main.database}.dropped"
    return ScriptJob.of(
        [
            _view(tables, "replaced", 2, "replace"),
            _view(tables, "created", 3, "create_if_missing"),
            DropTableJob(target=dropped, view=True, if_exists=True),
        ]
    )


def _view(tables: Tables, name: str, number: int, mode: str) -> CreateViewJob:
    text = f"SELECT id, v, p FROM {tables.main} WHERE id > {number}"
    target = f"{tables.main.database}.{name}"
    return CreateViewJob(
        target=target, text=text, expanded=text, reads=(str(tables.main),), mode=mode
    )


def _merge(tables: Tables) -> MergeJob:
    return MergeJob(
        target=str(tables.main),
        source=tables.source(CHANGES),
        on="t.id = s.id AND t.p = s.p",
        when=(
            MatchedDelete(condition=f"s.v = '{DELETED}'"),
            MatchedUpdate(set={"v": "s.v"}),
            NotMatchedInsert(),
        ),
    )


def _update(tables: Tables, ref: TableRef) -> UpdateJob:
    return UpdateJob(target=str(ref), set={"v": "'updated'"}, where="id IN (1, 3, 5)")


def _compaction(type_: str, run_in: str = "spark") -> Callable[[Tables], Job]:
    return lambda tables: CompactJob(target=str(tables.main), type=type_, parallel=1, run_in=run_in)


NEW_VERSIONS = [version for version in VERSIONS if version[0] == "4"]
# Those with rebalances, and those whose mapping of columns is known, as renamed columns require.
_REBALANCING = VENDOR is None or not VENDOR.lacks("CompactionRequest.orderByClause")
REBALANCING = NEW_VERSIONS if _REBALANCING else []
RENAMING = NEW_VERSIONS if VENDOR is None or VENDOR.is_stated else []
NEW = [Row(10, "new", "a"), Row(11, "new", "b"), Row(12, "new", "c")]
# The partitions that statements of definitions drop and add.
DROPPED, ADDED = "b", ("d", "e")
_REBALANCES = frozenset({After.REBALANCE})
# A version of a table contains the partitions of that time.
_PARTITIONS = frozenset({After.EXPIRE_AND_RECREATE_PARTITION})
_NOTES = frozenset({After.DAMAGE})
_HIDDEN = frozenset({After.HIDE})
# Where there is a rebuild, the directories of the new table have the names of those that are removed.
OPERATIONS = {
    "insert": Operation(
        _filled, lambda t: t.insert(t.main, NEW), rebuild=_updated, includes=_NOTES
    ),
    "overwrite": Operation(
        _filled, lambda t: t.insert(t.main, NEW[:2], overwrite=True), includes=_NOTES
    ),
    "update": Operation(_filled, lambda t: _update(t, t.main), rebuild=_updated, includes=_NOTES),
    "delete": Operation(
        _filled,
        lambda t: DeleteJob(target=str(t.main), where="id IN (1, 6)"),
        includes=_HIDDEN,
    ),
    "merge": Operation(_filled, _merge, includes=_NOTES),
    "two tables": Operation(_filled, _both, both=True, includes=_NOTES),
    "two tables with checks": Operation(_filled, _checked, both=True, includes=_NOTES),
    "quarantine": Operation(
        _filled_with_quarantine, _quarantine, both=True, includes=_NOTES, excludes=_REBALANCES
    ),
    "staging": Operation(_filled, lambda t: StageJob(change=_both(t)), both=True),
    "publication": Operation(_filled, _publication, both=True),
    "minor compaction": Operation(_filled, _compaction("minor"), includes=_HIDDEN),
    "minor compaction in the worker": Operation(
        _filled, _compaction("minor", "worker"), includes=_HIDDEN
    ),
    "major compaction": Operation(_filled, _compaction("major"), includes=_HIDDEN),
    "major compaction in the worker": Operation(
        _filled, _compaction("major", "worker"), includes=_HIDDEN
    ),
    "insert-only insert": Operation(
        _filled_insert_only, lambda t: t.insert(t.main, NEW), excludes=_REBALANCES
    ),
    "insert-only compaction": Operation(
        _filled_insert_only, _compaction("major"), excludes=_REBALANCES
    ),
    "insert-only compaction in the worker": Operation(
        _filled_insert_only, _compaction("major", "worker"), excludes=_REBALANCES
    ),
    "cleaning": Operation(
        _compacted, lambda t: CleanJob(target=str(t.main), retention="0"), rebuild=_updated
    ),
    "erasure": Operation(_filled, _erasure),
    "insert-only erasure": Operation(_filled_insert_only, _erasure, excludes=_REBALANCES),
    "conversion": Operation(
        _plain_files, lambda t: ConvertJob(target=str(t.main)), excludes=_REBALANCES | _PARTITIONS
    ),
    "update of rows": Operation(_filled, _update_rows, includes=_NOTES),
    "two inserts": Operation(_filled, _inserts, both=True, includes=_NOTES),
    "restore": Operation(
        _compacted_twice, _restore(2), restores=[*FIRST, *SECOND], excludes=_PARTITIONS
    ),
    "insert-only restore": Operation(
        _overwritten_insert_only,
        _restore(1),
        restores=FIRST,
        excludes=_REBALANCES | _PARTITIONS,
    ),
    # A paused one sees nothing where others have compacted and cleaned all that its snapshot has.
    "restore of deltas": Operation(
        _filled, _restore(2), restores=[*FIRST, *SECOND], excludes=_PARTITIONS
    ),
    "insert-only restore of deltas": Operation(
        _filled_insert_only,
        _restore(1),
        restores=FIRST,
        excludes=_REBALANCES | _PARTITIONS,
    ),
    "rebalance": Operation(_filled, _compaction("rebalance"), versions=REBALANCING),
    "export": Operation(_filled, _export, excludes=_PARTITIONS),
    "mirror": Operation(
        _filled,
        _mirror,
        excludes=_REBALANCES,
        includes=frozenset({After.MIRROR, After.RECREATE_MIRROR}),
    ),
    "script": Operation(_filled, _script, excludes=_REBALANCES | _PARTITIONS),
    "stream": Operation(_filled, _stream, excludes=_PARTITIONS, includes=frozenset({After.COPY})),
    "drop partition": Operation(_filled, _drop_partition, excludes=_REBALANCES | _PARTITIONS),
    "add partitions": Operation(
        _filled, _add_partitions, includes=frozenset({After.EXPIRE_AND_ADD_COLUMN})
    ),
    "rename column": Operation(_filled, _rename_column, versions=RENAMING, excludes=_REBALANCES),
    "views": Operation(_filled, _views),
}
