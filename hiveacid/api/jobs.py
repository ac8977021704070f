"""The choice between this process and Spark, and the work of any job in this process."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, cast

from hiveacid.dataclass import dataclass
from hiveacid.errors import SparkNeeded
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergExportJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob, versions_in_words
from hiveacid.jobs.report import AnalyzeReport, CompactReport, Report, ScriptReport
from hiveacid.jobs.run_options import Place
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.stage_jobs import DiscardJob, PublishJob, StageJob
from hiveacid.jobs.write_jobs import RowJob, TransactionJob
from hiveacid.progress import PhaseClock, PhaseLog, PhaseObserver
from hiveacid.rules.texts import bytes_in_words, plural

# A process that submits a job to Spark imports this module, too: each function imports its engine.
if TYPE_CHECKING:
    import pyarrow as pa

    from hiveacid.drivers.checks import Preflight
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.compaction.scheduling import Scheduler

_WorkerJob = (
    AnalyzeJob
    | CleanJob
    | DiscardJob
    | EraseJob
    | IcebergCompareJob
    | IcebergExportJob
    | PublishJob
)


class Log(Protocol):
    """A logger of Python or of Airflow."""

    def info(self, event: str, *args: object) -> Any:
        """Log an event."""

    def warning(self, event: str, *args: object) -> Any:
        """Log a warning."""


@dataclass(frozen=True, slots=True)
class Worker:
    """The means of this process.

    Attributes:
        client: The metastore.
        scheduler: Runs tasks on files.
        observers: Observers of the phases.
        user: The user who asks for the job.
        log: The log of the task; None without events.
        preflight: The checks of jobs that Spark may have to end; None without checks.
        batches: The rows of a program that a change reads, by the names of its batches.
    """

    client: "MetastoreClient"
    scheduler: "Scheduler"
    observers: Sequence[PhaseObserver]
    user: str
    log: Log | None = None
    preflight: "Preflight | None" = None
    batches: "Mapping[str, pa.Table]" = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Log an event."""
        if self.log is not None:
            self.log.info("%s", text)

    @property
    def phases(self) -> PhaseClock:
        """A clock of the phases."""
        return PhaseClock(self.observers)

    @property
    def unlogged_phases(self) -> PhaseClock:
        """A clock for work whose log has its results only."""
        return PhaseClock([other for other in self.observers if not isinstance(other, PhaseLog)])


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """The work that this process has done.

    Attributes:
        report: Its report; None without any work.
        rest: The job that is left for Spark; None if the work is complete.
        reason: Why, as a note: "On Spark: soundex".
    """

    report: Report | None = None
    rest: Job | None = None
    reason: str = ""


def run_job(
    job: Job,
    worker: AbstractContextManager[Worker],
    on_spark: Callable[[Job, str], Report],
) -> Report:
    """Run a job where it can run: in this process, on Spark, or first here and its rest on Spark.

    Args:
        job: The job.
        worker: The means of this process, which are closed before Spark runs.
        on_spark: Runs a job on Spark, for a reason, which is empty if the job itself requires Spark.

    Raises:
        SparkNeeded: The job is limited to this process, and requires Spark.
    """
    if place_of(job) == "spark":
        return on_spark(job, "")
    with worker as opened_worker:
        result = run_in_worker(job, opened_worker)
    if result.rest is None:
        assert result.report is not None
        return result.report
    report = on_spark(result.rest, result.reason)
    return report if result.report is None else joined_reports(result.report, report)


def place_of(job: Job) -> Place:
    """Return where a job runs: here, on Spark, or "auto", where ``run_in_worker`` decides.

    Args:
        job: The job.
    """
    match job:
        case ScriptJob():
            return _place_of_script(job)
        case CompactJob():
            # Before Spark starts, this process finds out whether there is any work.
            return "worker" if job.run_in == "worker" else "auto"
        case RowJob() | TransactionJob() | StageJob():
            return cast(Place, job.run_in)
    return "worker" if isinstance(job, _WorkerJob) else "spark"


def run_in_worker(job: Job, worker: Worker) -> WorkerResult:
    """Do as much of a job as possible in this process.

    Args:
        job: The job, which does not have to run on Spark, see ``place_of``.
        worker: The means of this process.

    Raises:
        SparkNeeded: The job is limited to this process, and requires Spark.
    """
    match job:
        case RowJob() | TransactionJob() | StageJob():
            result = _change(job, worker)
        case CompactJob():
            result = _compact(job, worker)
        case ScriptJob():
            result = _run_script(job, worker)
        case AnalyzeJob():
            result = WorkerResult(_analyze(job, worker))
        case CleanJob():
            result = WorkerResult(_clean(job, worker))
        case DiscardJob() | PublishJob():
            result = WorkerResult(_end_stage(job, worker))
        case EraseJob():
            result = WorkerResult(_erase(job, worker))
        case IcebergExportJob():
            result = WorkerResult(_export(job, worker))
        case IcebergCompareJob():
            return WorkerResult(_compare(job, worker))
        case _:
            raise SparkNeeded(f"The job {job.tag} works on rows.")
    if result.report is not None and result.rest is None:
        _log_warnings(result.report, worker.log)
    return result


