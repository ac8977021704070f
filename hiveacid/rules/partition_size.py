"""Measurements of a partition, which decide on its compaction."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hiveacid.rules.trino import RIGHT, Misread


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSize:
    """Measurements of a partition, or of a table without partitions.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None for a table without partitions.
        base: The directory of the base; None without a base.
        base_bytes: Its size, or that of the original files if no base exists.
        deltas: The deltas and delete deltas that a compaction may take, in reading order.
        delta_bytes: Their size.
        delete_bytes: The size of the delete deltas among them.
        base_rows: The rows of the base; None if they were not counted.
        delta_rows: The rows and delete events of the deltas; None if they were not counted.
        obsolete: Directories with a newer replacement.
        aborted: Directories that will never be read.
        awaiting_removal: The sizes of both, by their names.
        invisible: Directories that cannot be compacted yet, because a write id in them is open.
        aborted_write_ids: The number of aborted write ids of the table.
        oldest_abort_hours: The age of the oldest of them, if known.
        base_age_hours: The age of the base; None without a base.
        auto_off: The table or its database switches automatic compaction off.
        one_by_one: The metastore cannot make two directories visible at once (Hive 3).
        problem: Why the partition cannot be read; None without a problem.
        misread: The directories that Trino misreads.
        oldest_delta_hours: The age of the oldest delta, if known.
        newest_delta_hours: The age of the newest delta, if known.
        reads_per_day: The rate of reads that the table's property sets; None without it.
    """

    table: str
    partition: str | None = None
    base: str | None = None
    base_bytes: int = 0
    deltas: tuple[str, ...] = ()
    delta_bytes: int = 0
    delete_bytes: int = 0
    base_rows: int | None = None
    delta_rows: int | None = None
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    awaiting_removal: Mapping[str, int] = field(default_factory=dict)
    invisible: tuple[str, ...] = ()
    aborted_write_ids: int = 0
    oldest_abort_hours: float | None = None
    base_age_hours: float | None = None
    auto_off: bool = False
    one_by_one: bool = False
    problem: str | None = None
    misread: Misread = RIGHT
    oldest_delta_hours: float | None = None
    newest_delta_hours: float | None = None
    reads_per_day: float | None = None

    @property
    def has_originals(self) -> bool:
        """Whether the partition has files older than the table's first write id."""
        return self.base is None and self.base_bytes > 0
