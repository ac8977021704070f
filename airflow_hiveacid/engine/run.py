"""Running one job, whatever it is."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.ddl.run import run_ddl
from airflow_hiveacid.ddl.script_progress import run_script
from airflow_hiveacid.engine.compaction.table import TableCompactor
from airflow_hiveacid.engine.export import export_changes
from airflow_hiveacid.engine.pulse import Pulse
from airflow_hiveacid.engine.statements.from_job import statement_of
from airflow_hiveacid.engine.statements.table_of_query import create_table_of, create_view_of
from airflow_hiveacid.engine.streams import StreamRun
from airflow_hiveacid.engine.write.atomic_write import run_statements
from airflow_hiveacid.engine.write.earlier_tries import AlreadyApplied, EarlierTries
from airflow_hiveacid.engine.write.statement import WriteOptions
from airflow_hiveacid.errors import HiveAcidError, InvalidJob
from airflow_hiveacid.jobs.changes_range import ranges_of
from airflow_hiveacid.jobs.create_table_as import CreateTableAsJob
from airflow_hiveacid.jobs.ddl_jobs import CatalogJob
from airflow_hiveacid.jobs.export_job import ExportChangesJob
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.metastore_options import MetastoreOptions
from airflow_hiveacid.jobs.multi_table_job import MultiTableJob
from airflow_hiveacid.jobs.report import CompactReport, RunReport
from airflow_hiveacid.jobs.script_job import ScriptedJob, ScriptJob
from airflow_hiveacid.jobs.script_note import BegunStatement
from airflow_hiveacid.jobs.script_report import AnyReport, ScriptReport
from airflow_hiveacid.jobs.stream_job import StreamJob
from airflow_hiveacid.jobs.view_job import CreateViewJob
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.owner import abort_open_transactions
from airflow_hiveacid.progress import FaultInjector, PhaseLog, PhaseObserver


def run(spark: SparkSession, job: Job, observers: Sequence[PhaseObserver] = ()) -> AnyReport:
    """Run a job once and for all: what an earlier try of it has committed is not done again.

    Args:
        spark: The session.
        job: A job with metastore options.
        observers: Are told about the phases, beside the log.
    """
    job.validate()
    if job.metastore is None:
        raise InvalidJob("The job does not say which metastore to use.")
    with Pulse(spark):
        if isinstance(job, ScriptJob):
            return _run_script(spark, job, job.metastore, observers)
        if isinstance(job, StreamJob):
            return StreamRun(spark, job, job.metastore, observers).run()
        return _run_one(spark, job, job.metastore, observers)


def _run_script(
    spark: SparkSession,
    script: ScriptJob,
    metastore: MetastoreOptions,
    observers: Sequence[PhaseObserver],
) -> ScriptReport:
    def run_one(job: ScriptedJob, number: int) -> RunReport | CompactReport:
        several = len(script.statements) > 1
        about = f"statement {number} of {len(script.statements)}" if several else ""
        return _run_one(spark, job, metastore, observers, about)

    with MetastoreClient(metastore) as client:
        return run_script(client, script, run_one, partial(_was_applied, client), observers)


def _was_applied(client: MetastoreClient, begun: BegunStatement) -> bool:
    """Whether an earlier try has applied the transaction of a statement; it cannot be applied later."""
    try:
        EarlierTries(client, map(TableRef.parse, begun.tables), begun.transaction).end()
    except AlreadyApplied:
        return True
    return False


def _run_one(
    spark: SparkSession,
    job: Job,
    metastore: MetastoreOptions,
    observers: Sequence[PhaseObserver],
    about: str = "",
) -> RunReport | CompactReport:
    if isinstance(job, CatalogJob):
        with MetastoreClient(metastore) as client:
            return run_ddl(client, job)
    fault = FaultInjector.from_environment()
    # In this order: what is told in the log can already be looked up.
    watching = [*observers, PhaseLog(about), *([fault] if fault else [])]
    if isinstance(job, CompactJob):
        return _compact(spark, metastore, job, watching)
    if isinstance(job, CreateTableAsJob):
        return _create_as(spark, metastore, job, watching)
    if isinstance(job, CreateViewJob):
        with MetastoreClient(metastore) as client:
            return create_view_of(spark, client, job)
    if isinstance(job, ExportChangesJob):
        with MetastoreClient(metastore) as client:
            return export_changes(spark, client, job, watching)
    return _told(_write(spark, metastore, job, watching), watching)


def _told(done: RunReport, watching: Sequence[PhaseObserver]) -> RunReport:
    """Tell of a transaction that an earlier try has committed, as if this one had."""
    if done.already_done and done.txn_id is not None:
        # Nobody may have heard of it.
        for observer in watching:
            observer.opened(done.txn_id, done.write_ids)
    return done


def _create_as(
    spark: SparkSession,
    metastore: MetastoreOptions,
    job: CreateTableAsJob,
    observers: Sequence[PhaseObserver],
) -> RunReport:
    with MetastoreClient(metastore) as client:
        left = create_table_of(spark, client, job)
    if left is not None:
        return left
    try:
        done = _told(_write(spark, metastore, job.insert, observers), observers)
    except HiveAcidError as error:
        again = (
            "another try of this statement goes on with it, and another statement needs it dropped"
            if job.run_token
            else "drop it to try again"
        )
        error.remedy = f"{error.remedy} {job.target} has been created: {again}.".lstrip()
        raise
    return replace(done, job="create_table")


def _write(
    spark: SparkSession,
    metastore: MetastoreOptions,
    job: Job,
    observers: Sequence[PhaseObserver],
) -> RunReport:
    options = WriteOptions.of(job, job.token, ranges_of(job))
    jobs = job.statements if isinstance(job, MultiTableJob) else [job]
    with MetastoreClient(metastore) as client:
        statements = [statement_of(spark, change, job.orc_codec) for change in jobs]
        return run_statements(spark, client, options, observers, statements)


def _compact(
    spark: SparkSession,
    metastore: MetastoreOptions,
    job: CompactJob,
    observers: Sequence[PhaseObserver],
) -> CompactReport:
    with MetastoreClient(metastore) as client:
        # What an earlier try has compacted needs no second time; what it left open must end.
        if job.tokens:
            abort_open_transactions(client, *job.tokens)
        return TableCompactor(spark, client, job, observers).run()
