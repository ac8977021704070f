"""Count calls of Java, for tests and measurements of the cost of work."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from py4j.clientserver import JavaClient
from py4j.java_gateway import GatewayClient

# Python reports in this way that it no longer refers to an object of Java, in another thread.
_FORGET = "m\n"


@dataclass
class JavaCalls:
    """The calls so far.

    Attributes:
        count: Their number.
        seconds: The time of waiting for their results.
    """

    count: int = 0
    seconds: float = 0.0


@contextmanager
def counted_java_calls() -> Iterator[JavaCalls]:
    """Count the calls of Java by PySpark and this package in all threads.

    Yields:
        The calls so far.
    """
    calls = JavaCalls()
    with pytest.MonkeyPatch.context() as patch:
        for kind in (GatewayClient, JavaClient):
            if "send_command" in vars(kind):
                patch.setattr(kind, "send_command", _counting(kind.send_command, calls))
        yield calls


def _counting(send: Any, calls: JavaCalls) -> Any:
    def count(self: Any, command: str, *arguments: Any, **options: Any) -> Any:
        if command.startswith(_FORGET):
            return send(self, command, *arguments, **options)
        started = time.perf_counter()
        try:
            return send(self, command, *arguments, **options)
        finally:
            calls.count += 1
            calls.seconds += time.perf_counter() - started

    return count
