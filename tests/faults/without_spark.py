"""The engine without Spark: the same protocol, the same files, no JVM.

The worker's own statements find and write the rows. Only what they leave to Spark is done here, in
plain Python: the rows of restores, of streams, and of changes.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyarrow import orc
from pyspark.errors import PythonException

from hiveacid.erasure.requests import Eraser
from hiveacid.iceberg.run import export_to_iceberg
from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.sources import BatchSource
from hiveacid.jobs.stage_jobs import DiscardJob, PublishJob
from hiveacid.jobs.write_jobs import InsertJob, RestoreJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import RowId, decode_bucket
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark import run as application
from hiveacid.spark import streaming as streams
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.acid_snapshot import BUCKET, PARTITION, ROW, WRITE_ID
from hiveacid.spark.rows.columns import spark_struct
from hiveacid.spark.statements import engine as spark_engine
from hiveacid.spark.statements.engine import SparkEngine, engine_of
from hiveacid.spark.statements.restore import RestoreStatement
from hiveacid.spark.write.flat_rows import BUCKET_NUMBER, FlatRows, FlatRowsWriter, write_rows
from hiveacid.storage.folder import Storage
from hiveacid.storage.staging import FlatFile, Folder
from hiveacid.tables.visible_files import PartitionFiles
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.checks import ArrowChecks
from hiveacid.worker.run import statement_of
from hiveacid.worker.staged_changes import discard_change, publish_change
from hiveacid.writes.statement import Counts, Preparation, Statement, WriteContext
from tests.faults.rows import Change, Row
from tests.faults.rows_of_tables import rows_with_ids
from tests.faults.streaming import NoStreams
from tests.faults.without_frames import without_frames

Rows = dict[tuple[str, RowId], Row]
_DELETE_COLUMNS = (PARTITION, BUCKET_NUMBER, WRITE_ID, BUCKET, ROW)


def carry_out(job: Job) -> Any:
    """Run a job as an application or an operator does, and give its report."""
    if isinstance(job, CleanJob):
        assert job.metastore is not None
        with MetastoreClient(job.metastore) as client:
            return clean(client, job)
    if isinstance(job, PublishJob | DiscardJob):
        assert job.metastore is not None
        with MetastoreClient(job.metastore) as client:
            if isinstance(job, PublishJob):
                return publish_change(client, job)
            return discard_change(client, job)
    if isinstance(job, EraseJob):
        with MetastoreClient(job.connection) as client:
            return Eraser(client, job.folder).run(job)
    if isinstance(job, IcebergExportJob):
        assert job.metastore is not None
        with MetastoreClient(job.metastore) as client, WorkerScheduler() as scheduler:
            return export_to_iceberg(client, job, scheduler)
    with without_spark():
        return application.run(NoSpark(), job)  # type: ignore[arg-type]


@contextmanager
def without_spark() -> Iterator[None]:
    """Let the engine do without Spark meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_engine, "scan_session", lambda spark: spark)
        patch.setattr(application, "statement_of", _statement_of)
        patch.setattr(FlatRowsWriter, "write_rows", _write_rows)
        patch.setattr(streams, "scan_session", lambda spark: spark)
        patch.setattr(streams, "statement_of", _statement_of)
        patch.setattr(SparkEngine, "checks", lambda self, client: ArrowChecks(client))
        without_frames(patch)
        yield


class NoSpark(NoStreams):
    """The requests of the engine to a Spark session that do not concern rows."""

    def __init__(self) -> None:
        super().__init__()
        self.sparkContext = self

    @property
    def _jsc(self) -> "_NoJobs":
        return _NoJobs()

    @property
    def _jsparkSession(self) -> Any:  # noqa: N802
        raise Py4JError("There is no Java to report progress.")

    def getLocalProperty(self, name: str) -> None:  # noqa: N802
        """No property is set."""

    def setLocalProperty(self, name: str, value: Any) -> None:  # noqa: N802
        """Nothing runs that it could be about."""

    def setJobGroup(self, *_: Any, **__: Any) -> None:  # noqa: N802
        """Nothing runs that could be cancelled."""

    cancelJobGroup = setJobGroup  # noqa: N815

    @property
    def defaultParallelism(self) -> int:  # noqa: N802
        return 1

    def parallelize(self, items: Sequence[Any], _: int) -> "_Tasks":
        return _Tasks(items)

    def __call__(self, work: Callable[..., Any]) -> Callable[..., Any]:
        return work


