"""Execution of one job of any type."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs.changes_range import ranges_of
from hiveacid.jobs.definitions.create_table_as import CreateTableAsJob
from hiveacid.jobs.definitions.ddl_jobs import CatalogJob, TruncateJob
from hiveacid.jobs.definitions.view_job import CreateViewJob
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.job import Job, ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.jobs.reports.report import CompactReport, Report, RunReport
from hiveacid.jobs.reports.script_report import ScriptReport
from hiveacid.jobs.reports.stream_report import StreamReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.stream_job import StreamJob
from hiveacid.jobs.transaction_job import TransactionJob
from hiveacid.jobs.write_jobs import RowJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.progress import PhaseObserver, watching
from hiveacid.records.earlier_attempts import require_same_statements
from hiveacid.rules.names import TableRef
from hiveacid.spark.compaction.table import compact_table
from hiveacid.spark.export import export_changes
from hiveacid.spark.spark_progress_log import SparkProgressLog
from hiveacid.spark.statements.from_job import statement_of
from hiveacid.spark.statements.table_of_query import create_table_of, create_view_of
from hiveacid.spark.streaming.run import StreamRun
from hiveacid.spark.write.atomic_write import run_statements
from hiveacid.spark.write.statement import WriteOptions
from hiveacid.tables.definitions.run import run_ddl, run_script


@dataclass(frozen=True, slots=True)
class Driver:
    """The environment of a job's execution.

    Attributes:
        spark: The session.
        metastore: The metastore.
        observers: Observers of the phases, besides the log.
        about: The number of the statement in a script; empty outside of scripts.
    """

    spark: SparkSession
    metastore: MetastoreOptions
    observers: Sequence[PhaseObserver] = ()
    about: str = ""

    @property
    def watching(self) -> list[PhaseObserver]:
        """All observers."""
        return watching(self.observers, self.about)

    def client(self) -> MetastoreClient:
        """Return a client of the metastore, to be used as a context manager."""
        return MetastoreClient(self.metastore)


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
        several = len(job.statements) > 1
        about = f"statement {number} of {len(job.statements)}" if several else ""
        report = execute(statement, replace(driver, about=about))
        assert isinstance(report, RunReport | CompactReport)
        return report

    with driver.client() as client:
        if job.run_token is not None:
            _require_same_statements(client, job)
        return run_script(client, job, run_one, driver.observers)


def _require_same_statements(client: MetastoreClient, script: ScriptJob) -> None:
    writing = (RowJob, TruncateJob, TransactionJob, CreateTableAsJob)
    changes = [each for each in script.runs() if isinstance(each, writing)]
    tables = dict.fromkeys(TableRef.parse(table) for each in changes for table in each.tables)
    require_same_statements(client, [each.known_token for each in changes], tables)


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
        left = create_table_of(driver.spark, client, job)
    if left is not None:
        return left
    try:
        done = _write(job.insert, driver)
    except HiveAcidError as error:
        again = (
            "another attempt of this statement continues with it; drop it before another one"
            if job.run_token
            else "drop it to try again"
        )
        error.remedy = f"{error.remedy} {job.target} has been created: {again}.".lstrip()
        raise
    return replace(done, job=job.tag)


@execute.register
def _create_view(job: CreateViewJob, driver: Driver) -> RunReport:
    with driver.client() as client:
        return create_view_of(driver.spark, client, job)


@execute.register
def _export(job: ExportChangesJob, driver: Driver) -> RunReport:
    with driver.client() as client:
        return export_changes(driver.spark, client, job, driver.watching)


@execute.register(RowJob)
@execute.register(TruncateJob)
@execute.register(TransactionJob)
def _write(job: Job, driver: Driver) -> RunReport:
    options = WriteOptions.of(job, job.token, ranges_of(job))
    watching = driver.watching
    with driver.client() as client:
        statements = [statement_of(part, driver.spark, job.orc_codec) for part in job.parts]
        done = run_statements(driver.spark, client, options, watching, statements)
    if done.already_done and done.txn_id is not None:
        # The observers of the earlier attempt may be killed with it.
        for observer in watching:
            observer.opened(done.txn_id, done.write_ids)
    return done
