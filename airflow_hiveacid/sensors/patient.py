"""PatientSensor: a sensor that outlasts a short absence of the metastore."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import BaseSensorOperator

from airflow_hiveacid.authorizer import require_access, user_of
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.hooks.task_failures import HiveAcidTaskRefused, task_failure
from airflow_hiveacid.hooks.template_fields import NamedTemplateFields
from airflow_hiveacid.jobs.job import READ, Access

if TYPE_CHECKING:
    from airflow.sdk import Context


class PatientSensor(NamedTemplateFields, BaseSensorOperator):
    """Polls again after a short outage of the metastore.

    :param metastore_patience: How long that may be, see the sensors.
    """

    def __init__(self, *, metastore_patience: timedelta = PATIENCE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metastore_patience = metastore_patience
        self._patience: Patience | None = None

    def execute(self, context: "Context") -> Any:
        """Wait on the worker."""
        with _refusals_fail(soft_fail=self.soft_fail):
            return super().execute(context)

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: "Context"
    ) -> Any:
        """Continue after a deferral."""
        with _refusals_fail(soft_fail=self.soft_fail):
            return super().resume_execution(next_method, next_kwargs, context)

    def _tolerate(self, error: HiveAcidError, context: "Context") -> None:
        """Tolerate an unreachable metastore until the next poke.

        :param error: The error of a poll.
        :param context: The task's.
        :raises HiveAcidTaskFailure: The error has another cause, or has persisted for too long.
        """
        if not self._patience_in(context).tolerates(error):
            raise task_failure(error) from None
        self.log.warning("%s Looking again in %s s.", error, self.poke_interval)

    def _require_access(self, tables: Iterable[str]) -> None:
        """Ask the authorizer whether the DAG may read tables.

        :param tables: The tables, each ``database.table``.
        :raises AccessRefused: It may not.
        """
        reads = [Access(table.lower(), None, READ) for table in tables]
        require_access(user_of(self.dag_id), reads)

    def _patience_in(self, context: "Context") -> Patience:
        if self._patience is None:
            store: Any = context.get("task_state_store") if self.reschedule else None
            # Before Airflow 3.3, the start of the outage could not be passed to the next process.
            forgets = self.reschedule and store is None
            self._patience = Patience(timedelta(0) if forgets else self.metastore_patience, store)
        return self._patience


@contextmanager
def _refusals_fail(*, soft_fail: bool) -> Iterator[None]:
    """Fail a task that Airflow skips because of a refusal.

    With ``soft_fail``, Airflow skips the task for every AirflowFailException, which also prevents
    retries.
    """
    try:
        yield
    except AirflowSkipException as skip:
        if soft_fail and isinstance(skip.__cause__, HiveAcidTaskRefused):
            raise skip.__cause__ from None
        raise
