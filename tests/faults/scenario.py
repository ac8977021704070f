"""One operation, one fault, and what comes after it: drawn by a seed, or read from a line of text."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Self

from tests.conftest import VERSIONS
from tests.faults.effects import Kind, Strike
from tests.faults.operations import OPERATIONS
from tests.proxy import Harm


class After(StrEnum):
    """What others do between the fault and the next try."""

    NOTHING = "nothing"
    WRITE = "others write"
    FORGET = "all is compacted, cleaned and forgotten"


@dataclass(frozen=True)
class Net:
    """A fault of the network: at the call of this number, counted from 0.

    Attributes:
        harm: What becomes of the answer.
        arrives: Whether the question arrives.
        place: The number of the call.
    """

    harm: Harm
    arrives: bool
    place: int

    @property
    def kind(self) -> str:
        """What happens, in words."""
        return f"{self.harm} {_ANSWER if self.arrives else _QUESTION}"


_ANSWER, _QUESTION = "answer", "question"
_NET_KINDS = [
    *(f"{harm} {_ANSWER}" for harm in Harm),
    *(f"{harm} {_QUESTION}" for harm in (Harm.LOSE, Harm.FAIL, Harm.HOLD)),
]
# Kills and zombies are what most of it is about; waiting shows nothing where nobody is impatient.
_KINDS = [kind for kind in Kind if kind is not Kind.SLOW] + [Kind.KILL, Kind.PAUSE] * 3 + _NET_KINDS


@dataclass(frozen=True)
class Scenario:
    """What is to happen.

    Attributes:
        version: The version of the metastore.
        operation: The name of the operation.
        fault: What hits it; None only counts its places.
        after: What others do before the next try.
    """

    version: str
    operation: str
    fault: Strike | Net | None = None
    after: After = After.NOTHING

    def __str__(self) -> str:
        what = "" if self.fault is None else f"{self.fault.kind}/{self.fault.place}"
        return f"{self.version}/{self.operation}/{what}/{self.after}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """A scenario by its text."""
        version, operation, kind, place, after = text.split("/")
        return cls(version, operation, _fault(kind, int(place)), After(after))


class Places:
    """Where faults can strike at operations: counted once for each, by letting it happen.

    Args:
        count: Tells how many changes and how many calls an operation makes.
    """

    def __init__(self, count) -> None:
        self._count = count
        self._known: dict[Scenario, tuple[int, int]] = {}

    def changes(self, version: str, operation: str) -> int:
        """How many changes it makes."""
        return self._of(version, operation)[0]

    def draw(self, seed: int) -> Scenario:
        """The scenario of a seed."""
        random = Random(seed)
        version, operation = random.choice(VERSIONS), random.choice(list(OPERATIONS))
        kind, after = random.choice(_KINDS), random.choice(list(After))
        changes, calls = self._of(version, operation)
        place = random.randrange(calls if kind in _NET_KINDS else changes)
        return Scenario(version, operation, _fault(kind, place), after)

    def _of(self, version: str, operation: str) -> tuple[int, int]:
        scenario = Scenario(version, operation)
        if scenario not in self._known:
            self._known[scenario] = self._count(scenario)
        return self._known[scenario]


def _fault(kind: str, place: int) -> Strike | Net:
    if kind not in _NET_KINDS:
        return Strike(Kind(kind), place)
    harm, what = kind.split()
    return Net(Harm(harm), what == _ANSWER, place)
