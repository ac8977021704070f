"""Every place of every operation, and as many other faults as one likes: run by `make faults`."""

import os

import pytest

from tests.conftest import VERSIONS
from tests.faults.effects import Kind, Strike
from tests.faults.judge import judge_on_fake
from tests.faults.operations import OPERATIONS
from tests.faults.scenario import After, Scenario

pytestmark = pytest.mark.faults

FIRST_SEED = int(os.environ.get("FAULTS_FIRST_SEED", "1000"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("FAULTS", "2000")))


@pytest.mark.parametrize("kind", [Kind.KILL, Kind.PAUSE])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_kill_or_a_stop_at_every_place(version, operation, kind, places, tmp_path_factory):
    found = []
    for place in range(places.changes(version, operation) + 1):
        # What others do meanwhile takes turns, another one for each kind and version.
        turn = place + len(kind) + len(operation)
        after = list(After)[turn % len(After)]
        scenario = Scenario(version, operation, Strike(kind, place), after)
        try:
            judge_on_fake(scenario, tmp_path_factory.mktemp("strike"))
        except Exception as error:  # noqa: BLE001 - all of them are told, in the end
            found.append(f"{scenario}: {error}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault(seed, places, tmp_path):
    judge_on_fake(places.draw(seed), tmp_path)
