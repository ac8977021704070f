"""HiveAcidNewDataEventTrigger: an asset event for each new version of a table."""

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.triggers.base import THREADS, Server, StoredTrigger, ask_airflow
from airflow_hiveacid.triggers.condition import Condition
from hiveacid.errors import HiveAcidError
from hiveacid.rules.lag import last_final_version
from hiveacid.rules.names import TableRef

if TYPE_CHECKING:
    from hiveacid.jobs.options import MetastoreOptions

log = logging.getLogger(__name__)

_REPORTED = "hiveacid_told_version"


class HiveAcidNewDataEventTrigger(StoredTrigger, BaseEventTrigger):
    """Fires whenever a table has a new version that is closed to further commits.

    Example::

        orders = Asset(
            "hive_orders",
            watchers=[
                AssetWatcher(
                    name="new_data", trigger=HiveAcidNewDataEventTrigger(table="shop.orders")
                )
            ],
        )

    The payload of an event is ``{"table": ..., "after": ..., "up_to": ...}``: the previously
    reported version, which is null at first, and the new one. Compactions create no versions.
    Airflow 3.3 keeps the reported version across restarts of the triggerer; earlier versions report
    it once more after a restart. A HiveAcidChangesOperator, which tracks its copied versions, then
    finds nothing new.

    :param table: The table, ``database.table``.
    :param metastore_conn_id: The metastore.
    :param poke_interval: Seconds between two polls.
    """

    def __init__(
        self,
        *,
        table: str,
        metastore_conn_id: str = HiveAcidMetastoreHook.default_conn_name,
        poke_interval: float = 60,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        TableRef.parse(table)
        self.table = table
        self.metastore_conn_id = metastore_conn_id
        self.poke_interval = poke_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll repeatedly, in a thread, and report each new version once."""
        store = getattr(self, "asset_state_store", None)  # Since Airflow 3.3.
        reported: str | None = None if store is None else await store.aget(_REPORTED)
        while True:
            try:
                options = await ask_airflow(HiveAcidMetastoreHook(self.metastore_conn_id).options)
                newest, table = await THREADS.run(
                    Server.of_assets(self.metastore_conn_id),
                    partial(self._newest_version, options),
                    Condition.poll_seconds,
                )
            except HiveAcidError as error:
                # A trigger that fails is started again at once, and would fail again.
                log.error("Looking for new versions failed, will try again: %s", error)
            else:
                version, _, of_table = (reported or "").partition(" ")
                after = int(version) if of_table == table else None
                if newest and (after is None or after < newest):
                    versions = {"after": after, "up_to": newest}
                    yield TriggerEvent({"table": self.table, **versions})  # type: ignore[no-untyped-call]
                    # Only now: the event may be repeated, but must not be lost.
                    reported = f"{newest} {table}"
                    if store is not None:
                        await store.aset(_REPORTED, reported)
            await asyncio.sleep(self.poke_interval)

    def _newest_version(self, options: "MetastoreOptions") -> tuple[int, str]:
        """The newest version, and the creation of the table that it is of."""
        from hiveacid.metastore.client import MetastoreClient
        from hiveacid.metastore.table_rules import located
        from hiveacid.metastore.txn.owner import Snapshot

        ref = TableRef.parse(self.table)
        with MetastoreClient(options) as client:
            table = str(located(client.get_table(ref)))
            seen = Snapshot.take(client, [ref]).write_ids[ref.full_name]
        return last_final_version(seen), table
