"""The common base of the triggers, and the threads of their polls."""

import asyncio
import contextvars
import inspect
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from airflow.triggers.base import BaseTrigger
from asgiref.sync import sync_to_async

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, MetastoreUnreachable

_Result = TypeVar("_Result")


class StoredTrigger(BaseTrigger):
    """A trigger whose parameters are attributes with plain values."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that create an equal trigger."""
        class_ = type(self)
        arguments = {name: getattr(self, name) for name in inspect.signature(class_).parameters}
        return f"{class_.__module__}.{class_.__qualname__}", arguments

    def server(self, name: str) -> "Server":
        """Return a server that the DAG of this trigger polls.

        :param name: See Server.
        """
        ti = self.task_instance
        return Server("" if ti is None else ti.dag_id, name)


async def ask_airflow(function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Call a function of Airflow without blocking the other triggers.

    It must go through sync_to_async: in other threads, calls of 3.1 would wait for an event loop
    that isn't the triggerer's. By itself, that forgets the message of a cancellation, by which
    Airflow knows that on_kill is due.
    """
    return await asyncio.shield(sync_to_async(function)(*args, **kwargs))


# Threads of polls in the triggerer: shared fairly by DAGs, limited for each, and with deadlines.
#
# A thread cannot be stopped. So a poll that exceeds its deadline is abandoned: its trigger
# continues, and its DAG gets no other thread for the server until the poll has ended. A poll that
# is late gives its place to others, and counts for its DAG alone: servers that are silent hold no
# place. A free place goes to the DAG with the fewest polls.


_REMEDY = "Check that the service runs and answers."


class Server(NamedTuple):
    """The server of a poll, for one DAG.

    Attributes:
        owner: The DAG; for watchers of assets, which have none, their connection.
        name: The host of a catalog, or the connection of a metastore or of a cluster.
    """

    owner: str
    name: str

    @classmethod
    def of_assets(cls, conn_id: str) -> "Server":
        """Return the metastore of a watcher of assets, which belongs to no DAG."""
        # No id of a DAG has a space.
        return cls(f"assets of {conn_id}", conn_id)


@dataclass(eq=False, slots=True)
class _Run:
    """A poll that waits for a place, or that runs in its thread."""

    server: Server
    loop: asyncio.AbstractEventLoop
    begins: "asyncio.Future[None]"
    has_ended: bool = False
    is_late: bool = False
    is_abandoned: bool = False


class PollThreads:
    """Runs each poll in a thread of its own, up to some limits.

    :param per_server: How many polls of a server run at the same time for one DAG; only one, if
        the server has ``per_owner`` polls of any DAGs, so that no server gets one of each sensor.
    :param per_owner: How many polls of a DAG run at the same time.
    :param total: How many polls run at the same time that are not late.
    :param late_after: The seconds after which a poll is late.
    """

    def __init__(
        self,
        *,
        per_server: int = 8,
        per_owner: int = 24,
        total: int = 96,
        late_after: float = 2,
    ) -> None:
        self._per_server, self._per_owner, self._total = per_server, per_owner, total
        self._late_after = late_after
        self._lock = threading.Lock()
        self._waiting: dict[Server, deque[_Run]] = {}
        # The running polls of each server and DAG, of each DAG, and of each server.
        self._running: Counter[tuple[str | None, str | None]] = Counter()
        self._prompt = 0
        self._abandoned: Counter[Server] = Counter()

    async def run(
        self,
        server: Server,
        poll: Callable[[], _Result],
        seconds: float,
        failure: type[HiveAcidError] = MetastoreUnreachable,
    ) -> _Result:
        """Return the result of a poll.

        :param server: Its server.
        :param poll: The poll.
        :param seconds: The time limit, including the time until a thread is free.
        :param failure: The class of the error after the time limit.
        :raises HiveAcidError: The poll has not ended, or an earlier one of its server has not.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        run = _Run(server, loop, loop.create_future())
        result: asyncio.Future[_Result] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                poll_result = context.run(poll)
            except BaseException as error:  # noqa: BLE001 - the trigger raises it
                deliver = partial(_set_exception, result, error)
            else:
                deliver = partial(_set_result, result, poll_result)
            self._end(run)
            _call(loop, deliver)

        await self._place(run, seconds, failure)
        try:
            threading.Thread(target=work, name=f"poll of {server.name}", daemon=True).start()
        except RuntimeError as error:
            self._end(run)
            raise failure(f"No thread for a poll of {server.name}: {error}.") from error
        becomes_late = loop.call_later(self._late_after, self._leave_place, run)
        try:
            async with asyncio.timeout_at(max(end, loop.time())):
                return await result
        except TimeoutError:
            if not result.cancelled():
                # The poll has raised it.
                raise
            raise failure(
                f"A poll of {server.name} took more than {seconds:g} s.", remedy=_REMEDY
            ) from None
        finally:
            becomes_late.cancel()
            self._abandon(run)

    async def _place(self, run: _Run, seconds: float, failure: type[HiveAcidError]) -> None:
        """Wait for a place."""
        with self._lock:
            self._waiting.setdefault(run.server, deque()).append(run)
        self._fill_places()
        try:
            async with asyncio.timeout(seconds):
                await run.begins
        except BaseException as error:
            with self._lock:
                waiting = self._waiting.get(run.server, ())
                is_waiting = run in waiting
                if is_waiting:
                    self._remove(run)
            if not is_waiting:
                self._end(run)
            if isinstance(error, TimeoutError):
                raise failure(
                    f"No poll of {run.server.name} could begin within {seconds:g} s.",
                    remedy=_REMEDY,
                ) from None
            raise

    def _fill_places(self) -> None:
        """Let waiting polls begin, those of the DAGs with the fewest running polls first."""
        runs = []
        with self._lock:
            while self._prompt < self._total and (server := self._next()) is not None:
                run = self._waiting[server][0]
                self._remove(run)
                self._running.update(_keys(server))
                self._prompt += 1
                runs.append(run)
        for run in runs:
            _call(run.loop, partial(_set_result, run.begins, None))

    def _next(self) -> Server | None:
        """Return the server whose first waiting poll may begin before all others, if any."""
        next_server, fewest = None, self._per_owner
        for server in self._waiting:
            count = self._running[server.owner, None]
            if count < fewest and self._is_free(server):
                next_server, fewest = server, count
                if not count:
                    break
        return next_server

    def _is_free(self, server: Server) -> bool:
        is_crowded = self._running[None, server.name] >= self._per_owner
        limit = 1 if is_crowded else self._per_server
        return not self._abandoned[server] and self._running[server] < limit

    def _remove(self, run: _Run) -> None:
        self._waiting[run.server].remove(run)
        if not self._waiting[run.server]:
            del self._waiting[run.server]

    def _leave_place(self, run: _Run) -> None:
        """Give the place of a poll to another one."""
        with self._lock:
            if run.has_ended or run.is_late:
                return
            run.is_late = True
            self._prompt -= 1
        self._fill_places()

    def _abandon(self, run: _Run) -> None:
        """Note that nobody waits for a poll any more, unless it has ended."""
        with self._lock:
            if not run.has_ended:
                run.is_abandoned = True
                self._abandoned[run.server] += 1
        self._leave_place(run)

    def _end(self, run: _Run) -> None:
        with self._lock:
            run.has_ended = True
            self._running.subtract(_keys(run.server))
            self._prompt -= not run.is_late
            self._abandoned[run.server] -= run.is_abandoned
            # Without the servers that no poll runs for.
            self._running, self._abandoned = +self._running, +self._abandoned
        self._fill_places()


def _keys(server: Server) -> list[tuple[str | None, str | None]]:
    return [server, (server.owner, None), (None, server.name)]


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    # The loop may be closed meanwhile.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


def _set_result(future: "asyncio.Future[_Result]", value: _Result) -> None:
    if not future.done():
        future.set_result(value)


def _set_exception(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


# Those of the triggerer.
THREADS = PollThreads()
