"""Breadth-first search through all states of a model: the first break that it meets is a shortest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.protocol.invariants import Invariant, broken_in
from tests.protocol.roles import Model
from tests.protocol.state import State


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes:
        states: How many states it has seen.
        depth: How many steps the longest of the shortest ways has.
        complete: Whether there are no others.
        broken: The promise that does not hold, if one does not.
        trace: A shortest way there.
    """

    states: int
    depth: int
    complete: bool
    broken: Invariant | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.broken is None:
            return f"{self.states} states, {self.depth} steps deep"
        lines = "\n".join(f"  {at}. {label}" for at, label in enumerate(self.trace, 1))
        return f"{self.broken}: broken by {len(self.trace)} steps\n{lines}"


def search(model: Model, most: int = 10**9, visit: Callable[[State], None] | None = None) -> Found:
    """Look at every state that a model can get into.

    Args:
        model: The model.
        most: Stop after so many states.
        visit: Is called with each state, once.
    """
    start = model.start
    # Where each state was first come from. States are compared as a whole, not by a hash of them.
    came: dict[State, tuple[State, str] | None] = {start: None}
    front, depth = [start], 0
    while front:
        following = []
        for state in front:
            if visit is not None:
                visit(state)
            broken = broken_in(model, state)
            if broken is not None:
                return Found(len(came), depth, False, broken, (*model.before, *_way(came, state)))
            for label, after in model.steps(state):
                if after not in came:
                    came[after] = (state, label)
                    following.append(after)
        if len(came) > most:
            return Found(len(came), depth, False)
        front = following
        depth += bool(front)
    return Found(len(came), depth, True)


def _way(came: dict[State, tuple[State, str] | None], state: State) -> Iterator[str]:
    labels = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return reversed(labels)
