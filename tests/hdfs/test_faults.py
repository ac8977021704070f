"""After a fault at any step on HDFS what was told is true, a retry makes it right, nothing is left.

The scenarios are those of tests/faults; every change that the NameNode is asked for is a place.
"""

import itertools
import os
from pathlib import Path

import pytest

from tests.faults.judge import count_on_fake, judge_on_fake
from tests.faults.scenario import Places, Scenario
from tests.hadoop.hdfs import Hdfs

pytestmark = pytest.mark.hdfs

SEEDS = range(int(os.environ.get("FAULTS", "24")))
_FOLDERS = itertools.count(1)


@pytest.fixture
def location(hdfs: Hdfs) -> str:
    """A place for tables that nobody else has."""
    return f"{hdfs.uri}/faults/{next(_FOLDERS)}"


@pytest.fixture(scope="session")
def places(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Places:
    def count(scenario: Scenario) -> tuple[int, int]:
        folder = tmp_path_factory.mktemp("count")
        return count_on_fake(scenario, folder, f"{hdfs.uri}/faults/{next(_FOLDERS)}")

    return Places(count)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault(seed: int, places: Places, tmp_path: Path, location: str) -> None:
    judge_on_fake(places.draw(seed), tmp_path, location)
