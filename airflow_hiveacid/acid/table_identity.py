"""The identity of a table. A name is none: a table can be dropped and created again under it."""

import re
from dataclasses import dataclass

from airflow_hiveacid.acid.quantities import timestamp_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """One creation of a table, as records outside of the metastore refer to it.

    Attributes:
        table: "database.table".
        created: The creation time, in seconds.
        location: The folder, in the metastore's spelling.
        id: The number of the table in the metastore; None on version 3.1, which does not return it.
    """

    table: str
    created: int
    location: str
    id: int | None = None

    def __str__(self) -> str:
        number = "" if self.id is None else f"id {self.id}, "
        return (
            f"{self.table} ({number}created {timestamp_in_words(self.created)} UTC, "
            f"at {self.location})"
        )

    def is_same_as(self, other: "TableIdentity") -> bool:
        """Whether both are the same creation of a table."""
        # A record from before an upgrade of the metastore has no id.
        ids = {self.id, other.id} - {None}
        return (
            (self.table, self.created) == (other.table, other.created)
            and len(ids) < 2
            and is_same_location(self.location, other.location)
        )


def is_same_location(one: str | None, other: str | None) -> bool:
    """Whether two spellings name one location: file:///a//b/ is file:/a/b."""
    return plain_location(one or "") == plain_location(other or "")


def plain_location(location: str) -> str:
    """Remove the slashes of a location that mean nothing."""
    scheme, _, rest = location.partition(":")
    authority = rest.startswith("//") and not rest.startswith("///")
    return f"{scheme}:{'/' if authority else ''}{re.sub('/+', '/', rest).rstrip('/')}"
