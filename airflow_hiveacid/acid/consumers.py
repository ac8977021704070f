"""Consumers of a table's changes: how far each of them is, and how far it can go.

A consumer copies range after range of versions. Each range begins where the one before it ended, and
nothing may be committed into it later on. A copy is committed under a run token that is made of the
consumer and of the version where its range begins: of all runs that begin there only one is applied,
and its report says how far it has come. So the cursor, which is moved after the commit, may be lost or
moved back: whoever begins at an old one finds that report, and goes on behind it.

A cursor among the properties of the table also tells cleanings what its consumer has still to read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.errors import InvalidJob

_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
_CURSOR = re.compile(r"([0-9]{1,18})@([0-9]{1,18})( begins)?")
# The properties of a table that hold cursors begin with this.
CONSUMER_PREFIX = "hiveacid.consumer."


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a consumer is.

    Attributes:
        version: The last version that it has copied.
        created: When the table was created, in seconds: another table of its name begins anew.
        begins: Whether it has copied nothing yet, and begins after that version.
    """

    version: int
    created: int
    begins: bool = False

    def __str__(self) -> str:
        return f"{self.version}@{self.created}{' begins' if self.begins else ''}"

    def is_news_after(self, known: "Cursor | None") -> bool:
        """Whether it takes the place of another one: a cursor never goes back."""
        if known is None or known.begins:
            return self != known
        return not self.begins and self.version > known.version

    @classmethod
    def parse(cls, text: object, created: int) -> Self | None:
        """Read a cursor; None if there is none for the table that was created then."""
        match = _CURSOR.fullmatch(text) if isinstance(text, str) else None
        if not match or int(match[2]) != created:
            return None
        return cls(int(match[1]), created, begins=match[3] is not None)


def registered(parameters: Mapping[str, str], created: int) -> dict[str, Cursor]:
    """The cursors among the properties of a table, by the names of the consumers.

    Args:
        parameters: The properties.
        created: When the table was created.
    """
    cursors = {
        name: Cursor.parse(text, created)
        for key, text in parameters.items()
        if key.startswith(CONSUMER_PREFIX)
        and _NAME.fullmatch(name := key.removeprefix(CONSUMER_PREFIX))
    }
    return {name: cursor for name, cursor in sorted(cursors.items()) if cursor is not None}


def require_consumer(name: object) -> None:
    """Raise InvalidJob unless it can be the name of a consumer."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidJob(
            f"{name!r} is no name of a consumer.",
            remedy="Use up to 60 letters, digits, dashes and underscores.",
        )


def consumer_token(table: str, created: int, consumer: str, after: int) -> str:
    """The run token of what a consumer copies from a version on.

    Args:
        table: The table that it reads.
        created: When that was created.
        consumer: The name.
        after: The version before the changes.
    """
    return f"{table}@{created}/{consumer}/{after}"


def last_final_version(now: ValidWriteIdList) -> int:
    """The newest version of which all that will ever be in it is committed; 0 is the empty table.

    Args:
        now: What a new reader sees.
    """
    last = min(now.open, default=now.high_watermark + 1) - 1
    return next((write_id for write_id in range(last, 0, -1) if now.is_valid(write_id)), 0)
