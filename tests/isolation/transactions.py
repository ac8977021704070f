"""The known facts on a transaction: its reads and appends, their times, and its outcome."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a transaction by its client's knowledge."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Read:
    """The content of a key.

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
    """A unique element under this key."""

    key: str
    element: str


@dataclass(frozen=True)
class Txn:
    """A transaction, which sees nothing of its own appends.

    Attributes:
        name: Its name.
        reads: Its reads; those of a failed one are ignored.
        appends: Its appends, in this order.
        outcome: Its outcome.
        began: The time of its client's request.
        ended: The time of the client's answer; without an answer, it may end at any time.
        about: A description: client and policy.
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
    """Return the successful ones, by their clients' reports, or by later reads."""
    txns = [*txns]
    ok = [txn for txn in txns if txn.outcome is Outcome.OK]
    seen = {(read.key, element) for txn in ok for read in txn.reads for element in read.elements}
    return ok + [
        txn
        for txn in txns
        if txn.outcome is Outcome.UNKNOWN
        and any((append.key, append.element) in seen for append in txn.appends)
    ]
