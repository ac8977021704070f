"""The sensors that wait for partitions that are worth compacting."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow_hiveacid.hooks.tasks import emit
from airflow_hiveacid.hooks.template_fields import rendered_setting
from airflow_hiveacid.sensors.condition import ConditionSensor
from airflow_hiveacid.triggers.condition import Condition, Poller
from hiveacid.dataclass import dataclass
from hiveacid.jobs.fields import (
    before_rendering,
    is_template,
    require_choice,
    require_partition_names,
    require_text,
)
from hiveacid.jobs.maintenance_jobs import compaction_groups
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, Measure
from hiveacid.rules.names import TableRef

if TYPE_CHECKING:
    from airflow.sdk import Context

    from hiveacid.upkeep.compaction_poll import CompactionPoll


ExpandBy = Literal["table", "partition"]
_QUIET = "hiveacid_quiet_tables"


@dataclass(frozen=True, kw_only=True)
class CompactionNeeded(Condition):
    """A partition is worth compacting; see HiveAcidCompactionSensor."""

    table: str
    policy: CompactionPolicy
    budget: Budget
    partitions: Sequence[str] | None

    # A pattern may match thousands of tables.
    poll_seconds: ClassVar[float] = 3600

    def validate(self) -> None:
        """Check the names of the partitions."""
        if self.partitions is not None:
            require_partition_names(self.partitions)

    def poll(self, poller: Poller) -> list[dict[str, Any]] | None:
        """Return the partitions that are worth compacting."""
        survey = self._survey(poller)
        result = survey.survey([self.table], self.partitions, poller.require_access)
        if poller.store is not None:
            poller.store.set(_QUIET, survey.quiet)
        for line in result.log:
            poller.log.info("%s", line)
        for line in result.problems:
            poller.log.warning("%s", line)
        emit(lambda: result.samples)
        return [need.to_dict() for need in result.needs] or None

    def _survey(self, poller: Poller) -> "CompactionPoll":
        from hiveacid.upkeep.compaction_poll import CompactionPoll

        known: CompactionPoll | None = poller.memory.get(_QUIET)
        if known is None:
            quiet = {} if poller.store is None else poller.store.get(_QUIET, {})
            known = CompactionPoll(poller.metastore, self.policy, self.budget, quiet)
            poller.memory[_QUIET] = known
        return known


class HiveAcidCompactionSensor(ConditionSensor):
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
        if partitions is not None and not is_template(partitions):
            with before_rendering():
                require_partition_names(partitions)
        self.table = table
        self.partitions = partitions
        self.expand_by = expand_by

    def _condition(self, context: "Context") -> CompactionNeeded:
        return CompactionNeeded(
            table=self.table,
            policy=self._policy(),
            budget=self._budget(),
            partitions=self.partitions,
        )

    def _value(self, found: list[dict[str, Any]]) -> list[Any]:
        # A table may be newer than the first poll, and the triggerer does not check its polls.
        self._require_access({need["table"] for need in found})
        return compaction_groups(found) if self.expand_by == "table" else found

    def _policy(self) -> CompactionPolicy:
        """Return the thresholds for compactions."""
        raise NotImplementedError

    def _budget(self) -> Budget:
        """Return the limit of compactions returned at once."""
        return Budget()


class HiveAcidCompactionNeededSensor(HiveAcidCompactionSensor):
    """Waits until a partition is worth compacting by the whole policy.

    Example::

        HiveAcidCompactionNeededSensor(
            task_id="needed",
            table="sales.*",
            policy=CompactionPolicy(major_after_hours=168, quiet_hours="22:00-05:00"),
            budget=Budget(max_partitions=50),
        )

    Both may be mappings instead, whose values are templates. For the ones that are numbers the DAG
    needs ``render_template_as_native_obj=True``.

    The parameters below come on top of those of HiveAcidCompactionSensor.

    :param policy: When a partition is worth compacting. (templated)
    :param budget: How much is returned at once; the most useful comes first. (templated)
    """

    template_fields: Sequence[str] = (*HiveAcidCompactionSensor.template_fields, "policy", "budget")

    def __init__(
        self,
        *,
        policy: CompactionPolicy | Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.policy = CompactionPolicy() if policy is None else policy
        self.budget = Budget() if budget is None else budget
        for given, validated in ((self.policy, self._policy), (self.budget, self._budget)):
            # Values of mappings may become numbers when they are rendered, as native objects.
            if not isinstance(given, Mapping) and not is_template(given):
                validated()

    def _policy(self) -> CompactionPolicy:
        return rendered_setting(CompactionPolicy, self.policy, "policy")

    def _budget(self) -> Budget:
        return rendered_setting(Budget, self.budget, "budget")


class HiveAcidDeltaCountSensor(HiveAcidCompactionSensor):
    """Waits until a partition has more than so many directories of deltas.

    Example::

        HiveAcidDeltaCountSensor(task_id="many_deltas", table="sales.orders", max_deltas=10)

    The parameters below come on top of those of HiveAcidCompactionSensor.

    :param max_deltas: The limit, unless the table sets one for itself.
    """

    def __init__(self, *, max_deltas: int = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_deltas = max_deltas
        self._policy().validate()

    def _policy(self) -> CompactionPolicy:
        return CompactionPolicy(
            max_deltas=self.max_deltas,
            max_delta_ratio=None,
            max_aborted=None,
            max_aborted_age_hours=None,
        )


class HiveAcidDeltaSizeSensor(HiveAcidCompactionSensor):
    """Waits until the deltas of a partition exceed a share of its base.

    Without a base, it waits for more than ten delta directories, or for deletes of more than a
    fifth of the data that is read.

    Example::

        HiveAcidDeltaSizeSensor(task_id="large_deltas", table="sales.orders", max_ratio=0.1)

    The parameters below come on top of those of HiveAcidCompactionSensor.

    :param max_ratio: The limit, unless the table sets one for itself.
    :param measure: The compared measure: ``bytes``, or ``rows``, which requires reading the footers
        of all ORC files once.
    """

    def __init__(
        self, *, max_ratio: float = 0.1, measure: Measure = "bytes", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_ratio = max_ratio
        self.measure = measure
        self._policy().validate()

    def _policy(self) -> CompactionPolicy:
        return CompactionPolicy(
            max_deltas=None,
            max_delta_ratio=self.max_ratio,
            measure=self.measure,
            max_aborted=None,
            max_aborted_age_hours=None,
        )


class HiveAcidTrinoMismatchSensor(HiveAcidCompactionSensor):
    """Waits until Trino would show other rows of a partition than Hive, which a compaction mends.

    Example::

        HiveAcidTrinoMismatchSensor(task_id="wrong_in_trino", table="sales.*")
    """

    def _policy(self) -> CompactionPolicy:
        return CompactionPolicy(
            max_deltas=None,
            max_delta_ratio=None,
            max_aborted=None,
            max_aborted_age_hours=None,
            right_for="trino",
        )
