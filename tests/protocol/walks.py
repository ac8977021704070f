"""Traces for replays: random walks through a model, selected by their coverage."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from tests.protocol.roles import Model
from tests.protocol.state import State

# An actor whose steps, housekeeping and deaths are equally frequent makes no progress.
_SELDOM = 0.15


@dataclass(frozen=True)
class Walk:
    """A way through a model, from its start to a state without further steps.

    Attributes:
        model: The model.
        seed: The seed of the way.
        trace: The steps.
        shown: The steps: each kind, with the resulting position of its actor.
    """

    model: Model
    seed: int
    trace: tuple[str, ...]
    shown: frozenset[str]

    @classmethod
    def of(cls, model: Model, seed: int) -> "Walk":
        """Draw a way by a seed."""
        random, state = Random(seed), model.start
        trace: list[str] = []
        shown = set()
        while steps := list(model.steps(state)):
            usual = [step for step in steps if not _is_fault(step[0])]
            seldom = random.random() < _SELDOM or not usual
            label, after = random.choice(steps if seldom else usual)
            trace.append(label)
            shown.add(_kind(model, label, after))
            state = after
        return cls(model, seed, tuple(trace), frozenset(shown))

    def __str__(self) -> str:
        roles = ", ".join(type(role).__name__.lower() for role in self.model.roles)
        return f"{roles}, {self.model.version.name}, seed {self.seed}"


def most_telling(models: Sequence[Model], seeds: Iterable[int], most: int) -> list[Walk]:
    """Choose walks, each with the largest additional coverage."""
    left = [Walk.of(model, seed) for seed in seeds for model in models]
    chosen: list[Walk] = []
    shown: set[str] = set()
    while left and len(chosen) < most:
        best = max(left, key=lambda walk: len(walk.shown - shown))
        if not best.shown - shown:
            break
        chosen.append(best)
        shown |= best.shown
        left.remove(best)
    return chosen


def _is_fault(label: str) -> bool:
    return label.startswith("metastore") or label.endswith(("die", "lose the answer"))


def _kind(model: Model, label: str, after: State) -> str:
    who, _, what = label.partition(": ")
    if who == "metastore":
        return what.rstrip("0123456789 ")
    role = model.roles[int(who)]
    policy = getattr(role, "policy", "")
    return f"{model.version.name} {type(role).__name__} {policy} {what} -> {after.actors[int(who)].next}"
