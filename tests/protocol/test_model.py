"""The model of the protocol keeps its promises, and notices whatever rule is left out."""

import pytest

from tests.protocol.breaks import BREAKS, Break
from tests.protocol.scenarios import LARGE, SMALL
from tests.protocol.search import search

# What a search of minutes can keep in memory.
MOST_STATES = 500_000


@pytest.mark.parametrize("name", SMALL)
def test_every_state_keeps_all_promises(name: str) -> None:
    found = search(SMALL[name])
    assert found.broken is None, found
    assert found.complete
    # Or the model has come to a stop where it should go on.
    assert found.states > 500
    assert found.depth > 15


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.what)
def test_a_rule_that_is_left_out_is_noticed(case: Break) -> None:
    found = search(case.model)
    assert found.broken is case.breaks, found
    print(f"{case.what}: {found}")


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.what)
def test_the_same_model_with_all_rules_keeps_its_promises_as_long(case: Break) -> None:
    """So it is the rule that counts, and not what happens around it."""
    steps = search(case.model).trace
    whole = case.whole
    found = search(whole, most=400)
    assert found.broken is None, found
    assert len(steps) > len(whole.before)


@pytest.mark.protocol
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LARGE)
def test_every_state_within_a_large_bound_keeps_all_promises(name: str) -> None:
    found = search(LARGE[name], most=MOST_STATES)
    assert found.broken is None, found
    print(f"{name}: {found}{'' if found.complete else ', and there are more'}")
