"""Execution of one job of any type."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import singledispatch
from typing import Self

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs.checks import RowCount
from hiveacid.jobs.definition_jobs import CatalogJob, CreateTableAsJob, CreateViewJob, TruncateJob
from hiveacid.jobs.export_job import ExportChangesJob, ranges_of
from hiveacid.jobs.job import Job, ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import CompactReport, Report, RunReport, ScriptReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.stage_jobs import StageJob, StageReport
from hiveacid.jobs.stream_job import StreamJob, StreamReport
from hiveacid.jobs.write_jobs import RowJob, TransactionJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import REPORT_SECONDS, PhaseLog, PhaseObserver, watching
from hiveacid.rules.texts import plural
from hiveacid.spark.compaction import compact_table
from hiveacid.spark.export import export_changes
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.java_objects import java_session
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.spark_versions import to_arrow
from hiveacid.spark.statements.engine import SparkEngine
from hiveacid.spark.statements.from_job import statement_of
from hiveacid.spark.statements.source import SourceFrame
from hiveacid.spark.statements.table_of_query import create_table_of, create_view_of
from hiveacid.spark.streaming import StreamRun
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.tables.script import run_script
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.stage import stage_statements
from hiveacid.writes.statement import Statement, WriteOptions

# Progress of Spark, logged after every ten seconds of silence


class SparkProgressLog:
    """Logs the finished Spark tasks and rows, while it is entered."""

    def __init__(self, spark: SparkSession) -> None:
        """Prepare the log; it starts when it is entered.

        Args:
            spark: The session of the application.
        """
        self._spark = spark
        self._log = PhaseLog()
        self._over = threading.Event()
        # A daemon thread, since the job must be able to end even if Java does not respond any more.
        self._thread = threading.Thread(
            target=self._log_progress, name="spark-progress", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=1)

    def describe(self) -> str | None:
        """Return a description of Spark's current work; None without active stages."""
        active = java_session(self._spark).sparkContext().statusStore().activeStages()
        stages = [active.apply(number) for number in range(active.size())]
        if not stages:
            return None
        tasks = sum(stage.numTasks() for stage in stages)
        finished_tasks = sum(stage.numCompleteTasks() for stage in stages)
        message = f"Spark has done {finished_tasks} of {plural(tasks, 'task')}"
        for count, verb in (
            (sum(stage.outputRecords() for stage in stages), "written"),
            (sum(stage.inputRecords() for stage in stages), "read"),
        ):
            if count:
                return f"{message}, {plural(count, 'row')} {verb} so far"
        return message

    def _log_progress(self) -> None:
        pause = REPORT_SECONDS
        while not self._over.wait(pause):
            pause = PhaseLog.last + REPORT_SECONDS - time.monotonic()
            if pause > 0:
                continue
            pause = REPORT_SECONDS
            try:
                message = self.describe()
            except (Py4JError, OSError):
                return  # Spark has stopped, which is reported elsewhere.
            if message is not None and not self._over.is_set():
                self._log.note(message)


# The rows of a query, for display


def query_rows(
    spark: SparkSession, metastore: MetastoreOptions, query: QuerySource, limit: int | None
) -> pa.Table:
    """The rows of a query, whose tables are all read in one transaction.

    Args:
        spark: The session, which is not changed.
        metastore: The options of the metastore connection.
        query: The query.
        limit: The maximum number of rows; None returns all of them.
    """
    with MetastoreClient(metastore) as client:
        source = SourceFrame(spark, client, query)
        with Transaction(client, reads=source.acid_tables) as txn:
            rows = source.frame(TableReader(client, txn))
            with translated_spark_errors("The query"):
                return to_arrow(rows if limit is None else rows.limit(limit))


@dataclass(frozen=True, slots=True)
class Driver:
    """The environment of a job's execution.

    Attributes:
        spark: The session.
        metastore: The metastore.
        observers: Observers of the phases, besides the log.
        about: The number of the statement in a script; empty outside of scripts.
        batches: Tables and views of the session that the job reads, by their names.
        log: Whether steps are printed.
    """

    spark: SparkSession
    metastore: MetastoreOptions
    observers: Sequence[PhaseObserver] = ()
    about: str = ""
    batches: Mapping[str, DataFrame] = field(default_factory=dict)
    log: bool = True

    @property
    def watching(self) -> list[PhaseObserver]:
        """All observers."""
        return watching(self.observers, self.about) if self.log else [*self.observers]

    def client(self) -> MetastoreClient:
        """Return a client of the metastore, to be used as a context manager."""
        return MetastoreClient(self.metastore).patient()


