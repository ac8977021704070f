"""HiveAcidCompactionSensor: the common base of the compaction sensors."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.errors import AccessRefused
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.task_failures import task_failure
from airflow_hiveacid.hooks.task_metrics import emit
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.compaction_need import compaction_groups
from airflow_hiveacid.jobs.field_checks import (
    before_rendering,
    is_template,
    require_choice,
    require_partition_names,
    require_text,
)
from airflow_hiveacid.sensors.patient import PatientSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_hiveacid.maintenance.compaction_poll import CompactionPoll
    from airflow_hiveacid.triggers.compaction import HiveAcidCompactionTrigger


ExpandBy = Literal["table", "partition"]
_QUIET = "hiveacid_quiet_tables"


class HiveAcidCompactionSensor(PatientSensor):
    """Waits until a partition is worth compacting, and returns all such partitions.

    It needs no Java: it asks the metastore and lists files. Every table is listed once in a poke,
    and not at all if it was not written since the last poke (except before Airflow 3.3 in mode
    ``reschedule``, where each poke is a separate process).

    The XCom value is ready for ``.expand(need=...)`` of HiveAcidCompactOperator: a list with one list
    for each table and type of compaction, which has a dict for each partition.

    :param table: A table, ``database.table``, or a pattern of tables: ``database.*`` or
        ``database.prefix*`` are all their transactional tables. (templated)
    :param partitions: The names of the partitions to survey, in a list; all by default. A template
        of the list needs a DAG with ``render_template_as_native_obj=True``. (templated)
    :param expand_by: The unit of one mapped task, and so of one Spark application: ``table``
        combines all partitions of a table that need the same type of compaction, and compacts them
        in parallel; ``partition`` is each partition, and the XCom value is a list of dicts.
    :param metastore_conn_id: The metastore.
    :param metastore_patience: How long the metastore or HDFS may be unreachable, or a ticket
        expired: until then the sensor warns and polls again, then the task fails. In mode
        ``reschedule`` it requires Airflow 3.3; in earlier versions the task fails at once.
    :param deferrable: Wait in the triggerer instead of on a worker.
    """

    template_fields: Sequence[str] = ("table", "partitions")
    text_fields: ClassVar[Sequence[str]] = ("table",)

    def __init__(
        self,
        *,
        table: str,
        partitions: Sequence[str] | None = None,
        expand_by: ExpandBy = "table",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not is_template(table):
            require_text(table, "table")
            TableRef.parse(table)
        require_choice(expand_by, get_args(ExpandBy), "expand_by")
        if not is_template(partitions):
            with before_rendering():
                _require_partitions(partitions)
        self.table = table
        self.partitions = partitions
        self.expand_by = expand_by
        self._poll: CompactionPoll | None = None

    def _find(self, context: "Context") -> list[Any] | None:
        _require_partitions(self.partitions)
        # Since Airflow 3.3: the state shared by the processes of a rescheduled sensor.
        store: Any = context.get("task_state_store") if self.reschedule else None
        poll = self._prepared_poll({} if store is None else store.get(_QUIET, {}))
        result = poll.survey([self.table], self.partitions, self._require_access)
        if store is not None:
            store.set(_QUIET, poll.quiet)
        for line in result.log:
            self.log.info("%s", line)
        for line in result.problems:
            self.log.warning("%s", line)
        emit(lambda: result.samples)
        needs = [need.to_dict() for need in result.needs]
        return self._grouped(needs) if needs else None

    def _trigger(self, context: "Context", **waiting: Any) -> "HiveAcidCompactionTrigger":
        # Like the poll, it is needed only when a task runs.
        from airflow_hiveacid.triggers.compaction import HiveAcidCompactionTrigger

        return HiveAcidCompactionTrigger(
            table=self.table,
            partitions=self.partitions and list(self.partitions),
            policy=codec.encode(self._policy()),
            budget=codec.encode(self._budget()),
            **waiting,
        )

    def _result(self, event: dict[str, Any]) -> list[Any]:
        try:
            # A table may be newer than the first poll, which the triggerer does not check.
            self._require_access(need["table"] for need in event["needs"])
        except AccessRefused as error:
            raise task_failure(error) from None
        return self._grouped(event["needs"])

    def _grouped(self, needs: list[dict[str, Any]]) -> list[Any]:
        return compaction_groups(needs) if self.expand_by == "table" else needs

    def _policy(self) -> CompactionPolicy:
        """Return the thresholds for compactions."""
        raise NotImplementedError

    def _budget(self) -> Budget:
        """Return the limit of compactions returned at once."""
        return Budget()

    def _prepared_poll(self, quiet: dict[str, list[str]]) -> "CompactionPoll":
        # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
        from airflow_hiveacid.maintenance.compaction_poll import CompactionPoll

        if self._poll is None:
            options = HiveAcidMetastoreHook(self.metastore_conn_id).options()
            self._poll = CompactionPoll(options, self._policy(), self._budget(), quiet)
        return self._poll


def _require_partitions(names: Sequence[str] | None) -> None:
    """Raise InvalidJob unless the value is a list of names that is not empty, or None for all."""
    if names is not None:
        require_partition_names(names)