def joined_reports(in_worker: Report, on_spark: Report) -> Report:
    """Combine the reports of a job that began in this process and ended on Spark.

    Args:
        in_worker: The report of this process.
        on_spark: The report of the application.
    """
    if isinstance(in_worker, ScriptReport):
        from hiveacid.worker.script import joined_script

        assert isinstance(on_spark, ScriptReport)
        return joined_script(in_worker, on_spark)
    from hiveacid.upkeep.compaction.placement import joined

    assert isinstance(in_worker, CompactReport)
    assert isinstance(on_spark, CompactReport)
    return joined(in_worker, on_spark)


def _place_of_script(script: ScriptJob) -> Place:
    if not script.may_run_in_worker:
        return "spark"
    places = {getattr(job, "run_in", "worker") for job in script.statements}
    return "worker" if places <= {"worker"} else "auto"


# Jobs that Spark may have to end


def _change(job: RowJob | TransactionJob | StageJob, worker: Worker) -> WorkerResult:
    from hiveacid.worker.run import change_rows
    from hiveacid.worker.staged_changes import stage_change

    _check_early(job, worker)
    try:
        if isinstance(job, StageJob):
            return WorkerResult(stage_change(worker.client, job, worker.observers))
        return WorkerResult(change_rows(worker.client, job, worker.observers, worker.batches))
    except SparkNeeded as error:
        if job.run_in == "worker":
            raise
        return _left(None, (job, error.what))


def _compact(job: CompactJob, worker: Worker) -> WorkerResult:
    from hiveacid.upkeep.compaction.placement import rest_for_spark, why_spark
    from hiveacid.upkeep.compaction.table import TableCompactor, idle_report

    idle = idle_report(worker.client, job)
    if idle is not None:
        for part in idle.partitions:
            worker.note(f"{part.partition or part.table}: {part.reason}")
        return WorkerResult(idle)
    _check_early(job, worker)
    reason = why_spark(worker.client, job)
    if reason is not None:
        return _left(None, (job, reason))
    report = TableCompactor(worker.scheduler, worker.client, job, worker.observers).run()
    return _left(report, rest_for_spark(job, report))


def _run_script(job: ScriptJob, worker: Worker) -> WorkerResult:
    if not job.needs_spark:
        from hiveacid.tables.definitions.run import run_script_of_ddl

        return WorkerResult(run_script_of_ddl(worker.client, job, worker.observers))
    from hiveacid.worker.script import rest_of_script, run_script_in_worker, why_script_needs_spark

    _check_early(job, worker)
    reason = why_script_needs_spark(worker.client, job)
    if reason is not None:
        return _left(None, (job, reason))
    report = run_script_in_worker(worker.client, job, worker.scheduler, worker.observers)
    return _left(report, rest_of_script(job, report))


def _check_early(job: Job, worker: Worker) -> None:
    """Fail at once, if the metastore knows of something that would fail the job."""
    if worker.preflight is not None:
        worker.preflight.check(job)


def _left(report: Report | None, rest: tuple[Job, str] | None) -> WorkerResult:
    """Return the result with the job that is left for Spark, and the reason."""
    if rest is None:
        return WorkerResult(report)
    job, reason = rest
    is_begun = job.first > 0 if isinstance(job, ScriptJob) else report is not None
    return WorkerResult(report, job, f"{'The rest on' if is_begun else 'On'} Spark: {reason}")


# Jobs of this process


def _analyze(job: AnalyzeJob, worker: Worker) -> Report:
    from hiveacid.tables.statistics import analyze

    return analyze(worker.client, job, phases=worker.unlogged_phases)


def _clean(job: CleanJob, worker: Worker) -> Report:
    from hiveacid.upkeep.table_cleaning import clean

    report = clean(worker.client, job, phases=worker.unlogged_phases)
    done = "Would remove" if job.dry_run else "Removed"
    for removed in report.removed:
        worker.note(f"{done} {removed.path} ({bytes_in_words(removed.bytes)}): {removed.why}")
    for kept in report.kept:
        worker.note(f"Kept {kept.path}: {kept.reason}")
    if versions := versions_in_words(report):
        worker.note(versions)
    return report


def _end_stage(job: DiscardJob | PublishJob, worker: Worker) -> Report:
    from hiveacid.worker.staged_changes import discard_change, publish_change

    if isinstance(job, DiscardJob):
        return discard_change(worker.client, job)
    return publish_change(worker.client, job, worker.observers)


def _erase(job: EraseJob, worker: Worker) -> Report:
    from hiveacid.erasure.requests import Eraser

    report = Eraser(worker.client, job.folder, worker.observers, user=worker.user).run(job)
    for wait in report.waits:
        worker.note(f"{wait.table} waits for a {wait.kind}: {wait.reason}")
    if report.certificate is not None:
        worker.note(f"The certificate is {report.certificate}.")
    elif not report.dry_run:
        files = plural(report.files, "file still holds", "files still hold")
        worker.note(f"{files} keys; the deadline is {report.deadline}.")
    return report


def _export(job: IcebergExportJob, worker: Worker) -> Report:
    from hiveacid.iceberg.run import export_to_iceberg

    return export_to_iceberg(worker.client, job, worker.scheduler, phases=worker.phases)


def _compare(job: IcebergCompareJob, worker: Worker) -> Report:
    from hiveacid.iceberg.run import compare_with_iceberg

    report = compare_with_iceberg(worker.client, job, phases=worker.phases)
    _log_warnings(report, worker.log)
    report.require_equal()
    return report


def _log_warnings(report: Report, log: Log | None) -> None:
    if log is None:
        return
    warnings = report.as_run().warnings if isinstance(report, AnalyzeReport) else report.warnings
    for warning in warnings:
        log.warning("%s", warning)
