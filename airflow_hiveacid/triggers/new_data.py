"""What waits in the triggerer for changes of a table: for a sensor, and for assets."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_hiveacid.acid.consumers import last_final_version
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.report import ErrorReport
from airflow_hiveacid.jobs.sources import ChangesSource

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.metastore_options import MetastoreOptions
    from airflow_hiveacid.jobs.report import ChangesRange

log = logging.getLogger(__name__)

_TOLD = "hiveacid_told_version"


class HiveAcidNewDataTrigger(BaseTrigger):
    """Fires once a table has changes that a consumer has not seen; see HiveAcidNewDataSensor.

    :param table: The table.
    :param consumer: The name of the consumer.
    :param after: The version after which a new consumer begins.
    :param metastore_conn_id: The metastore.
    :param poke_interval: Seconds between two looks.
    :param patience: For how many seconds the metastore may be away.
    """

    def __init__(
        self,
        *,
        table: str,
        consumer: str,
        after: str,
        metastore_conn_id: str,
        poke_interval: float,
        patience: float = PATIENCE.total_seconds(),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table
        self.consumer = consumer
        self.after = after
        self.metastore_conn_id = metastore_conn_id
        self.poke_interval = poke_interval
        self.patience = patience

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Say how to build the same trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "consumer": self.consumer,
                "after": self.after,
                "metastore_conn_id": self.metastore_conn_id,
                "poke_interval": self.poke_interval,
                "patience": self.patience,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again, in a thread: Thrift blocks."""
        event: dict[str, Any]
        try:
            options = await _options(self.metastore_conn_id)
            patience = Patience(timedelta(seconds=self.patience))
            while (found := await asyncio.to_thread(self._look, options, patience)) is None:
                await asyncio.sleep(self.poke_interval)
            event = {"status": "found", "range": codec.to_record(found)}
        except HiveAcidError as error:
            event = {"status": "error", "error": codec.encode(ErrorReport.of(error))}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    def _look(self, options: "MetastoreOptions", patience: Patience) -> "ChangesRange | None":
        # Thrift takes a second to import.
        from airflow_hiveacid.maintenance.consumers import Consumer
        from airflow_hiveacid.metastore.client import MetastoreClient

        try:
            with MetastoreClient(options) as client:
                consumer = Consumer(client, self.table, self.consumer)
                found = consumer.range(ChangesSource(self.table, after=self.after))
        except HiveAcidError as error:
            if not patience.bears(error):
                raise
            self.log.warning("%s Looking again in %s s.", error, self.poke_interval)
            return None
        patience.answered()
        return found


class HiveAcidNewDataEventTrigger(BaseEventTrigger):
    """Fires whenever a table has a new version into which nothing can be committed any more.

    Example::

        orders = Asset(
            "hive_orders",
            watchers=[
                AssetWatcher(
                    name="new_data", trigger=HiveAcidNewDataEventTrigger(table="shop.orders")
                )
            ],
        )

    The payload of an event is ``{"table": ..., "after": ..., "up_to": ...}``: the version that was told
    before, which is null at first, and the new one. Compactions make no versions. Airflow 3.3
    remembers over restarts of the triggerer what was told; before that, it is told once more then. A
    HiveAcidChangesOperator, which knows what it has copied, then finds nothing new.

    :param table: The table, ``database.table``.
    :param metastore_conn_id: The metastore.
    :param poke_interval: Seconds between two looks.
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

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Say how to build the same trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.table,
                "metastore_conn_id": self.metastore_conn_id,
                "poke_interval": self.poke_interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again, in a thread, and tell of each new version once."""
        store = getattr(self, "asset_state_store", None)  # Since Airflow 3.3.
        told: str | None = None if store is None else await store.aget(_TOLD)
        while True:
            try:
                options = await _options(self.metastore_conn_id)
                newest, table = await asyncio.to_thread(self._look, options)
            except HiveAcidError as error:
                # A trigger that fails is started again at once, and would fail again.
                log.error("Looking for new versions failed, will try again: %s", error)
            else:
                version, _, of_table = (told or "").partition(" ")
                after = int(version) if of_table == table else None
                if newest and (after is None or after < newest):
                    versions = {"after": after, "up_to": newest}
                    yield TriggerEvent({"table": self.table, **versions})  # type: ignore[no-untyped-call]
                    # Only now: it may be told twice, and must not be lost.
                    told = f"{newest} {table}"
                    if store is not None:
                        await store.aset(_TOLD, told)
            await asyncio.sleep(self.poke_interval)

    def _look(self, options: "MetastoreOptions") -> tuple[int, str]:
        """The newest version, and the creation of the table that it is of."""
        from airflow_hiveacid.metastore.client import MetastoreClient
        from airflow_hiveacid.metastore.same_table import located
        from airflow_hiveacid.metastore.txn.snapshot import Snapshot

        ref = TableRef.parse(self.table)
        with MetastoreClient(options) as client:
            table = str(located(client.get_table(ref)))
            seen = Snapshot.take(client, [ref]).write_ids[ref.full_name]
        return last_final_version(seen), table


async def _options(metastore_conn_id: str) -> "MetastoreOptions":
    # Airflow's own calls must go through sync_to_async: in other threads those of 3.1 would wait
    # for an event loop that isn't the triggerer's.
    return await sync_to_async(HiveAcidMetastoreHook(metastore_conn_id).options)()
