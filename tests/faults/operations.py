"""Every operation that a fault can strike at: the table it begins with, its job, and its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyarrow import orc

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.jobs.ddl_jobs import ConvertJob
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from airflow_hiveacid.jobs.multi_table_job import MultiTableJob
from airflow_hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from airflow_hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.faults.rows import DELETED, Row, change, write_source
from tests.faults.without_spark import carry_out
from tests.places import place_of

FIRST = [Row(n, "first", p) for n, p in ((1, "a"), (2, "a"), (3, "b"), (4, "b"))]
SECOND = [Row(n, "second", p) for n, p in ((5, "a"), (6, "b"))]
CHANGES = [
    Row(1, "merged", "a"),
    Row(3, "merged", "b"),
    Row(4, DELETED, "b"),
    Row(20, "new", "a"),
    Row(21, "new", "d"),
]


class Tables:
    """The tables of one scenario, in a database of its own.

    Attributes:
        main: The table that is struck at.
        other: Another one, for transactions over both.
        folder: A place for sources.
    """

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        self.client = client
        self.main, self.other = TableRef(database, "main"), TableRef(database, "other")
        self.folder = folder
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
        """Two inserts and a delete: six rows, of which one is deleted again."""
        for rows in (FIRST, SECOND):
            self.run(self.insert(ref, rows))
        if delete:
            self.run(DeleteJob(target=str(ref), where="id IN (2)"))

    def insert(self, ref: TableRef, rows: Sequence[Row], *, overwrite: bool = False) -> InsertJob:
        return InsertJob(target=str(ref), source=self.source(rows), overwrite=overwrite)

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
        begin: Makes the tables.
        job: Makes the job, without metastore and token.
    """

    begin: Callable[[Tables], None]
    job: Callable[[Tables], Job]

    def expected(self, job: Job, before: Sequence[Sequence[Row]]) -> list[list[Row]]:
        """The rows of the tables when the job is done, by those before it."""
        jobs = job.statements if isinstance(job, MultiTableJob) else [job]
        return [
            change(jobs[number], rows).of(rows) if number < len(jobs) else sorted(rows)
            for number, rows in enumerate(before)
        ]

    def counts(self, job: Job, before: Sequence[Sequence[Row]]) -> tuple[int, int, int]:
        """How many rows the job inserts, updates and deletes."""
        jobs = job.statements if isinstance(job, MultiTableJob) else [job]
        changes = [change(each, rows) for each, rows in zip(jobs, before, strict=False)]
        updated = sum(each.updated for each in changes)
        come, gone = (
            sum(len(each.come) for each in changes),
            sum(len(each.gone) for each in changes),
        )
        return come - updated, updated, gone - updated


def _filled(tables: Tables) -> None:
    tables.create(tables.main)
    tables.fill(tables.main)


def _filled_both(tables: Tables) -> None:
    for ref in (tables.main, tables.other):
        tables.create(ref)
        tables.fill(ref)


def _filled_insert_only(tables: Tables) -> None:
    tables.create(tables.main, TableKind.INSERT_ONLY)
    tables.fill(tables.main, delete=False)


def _plain_files(tables: Tables) -> None:
    tables.create(tables.main, TableKind.NOT_ACID)
    for partition in tables.client.get_partitions(tables.main):
        folder = place_of(partition.folder)
        rows = [row for row in FIRST if row.p == partition.values[0]]
        columns = {"id": pa.array([r.id for r in rows], pa.int32()), "v": [r.v for r in rows]}
        with (folder / "000000_0").open("wb") as sink:
            orc.write_table(pa.table(columns), sink)


def _compacted(tables: Tables) -> None:
    """Something for a cleaner: what a compaction has replaced, and what an abort has left."""
    _filled(tables)
    txn = tables.client.open_txn("somebody", "host", None)
    write_id = tables.client.allocate_write_id(txn, tables.main)
    tables.client.add_dynamic_partitions(txn, write_id, tables.main, ["p=a"], 2)
    table = tables.client.get_table(tables.main)
    root = place_of(table.folder)
    left = root / "p=a" / f"delta_{write_id:07d}_{write_id:07d}_0000"
    left.mkdir()
    (left / "bucket_00000").write_bytes(b"half a file")
    staging = root / f"_tmp_hiveacid_{txn}_x"
    staging.mkdir()
    (staging / "file").write_text("half a file")
    tables.client.abort_txn(txn)
    tables.run(CompactJob(target=str(tables.main), type="major", parallel=1))


def _both(tables: Tables) -> Job:
    return MultiTableJob(statements=(_merge(tables), _update(tables, tables.other)))


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


def _compaction(type_: str) -> Callable[[Tables], Job]:
    return lambda tables: CompactJob(target=str(tables.main), type=type_, parallel=1)


NEW = [Row(10, "new", "a"), Row(11, "new", "b"), Row(12, "new", "c")]
OPERATIONS = {
    "insert": Operation(_filled, lambda t: t.insert(t.main, NEW)),
    "overwrite": Operation(_filled, lambda t: t.insert(t.main, NEW[:2], overwrite=True)),
    "update": Operation(_filled, lambda t: _update(t, t.main)),
    "delete": Operation(_filled, lambda t: DeleteJob(target=str(t.main), where="id IN (1, 6)")),
    "merge": Operation(_filled, _merge),
    "two tables": Operation(_filled_both, _both),
    "minor compaction": Operation(_filled, _compaction("minor")),
    "major compaction": Operation(_filled, _compaction("major")),
    "insert-only insert": Operation(_filled_insert_only, lambda t: t.insert(t.main, NEW)),
    "insert-only compaction": Operation(_filled_insert_only, _compaction("major")),
    "cleaning": Operation(_compacted, lambda t: CleanJob(target=str(t.main))),
    "conversion": Operation(_plain_files, lambda t: ConvertJob(target=str(t.main))),
}
