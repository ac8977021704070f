"""Consumers that are killed at random copy every change of a busy table once."""

import os
from random import Random
from typing import Any

import pytest

from tests.airflow.busy_table import BusyTable, live_through

# A seed that finds a mistake is written down here, and stays.
FAILED: tuple[int, ...] = ()
SEEDS = int(os.environ.get("CONSUMERS", "20"))


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_killed_consumer_copies_every_change_once(
    spark: Any, hms: Any, client: Any, database: str
) -> None:
    busy = BusyTable(spark, client, database, Random(1), ["log"])
    live_through(busy, 2)
    assert busy.problems() == []
    assert busy.changes


@pytest.mark.consumers
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3", "4.0.1", "3.1.3"], indirect=True)
@pytest.mark.parametrize("seed", [*FAILED, *range(SEEDS)])
def test_consumers_that_are_killed_twenty_times_copy_every_change_once(
    spark: Any, hms: Any, client: Any, database: str, seed: int
) -> None:
    busy = BusyTable(spark, client, database, Random(seed))
    live_through(busy, 20)
    assert busy.problems() == []
