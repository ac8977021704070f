"""HiveAcidNewDataSensor: waits for changes that a consumer has not seen yet."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import PokeReturnValue

from airflow_hiveacid.acid.consumers import require_consumer
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.task_failures import task_failure
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.field_checks import is_template
from airflow_hiveacid.jobs.reports.report import ChangesRange, ErrorReport
from airflow_hiveacid.jobs.sources import ChangesSource
from airflow_hiveacid.sensors.patient import PatientSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class HiveAcidNewDataSensor(PatientSensor):
    """Waits until a table has changes that a consumer has not seen yet, and returns which.

    Each poll takes three small calls of the metastore, and reads the consumer's cursor in the
    folder of the table. The XCom value is ``{"table": ..., "after": ..., "up_to": ...}``: versions
    that are closed to further commits. HiveAcidChangesOperator finds them by itself, and moves the
    consumer on; a job of another operator can take them, too.

    Example::

        changed = HiveAcidNewDataSensor(
            task_id="changed", table="shop.orders", consumer="audit", mode="reschedule"
        )
        log = HiveAcidChangesOperator(task_id="log", consumer="audit", job=job)
        changed >> log

    :param table: The table, ``database.table``. (templated)
    :param consumer: The name of the consumer. (templated)
    :param after: The version after which a new consumer begins. (templated)
    :param metastore_conn_id: The metastore.
    :param metastore_patience: How long the metastore or HDFS may be unreachable, or a ticket
        expired: until then the sensor warns and polls again, then the task fails. In mode
        ``reschedule`` it requires Airflow 3.3; in earlier versions the task fails at once.
    :param deferrable: Wait in the triggerer instead of on a worker.
    """

    template_fields: Sequence[str] = ("table", "consumer", "after")
    ui_color = "#e8f1d9"

    def __init__(
        self,
        *,
        table: str,
        consumer: str,
        after: str = "0",
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        ChangesSource(table, after=after).validate()
        if not is_template(consumer):
            require_consumer(consumer)
        self.table = table
        self.consumer = consumer
        self.after = after
        self.metastore_conn_id = metastore_conn_id
        self.deferrable = deferrable

    def poke(self, context: "Context") -> PokeReturnValue:
        """Look once."""
        found = self._new_changes(context)
        return PokeReturnValue(found is not None, None if found is None else _value(found))

    def execute(self, context: "Context") -> Any:
        """Wait on the worker or, when deferrable, in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        if (found := self._new_changes(context)) is not None:
            return _value(found)
        # It is needed only when a task runs.
        from airflow_hiveacid.triggers.new_data import HiveAcidNewDataTrigger

        self.defer(
            trigger=HiveAcidNewDataTrigger(
                table=self.table,
                consumer=self.consumer,
                after=self.after,
                metastore_conn_id=self.metastore_conn_id,
                poke_interval=self.poke_interval,
                patience=self.metastore_patience.total_seconds(),
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: "Context", event: dict[str, Any]) -> dict[str, Any]:
        """Return the trigger's result."""
        if event["status"] == "error":
            raise task_failure(codec.from_record(ErrorReport, event["error"], "event"))
        return _value(codec.from_record(ChangesRange, event["range"], "event"))

    def _new_changes(self, context: "Context") -> ChangesRange | None:
        """Return new changes; None without any, or while the metastore is unreachable."""
        # Thrift is heavy, and this module is imported while DAGs are parsed.
        from airflow_hiveacid.metastore.client import MetastoreClient
        from airflow_hiveacid.records.consumers import Consumer

        try:
            require_consumer(self.consumer)
            source = ChangesSource(self.table, after=self.after)
            source.validate()
            self._require_access([self.table])
            options = HiveAcidMetastoreHook(self.metastore_conn_id).options()
            with MetastoreClient(options) as client:
                found = Consumer(client, self.table, self.consumer).range(source)
        except HiveAcidError as error:
            self._tolerate(error, context)
            return None
        self._patience_in(context).answered()
        if found is None:
            self.log.info("%s has seen all changes of %s.", self.consumer, self.table)
        else:
            self.log.info("%s has changes up to version %d.", self.table, found.up_to)
        return found


def _value(found: ChangesRange) -> dict[str, Any]:
    return {"table": found.table, "after": found.after, "up_to": found.up_to}
