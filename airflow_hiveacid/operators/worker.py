"""HiveAcidWorkerOperator: a job that the worker does itself unless it requires Spark."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.cluster.task_xcoms import StartedXComs
from airflow_hiveacid.errors import InvalidConnection
from airflow_hiveacid.operators.base import JobT
from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from airflow_hiveacid.progress import PhaseObserver

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_hiveacid.compaction.worker_scheduler import WorkerScheduler


class HiveAcidWorkerOperator(HiveAcidSparkOperator[JobT]):
    """Base of the operators whose work may be done in the worker."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._scheduler: WorkerScheduler | None = None

    def _end_work(self) -> None:
        if self._scheduler is not None:
            self._scheduler.stop()
        super()._end_work()

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
        from airflow_hiveacid.compaction.worker_scheduler import WorkerScheduler

        try:
            with WorkerScheduler() as self._scheduler:
                yield self._scheduler, self._observers(StartedXComs(context["ti"]))
        finally:
            self._scheduler = None
