"""The identity of a table: its name may belong to another table later on."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """The creation of a table.

    Attributes:
        created: When the metastore created it, in seconds since 1970.
        id: Its number in the metastore; version 3.1 has none.
    """

    created: int
    id: int | None = None

    def is_same(self, other: Self) -> bool:
        """Compare two creations, by their numbers as well where both are known."""
        return self.created == other.created and (
            self.id is None or other.id is None or self.id == other.id
        )
