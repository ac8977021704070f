"""The cancellation of the statement that a thread runs for a client."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hiveacid.errors import JobFailed

_IS_CANCELLED: ContextVar[Callable[[], bool] | None] = ContextVar("is_cancelled", default=None)


@contextmanager
def cancelled_if(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Let this thread stop at its next pause, and before it commits, if its client has cancelled.

    Args:
        is_cancelled: Whether the client has.
    """
    token = _IS_CANCELLED.set(is_cancelled)
    try:
        yield
    finally:
        _IS_CANCELLED.reset(token)


def require_not_cancelled() -> None:
    """Raise an error if the client of this thread has cancelled its statement.

    Raises:
        JobFailed: It has.
    """
    is_cancelled = _IS_CANCELLED.get()
    if is_cancelled is not None and is_cancelled():
        raise JobFailed("The statement was cancelled.", remedy="Nothing of it is visible.")
