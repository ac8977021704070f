"""Breadth-first search through all states of a model: the first break that it meets is a shortest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.protocol.invariants import broken_in


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        states: The number of visited states.
        depth: The length of the longest shortest way.
        complete: Whether all states were visited.
        broken: The promise that does not hold, if one does not.
        trace: A shortest way there.
    """

    states: int
    depth: int
    complete: bool
    broken: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.broken is None:
            return f"{self.states} states, {self.depth} steps deep"
        lines = "\n".join(f"  {at}. {label}" for at, label in enumerate(self.trace, 1))
        return f"{self.broken}: broken by {len(self.trace)} steps\n{lines}"


def search(
    model: Any, most: int = 10**9, *, check: Callable[[Any, Any], str | None] = broken_in
) -> Found:
    """Look at every state that a model can get into.

    Args:
        model: The model: with a first state, the steps before it, and the steps of a state.
        most: Stop after so many states.
        check: Returns the promise that a state breaks, or None.
    """
    start = model.start
    # The predecessor of each state. States are compared as a whole, not by a hash of them.
    came: dict[Any, tuple[Any, str] | None] = {start: None}
    front, depth = [start], 0
    while front:
        following = []
        for state in front:
            broken = check(model, state)
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


def _way(came: dict[Any, tuple[Any, str] | None], state: Any) -> Iterator[str]:
    labels = []
    while (step := came[state]) is not None:
        state, label = step
        labels.append(label)
    return reversed(labels)
