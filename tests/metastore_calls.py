"""Counts what is asked of a metastore, where a test is about what work costs there."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from airflow_hiveacid.metastore.thrift.idl import Call
from airflow_hiveacid.metastore.thrift.session import Session

# What it is asked for by their names, each of which costs it time.
DESCRIBED = "partitions described"
_NAMED = {"get_partitions_by_names": 2}


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count the calls of all clients in this process by their names, and what they name.

    Yields:
        How often each call was made so far, and of those that describe partitions, how many.
    """
    counts: Counter[str] = Counter()
    invoke = Session._invoke

    def count(self: Session, call: Call, *arguments: Any, **options: Any) -> Any:
        counts[call.name] += 1
        if call.name in _NAMED:
            counts[DESCRIBED] += len(arguments[_NAMED[call.name]])
        return invoke(self, call, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_invoke", count)
        yield counts
