"""A few of the faults that `make faults` lets strike by the thousand."""

import pytest

from tests.conftest import VERSIONS
from tests.faults.judge import judge_on_fake
from tests.faults.operations import OPERATIONS

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_fault_what_was_told_is_true_a_retry_makes_it_right_and_nothing_is_left(
    seed, places, tmp_path
):
    judge_on_fake(places.draw(seed), tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_there_are_places_in_every_operation(version, places):
    counts = {operation: places.changes(version, operation) for operation in OPERATIONS}
    assert min(counts.values()) >= 4, counts
    assert sum(counts.values()) >= 600, counts
