"""HiveAcidCompactionTrigger: the waiting of a deferred compaction sensor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
from airflow_hiveacid.hooks.task_metrics import emit
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions
from airflow_hiveacid.triggers.waiting import Poll, WaitingTrigger

if TYPE_CHECKING:
    from airflow_hiveacid.maintenance.compaction_poll import CompactionPoll


class HiveAcidCompactionTrigger(WaitingTrigger):
    """Fires once a partition is worth compacting; see HiveAcidCompactionSensor.

    :param table: A table or a pattern of tables.
    :param partitions: The names of the partitions to survey; all partitions if None.
    :param policy: The thresholds for compactions, as plain values.
    :param budget: The limit of compactions returned at once, as plain values.
    :param waiting: The parameters of WaitingTrigger.
    """

    parameters: ClassVar[tuple[str, ...]] = ("table", "partitions", "policy", "budget")
    # A pattern may match thousands of tables.
    poll_seconds: ClassVar[float] = 3600

    def __init__(
        self,
        *,
        table: str,
        partitions: Sequence[str] | None,
        policy: dict[str, Any],
        budget: dict[str, Any],
        **waiting: Any,
    ) -> None:
        super().__init__(**waiting)
        self.table = table
        self.partitions = partitions
        self.policy = policy
        self.budget = budget

    def prepare(self, options: MetastoreOptions) -> Poll:
        """Return the poll of the table."""
        policy = codec.decode(CompactionPolicy, self.policy, "policy")
        tables = build_poll(options, policy, codec.decode(Budget, self.budget, "budget"))

        def poll() -> dict[str, Any] | None:
            result = tables.survey([self.table], self.partitions)
            for line in result.log:
                self.log.info("%s", line)
            for line in result.problems:
                self.log.warning("%s", line)
            emit(lambda: result.samples)
            needs = [need.to_dict() for need in result.needs]
            return {"needs": needs} if needs else None

        return poll


def build_poll(
    options: MetastoreOptions, policy: CompactionPolicy, budget: Budget
) -> "CompactionPoll":
    """Return a poll for tables that are worth compacting.

    :param options: The metastore.
    :param policy: When a partition is worth compacting.
    :param budget: How much is found at once.
    """
    # Thrift and Arrow take a second to import, and DAG files may import this module.
    from airflow_hiveacid.maintenance.compaction_poll import CompactionPoll

    return CompactionPoll(options, policy, budget)
