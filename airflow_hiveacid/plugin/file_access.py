"""Access to files on behalf of the page, which cannot block other routes of Airflow."""

import asyncio
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from hiveacid.errors import StorageUnreachable

T = TypeVar("T")

_REMEDY = (
    "Check whether the storage of the table answers. To exclude locations, set page_locations in the "
    "section hive_acid of Airflow's configuration."
)


class FileAccess:
    """Looks into tables in threads of its own: a few at a time, and each for a limited time.

    Clients of stores cannot be interrupted. A look whose time is over keeps its thread until the
    client gives up, and counts as one of the few until then; callers do not wait for it.
    """

    def __init__(self, seconds: float, *, most: int = 16, most_of_table: int = 4) -> None:
        """Set the limits.

        Args:
            seconds: The time that a caller waits for a look.
            most: The most looks at one time.
            most_of_table: The most of them at one table.
        """
        self._seconds = seconds
        self._most = most
        self._most_of_table = most_of_table
        self._running: dict[tuple[str, Hashable], Future[Any]] = {}
        # Threads are used again: each has a connection of its own to a metastore.
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        self._lock = threading.Lock()

    async def answer(self, table: str, kind: Hashable, read: Callable[[], T]) -> T:
        """Look into a table for a route.

        Args:
            table: The table.
            kind: Distinguishes looks at the table: equal looks at the same time are one.
            read: Opens the files.

        Raises:
            StorageUnreachable: It takes too long, or too many others are looked into.
        """
        reading = asyncio.wrap_future(self._start(table, kind, read))
        try:
            return await asyncio.wait_for(reading, self._seconds)
        except TimeoutError as error:
            raise self._timed_out(table) from error

    def wait(self, table: str, read: Callable[[], T]) -> T:
        """Look into a table for a thread that may wait; see ``answer``."""
        reading = self._start(table, object(), read)
        try:
            return reading.result(self._seconds)
        except TimeoutError as error:
            raise self._timed_out(table) from error

    def _start(self, table: str, kind: Hashable, read: Callable[[], T]) -> "Future[T]":
        key = table, kind
        with self._lock:
            if key in self._running:
                return self._running[key]
            of_table = sum(other == table for other, _ in self._running)
            if len(self._running) >= self._most or of_table >= self._most_of_table:
                raise StorageUnreachable(
                    f"{table} is not read now, because {len(self._running)} earlier reads for the "
                    f"page have not ended, {of_table} of them of this table.",
                    remedy=f"Try again later. {_REMEDY}",
                )
            reading: Future[T] = Future()
            reading.set_running_or_notify_cancel()  # A caller that gives up ends it for no other.
            self._running[key] = reading
            tasks = self._idle.pop() if self._idle else _new_thread()
        tasks.put(partial(self._run, tasks, key, read, reading))
        return reading

    def _run(
        self,
        tasks: "SimpleQueue[Callable[[], None]]",
        key: tuple[str, Hashable],
        read: Callable[[], T],
        reading: "Future[T]",
    ) -> None:
        ended: Callable[[], None]
        try:
            ended = partial(reading.set_result, read())
        except BaseException as error:  # noqa: BLE001
            ended = partial(reading.set_exception, error)  # A panic in Rust is no Exception.
        with self._lock:
            del self._running[key]
            self._idle.append(tasks)
        ended()

    def _timed_out(self, table: str) -> StorageUnreachable:
        return StorageUnreachable(
            f"{table} was not read within {self._seconds:g} seconds.", remedy=_REMEDY
        )


def _new_thread() -> "SimpleQueue[Callable[[], None]]":
    tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def work() -> None:
        while True:
            tasks.get()()

    # A daemon: a store that never answers must not keep the process from ending.
    threading.Thread(target=work, name="hiveacid-files", daemon=True).start()
    return tasks
