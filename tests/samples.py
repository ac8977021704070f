"""Samples by the commit: different cases after every one, the same on every machine."""

import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings

# `make quick` runs only a part of all random examples.
QUICK = os.environ.get("CASES") == "quick"
# The variable of `make test`: all cases are `make test CASES=all`, or plain pytest.
ONLY_SAMPLES = os.environ.get("CASES") == "sample"
# All of them take ten minutes.
_HALVED = "tests/engine/"


def examples(count: int) -> settings:
    """Let a property have so many examples, or a tenth of them in `make quick`."""
    return settings(max_examples=count // 10 if QUICK else count)


def random_of_commit(of_what: str = "") -> Random:
    """Random numbers that are the same for all who test a commit."""
    return Random(_commit() + of_what)


def left_out(
    items: Iterable[pytest.Item], takes_a_server: Callable[[pytest.Item], bool]
) -> set[pytest.Item]:
    """Select the cases that a sample does not run.

    Of a test marked `sampled(n)`, a sample runs n cases, and of other tests all cases without a server, and one
    of those with a server: one kind of source, for example, with one version of the metastore. Of the tests of the
    engine that take a server, it runs every second one.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") or takes_a_server(item):
            cases[item.nodeid.partition("[")[0]].append(item)
    out = set()
    for test, some in cases.items():
        marker = some[0].get_closest_marker("sampled")
        count = marker.args[0] if marker else 1
        out |= {*some} - {*random_of_commit(test).sample(some, min(count, len(some)))}
    # The few tests for other versions of Spark are counted.
    halved = sorted(
        test
        for test, some in cases.items()
        if test.startswith(_HALVED) and not some[0].get_closest_marker("every_spark")
    )
    for test in random_of_commit().sample(halved, len(halved) // 2):
        out |= {*cases[test]}
    return out


@cache
def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    here = Path(__file__).parent
    asked = subprocess.run(command, check=False, cwd=here, capture_output=True, text=True)
    return asked.stdout.strip() or "no repository"
