"""Every place of every operation, and as many other faults as one likes: run by `make faults`."""

import os

import pytest

from tests.faults.breaks import RULES
from tests.faults.effects import Kind, Strike
from tests.faults.judge import judge_on_fake
from tests.faults.operations import OPERATIONS
from tests.faults.scenario import NET_KINDS, Net, Scenario
from tests.versions import VERSIONS

pytestmark = pytest.mark.faults

FIRST_SEED = int(os.environ.get("FAULTS_FIRST_SEED", "1000"))
CASES = [(version, name) for name, each in OPERATIONS.items() for version in each.versions]
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("FAULTS", "2000")))


@pytest.fixture
def judge_all(tmp_path_factory):
    def judge_all(version, operation, faults):
        found = []
        for number, fault in enumerate(faults):
            # The actions of others take turns, with another one for each kind and operation.
            turn = number + len(fault.kind) + len(operation)
            afters = OPERATIONS[operation].afters(version)
            scenario = Scenario(version, operation, fault, afters[turn % len(afters)])
            try:
                judge_on_fake(scenario, tmp_path_factory.mktemp("fault"))
            except Exception as error:  # noqa: BLE001 - all of them are reported at the end
                found.append(f"{scenario}: {error}")
        assert not found, "\n".join(found)

    return judge_all


@pytest.mark.parametrize("kind", [Kind.KILL, Kind.PAUSE])
@pytest.mark.parametrize(("version", "operation"), CASES)
@pytest.mark.timeout(3600)
def test_a_kill_or_a_stop_at_every_place(version, operation, kind, places, judge_all):
    strikes = [Strike(kind, place) for place in range(places.changes(version, operation) + 1)]
    judge_all(version, operation, strikes)


@pytest.mark.parametrize(("version", "operation"), CASES)
def test_every_harm_to_a_commit(version, operation, judge_all):
    # A compaction commits each of two partitions.
    commits = [f"{kind} of commit_txn" for kind in NET_KINDS]
    judge_all(version, operation, [Net.parse(kind, n) for n in range(2) for kind in commits])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault(seed, version, places, tmp_path):
    judge_on_fake(places.draw(seed, version), tmp_path)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_removed_is_noticed(rule, tmp_path):
    assert any(
        is_noticed(rule, Scenario.parse(text), tmp_path / str(number))
        for number, text in enumerate(RULES[rule].scenarios)
    )


def is_noticed(rule, scenario, folder):
    """Whether a scenario fails without the rule; it must not fail with it."""
    for name in ("without", "with"):
        (folder / name).mkdir(parents=True)
    try:
        judge_on_fake(scenario, folder / "without", broken=rule)
    except Exception:  # noqa: BLE001 - a driver without the rule may fail in any way
        # So the rule is decisive, and not its environment.
        judge_on_fake(scenario, folder / "with")
        return True
    return False
