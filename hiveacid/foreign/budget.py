"""The cost of files of others that one request may parse, and threads that share its budget.

Costs are bytes that are parsed one by one. A long text in JSON is read at once, and costs a fraction of
its bytes; a value costs several.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Lock
from typing import Any, TypeVar

from hiveacid.errors import TooLarge

T = TypeVar("T")

_BYTES_AT_ONCE, _COST_OF_A_VALUE = 64, 8
# Rows take time even if they take no bytes, and so do bytes that are decoded.
_ROWS_OF_NOTHING, _ROWS_OF_A_BYTE = 100_000_000, 64
_PLAIN_OF_NOTHING, _PLAIN_OF_A_BYTE = 2 << 30, 512


class _Budget:
    def __init__(self, limit: int) -> None:
        self.most = self.left = limit
        self._lock = Lock()

    def spend(self, size: int) -> bool:
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True


_current: ContextVar[_Budget | None] = ContextVar("hiveacid_foreign_bytes", default=None)


@contextmanager
def foreign_bytes(limit: int) -> Iterator[None]:
    """Limit the notes, records, and tails of files that are parsed inside of the block.

    Args:
        limit: Their cost in all.
    """
    token = _current.set(_Budget(limit))
    try:
        yield
    finally:
        _current.reset(token)


def spend(size: int, subject: str) -> None:
    """Subtract a part from the budget of the request, if it has one.

    Args:
        size: Its cost.
        subject: Its name for the error.

    Raises:
        TooLarge: Less is left.
    """
    budget = _current.get()
    if budget is not None and not budget.spend(size):
        raise TooLarge(
            f"{subject} is too large: with it, a server would parse more than {budget.most >> 10} KiB for"
            " one answer.",
            remedy="Use the command hiveacid, which has no such limit.",
        )


def spend_text(size: int, subject: str) -> None:
    """Subtract a text, without its values; see ``spend``."""
    spend(-(-size // _BYTES_AT_ONCE), subject)


def spend_values(count: int) -> None:
    """Subtract the values of a text; see ``spend``."""
    spend(count * _COST_OF_A_VALUE, "A note")


def has_left(size: int) -> bool:
    """Return whether so many bytes are left."""
    budget = _current.get()
    return budget is None or size <= budget.left


def require_few_rows(rows: int, size: int) -> None:
    """Refuse a file with so many rows that reading them has no end in practice.

    Args:
        rows: The number of its rows.
        size: Its bytes.

    Raises:
        TooLarge: They are too many.
    """
    if not 0 <= rows <= _ROWS_OF_NOTHING + _ROWS_OF_A_BYTE * size:
        raise TooLarge(f"A file of {size} bytes claims to have {rows} rows.")


def require_few_bytes(plain: float, size: int) -> None:
    """Refuse a file with so many bytes that decoding them has no end in practice.

    Args:
        plain: The bytes that are decoded.
        size: Its own bytes.

    Raises:
        TooLarge: They are too many.
    """
    if plain > _PLAIN_OF_NOTHING + _PLAIN_OF_A_BYTE * size:
        raise TooLarge(
            f"A file of {size} bytes has more than {plain / (1 << 30):.0f} GiB of values."
        )


class Threads(ThreadPoolExecutor):
    """Threads whose work is part of the request that started them."""

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Start work."""
        return super().submit(copy_context().run, work, *args, **kwargs)
