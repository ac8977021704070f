"""Results of an export to Iceberg."""

from dataclasses import dataclass

from airflow_hiveacid.jobs.reports.report import Report

# The outcomes of a run.
CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"


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
    bytes: int | None = None
    stripes_copied: int = 0
    bytes_copied: int = 0
    stripes_encoded: int = 0
    bytes_encoded: int = 0
    columns: tuple[IcebergColumn, ...] = ()
    rejected: tuple[RejectedColumn, ...] = ()
