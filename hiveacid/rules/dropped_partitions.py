"""Table property that records the last drop of partitions.

A dropped partition leaves no directory: an earlier version would be read without its rows. So
versions before the drop are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from hiveacid.errors import UnsupportedTable, VersionGone
from hiveacid.rules.as_of import AsOf

PARTITIONS_DROPPED = "hiveacid.partitions_dropped"


@dataclass(frozen=True, slots=True)
class DroppedPartitions:
    """Last statement that dropped partitions of a table.

    Attributes:
        version: Its write id.
        time: Its time, in UTC.
    """

    version: int
    time: datetime

    def __str__(self) -> str:
        return f"{self.version} {self.time.astimezone(UTC).isoformat()}"

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self | None:
        """Read the property of a table; None if this package has dropped no partition of it.

        Raises:
            UnsupportedTable: The value of the property is invalid.
        """
        text = parameters.get(PARTITIONS_DROPPED)
        if text is None:
            return None
        version, _, time = text.partition(" ")
        try:
            return cls(int(version), datetime.fromisoformat(time).astimezone(UTC))
        except ValueError as error:
            raise UnsupportedTable(
                f"The table has the property {PARTITIONS_DROPPED}={text[:100]!r}, which cannot be read.",
                remedy="Remove the property if the table has no earlier versions.",
            ) from error

    def require_later(self, table: str, as_of: AsOf) -> None:
        """Raise VersionGone for a version of the table before the drop."""
        asked = as_of.time if as_of.write_id is None else as_of.write_id
        first = self.time if as_of.write_id is None else self.version
        if asked is not None and asked < first:  # type: ignore[operator]
            raise VersionGone(
                f"Partitions of {table} were dropped in version {self.version}, at {self.time}, and"
                f" the rows of earlier versions are gone.",
                remedy=f"Read version {self.version} or a later one.",
            )
