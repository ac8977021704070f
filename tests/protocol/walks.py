"""Traces to be replayed: random walks through a model, of which those are kept that show the most."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from tests.protocol.roles import Model
from tests.protocol.state import State

# Who keeps house and dies as often as others work gets nowhere.
_SELDOM = 0.15


@dataclass(frozen=True)
class Walk:
    """A way through a model, from its start to a state in which nothing more can happen.

    Attributes:
        model: The model.
        seed: What the way was drawn by.
        trace: The steps.
        shown: What happened: each kind of step, with how it left whoever made it.
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
    """Choose walks, each the one that shows the most of what those before it do not show."""
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
