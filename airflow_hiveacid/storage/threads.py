"""Waiting work in threads, such as listings of folders."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

# Listing mostly waits for the file system: more threads than cores help.
THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to many items in threads, since it mostly waits."""
    listed = list(items)
    if len(listed) < 2:
        return [work(item) for item in listed]
    with ThreadPoolExecutor(min(THREADS, len(listed))) as pool:
        return list(pool.map(work, listed))
