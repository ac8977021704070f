"""The memory that a process of this package holds."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import CDLL
from types import ModuleType
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


@contextmanager
def without_pandas() -> Iterator[None]:
    """Let Arrow find no pandas, which its first conversion would import otherwise.

    The import takes memory, and as long as a small change. Use this in processes that run only code
    of this package, which works without pandas. If Arrow is imported already, it has no effect.
    """
    import_hook = _Hidden()
    if not {"pandas", "pyarrow"} & sys.modules.keys():
        sys.meta_path.insert(0, import_hook)
    try:
        yield
    finally:
        if import_hook in sys.meta_path:
            sys.meta_path.remove(import_hook)


class _Hidden:
    """Hides pandas from imports."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Refuse the import of pandas, and leave all others to the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError("This process leaves out pandas.", name=fullname)


def _of_glibc(function: str) -> Any:
    """Return a function of glibc; elsewhere one that does nothing."""
    with suppress(AttributeError):
        return getattr(CDLL(None), function)
    return lambda *_: 0
