"""Iterators that run side by side in threads, with their items in order."""

import atexit
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Queue
from threading import Event, Thread, current_thread
from typing import Any, Generic, TypeVar
from weakref import WeakSet

_MOST_THREADS = 8
# How many items of all iterators may wait. Batches of rows have at most some megabytes.
_WAITING = 128

T = TypeVar("T")


def side_by_side(sources: Iterable[Callable[[], Iterator[T]]]) -> Iterator[T]:
    """Return the items of all iterators in their order, and run as many at once as there are cores.

    Args:
        sources: Each begins an iterator, in the thread that it runs in.
    """
    threads = min(_cores(), _MOST_THREADS)
    running: deque[_Run[T]] = deque()
    waiting = iter(sources)
    try:
        while True:
            while len(running) < threads and (source := next(waiting, None)) is not None:
                running.append(_Run(source, _WAITING // threads))
            if not running:
                return
            yield from running[0].items()
            running.popleft()
    finally:
        for run in running:
            run.stop()


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # Only on Linux.
    return len(affinity(0)) if affinity else os.cpu_count() or 1


_RUNNING: "WeakSet[_Run[Any]]" = WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop unfinished iterators: a thread must not work while the interpreter ends."""
    for run in list(_RUNNING):
        run.stop()


class _Run(Generic[T]):
    """An iterator in a thread."""

    def __init__(self, source: Callable[[], Iterator[T]], waiting: int) -> None:
        self._source = source
        # An item, an error, or nothing at the end.
        self._queue: Queue[tuple[T] | BaseException | None] = Queue(waiting)
        self._stopped = Event()
        self._thread = Thread(target=self._work, daemon=True)
        _RUNNING.add(self)
        self._thread.start()

    def items(self) -> Iterator[T]:
        """Return the items as they come."""
        while (got := self._queue.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            yield got[0]

    def stop(self) -> None:
        """End the thread after its current item."""
        self._stopped.set()
        while self._thread.is_alive() and self._thread is not current_thread():
            try:
                self._queue.get_nowait()
            except Empty:
                self._thread.join(0.001)

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            for item in self._source():
                if self._stopped.is_set():
                    break
                self._queue.put((item,))
        except BaseException as error:  # noqa: BLE001 - raised where the items are used
            end = error
        self._queue.put(end)