class _NoJobs:
    """The records of Spark's jobs, which the engine reads before version 4.1: there are none."""

    def sc(self) -> "_NoJobs":
        return self

    listenerBus = statusStore = sc  # noqa: N815

    def waitUntilEmpty(self, _: int) -> None:  # noqa: N802
        """No event waits."""

    def jobsList(self, _: None) -> "_NoJobs":  # noqa: N802
        return self

    def size(self) -> int:
        return 0


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
    """Spark forwards the text of an error in a task."""
    try:
        yield
    except Exception as error:
        raise PythonException(traceback.format_exc()) from error


@dataclass(eq=False)
class _Batch(Statement):
    """An insert of the rows of a batch, which Spark gives to a stream."""

    batch: Any = None

    @property
    def operation(self) -> Operation:
        return Operation.INSERT

    def prepare(self, preparation: Preparation) -> None:
        self.look_up(preparation)
        self.batch = engine_of(preparation).batches[BatchSource().name]

    def stage(self, context: WriteContext) -> Counts:
        return _written(context, {}, Change(come=self.batch))


class _Restore(RestoreStatement):
    """A restore: the engine's own, but for the rows of full ACID tables."""

    def stage(self, context: WriteContext) -> Counts:
        if context.table.kind is TableKind.INSERT_ONLY:
            return super().stage(context)
        with context.phases(Phase.READ):
            then = rows_with_ids(context, context.table, self.as_of)
            seen = rows_with_ids(context, context.table)
            come = [row for key, row in then.items() if key not in seen]
            gone = [row for key, row in seen.items() if key not in then]
        return _written(context, seen, Change(gone, come))


def _written(context: WriteContext, seen: Rows, changed: Change) -> Counts:
    """Stage a change of rows."""
    with context.phases(Phase.WRITE):
        gone = sorted(row_id for row_id, row in seen.items() if row in changed.gone)
        if gone:
            context.output.write_deletes(*delete_keys(context, gone))
        if changed.come:
            rows: Any = changed.come
            write_rows(context.output, rows, replace=changed.replaces)
    updated = changed.updated
    return Counts(len(changed.come) - updated, updated, len(gone) - updated)


def _statement_of(
    job: Any, spark: object, orc_codec: str | None, batches: object = None
) -> Statement:
    target = TableRef.parse(job.target)
    if isinstance(job, RestoreJob):
        return _Restore(target, orc_codec, AsOf.parse(job.as_of))
    if isinstance(job, InsertJob) and isinstance(job.source, BatchSource):
        return _Batch(target, orc_codec)
    return statement_of(job, orc_codec)


def _write_rows(
    writer: FlatRowsWriter,
    rows: Sequence[Row],
    folder: Folder,
    *,
    has_fate: bool = False,
    scattered: bool = False,
    condition_of_rows: str | None = None,
) -> FlatRows:
    """Write flat files as Spark does, one for each partition."""
    storage = Storage.of(folder.root)
    files = []
    for p in sorted({row.p for row in rows}):
        some = [row for row in rows if row.p == p]
        id_, v = writer.table.columns
        columns = {
            id_.name: pa.array([row.id for row in some], pa.int32()),
            v.name: [row.v for row in some],
        }
        path = f"{folder.path}/p={p}/part-00000.orc"
        with translated_spark_errors("Writing rows"), _in_a_task(), storage.create(path) as sink:
            orc.write_table(pa.table(columns), sink)
            files.append(FlatFile(folder.root, path, sink.tell(), f"p={p}"))
    return FlatRows(tuple(files), spark_struct(writer.table.columns))


def delete_keys(
    context: WriteContext, gone: Sequence[tuple[str, RowId]]
) -> tuple[pa.Table, list[PartitionFiles]]:
    """The row ids of delete events, as the driver sorts them, and the partitions that they name."""
    names = sorted({f"p={p}" for p, _ in gone})
    keys = sorted(
        (names.index(f"p={p}"), decode_bucket(row_id.bucket).writer_id, *row_id)
        for p, row_id in gone
    )
    columns = zip(*keys, strict=True)
    table = pa.table(dict(zip(_DELETE_COLUMNS, map(pa.array, columns), strict=True)))
    return table, context.files(names).partitions
