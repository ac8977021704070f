"""Waiting work in threads, such as listings of folders."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

# Listing mostly waits for the file system: more threads than cores help.
THREADS = 16
# The seconds of items that do not wait, as on a local disk, where threads would take three times as long:
# of each, and of exceptions among them.
_SHORT, _SLACK = 0.001, 0.005

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to many items, in threads if it waits."""
    listed = list(items)
    done: list[R] = []
    started = perf_counter()
    is_short = len(listed) > THREADS
    while len(done) < len(listed) and (is_short or len(listed) == 1):
        done.append(work(listed[len(done)]))
        is_short = perf_counter() - started < _SHORT * len(done) + _SLACK
    if left := listed[len(done) :]:
        with ThreadPoolExecutor(min(THREADS, len(left))) as pool:
            done += pool.map(work, left)
    return done
