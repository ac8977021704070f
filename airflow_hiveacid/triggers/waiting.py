"""The base of triggers that wait for a state of tables on behalf of a deferred sensor."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.patience import PATIENCE, Patience
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.reports.report import ErrorReport
from airflow_hiveacid.triggers.polls import THREADS, Server

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions

_Result = TypeVar("_Result")
# Returns the fields of an event, or None without a result.
Poll = Callable[[], dict[str, Any] | None]


class WaitingTrigger(BaseTrigger):
    """Polls until it finds a result, and tolerates a short outage of the metastore.

    :param metastore_conn_id: The metastore.
    :param poke_interval: Seconds between two polls.
    :param patience: For how many seconds the metastore may be away.
    """

    # The names of the parameters of a subclass.
    parameters: ClassVar[tuple[str, ...]]
    # The time limit of a poll.
    poll_seconds: ClassVar[float] = 600

    def __init__(
        self,
        *,
        metastore_conn_id: str,
        poke_interval: float,
        patience: float = PATIENCE.total_seconds(),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.metastore_conn_id = metastore_conn_id
        self.poke_interval = poke_interval
        self.patience = patience

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that create an equal trigger."""
        names = (*self.parameters, "metastore_conn_id", "poke_interval", "patience")
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {name: getattr(self, name) for name in names},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Repeat the poll in a thread, because Thrift and listings block."""
        event: dict[str, Any]
        try:
            await self.read_connections()
            options = await metastore_options(self.metastore_conn_id)
            poll = await self._in_thread(partial(self.prepare, options))
            patience = Patience(timedelta(seconds=self.patience))
            while (found := await self._poll_once(poll, patience)) is None:
                await asyncio.sleep(self.poke_interval)
            event = {"status": "found", **found}
        except HiveAcidError as error:
            event = {"status": "error", "error": codec.encode(ErrorReport.of(error))}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def read_connections(self) -> None:
        """Read further connections of a subclass: its arguments, which are stored, have no secrets."""

    def prepare(self, options: "MetastoreOptions") -> Poll:
        """Return the poll; called once, in a thread.

        :param options: The metastore.
        """
        raise NotImplementedError

    @property
    def server(self) -> str:
        """The server that a poll waits for, besides the metastore."""
        return self.metastore_conn_id

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        server = Server(self.metastore_conn_id, self.server)
        return await THREADS.run(server, work, self.poll_seconds)

    async def _poll_once(self, poll: Poll, patience: Patience) -> dict[str, Any] | None:
        try:
            found = await self._in_thread(poll)
        except HiveAcidError as error:
            if not patience.tolerates(error):
                raise
            self.log.warning("%s Looking again in %s s.", error, self.poke_interval)
            return None
        patience.answered()
        return found


async def metastore_options(metastore_conn_id: str) -> "MetastoreOptions":
    """Return the options of a connection without blocking the other triggers.

    :param metastore_conn_id: The metastore.
    """
    # Airflow's own calls must go through sync_to_async: in other threads those of 3.1 would wait
    # for an event loop that isn't the triggerer's.
    return await sync_to_async(HiveAcidMetastoreHook(metastore_conn_id).options)()
