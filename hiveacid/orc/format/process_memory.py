"""The memory that a process holds while it rewrites stripes."""

import os
from contextlib import suppress
from ctypes import CDLL
from typing import Any

# Names of glibc for its settings.
_TRIM_THRESHOLD, _ARENAS = -1, -8
_ARROW_ALLOCATOR = "ARROW_DEFAULT_MEMORY_POOL"


def use_one_heap() -> None:
    """Let all threads of this process share a heap that returns freed memory to the system.

    By default, each thread that decodes columns has heaps of its own, one of the C library and one
    of Arrow, and keeps in them what was freed: a quarter of the memory of a process that rewrites
    stripes. Call this before Arrow is imported, in a process that only runs tasks of this package.
    """
    os.environ.setdefault(_ARROW_ALLOCATOR, "system")
    mallopt = _of_glibc("mallopt")
    mallopt(_ARENAS, 1)
    mallopt(_TRIM_THRESHOLD, 1 << 20)


def return_memory() -> None:
    """Return freed memory to the system.

    The libraries of C keep it, in pieces that the next stripe does not fit into: without this, a
    process that rewrites many stripes grows to half as much again.
    """
    from pyarrow import default_memory_pool

    default_memory_pool().release_unused()
    _of_glibc("malloc_trim")(0)


def _of_glibc(function: str) -> Any:
    """Return a function of glibc; elsewhere one that does nothing."""
    with suppress(AttributeError):
        return getattr(CDLL(None), function)
    return lambda *_: 0
