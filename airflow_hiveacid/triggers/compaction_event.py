"""HiveAcidCompactionEventTrigger: an asset event when a table becomes worth compacting."""

import asyncio
import json
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.tasks import emit
from airflow_hiveacid.triggers.base import THREADS, Server, StoredTrigger, ask_airflow
from hiveacid.errors import HiveAcidError
from hiveacid.jobs import codec
from hiveacid.rules.compaction_policy import CompactionPolicy

if TYPE_CHECKING:
    from hiveacid.jobs.options import MetastoreOptions
    from hiveacid.upkeep.compaction_poll import CompactionPoll, PollResult

log = logging.getLogger(__name__)

_REPORTED = "hiveacid_told"
_PARTITIONS_PER_EVENT = 100
# The time limit of a poll: a pattern may match thousands of tables.
_SECONDS = 3600
# The tables that the triggers of one shared poll wait for. They all live in one process: that of
# the triggerer, which runs the poll as well.
_watched: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)


class HiveAcidCompactionEventTrigger(StoredTrigger, BaseEventTrigger):
    """Fires whenever more partitions of a table have become worth compacting.

    Example::

        orders = Asset(
            "hive_orders",
            watchers=[
                AssetWatcher(
                    name="compaction_needed",
                    trigger=HiveAcidCompactionEventTrigger(table="sales.orders"),
                )
            ],
        )

    A partition is reported once; it may be reported again after its compaction, and in any case
    after some hours. Airflow 3.3 keeps the reported partitions across restarts of the triggerer,
    and lets all triggers of one connection, policy and interval share one poll; in earlier versions
    each trigger polls separately.

    The payload of an event is ``{"needs": [...]}``, with elements as the compaction sensors return
    them.

    :param table: A table, ``database.table``, or a pattern of tables such as ``database.*``.
    :param policy: The thresholds for compactions, as plain values: the fields of CompactionPolicy
        that differ from Hive's rules.
    :param metastore_conn_id: The metastore.
    :param poke_interval: Seconds between two polls.
    :param remind_after_hours: Hours after which a partition that is still worth compacting is
        reported again.
    """

    def __init__(
        self,
        *,
        table: str,
        policy: Mapping[str, Any] | None = None,
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
        poke_interval: float = 300,
        remind_after_hours: float = 6,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table
        self.policy = dict(policy or {})
        self.metastore_conn_id = metastore_conn_id
        self.poke_interval = poke_interval
        self.remind_after_hours = remind_after_hours
        _decode_policy(self.policy).validate()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll alone, where Airflow knows of no shared polls."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event

    def shared_stream_key(self) -> Hashable:
        """Return the key of triggers that can share a poll."""
        return _key(self.serialize()[1])

    @classmethod
    async def open_shared_stream(
        cls, kwargs: dict[str, Any]
    ) -> AsyncIterator[Sequence[dict[str, Any]]]:
        """Look at the tables of all triggers that share the poll, again and again, in a thread."""
        watched, poll = _watched[_key(kwargs)], None
        conn_id = kwargs["metastore_conn_id"]
        server = Server.of_assets(conn_id)
        while True:
            try:
                if poll is None:
                    policy = _decode_policy(kwargs["policy"])
                    options = await ask_airflow(HiveAcidMetastoreHook(conn_id).options)
                    build = partial(_build_poll, options, policy)
                    poll = await THREADS.run(server, build, _SECONDS)
                survey = partial(_survey, poll, sorted(watched))
                result = await THREADS.run(server, survey, _SECONDS)
            except HiveAcidError as error:
                # A trigger that fails is started again at once, and would fail again.
                log.error("Looking for compactions failed, will try again: %s", error)
            else:
                yield [need.to_dict() for need in result.needs]
            await asyncio.sleep(kwargs["poke_interval"])

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Sequence[dict[str, Any]]]
    ) -> AsyncIterator[TriggerEvent]:
        """Select from the poll this table's needs that were not yet reported."""
        watched = _watched[self.shared_stream_key()]
        watched[self.table] += 1
        try:
            store = getattr(self, "asset_state_store", None)  # Since Airflow 3.3.
            reported: dict[str, str] = {} if store is None else await store.aget(_REPORTED, {})
            async for needs in shared_stream:
                own_needs = [
                    need for need in needs if fnmatchcase(need["table"], self.table.lower())
                ]
                fresh, now_reported = _choose(
                    own_needs, reported, datetime.now(UTC), self.remind_after_hours
                )
                if fresh:
                    yield TriggerEvent({"needs": fresh})  # type: ignore[no-untyped-call]
                # Only now: the event may be repeated, but must not be lost.
                if now_reported != reported and store is not None:
                    await store.aset(_REPORTED, now_reported)
                reported = now_reported
        finally:
            watched[self.table] -= 1
            if not watched[self.table]:
                del watched[self.table]


def _build_poll(options: "MetastoreOptions", policy: CompactionPolicy) -> "CompactionPoll":
    # Thrift and Arrow take a second to import, and DAG files import this module.
    from hiveacid.upkeep.compaction_poll import CompactionPoll

    return CompactionPoll(options, policy)


def _survey(poll: "CompactionPoll", tables: Sequence[str]) -> "PollResult":
    result = poll.survey(tables)
    emit(lambda: result.samples)
    return result


def _choose(
    needs: Sequence[dict[str, Any]],
    reported: Mapping[str, str],
    now: datetime,
    remind_after_hours: float,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Choose the needs to report now.

    :param needs: The useful compactions.
    :param reported: The time of each partition's report; partitions without a need are removed.
    :param now: The time.
    :param remind_after_hours: After how long a partition is reported again.
    :return: The needs to report, and when each partition was reported, these included.
    """
    latest = now.timestamp() - 3600 * remind_after_hours
    reported_needs: dict[str, str] = {}
    fresh: list[dict[str, Any]] = []
    for need in needs:
        name = f"{need['table']}/{need['partition'] or ''}"
        if name in reported and datetime.fromisoformat(reported[name]).timestamp() > latest:
            reported_needs[name] = reported[name]
        elif len(fresh) < _PARTITIONS_PER_EVENT:
            # The remaining ones follow with the next poll.
            reported_needs[name] = now.isoformat()
            fresh.append(need)
    return fresh, reported_needs


def _key(kwargs: Mapping[str, Any]) -> Hashable:
    shared = ("metastore_conn_id", "poke_interval", "policy")
    return __name__, json.dumps([kwargs[name] for name in shared], sort_keys=True)


def _decode_policy(policy: Mapping[str, Any]) -> CompactionPolicy:
    decoded_policy: CompactionPolicy = codec.decode(CompactionPolicy, dict(policy), "policy")
    return decoded_policy
