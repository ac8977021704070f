"""The common part of the small models; each has one mechanism and its identities.

An identity is a number that is never given twice: the creation of a table, the digest of a batch. A
name, a path, a position and a row id are values that can mean something else later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Step = tuple[str, Any]


class Promise(StrEnum):
    """The promises of the small models."""

    COMPLETE_READ = "a commit has all rows of the snapshot that it was computed from"
    NO_LOST_UPDATE = "no update is lost"
    RIGHT_ROWS = "a change applies to the rows that it was computed for, and a key is inserted once"
    OTHER_TABLE = "what was computed for one table never reaches another creation of it"
    HIDDEN_COME_BACK = "a directory that was hidden by mistake is public after the next cleaning"
    ALL_ROWS = "a reader and a compaction find all rows of a table, or fail"
    EXPORTED = "a cursor passes only changes that its consumer has exported to its target"
    EXPORTED_ONCE = "a change is exported once for each consumer and target"
    DEFINITION = "a column that another client has added stays"
    ONCE = "a run is applied once"
    TRUE = "a run that is reported as applied is in a table that exists"
    ROWS_ONCE = "a stream applies each row once"
    NO_ROW_LOST = "a stream commits no batch whose rows it has not applied"
    STATEMENT_ONCE = "a statement of a script that changes rows is applied once"
    SCRIPT_COMPLETE = "a script that ends has moved its rows, and lost none"


@dataclass(frozen=True)
class SmallModel:
    """A mechanism with its rules.

    Attributes:
        broken: The rules that are removed.
    """

    broken: frozenset[str] = frozenset()

    before = ()

    def keeps(self, rule: str) -> bool:
        """Return whether a rule applies."""
        return rule not in self.broken

    @property
    def start(self) -> Any:
        """The first state."""
        raise NotImplementedError

    def steps(self, state: Any) -> Iterator[Step]:
        """Everything that can happen next."""
        raise NotImplementedError

    def broken_in(self, state: Any) -> Promise | None:
        """The first promise that a state breaks, or None."""
        raise NotImplementedError
