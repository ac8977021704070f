"""Reference to a table for files outside of the metastore."""

from dataclasses import dataclass

from hiveacid.rules.table_identity import TableIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedTable:
    """One creation of a table, at one location.

    Attributes:
        name: "database.table".
        location: The folder, without redundant slashes.
        identity: The creation.
    """

    name: str
    location: str
    identity: TableIdentity

    def __str__(self) -> str:
        return f"{self.name} ({self.identity}, at {self.location})"

    def is_same_as(self, other: "LocatedTable") -> bool:
        """Whether both are the same creation of a table, under one name and at one location."""
        here, there = (self.name, self.location), (other.name, other.location)
        return here == there and self.identity.is_same(other.identity)
