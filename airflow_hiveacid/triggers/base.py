"""The common base of the triggers, and the threads of their polls."""

import asyncio
import contextvars
import inspect
import operator
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from airflow.triggers.base import BaseTrigger
from asgiref.sync import sync_to_async

from hiveacid.errors import HiveAcidError, MetastoreUnreachable

_Result = TypeVar("_Result")


class StoredTrigger(BaseTrigger):
    """A trigger whose parameters are attributes with plain values."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that create an equal trigger."""
        class_ = type(self)
        arguments = {name: getattr(self, name) for name in inspect.signature(class_).parameters}
        return f"{class_.__module__}.{class_.__qualname__}", arguments


async def ask_airflow(function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Call a function of Airflow without blocking the other triggers.

    It must go through sync_to_async: in other threads, calls of 3.1 would wait for an event loop
    that isn't the triggerer's. By itself, that forgets the message of a cancellation, by which
    Airflow knows that on_kill is due.
    """
    return await asyncio.shield(sync_to_async(function)(*args, **kwargs))


# Threads of polls in the triggerer: limited for each owner and each server, and with deadlines.
#
# A thread cannot be stopped. So a poll that exceeds its deadline is abandoned: its trigger
# continues, and its server gets no other thread until the poll has ended.


_PAUSE = 0.05
_REMEDY = "Check that the service runs and answers."


class Server(NamedTuple):
    """The server of a poll.

    Attributes:
        owner: The connection of the metastore, which belongs to a team.
        name: The host of a catalog, or the connection itself.
    """

    owner: str
    name: str


@dataclass(eq=False, slots=True)
class _Run:
    """A poll in its thread."""

    has_ended: bool = False
    is_abandoned: bool = False


class PollThreads:
    """Runs each poll in a thread of its own, up to some limits.

    :param per_server: How many polls of a server run at the same time.
    :param per_owner: How many polls of an owner run at the same time.
    :param total: How many polls run at the same time.
    """

    def __init__(self, *, per_server: int = 8, per_owner: int = 24, total: int = 96) -> None:
        self._limits = per_server, per_owner, total
        self._lock = threading.Lock()
        self._running: Counter[Any] = Counter()
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
        end = time.monotonic() + seconds
        while not self._begins(server):
            if time.monotonic() >= end:
                raise failure(
                    f"No poll of {server.name} could begin within {seconds:g} s.", remedy=_REMEDY
                )
            await asyncio.sleep(_PAUSE)
        loop, run = asyncio.get_running_loop(), _Run()
        result: asyncio.Future[_Result] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                found = context.run(poll)
            except BaseException as error:  # noqa: BLE001 - the trigger raises it
                deliver = partial(_set_exception, result, error)
            else:
                deliver = partial(_set_result, result, found)
            self._end(server, run)
            # The loop may be closed meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(deliver)

        threading.Thread(target=work, name=f"poll of {server.name}", daemon=True).start()
        try:
            async with asyncio.timeout_at(loop.time() + max(0, end - time.monotonic())):
                return await result
        except TimeoutError:
            if not result.cancelled():
                # The poll has raised it.
                raise
            raise failure(
                f"A poll of {server.name} took more than {seconds:g} s.", remedy=_REMEDY
            ) from None
        finally:
            self._leave(server, run)

    def _begins(self, server: Server) -> bool:
        keys = (server, server.owner, None)
        with self._lock:
            counts = [self._running[key] for key in keys]
            is_free = all(map(operator.lt, counts, self._limits)) and not self._abandoned[server]
            if is_free:
                self._running.update(keys)
        return is_free

    def _leave(self, server: Server, run: _Run) -> None:
        with self._lock:
            if not run.has_ended:
                run.is_abandoned = True
                self._abandoned[server] += 1

    def _end(self, server: Server, run: _Run) -> None:
        with self._lock:
            run.has_ended = True
            self._running.subtract((server, server.owner, None))
            if run.is_abandoned:
                self._abandoned[server] -= 1
            # Without the servers that no poll runs for.
            self._running, self._abandoned = +self._running, +self._abandoned


def _set_result(future: "asyncio.Future[_Result]", found: _Result) -> None:
    if not future.done():
        future.set_result(found)


def _set_exception(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


# Those of the triggerer.
THREADS = PollThreads()