def run(spark: SparkSession, job: Job, observers: Sequence[PhaseObserver] = ()) -> Report:
    """Run a job exactly once: work that an earlier attempt has committed is not repeated.

    Args:
        spark: The session.
        job: A job with metastore options.
        observers: Observers of the phases, besides the log.
    """
    job.validate()
    driver = Driver(spark, job.connection, observers)
    with SparkProgressLog(spark):
        return execute(job, driver)


@singledispatch
def execute(job: Job, driver: Driver) -> Report:
    """Execute a job; each type of job registers its executor here.

    Args:
        job: The job.
        driver: Its environment.

    Raises:
        InvalidJob: The type of the job has no executor on Spark.
    """
    raise InvalidJob(f"{type(job).__name__} is not executed on Spark.")


@execute.register
def _script(job: ScriptJob, driver: Driver) -> ScriptReport:
    def run_one(statement: ScriptedJob, number: int) -> RunReport | CompactReport:
        has_siblings = len(job.statements) > 1
        about = f"statement {number} of {len(job.statements)}" if has_siblings else ""
        report = execute(statement, replace(driver, about=about))
        assert isinstance(report, RunReport | CompactReport)
        return report

    with driver.client() as client:
        return run_script(client, job, run_one, driver.observers)


@execute.register
def _stream(job: StreamJob, driver: Driver) -> StreamReport:
    return StreamRun(driver.spark, job, driver.metastore, driver.observers).run()


@execute.register
def _catalog(job: CatalogJob, driver: Driver) -> RunReport:
    with driver.client() as client:
        return run_ddl(client, job)


@execute.register
def _compact(job: CompactJob, driver: Driver) -> CompactReport:
    with driver.client() as client:
        # Partitions that an earlier attempt has compacted are skipped; its transactions must end.
        if job.tokens:
            abort_open_transactions(client, *job.tokens)
        return compact_table(lambda: driver.spark, client, job, driver.watching)


@execute.register
def _create_as(job: CreateTableAsJob, driver: Driver) -> RunReport:
    with driver.client() as client:
        final_report = create_table_of(driver.spark, client, job, driver.batches)
    if final_report is not None:
        return final_report
    try:
        report = _write(job.insert, driver)
    except HiveAcidError as error:
        repetition = (
            "another attempt of this statement continues with it; drop it before another one"
            if job.run_token
            else "drop it to try again"
        )
        error.remedy = f"{error.remedy} {job.target} has been created: {repetition}.".lstrip()
        raise
    return replace(report, job=job.tag)


@execute.register
def _create_view(job: CreateViewJob, driver: Driver) -> RunReport:
    with driver.client() as client:
        return create_view_of(driver.spark, client, job)


@execute.register
def _export(job: ExportChangesJob, driver: Driver) -> RunReport:
    with driver.client() as client:
        return export_changes(driver.spark, client, job, driver.watching)


@execute.register
def _stage(job: StageJob, driver: Driver) -> StageReport:
    work = job.work
    with driver.client() as client:
        statements = [statement_of(part, driver.spark, work.orc_codec) for part in work.parts]
        engine = SparkEngine(driver.spark, driver.batches)
        return stage_statements(
            engine, client, job, driver.watching, statements, _require_counts_only
        )


def _require_counts_only(options: WriteOptions, _: Sequence[Statement]) -> None:
    """Refuse checks that a worker would have to evaluate on many rows when it publishes them."""
    for check in options.checks:
        if not isinstance(check, RowCount) or check.of == "table":
            raise InvalidJob(
                f"The check {check.label} cannot be part of a change that Spark stages: a worker"
                " publishes it, and evaluates only numbers of written rows.",
                remedy="Stage the change with run_in='worker', or omit the check.",
            )


@execute.register(RowJob)
@execute.register(TruncateJob)
@execute.register(TransactionJob)
def _write(job: Job, driver: Driver) -> RunReport:
    with driver.client() as client:
        engine = SparkEngine(driver.spark, driver.batches)
        return change_rows(engine, client, job, driver.watching)


def change_rows(
    engine: SparkEngine,
    client: MetastoreClient,
    job: Job,
    observers: Sequence[PhaseObserver] = (),
    frames: Mapping[str, DataFrame] | None = None,
) -> RunReport:
    """Run a change of rows on Spark, exactly once.

    Args:
        engine: Spark.
        client: The metastore.
        job: The change.
        observers: Observers of the phases.
        frames: The rows of batches that keep the settings of their session.
    """
    options = WriteOptions.of(job, job.token, ranges_of(job))
    statements = [statement_of(part, engine.spark, job.orc_codec, frames) for part in job.parts]
    done = run_statements(engine, client, options, observers, statements)
    if done.already_done and done.txn_id is not None:
        # The observers of the earlier attempt may be killed with it.
        for observer in observers:
            observer.opened(done.txn_id, done.write_ids)
    return done
