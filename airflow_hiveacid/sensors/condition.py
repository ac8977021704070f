"""ConditionSensor: waits for a condition, and outlasts a short absence of the metastore."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException, conf
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused, task_failure
from airflow_hiveacid.hooks.template_fields import NamedTemplateFields
from airflow_hiveacid.triggers.condition import Condition, HiveAcidConditionTrigger, Poller
from hiveacid.errors import HiveAcidError
from hiveacid.jobs import codec
from hiveacid.jobs.job import READ, Access
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.authorizer import authorizer_path, user_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class ConditionSensor(NamedTemplateFields, BaseSensorOperator):
    """Waits on the worker or in the triggerer, and polls again after a short outage of the metastore.

    :param metastore_conn_id: The metastore.
    :param metastore_patience: How long the outage may be, see the sensors.
    :param deferrable: Wait in the triggerer instead of on a worker.
    """

    ui_color = "#e8f1d9"

    def __init__(
        self,
        *,
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
        metastore_patience: timedelta = PATIENCE,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.metastore_conn_id = metastore_conn_id
        self.metastore_patience = metastore_patience
        self.deferrable = deferrable
        self._patience: Patience | None = None
        self._memory: dict[str, Any] = {}

    def poke(self, context: "Context") -> PokeReturnValue:
        """Look once."""
        try:
            value = self._look(context)
        except HiveAcidError as error:
            if not self._patience_in(context).tolerates(error):
                raise task_failure(error) from None
            self.log.warning("%s Looking again in %s s.", error, self.poke_interval)
            return PokeReturnValue(False)
        self._patience_in(context).answered()
        return PokeReturnValue(value is not None, value)

    def execute(self, context: "Context") -> Any:
        """Wait on the worker or, when deferrable, in the triggerer."""
        if not self.deferrable:
            with _refusals_fail(soft_fail=self.soft_fail):
                return super().execute(context)
        try:
            trigger = self._trigger(context)
        except HiveAcidError as error:
            raise task_failure(error) from None
        poked = self.poke(context)
        if poked.is_done:
            return poked.xcom_value
        self.defer(
            trigger=trigger,
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: "Context"
    ) -> Any:
        """Continue after a deferral."""
        with _refusals_fail(soft_fail=self.soft_fail):
            return super().resume_execution(next_method, next_kwargs, context)

    def execute_complete(self, context: "Context", event: dict[str, Any]) -> Any:
        """Return the trigger's result."""
        if event["status"] == "error":
            raise task_failure(codec.read_evidence(ErrorReport, event["error"], "event"))
        try:
            return self._value(event["found"])
        except HiveAcidError as error:
            raise task_failure(error) from None

    @abstractmethod
    def _condition(self, context: "Context") -> Condition:
        """Return the condition to wait for.

        :param context: The task's.
        """

    def _value(self, found: Any) -> Any:
        """Return the XCom value.

        :param found: The result of the condition.
        """
        return found

    def _look(self, context: "Context") -> Any:
        condition = self._condition(context).connected()
        condition.validate()
        poller = Poller(
            HiveAcidMetastoreHook(self.metastore_conn_id).options(),
            self.log,
            self._require_access,
            self._memory,
            self._store_in(context),
        )
        found = condition.poll(poller)
        return None if found is None else self._value(found)

    def _trigger(self, context: "Context") -> HiveAcidConditionTrigger:
        return HiveAcidConditionTrigger(
            condition=self._condition(context),
            metastore_conn_id=self.metastore_conn_id,
            poke_interval=self.poke_interval,
            patience=self.metastore_patience.total_seconds(),
        )

    def _require_access(self, tables: Iterable[str]) -> None:
        """Ask the authorizer whether the DAG may read tables, and what is at their locations.

        :param tables: The tables, each ``database.table``; a pattern may match none.
        :raises AccessRefused: It may not.
        """
        reads = [Access(table.lower(), None, READ) for table in tables]
        if not reads or not authorizer_path():
            return
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.tables.locations import require_job_access

        options = HiveAcidMetastoreHook(self.metastore_conn_id).options()
        with MetastoreClient(options).patient() as client:
            require_job_access(client, user_of(self.dag_id), (), reads)

    def _patience_in(self, context: "Context") -> Patience:
        if self._patience is None:
            store = self._store_in(context)
            # Before Airflow 3.3, the start of the outage could not be passed to the next process.
            forgets = self.reschedule and store is None
            self._patience = Patience(timedelta(0) if forgets else self.metastore_patience, store)
        return self._patience

    def _store_in(self, context: "Context") -> Any:
        # Since Airflow 3.3: the state shared by the processes of a rescheduled sensor.
        return context.get("task_state_store") if self.reschedule else None


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
