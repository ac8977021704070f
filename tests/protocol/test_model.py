"""The model of the protocol keeps its guarantees, and detects any omitted rule."""

from dataclasses import replace

import pytest

from tests.protocol.breaks import BREAKS, IDENTITY_BREAKS, REWRITES, SMALL_MODELS, Break
from tests.protocol.identities.runs import Runs
from tests.protocol.identities.small_model import SmallModel
from tests.protocol.scenarios import LARGE, SMALL
from tests.protocol.search import Found, search

# The number of states that a search of minutes can keep in memory.
MOST_STATES = 500_000
LARGE_IDENTITIES = (
    replace(SMALL_MODELS["row numbers, inserts"], maintenance=REWRITES),  # type: ignore[call-arg]
    Runs(faults=2, recreated=2),
)


@pytest.mark.parametrize("name", SMALL)
def test_every_state_keeps_all_promises(name: str) -> None:
    found = search(SMALL[name])
    assert found.broken is None, found
    assert found.complete
    # Or the model has come to a stop where it should go on.
    assert found.states > 500
    assert found.depth > 15
    print(f"{name}: {found}")


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.what)
def test_a_rule_that_is_left_out_is_noticed(case: Break) -> None:
    found = search(case.model)
    assert found.broken is case.breaks, found
    print(f"{case.what}: {found}")


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.what)
def test_the_same_model_with_all_rules_keeps_its_promises_as_long(case: Break) -> None:
    """So the rule is decisive, and not its environment."""
    steps = search(case.model).trace
    whole = case.whole
    found = search(whole, most=400)
    assert found.broken is None, found
    assert len(steps) > len(whole.before)


@pytest.mark.parametrize("name", SMALL_MODELS)
def test_every_state_of_a_small_model_keeps_all_promises(name: str) -> None:
    found = _search(SMALL_MODELS[name])
    assert found.broken is None, found
    assert found.complete
    print(f"{name}: {found}")


@pytest.mark.parametrize("case", IDENTITY_BREAKS, ids=lambda case: case.what)
def test_a_value_that_is_used_as_an_identity_is_noticed(case: Break) -> None:
    found = _search(case.model)
    assert found.broken is case.breaks, found
    # With the rules, the same steps and all others break nothing.
    assert case.whole in SMALL_MODELS.values() or _search(case.whole).broken is None
    print(f"{case.what}: {found}")


@pytest.mark.protocol
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("model", LARGE_IDENTITIES, ids=lambda model: type(model).__name__)
def test_every_state_of_a_larger_model_of_identities_keeps_all_promises(model: SmallModel) -> None:
    found = _search(model)
    assert found.broken is None, found
    print(f"{type(model).__name__}: {found}{'' if found.complete else ', and there are more'}")


@pytest.mark.protocol
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LARGE)
def test_every_state_within_a_large_bound_keeps_all_promises(name: str) -> None:
    found = search(LARGE[name], most=MOST_STATES)
    assert found.broken is None, found
    print(f"{name}: {found}{'' if found.complete else ', and there are more'}")


def _search(model: SmallModel) -> Found:
    return search(model, MOST_STATES, check=lambda model, state: model.broken_in(state))
