"""HiveAcidCompactionTrigger: the waiting of a deferred compaction sensor."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.metastore_options import MetastoreOptions
from airflow_hiveacid.jobs.report import ErrorReport

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.compaction_need import CompactionNeed
    from airflow_hiveacid.maintenance.compaction_poll import CompactionPoll


class HiveAcidCompactionTrigger(BaseTrigger):
    """Fires once a partition is worth compacting; see HiveAcidCompactionSensor.

    :param table: A table or a pattern of tables.
    :param partitions: The names of the partitions to look at; None is all of them.
    :param policy: When a partition is worth compacting, as plain values.
    :param budget: How much is found at once, as plain values.
    :param metastore_conn_id: The metastore.
    :param poke_interval: Seconds between two looks.
    :param patience: For how many seconds the metastore may be away.
    """

    def __init__(
        self,
        *,
        table: str,
        partitions: Sequence[str] | None,
        policy: dict[str, Any],
        budget: dict[str, Any],
        metastore_conn_id: str,
        poke_interval: float,
        patience: float = PATIENCE.total_seconds(),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table
        self.partitions = partitions
        self.policy = policy
        self.budget = budget
        self.metastore_conn_id = metastore_conn_id
        self.poke_interval = poke_interval
        self.patience = patience

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Say how to build the same trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "partitions": self.partitions,
                "policy": self.policy,
                "budget": self.budget,
                "metastore_conn_id": self.metastore_conn_id,
                "poke_interval": self.poke_interval,
                "patience": self.patience,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again, in a thread: Thrift and listings block."""
        event: dict[str, Any]
        try:
            poll = await prepare_poll(
                self.metastore_conn_id,
                codec.decode(CompactionPolicy, self.policy, "policy"),
                codec.decode(Budget, self.budget, "budget"),
            )
            patience = Patience(timedelta(seconds=self.patience))
            while not (needs := await self._look(poll, patience)):
                await asyncio.sleep(self.poke_interval)
            event = {"status": "found", "needs": [need.to_dict() for need in needs]}
        except HiveAcidError as error:
            event = {"status": "error", "error": codec.encode(ErrorReport.of(error))}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _look(self, poll: "CompactionPoll", patience: Patience) -> "Sequence[CompactionNeed]":
        """Look once; what is away for a short time needs nothing yet."""
        try:
            result = await asyncio.to_thread(poll.look, [self.table], self.partitions)
        except HiveAcidError as error:
            if not patience.bears(error):
                raise
            self.log.warning("%s Looking again in %s s.", error, self.poke_interval)
            return ()
        patience.answered()
        for line in result.log:
            self.log.info("%s", line)
        for line in result.problems:
            self.log.warning("%s", line)
        return result.needs


async def prepare_poll(
    metastore_conn_id: str, policy: CompactionPolicy, budget: Budget
) -> "CompactionPoll":
    """Build a poll without holding up the other triggers.

    :param metastore_conn_id: The metastore.
    :param policy: When a partition is worth compacting.
    :param budget: How much is found at once.
    """
    # Airflow's own calls must go through sync_to_async: in other threads those of 3.1 would wait
    # for an event loop that isn't the triggerer's.
    options = await sync_to_async(HiveAcidMetastoreHook(metastore_conn_id).options)()
    return await asyncio.to_thread(_build_poll, options, policy, budget)


def _build_poll(
    options: MetastoreOptions, policy: CompactionPolicy, budget: Budget
) -> "CompactionPoll":
    # Thrift and Arrow take a second to import, and DAG files may import this module.
    from airflow_hiveacid.maintenance.compaction_poll import CompactionPoll

    return CompactionPoll(options, policy, budget)
