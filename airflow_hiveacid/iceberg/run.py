"""The entry of exports and comparisons: only they load the library of Iceberg, which is optional."""

import importlib.util
from typing import TYPE_CHECKING

from airflow_hiveacid.compaction.scheduling import Scheduler
from airflow_hiveacid.errors import IcebergLibraryMissing
from airflow_hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergExportJob, IcebergJob
from airflow_hiveacid.progress import PhaseClock

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.reports.iceberg_report import (
        IcebergCompareReport,
        IcebergExportReport,
    )
    from airflow_hiveacid.metastore.client import MetastoreClient


def export_to_iceberg(
    client: "MetastoreClient",
    job: IcebergExportJob,
    scheduler: Scheduler,
    *,
    phases: PhaseClock | None = None,
) -> "IcebergExportReport":
    """Export a table to Iceberg, update its mirror there, or only plan this.

    Args:
        client: The metastore of the Hive table.
        job: The export.
        scheduler: Runs the tasks that write files.
        phases: Receives the phases of the run.

    Raises:
        IcebergLibraryMissing: pyiceberg is not installed.
        TableExists: The Iceberg table exists already, and no export has created it.
        MirrorRefused: The Iceberg table cannot follow the Hive table any more.
        IcebergConflict: Another program has changed the Iceberg table meanwhile.
        UnsupportedTable: A column cannot be represented in Iceberg, or the files are not ORC files.
        SharedLocation: The folders of both tables overlap.
        DataError: A file has values that Iceberg's readers would change.
    """
    _check(job, "export")
    from airflow_hiveacid.iceberg.export import Export

    return Export(client, job, scheduler, phases or PhaseClock()).run()


def compare_with_iceberg(
    client: "MetastoreClient", job: IcebergCompareJob, *, phases: PhaseClock | None = None
) -> "IcebergCompareReport":
    """Compare a table with its Iceberg table.

    Args:
        client: The metastore of the Hive table.
        job: The comparison.
        phases: Receives the phases of the run.

    Raises:
        IcebergLibraryMissing: pyiceberg is not installed.
        IcebergRefused: pyiceberg cannot read the Iceberg table.
        TableNotFound: One of the tables does not exist.
        VersionGone: The version of the mirror was compacted and cleaned.
        UnsupportedTable: A column cannot be compared.
    """
    _check(job, "comparison")
    from airflow_hiveacid.iceberg.comparison import Comparison

    return Comparison(client, job, phases or PhaseClock()).run()


def _check(job: IcebergJob, what: str) -> None:
    job.validate()
    if importlib.util.find_spec("pyiceberg") is None:
        raise IcebergLibraryMissing(f"The {what} of {job.target} requires pyiceberg.")
