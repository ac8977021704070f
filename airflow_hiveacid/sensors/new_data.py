"""HiveAcidNewDataSensor: waits for changes that a consumer has not seen yet."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.hooks.tasks import emit
from airflow_hiveacid.sensors.condition import ConditionSensor
from airflow_hiveacid.triggers.condition import Condition, Poller
from hiveacid.dataclass import dataclass
from hiveacid.jobs.fields import before_rendering, is_task_output, is_template
from hiveacid.jobs.sources import ChangesSource
from hiveacid.rules.lag import require_consumer
from hiveacid.upkeep.metrics import CONSUMER_VERSIONS, Sample

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class NewData(Condition):
    """A table has changes that a consumer has not seen; see HiveAcidNewDataSensor."""

    table: str
    consumer: str
    after: str = "0"

    def validate(self) -> None:
        """Check the names and the version."""
        require_consumer(self.consumer)
        self._source.validate()

    def poll(self, poller: Poller) -> dict[str, Any] | None:
        """Return the versions of the changes."""
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.records.consumers import Consumer

        poller.require_access([self.table])
        with MetastoreClient(poller.metastore) as client:
            consumer = Consumer(client, self.table, self.consumer)
            versions = consumer.range(self._source)
        labels = {"table": consumer.table.name, "consumer": self.consumer}
        emit(lambda: [Sample(CONSUMER_VERSIONS, consumer.behind(self._source), labels)])
        if versions is None:
            poller.log.info("%s has seen all changes of %s.", self.consumer, self.table)
            return None
        poller.log.info("%s has changes up to version %d.", self.table, versions.up_to)
        return {"table": versions.table, "after": versions.after, "up_to": versions.up_to}

    @property
    def _source(self) -> ChangesSource:
        return ChangesSource(self.table, after=self.after)


class HiveAcidNewDataSensor(ConditionSensor):
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
    :param after: The version after which a new consumer begins, or ``oldest``. (templated)
    :param metastore_conn_id: The metastore.
    :param metastore_patience: How long the metastore or HDFS may be unreachable, or a ticket
        expired: until then the sensor warns and polls again, then the task fails. In mode
        ``reschedule`` it requires Airflow 3.3; in earlier versions the task fails at once.
    :param deferrable: Wait in the triggerer instead of on a worker.
    """

    template_fields: Sequence[str] = ("table", "consumer", "after")
    text_fields: ClassVar[Sequence[str]] = template_fields

    def __init__(
        self,
        *,
        table: str,
        consumer: str,
        after: str = "0",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not is_task_output((table, after)):
            with before_rendering():
                ChangesSource(table, after=after).validate()
        if not is_template(consumer):
            require_consumer(consumer)
        self.table = table
        self.consumer = consumer
        self.after = after

    def _condition(self, context: "Context") -> NewData:
        return NewData(self.table, self.consumer, self.after)
