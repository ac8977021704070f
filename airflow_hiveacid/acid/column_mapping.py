"""Mapping of the columns of a table to the fields of a file that was written before they changed.

Engines map the top-level columns either by position or by name. Fields of nested structs are always
mapped by name. Both rules give the same result unless a column was renamed, moved, or dropped from the
middle. Files of old versions of Hive name their fields `_col0`, `_col1`, and so on; those have no names,
and both rules map them by position.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_UNNAMED = re.compile(r"_col[0-9]+")


class ColumnMapping(StrEnum):
    """Rule of an engine for finding a column of a table in a file."""

    POSITION = "position"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class MappedColumns:
    """The columns that the files of a table hold, and the rule that finds them there.

    Attributes:
        names: The names of all columns but the partition keys, in the order of the table.
        mapping: The rule.
    """

    names: tuple[str, ...] = ()
    mapping: ColumnMapping = ColumnMapping.NAME

    def fields(self, stored: Sequence[str]) -> tuple[int | None, ...]:
        """Return the index of a file's field for each column, or None if the file lacks it.

        Args:
            stored: The names of the fields of the file, without the ACID envelope.
        """
        if self.mapping is ColumnMapping.POSITION or is_unnamed(stored):
            return tuple(index if index < len(stored) else None for index in range(len(self.names)))
        # Of names that differ only in case, the first one counts.
        places = {name.lower(): index for index, name in reversed([*enumerate(stored)])}
        return tuple(places.get(name.lower()) for name in self.names)

    def renamed(self, stored: Sequence[str]) -> tuple[str, ...]:
        """Return names for the fields of a file by which a lookup by name finds the mapped field.

        A field without a column keeps its name unless a column has that name, too. It then gets a name
        that no column can have.
        """
        columns = dict(zip(self.fields(stored), self.names, strict=True))
        taken = {name.lower() for name in self.names}
        return tuple(
            columns.get(index, name if name.lower() not in taken else f"#{index}")
            for index, name in enumerate(stored)
        )

    def is_ambiguous(self, stored: Sequence[str]) -> bool:
        """Whether the two rules read different values from a file."""
        by_position, by_name = (
            MappedColumns(self.names, mapping).fields(stored) for mapping in ColumnMapping
        )
        return by_position != by_name


# For a file whose table is not known.
AS_STORED = MappedColumns()


def is_unnamed(stored: Sequence[str]) -> bool:
    """Whether a file has no names for its fields."""
    return bool(stored) and all(map(_UNNAMED.fullmatch, stored))
