"""Forked processes of a test, and what they answer."""

import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Child:
    """A forked process that calls a function.

    Args:
        work: The function; its result must be plain values.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._source, sink = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(sink)
            return
        # Nothing of the test may go on in the child.
        try:
            with os.fdopen(sink, "wb") as answer:
                try:
                    answer.write(pickle.dumps((True, work())))
                except BaseException:  # noqa: BLE001
                    answer.write(pickle.dumps((False, traceback.format_exc())))
        finally:
            os._exit(0)

    def result(self) -> Any:
        """Wait for its end, and return what the function has returned."""
        with os.fdopen(self._source, "rb") as source:
            answer = source.read()
        os.waitpid(self._pid, 0)
        succeeded, value = pickle.loads(answer)
        assert succeeded, value
        return value


def forked(work: Callable[[], Any]) -> Any:
    """Call a function in a forked process, and return its result."""
    return Child(work).result()


class Signal:
    """A signal from one process to another."""

    def __init__(self) -> None:
        self._source, self._sink = os.pipe()

    def send(self) -> None:
        os.write(self._sink, b"1")

    def wait(self) -> None:
        os.read(self._source, 1)

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._source)
            os.close(self._sink)


@contextmanager
def signals(number: int) -> Iterator[list[Signal]]:
    """Signals that are closed afterwards."""
    made = [Signal() for _ in range(number)]
    try:
        yield made
    finally:
        for each in made:
            each.close()


def died(work: Callable[[], object]) -> None:
    """Do some work in a process that is killed meanwhile."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
