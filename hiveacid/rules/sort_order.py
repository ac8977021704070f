"""Columns for sorting, parsed from a job or from the text after ORDER BY in Hive's SQL."""

import re
from dataclasses import dataclass
from typing import Self

from hiveacid.errors import InvalidJob

_DIRECTION = re.compile(r"(?is)(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
# The text between two commas outside of quotes.
_PART = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
_PLAIN = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class SortColumn:
    """Column to sort by.

    Attributes:
        name: Its name.
        descending: Whether the largest value comes first.
        nulls_last: Whether nulls come last; None uses the default of the direction, as in Spark.
    """

    name: str
    descending: bool = False
    nulls_last: bool | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a column with its direction, like "ts DESC NULLS LAST" or "`my column`"."""
        match_ = _DIRECTION.fullmatch(text.strip())
        if match_ is None:
            raise InvalidJob(f"Rows cannot be sorted by {text!r}: that names no column.")
        name, direction, nulls = match_.groups()
        if quoted := _QUOTED.fullmatch(name):
            name = quoted[1].replace("``", "`")
        return cls(
            name,
            descending=(direction or "").lower() == "desc",
            nulls_last=None if nulls is None else nulls.lower() == "last",
        )

    def __str__(self) -> str:
        name = self.name
        words = [name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"]
        words += ["DESC"] if self.descending else []
        if self.nulls_last is not None:
            words += ["NULLS", "LAST" if self.nulls_last else "FIRST"]
        return " ".join(words)


def split_order_by(clause: str) -> tuple[str, ...]:
    """Split the ORDER BY of a statement into columns, each in the form of ``SortColumn.parse``.

    Args:
        clause: The clause, with or without its first two words.

    Raises:
        InvalidJob: The clause sorts by an expression other than a column.
    """
    text = re.sub(r"(?i)\s*order\s+by\s+", "", clause, count=1)
    columns = tuple(part.strip() for part in _PART.findall(text))
    if ",".join(_PART.findall(text)) != text:
        raise InvalidJob(f"{clause!r} is no list of columns.")
    for column in columns:
        name = _DIRECTION.fullmatch(column)
        if name is None or not (_QUOTED.fullmatch(name[1]) or _PLAIN.fullmatch(name[1])):
            raise InvalidJob(
                f"{clause!r} sorts by {column!r}, and only columns can be sorted by.",
                remedy="Sort by columns, or let Hive do it.",
            )
    return columns
