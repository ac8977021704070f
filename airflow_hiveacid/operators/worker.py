"""HiveAcidWorkerOperator: the base of the operators whose jobs run in the worker."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.cluster.spark_run import StartedXComs
from airflow_hiveacid.hooks.tasks import task_failure
from airflow_hiveacid.operators.job import HiveAcidJobOperator, JobT
from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from hiveacid.errors import InvalidConnection, InvalidJob
from hiveacid.jobs.report import Report
from hiveacid.progress import PhaseObserver

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_hiveacid.cluster.spark_run import SparkRun
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler


class HiveAcidWorkerOperator(HiveAcidJobOperator[JobT]):
    """Runs one job in the worker, without Spark.

    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if deferrable:
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} is deferrable, but works in the worker.",
                remedy="Omit deferrable: there is no application to wait for.",
            )
        self.deferrable = deferrable


# HiveAcidWorkerOrSparkOperator: a job that the worker does itself unless it requires Spark


_XCOM = "in_worker"


class HiveAcidWorkerOrSparkOperator(HiveAcidSparkOperator[JobT]):
    """Base of the operators whose work may be done in the worker.

    Work that turns out to need Spark is done by an application; the report then has both parts.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._scheduler: WorkerScheduler | None = None
        self._in_worker: Report | None = None

    def _end_work(self) -> None:
        if self._scheduler is not None:
            self._scheduler.stop()
        super()._end_work()

    def _run(self, job: JobT, context: "Context") -> dict[str, Any]:
        """Do the work in the worker, and submit an application for the rest."""
        report, rest = self._without_spark(job, context)
        if rest is not None:
            self._in_worker = report
            # The task may be deferred: then another process needs it.
            context["ti"].xcom_push(key=_XCOM, value={} if report is None else report.to_dict())
            return super()._run(rest, context)
        assert report is not None
        for warning in report.warnings:
            self.log.warning("%s", warning)
        if report.error is not None:
            raise task_failure(report.error)
        return report.to_dict()

    @abstractmethod
    def _without_spark(self, job: JobT, context: "Context") -> tuple[Report | None, JobT | None]:
        """Do as much of the work as possible in the worker.

        :param job: The job.
        :param context: The task's.
        :return: The report, None without such work, and the job that is left for Spark, if any.
        """

    def _joined(self, job: JobT, in_worker: Any, on_spark: Any) -> Report:
        """Return the report of work that began in the worker and ended on Spark, if it is divisible.

        :param job: The job.
        :param in_worker: The report of the worker.
        :param on_spark: The report of the application.
        """
        raise NotImplementedError

    def _check_in_worker(self, client: "MetastoreClient", job: JobT) -> None:
        """Fail at once, if the metastore knows of something that would fail the job."""
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.drivers.checks import Preflight
        from hiveacid.drivers.driver_files import DriverFiles

        # A driver has files of its own; the worker opens those that it reads.
        Preflight(client, DriverFiles(), lambda text: self.log.info("%s", text)).check(job)

    def _rest(self, found: tuple[JobT, str] | None) -> JobT | None:
        """Return the job that is left for Spark, if any, and log the reason."""
        if found is None:
            return None
        rest, reason = found
        self.log.info("The rest on Spark: %s", reason)
        return rest

    def _after_trigger(
        self, event: Mapping[str, Any], job: JobT, context: "Context"
    ) -> dict[str, Any]:
        record = self._stored(_XCOM, context)
        self._in_worker = job.report.from_dict(record) if record else None
        return super()._after_trigger(event, job, context)

    def _report_of(self, run: "SparkRun", job: JobT) -> Report | None:
        report = super()._report_of(run, job)
        if report is None or self._in_worker is None:
            return report
        return self._joined(job, self._in_worker, report)

    def _is_at_work(self, job: JobT, context: "Context") -> bool:
        """Whether the application of an earlier attempt runs."""
        try:
            return self._run_of(job, context).at_work
        except InvalidConnection:
            return False  # The worker may do it without a Spark connection.

    @contextmanager
    def _working(
        self, context: "Context"
    ) -> Iterator[tuple["WorkerScheduler", Sequence[PhaseObserver]]]:
        """Provide processes for the work, which on_kill ends, and the observers of its phases."""
        # Arrow is heavy, and this module is imported while DAGs are parsed.
        from hiveacid.orc.format.process_memory import use_one_heap
        from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler

        use_one_heap()
        try:
            with WorkerScheduler() as self._scheduler:
                yield self._scheduler, self._observers(StartedXComs(context["ti"]))
        finally:
            self._scheduler = None
