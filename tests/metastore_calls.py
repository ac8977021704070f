"""Count calls of a metastore, for tests of the cost of work."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hiveacid.metastore.thrift.idl import Call
from hiveacid.metastore.thrift.session import Session

# The requested objects by name, each with a cost in the metastore.
DESCRIBED = "partitions described"
_NAMED = {"get_partitions_by_names": 2}
# A call that lists all partitions, or some of their fields for given names.
_LISTING, STORAGE_READ = "get_partitions_with_specs", "storage of partitions read"


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count the calls of all clients in this process by their names, and their objects.

    Yields:
        Return the number of calls of each kind so far, and of those that describe partitions, their
        number.
    """
    counts: Counter[str] = Counter()
    invoke = Session._invoke

    def count(self: Session, call: Call, *arguments: Any, **options: Any) -> Any:
        by_names = call.name == _LISTING and arguments[0].filterSpec.filters is not None
        counts[STORAGE_READ if by_names else call.name] += 1
        if call.name in _NAMED:
            counts[DESCRIBED] += len(arguments[_NAMED[call.name]])
        return invoke(self, call, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_invoke", count)
        yield counts


@contextmanager
def acting_before(name: str, act: Callable[[], object], *, number: int = 1) -> Iterator[None]:
    """Act directly before the first call of a kind, or a later one, as a faster client does."""
    invoke, waiting = Session._invoke, [act, *[lambda: None] * (number - 1)]

    def overtaken(self: Session, call: Call, *arguments: Any, **options: Any) -> Any:
        if call.name == name and waiting:
            waiting.pop()()
        return invoke(self, call, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_invoke", overtaken)
        yield
    assert not waiting, f"There was no call of {name}."


@contextmanager
def acting_after(name: str, act: Callable[[], object]) -> Iterator[None]:
    """Act directly after the first call of a kind, before its caller continues."""
    invoke, waiting = Session._invoke, [act]

    def followed(self: Session, call: Call, *arguments: Any, **options: Any) -> Any:
        answer = invoke(self, call, *arguments, **options)
        if call.name == name and waiting:
            waiting.pop()()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_invoke", followed)
        yield
    assert not waiting, f"There was no call of {name}."


@contextmanager
def acting_after_answer(number: int, act: Callable[[], object]) -> Iterator[None]:
    """Act directly after an answer, before the process does anything with it.

    Args:
        number: The number of the answer to this thread, from 0.
        act: The actions of others, while this process is asleep.
    """
    invoke, thread, waiting = Session._invoke, threading.get_ident(), [act]
    answers = itertools.count()

    def asleep(self: Session, call: Call, *arguments: Any, **options: Any) -> Any:
        answer = invoke(self, call, *arguments, **options)
        if waiting and threading.get_ident() == thread and next(answers) == number:
            waiting.pop()()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_invoke", asleep)
        yield
    assert not waiting, f"There was no answer {number}."
