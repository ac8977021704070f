"""What is known of a transaction: what it has read and appended, when, and what became of it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What a client has been told of its transaction."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Read:
    """What was found under a key.

    Attributes:
        key: A list, or a set, in words.
        seen: Its elements; a tuple where their order is known, else a set.
    """

    key: str
    seen: tuple[str, ...] | frozenset[str]

    @property
    def elements(self) -> tuple[str, ...]:
        """The elements, in order if there is one."""
        return self.seen if isinstance(self.seen, tuple) else tuple(sorted(self.seen))


@dataclass(frozen=True)
class Append:
    """An element that nobody else appends to this key."""

    key: str
    element: str


@dataclass(frozen=True)
class Txn:
    """A transaction, which sees nothing of its own appends.

    Attributes:
        name: Which it is.
        reads: What it has read; of one that did not succeed this counts for nothing.
        appends: What it has appended, in this order.
        outcome: What became of it.
        began: When its client asked for it.
        ended: When its client heard of the end; whose end nobody has heard of may end at any time.
        about: What a person should know of it: who, by which policy.
    """

    name: str
    reads: tuple[Read, ...] = ()
    appends: tuple[Append, ...] = ()
    outcome: Outcome = Outcome.OK
    began: float = 0.0
    ended: float = math.inf
    about: str = ""

    def appended_to(self, key: str) -> list[str]:
        """Its elements of a key, in their order."""
        return [append.element for append in self.appends if append.key == key]


def committed(txns: Iterable[Txn]) -> list[Txn]:
    """Those that have succeeded, as their clients say, or as somebody has read."""
    txns = [*txns]
    ok = [txn for txn in txns if txn.outcome is Outcome.OK]
    seen = {(read.key, element) for txn in ok for read in txn.reads for element in read.elements}
    return ok + [
        txn
        for txn in txns
        if txn.outcome is Outcome.UNKNOWN
        and any((append.key, append.element) in seen for append in txn.appends)
    ]
