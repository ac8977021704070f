"""One operation, one fault, and the later actions: drawn by a seed, or read from a line of text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Self

from tests.faults.after import After
from tests.faults.effects import LATER_ANSWERS, PAUSES, Kind, Strike
from tests.faults.operations import OPERATIONS
from tests.proxy import Harm
from tests.versions import VERSIONS


@dataclass(frozen=True)
class Net:
    """A fault of the network: at the call of this number, counted from 0.

    Its kind in words is one of `NET_KINDS`, with " of " and a name if only such calls count.

    Attributes:
        harm: The fate of the answer.
        arrives: Whether the request arrives.
        place: The number of the call.
        times: The number of calls that are hit, from that one on.
        call: The name of the calls that count; None are all.
    """

    harm: Harm
    arrives: bool
    place: int
    times: int = 1
    call: str | None = None

    @property
    def kind(self) -> str:
        """Describe the scenario in words."""
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
# The number of successive failing calls if a single one has no effect.
_OUTAGE_CALLS = 6
NET_KINDS = [
    f"{Harm.LOSE} {_QUESTION}s",
    *(f"{harm} {_ANSWER}" for harm in Harm if harm is not Harm.DELAY),
    *(f"{harm} {_QUESTION}" for harm in (Harm.LOSE, Harm.FAIL, Harm.HOLD, Harm.DELAY)),
]
# Most scenarios have kills and zombies; waiting proves nothing without a time limit.
_KINDS = [kind for kind in Kind if kind not in (Kind.SLOW, Kind.BUSY)]
_KINDS += [Kind.KILL, *PAUSES, Kind.PAUSE_ANSWERED] * 3 + NET_KINDS
# On an object store no local file has a relevant size; its own faults are refusals, slowness and
# lost answers.
_LOCAL_KINDS = (
    Kind.LIMIT,
    Kind.PAUSE_READING,
    Kind.PAUSE_ANSWERED,
    Kind.PAUSE_TWICE,
    Kind.PAUSE_AND_KILL,
)
S3_KINDS = [kind for kind in _KINDS if kind not in _LOCAL_KINDS] + [Kind.BUSY, Kind.TWICE] * 3
# The share of second attempts with another fault.
_OFTEN = 0.5


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        version: The version of the metastore.
        operation: The name of the operation.
        fault: The fault; None only counts its places.
        after: The actions of others before the next attempt.
        again: The fault of the next attempt; if None, it and one more succeed.
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
    """The number of places in an operation: changes, calls of the metastore, reads, and answers."""

    changes: int
    calls: int
    reads: int
    answers: int

    def of(self, kind: str) -> int:
        """Return the number of places for a kind of fault."""
        if kind in NET_KINDS:
            return self.calls
        match kind:
            case Kind.PAUSE_READING:
                return self.reads
            case Kind.PAUSE_ANSWERED:
                return self.answers
            case Kind.PAUSE_TWICE | Kind.PAUSE_AND_KILL:
                return self.changes * LATER_ANSWERS
        return self.changes


class Places:
    """The places for faults in operations: counted once for each, by running it.

    Args:
        count: Counts the places of an operation.
        kinds: The kinds of faults; frequent ones are more likely.
        is_supported: Return whether an operation exists with a version of the metastore.
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
        """Return the number of its changes."""
        return self.of(version, operation).changes

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
        counts = self.of(version, operation)

        def fault() -> Strike | Net:
            while True:
                kind = random.choice(self._kinds)
                if places := counts.of(kind):
                    return _fault(kind, random.randrange(places))

        again = fault() if random.random() < _OFTEN else None
        return Scenario(version, operation, fault(), after, again)

    def of(self, version: str, operation: str) -> Counts:
        """Count the places of an operation."""
        scenario = Scenario(version, operation)
        if scenario not in self._known:
            self._known[scenario] = self._count(scenario)
        return self._known[scenario]


def _fault(kind: str, place: int) -> Strike | Net:
    if kind in list(Kind):
        return Strike(Kind(kind), place)
    return Net.parse(kind, place)
