"""Running one job in a Spark application: the only thing that an application calls."""

import argparse
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_hiveacid.cluster.run_files import RunFiles, Started
from airflow_hiveacid.ddl import run_ddl
from airflow_hiveacid.engine.compaction.table import TableCompactor
from airflow_hiveacid.engine.failures import translate
from airflow_hiveacid.engine.session import application_session
from airflow_hiveacid.engine.statements.from_job import statement_of
from airflow_hiveacid.engine.write.atomic_write import run_statements
from airflow_hiveacid.engine.write.statement import WriteOptions
from airflow_hiveacid.errors import HiveAcidError, InvalidJob
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.ddl_jobs import ConvertJob, CreateTableJob
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.metastore_options import MetastoreOptions
from airflow_hiveacid.jobs.multi_table_job import MultiTableJob
from airflow_hiveacid.jobs.report import CompactReport, ErrorReport, RunReport
from airflow_hiveacid.jobs.script_job import ScriptJob
from airflow_hiveacid.jobs.script_report import AnyReport, ScriptReport, report_type
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.owner import abort_open_transactions
from airflow_hiveacid.progress import FaultInjector, PhaseLog, PhaseObserver


def main(argv: Sequence[str]) -> int:
    """Run the job in a file, whose key ``job`` says what kind it is, and write its report.

    Args:
        argv: ``--job FILE --report LOCATION``.

    Returns:
        The exit status: 0, or the one of the error's class.
    """
    parser = argparse.ArgumentParser(description="Run a job.")
    parser.add_argument("--job", required=True, type=Path, help="the job, as JSON")
    parser.add_argument(
        "--report", required=True, help="where the report goes: a path or a url, see RunFiles"
    )
    arguments = parser.parse_args(argv)
    location = arguments.report
    files = RunFiles(location if ":/" in location else str(Path(location).absolute()))
    kind: type[AnyReport] = RunReport
    name, target = "Job", ""
    try:
        job = codec.from_json(arguments.job.read_text())
        kind = report_type(job)
        name, target = type(job).__name__, job.target
        spark = application_session(f"{name} {target}")
        files = files.of(spark.sparkContext.applicationId)
        report = run(spark, job, [StartedReporter(files, spark)])
    except Exception as error:  # noqa: BLE001 - whatever it is, the report must say so
        ours = error if isinstance(error, HiveAcidError) else translate(error, name)
        if ours is not error:
            traceback.print_exception(error)  # It may be a mistake of ours: say where it is.
        report = kind(job=name, target=target, error=ErrorReport.of(ours))
    if files.known:
        files.write_report(report)
    if (failure := report.error) is None:
        return 0
    print(f"{failure.id}: {failure.message} {failure.remedy}".strip(), file=sys.stderr, flush=True)
    return failure.exit_code


class StartedReporter(PhaseObserver):
    """Lets the submitter know which transactions an application has opened, before they do a thing.

    Args:
        files: What the submitter reads.
        spark: The session of the application.
    """

    def __init__(self, files: RunFiles, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._files = files
        self._started = Started(application_id=context.applicationId, ui_url=context.uiWebUrl)
        # Several compactions run side by side.
        self._one_at_a_time = threading.Lock()
        files.write_started(self._started)

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Tell of one more transaction."""
        with self._one_at_a_time:
            self._started = replace(
                self._started,
                txn_ids=(*self._started.txn_ids, txn_id),
                write_ids={**self._started.write_ids, **write_ids},
            )
            self._files.write_started(self._started)


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
    if isinstance(job, ScriptJob):
        return _run_script(spark, job, observers)
    return _run_one(spark, job, job.metastore, observers)


def _run_script(
    spark: SparkSession, script: ScriptJob, observers: Sequence[PhaseObserver]
) -> ScriptReport:
    reports: list[RunReport | CompactReport] = []
    for number, job in enumerate(script.runs(), start=1):
        assert job.metastore is not None
        try:
            reports.append(_run_one(spark, job, job.metastore, observers))
        except HiveAcidError as error:
            error.what = f"Statement {number} of {len(script.statements)}: {error.what}"
            raise
        if reports[-1].error is not None:
            break
    return ScriptReport.of(script.target, reports)


def _run_one(
    spark: SparkSession,
    job: Job,
    metastore: MetastoreOptions,
    observers: Sequence[PhaseObserver],
) -> RunReport | CompactReport:
    if isinstance(job, CreateTableJob | ConvertJob):
        with MetastoreClient(metastore) as client:
            return run_ddl(client, job)
    fault = FaultInjector.from_environment()
    # In this order: what is told in the log can already be looked up.
    watching = [*observers, PhaseLog(), *([fault] if fault else [])]
    if isinstance(job, CompactJob):
        return _compact(spark, metastore, job, watching)
    done = _write(spark, metastore, job, watching)
    if done.already_done and done.txn_id is not None:
        # What an earlier try has done is told as if this one had: nobody may have heard of it.
        for observer in watching:
            observer.opened(done.txn_id, done.write_ids)
    return done


def _write(
    spark: SparkSession,
    metastore: MetastoreOptions,
    job: Job,
    observers: Sequence[PhaseObserver],
) -> RunReport:
    options = WriteOptions(
        run_token=job.token,
        lock_wait_seconds=job.lock_wait_seconds,
        max_restarts=job.max_restarts,
        orc_codec=job.orc_codec,
    )
    jobs = job.statements if isinstance(job, MultiTableJob) else [job]
    with MetastoreClient(metastore) as client:
        statements = [statement_of(change, job.orc_codec) for change in jobs]
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
