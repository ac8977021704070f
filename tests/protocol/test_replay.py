"""The engine behaves like the model, step by step, and not like a broken one."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.protocol.breaks import BREAKS, Break
from tests.protocol.invariants import Invariant
from tests.protocol.replay import replay
from tests.protocol.scenarios import REPLAYED
from tests.protocol.search import search
from tests.protocol.walks import Walk, most_telling

SAMPLE = most_telling(REPLAYED, range(20), most=8)
# Defects of the engine that the search has found, and that were corrected.
MENDED = [
    "a cleaner takes notes on transactions that it does not know yet for garbage",
    "a cleaner does not look once more before it marks a request as cleaned",
]
# The leftovers of a cleaning are visible only after the end of a way.
SHOWN = [case for case in BREAKS if case.breaks is not Invariant.NOTHING_STAYS]
_SEEDS = range(1000, 1060)


@pytest.mark.parametrize("walk", SAMPLE, ids=str)
def test_the_engine_does_what_the_model_does(walk: Walk, tmp_path: Path) -> None:
    replay(walk.model, walk.trace, tmp_path / "metastore")


@pytest.mark.parametrize("what", MENDED)
def test_found_defects_are_fixed(what: str, tmp_path: Path) -> None:
    (case,) = (case for case in BREAKS if case.what == what)
    _require_difference(case, tmp_path)


@pytest.mark.protocol
@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.what)
def test_the_engine_does_not_do_what_a_broken_model_does(case: Break, tmp_path: Path) -> None:
    _require_difference(case, tmp_path)


@pytest.mark.protocol
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", _SEEDS)
def test_the_engine_does_what_the_model_does_on_many_ways(seed: int, tmp_path: Path) -> None:
    for number, model in enumerate(REPLAYED):
        walk = Walk.of(model, seed)
        replay(walk.model, walk.trace, tmp_path / str(number))


def _require_difference(case: Break, folder: Path) -> None:
    """Play the way to the broken promise: somewhere the engine must leave it."""
    trace = search(case.model).trace
    whole = replace(case.model, before=())
    with pytest.raises(AssertionError, match=r"step \d+, "):
        replay(whole, trace, folder / "metastore")
