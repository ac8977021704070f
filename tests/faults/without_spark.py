"""The engine with plain Python in the place of Spark: the same protocol, the same files, no JVM.

Only what Spark does to rows is done here: finding those that a job changes, and writing them into
flat files. All that comes after it, and before it, is the engine's own.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.errors import PythonException

from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.acid.locks import MetastoreVersion, Operation, TableRef
from airflow_hiveacid.acid.row_id import RowId, decode_bucket
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.cli.rows import visible_rows
from airflow_hiveacid.engine import run as application
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.rows.columns import orc_row_types
from airflow_hiveacid.engine.write import statement
from airflow_hiveacid.engine.write.acid_output import AcidOutput
from airflow_hiveacid.engine.write.context import Counts, WriteContext
from airflow_hiveacid.engine.write.insert_only_output import InsertOnlyOutput
from airflow_hiveacid.engine.write.staged_files import StagedFile, delete_stager
from airflow_hiveacid.engine.write.statement import Preparation, Statement
from airflow_hiveacid.engine.write.table_output import TableOutput
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob
from airflow_hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from airflow_hiveacid.listing import list_files, read_state
from airflow_hiveacid.maintenance.table_cleaning import clean
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.progress import Phase
from airflow_hiveacid.storage import Storage
from tests.faults.rows import Row, change

_OPERATIONS = {UpdateJob: Operation.UPDATE, DeleteJob: Operation.DELETE, MergeJob: Operation.MERGE}
_DELETE_COLUMNS = ("partition", "bucket", "write_id", "property", "row")


def carry_out(job: Job) -> Any:
    """Run a job as an application or an operator does, and give its report."""
    if isinstance(job, CleanJob):
        assert job.metastore is not None
        with MetastoreClient(job.metastore) as client:
            return clean(client, job)
    with without_spark():
        return application.run(_Session(), job)  # type: ignore[arg-type]


@contextmanager
def without_spark() -> Iterator[None]:
    """Let the engine do without Spark meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement, "scan_session", lambda spark: spark)
        patch.setattr(application, "statement_of", _statement_of)
        patch.setattr(TableOutput, "_arrange", lambda self, frame, by, gather: frame)
        patch.setattr(AcidOutput, "_save", _save)
        patch.setattr(InsertOnlyOutput, "_save", _save)
        patch.setattr(AcidOutput, "write_deletes", _write_deletes)
        yield


class _Session:
    """What the engine asks a Spark session for when no rows are concerned."""

    def __init__(self) -> None:
        self.sparkContext = self

    def getLocalProperty(self, name: str) -> None:  # noqa: N802
        """Nobody has set any."""

    def setLocalProperty(self, name: str, value: Any) -> None:  # noqa: N802
        """Nothing runs that it could be about."""

    def setJobGroup(self, *_: Any, **__: Any) -> None:  # noqa: N802
        """Nothing runs that could be cancelled."""

    cancelJobGroup = setJobGroup  # noqa: N815

    def parallelize(self, items: Sequence[Any], _: int) -> "_Tasks":
        return _Tasks(items)

    def __call__(self, work: Callable[..., Any]) -> Callable[..., Any]:
        return work


@dataclass(frozen=True)
class _Tasks:
    """Tasks, which run here and now, one after the other."""

    items: Sequence[Any]
    work: Callable[[Any], Any] | None = None

    def map(self, work: Callable[[Any], Any]) -> "_Tasks":
        return replace(self, work=work)

    def collect(self) -> list[Any]:
        assert self.work is not None
        with _in_a_task():
            return [self.work(item) for item in self.items]


@contextmanager
def _in_a_task() -> Iterator[None]:
    """Of what fails in a task, Spark hands on the text."""
    try:
        yield
    except Exception as error:
        raise PythonException(traceback.format_exc()) from error


@dataclass(eq=False)
class _Statement(Statement):
    """The change that a job describes, its rows found and written by Python."""

    job: Any

    @property
    def operation(self) -> Operation:
        if isinstance(self.job, InsertJob):
            return Operation.OVERWRITE if self.job.overwrite else Operation.INSERT
        return _OPERATIONS[type(self.job)]

    def prepare(self, preparation: Preparation) -> None:
        self.look_up(preparation)

    def run(self, context: WriteContext) -> Counts:
        with context.phases(Phase.READ):
            full_acid = context.table.kind is TableKind.FULL_ACID
            seen = _rows_with_ids(context) if full_acid else {}
            changed = change(self.job, seen.values())
        with context.phases(Phase.WRITE):
            gone = sorted(row_id for row_id, row in seen.items() if row in changed.gone)
            if gone:
                context.output.write_deletes(gone, ())  # type: ignore[arg-type]
            if changed.come:
                rows: Any = changed.come
                context.output.write_rows(rows, gather=True, replace=changed.replaces)
        updated = changed.updated
        return Counts(len(changed.come) - updated, updated, len(gone) - updated)


def _statement_of(job: Job, orc_codec: str | None) -> _Statement:
    return _Statement(TableRef.parse(job.target), orc_codec, job)


def _rows_with_ids(context: WriteContext) -> dict[tuple[str, RowId], Row]:
    """All rows that the transaction sees, by partition and row id."""
    rules = Rules.HIVE3 if context.client.version is MetastoreVersion.HMS3 else Rules.HIVE4
    write_ids = context.txn.snapshot.write_ids[context.table.ref.full_name]
    found = {}
    for partition in context.client.get_partitions(context.table.ref):
        storage = Storage.of(partition.folder)
        files = list_files(storage)
        state = read_state(storage, files, write_ids, context.txn.snapshot.txns, rules=rules)
        p = partition.values[0] or ""
        for batch in visible_rows(storage, state, write_ids, rules):
            for row_id, row in zip(batch.row_ids(), batch.columns.to_pylist(), strict=True):
                found[p, row_id] = Row(row["id"], row["v"], p)
    return found


def _save(
    output: TableOutput, rows: Sequence[Row], by: Sequence[str], directory: Any, location: str
) -> None:
    """Write flat files as Spark does, one for each partition."""
    storage = Storage.of(location)
    for p in sorted({row.p for row in rows}):
        some = [row for row in rows if row.p == p]
        columns = {
            "id": pa.array([row.id for row in some], pa.int32()),
            "v": [row.v for row in some],
        }
        with _in_a_task(), storage.create(f"p={p}/part-00000.orc") as sink:
            orc.write_table(pa.table(columns), sink)


def _write_deletes(output: AcidOutput, gone: Sequence[tuple[str, RowId]], _: Any) -> None:
    """Write delete events as Spark's tasks do."""
    directory = output._delta(is_delete=True)
    names = sorted({f"p={p}" for p, _ in gone})
    output._locate(names)
    folders = [output._folders[name] for name in names]
    staging = [output._staging_folder(folder, directory) for folder in folders]
    stage = delete_stager(staging, output.write_id, orc_row_types(output.table), output.codec)
    keys = sorted(
        (names.index(f"p={p}"), decode_bucket(row_id.bucket).writer_id, *row_id)
        for p, row_id in gone
    )
    columns = [pa.array(column, pa.int64()) for column in zip(*keys, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, names=_DELETE_COLUMNS)
    with spark_errors_as_ours("Writing deletes"), _in_a_task():
        staged = [found for batch in stage([batch]) for found in batch.to_pylist()]
    for found in staged:
        file = StagedFile(found["path"], found["bucket"], found["rows"], found["bytes"])
        output.staged.setdefault((folders[found["partition"]], directory.name), []).append(file)
