"""One operation, one fault, and what comes after it: drawn by a seed, or read from a line of text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Self

from tests.faults.after import After
from tests.faults.effects import Kind, Strike
from tests.faults.operations import OPERATIONS
from tests.proxy import Harm
from tests.versions import VERSIONS


@dataclass(frozen=True)
class Net:
    """A fault of the network: at the call of this number, counted from 0.

    Its kind in words is one of `NET_KINDS`, with " of " and a name if only such calls count.

    Attributes:
        harm: What becomes of the answer.
        arrives: Whether the question arrives.
        place: The number of the call.
        times: How many calls are hit, from that one on.
        call: The name of the calls that count; None are all.
    """

    harm: Harm
    arrives: bool
    place: int
    times: int = 1
    call: str | None = None

    @property
    def kind(self) -> str:
        """What happens, in words."""
        what = f"{_ANSWER if self.arrives else _QUESTION}{'s' * (self.times > 1)}"
        return f"{self.harm} {what}" + (f" of {self.call}" if self.call else "")

    @classmethod
    def parse(cls, kind: str, place: int) -> Self:
        """A fault by its kind."""
        kind, _, call = kind.partition(" of ")
        harm, what = kind.split()
        times = _OUTAGE_CALLS if what.endswith("s") else 1
        return cls(Harm(harm), what.startswith(_ANSWER), place, times, call or None)


_ANSWER, _QUESTION = "answer", "question"
# So many calls in a row meet nobody, where one does not.
_OUTAGE_CALLS = 6
NET_KINDS = [
    f"{Harm.LOSE} {_QUESTION}s",
    *(f"{harm} {_ANSWER}" for harm in Harm if harm is not Harm.DELAY),
    *(f"{harm} {_QUESTION}" for harm in (Harm.LOSE, Harm.FAIL, Harm.HOLD, Harm.DELAY)),
]
# Kills and zombies are what most of it is about; waiting shows nothing where nobody is impatient.
_KINDS = [kind for kind in Kind if kind not in (Kind.SLOW, Kind.BUSY)]
_KINDS += [Kind.KILL, Kind.PAUSE, Kind.PAUSE_READING] * 3 + NET_KINDS
# On an object store no file of this machine has a size that matters; what it does of its own are
# refusals, slowness and answers that get lost.
S3_KINDS = [kind for kind in _KINDS if kind not in (Kind.LIMIT, Kind.PAUSE_READING)] + [
    Kind.BUSY,
    Kind.TWICE,
] * 3
# How often the second try is hit as well.
_OFTEN = 0.5


@dataclass(frozen=True)
class Scenario:
    """What is to happen.

    Attributes:
        version: The version of the metastore.
        operation: The name of the operation.
        fault: What hits it; None only counts its places.
        after: What others do before the next try.
        again: What hits the next try; if None, it and one more go well.
    """

    version: str
    operation: str
    fault: Strike | Net | None = None
    after: After = After.NOTHING
    again: Strike | Net | None = None

    def __str__(self) -> str:
        what = "" if self.fault is None else f"{self.fault.kind}/{self.fault.place}"
        again = "" if self.again is None else f"/{self.again.kind}/{self.again.place}"
        return f"{self.version}/{self.operation}/{what}/{self.after}{again}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """A scenario by its text."""
        version, operation, kind, place, after, *again = text.split("/")
        second = _fault(again[0], int(again[1])) if again else None
        return cls(version, operation, _fault(kind, int(place)), After(after), second)


class Counts(NamedTuple):
    """How many places an operation has: changes, calls of the metastore, and reads."""

    changes: int
    calls: int
    reads: int


class Places:
    """Where faults can strike at operations: counted once for each, by letting it happen.

    Args:
        count: Counts the places of an operation.
        kinds: What can happen; the more often, the likelier.
        is_supported: Whether there is an operation with a version of the metastore.
    """

    def __init__(
        self,
        count: Callable[[Scenario], Counts],
        kinds: Sequence[str] = _KINDS,
        is_supported: Callable[[str, str], bool] = lambda *_: True,
    ) -> None:
        self._count = count
        self._kinds = kinds
        self._is_supported = is_supported
        self._known: dict[Scenario, Counts] = {}

    def changes(self, version: str, operation: str) -> int:
        """How many changes it makes."""
        return self._of(version, operation).changes

    def draw(self, seed: int, only: str | None = None) -> Scenario:
        """The scenario of a seed.

        Args:
            seed: The seed.
            only: The version of the metastore; None draws one.
        """
        random = Random(seed)
        while True:
            version, operation = random.choice(VERSIONS), random.choice(list(OPERATIONS))
            version = only or version
            known = version in OPERATIONS[operation].versions
            if known and self._is_supported(version, operation):
                break
        after = random.choice(OPERATIONS[operation].afters(version))
        counts = self._of(version, operation)

        def fault() -> Strike | Net:
            while True:
                kind = random.choice(self._kinds)
                places = counts.calls if kind in NET_KINDS else counts.changes
                places = counts.reads if kind is Kind.PAUSE_READING else places
                if places:
                    return _fault(kind, random.randrange(places))

        again = fault() if random.random() < _OFTEN else None
        return Scenario(version, operation, fault(), after, again)

    def _of(self, version: str, operation: str) -> Counts:
        scenario = Scenario(version, operation)
        if scenario not in self._known:
            self._known[scenario] = self._count(scenario)
        return self._known[scenario]


def _fault(kind: str, place: int) -> Strike | Net:
    if kind in list(Kind):
        return Strike(Kind(kind), place)
    return Net.parse(kind, place)
