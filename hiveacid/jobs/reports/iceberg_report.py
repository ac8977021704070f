"""Results of an export to Iceberg, and of a comparison with an Iceberg table."""

from dataclasses import dataclass

from hiveacid.errors import IcebergDiffers
from hiveacid.jobs.reports.report import Report

# The outcomes of a run.
CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"
# The number of different partitions that an error names.
_SHOWN = 5
# The compared version of the Hive table.
MIRRORED, NEWEST, REQUESTED = "mirrored", "newest", "requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedColumn:
    """A column that Iceberg cannot hold.

    Attributes:
        name: The column.
        type: Its type in Hive's words.
        reason: The reason.
    """

    name: str
    type: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergColumn:
    """A column of an Iceberg table.

    Attributes:
        id: The field id.
        name: The column.
        type: Its type in Iceberg's words, with the ids of the fields inside of it.
        partition: Whether it is a partition key.
    """

    id: int
    name: str
    type: str
    partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergExportReport(Report):
    """Results of one run of an IcebergExportJob.

    Attributes:
        table: The Iceberg table.
        location: Its folder.
        write_id: The version of the Hive table: the largest write id that the export saw.
        snapshot_id: The new snapshot, or the current one of an unchanged table; None for a dry run.
        outcome: "created", "updated", or, if the Iceberg table had all changes, "unchanged".
        already_done: Whether an earlier attempt of the run had created the snapshot.
        dry_run: Whether the run only planned the export.
        rows: The rows of the Iceberg table; None for a dry run.
        partitions: The partitions of the Hive table.
        source_files: The files of the Hive table that have rows.
        files: The new data files; for a dry run, the planned ones.
        files_kept: The data files that remain.
        files_removed: The data files that the new snapshot does not have.
        delete_files: The new position delete files; for a dry run, the planned ones.
        bytes: The size of the new data files; None for a dry run.
        stripes_copied: The stripes that are copied.
        bytes_copied: Their size.
        stripes_encoded: The stripes that are decoded and written again.
        bytes_encoded: Their size before.
        columns: The columns of the Iceberg table.
        rejected: The columns that Iceberg cannot hold.
    """

    job: str = "to_iceberg"
    table: str
    location: str | None = None
    write_id: int | None = None
    snapshot_id: int | None = None
    outcome: str = CREATED
    already_done: bool = False
    dry_run: bool = False
    rows: int | None = None
    partitions: int = 0
    source_files: int = 0
    files: int = 0
    files_kept: int = 0
    files_removed: int = 0
    delete_files: int = 0
    bytes: int | None = None
    stripes_copied: int = 0
    bytes_copied: int = 0
    stripes_encoded: int = 0
    bytes_encoded: int = 0
    columns: tuple[IcebergColumn, ...] = ()
    rejected: tuple[RejectedColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPartition:
    """A partition with different rows in both tables.

    Attributes:
        partition: Its name; None for a table without partitions.
        hive_rows: The rows of the Hive table.
        iceberg_rows: The rows of the Iceberg table.
        hive_hash: The sum of the hashes of the rows of the Hive table, in hexadecimal; None without
            rows.
        iceberg_hash: The same for the Iceberg table.
    """

    partition: str | None = None
    hive_rows: int = 0
    iceberg_rows: int = 0
    hive_hash: str | None = None
    iceberg_hash: str | None = None

    def __str__(self) -> str:
        name = "the table" if self.partition is None else self.partition
        if self.hive_rows != self.iceberg_rows:
            return f"{name} ({self.iceberg_rows} instead of {self.hive_rows} rows)"
        return f"{name} (other values)"


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCompareReport(Report):
    """Result of a comparison of a Hive table with an Iceberg table.

    Attributes:
        table: The Iceberg table.
        equal: Whether both tables have the same rows.
        version: The compared version of the Hive table: "mirrored" for that of the mirror, "newest",
            or "requested".
        write_id: The number of this version.
        snapshot_id: The compared snapshot of the Iceberg table; None if the table has no snapshot.
        hive_rows: The rows of the Hive table.
        iceberg_rows: The rows of the Iceberg table.
        partitions: The number of partitions with rows; 1 for a table without partitions.
        different: The partitions with different rows.
    """

    job: str = "compare_iceberg"
    table: str
    equal: bool
    version: str = MIRRORED
    write_id: int | None = None
    snapshot_id: int | None = None
    hive_rows: int = 0
    iceberg_rows: int = 0
    partitions: int = 0
    different: tuple[ComparedPartition, ...] = ()

    def require_equal(self) -> None:
        """Refuse different tables.

        Raises:
            IcebergDiffers: They differ; the message names some of the partitions.
        """
        if self.equal:
            return
        shown = ", ".join(map(str, self.different[:_SHOWN]))
        more = len(self.different) - _SHOWN
        others = f", and {more} more" if more > 0 else ""
        raise IcebergDiffers(
            f"{self.table} (snapshot {self.snapshot_id}) differs from {self.target} (version"
            f" {self.write_id}) in {len(self.different)} of {self.partitions} partitions, with"
            f" {self.iceberg_rows} instead of {self.hive_rows} rows: {shown}{others}."
        )
