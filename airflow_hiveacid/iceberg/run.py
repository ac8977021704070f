"""The entry of exports: it loads the library of Iceberg, which is optional, only when they run."""

import importlib.util
from typing import TYPE_CHECKING

from airflow_hiveacid.compaction.scheduling import Scheduler
from airflow_hiveacid.errors import IcebergLibraryMissing
from airflow_hiveacid.jobs.iceberg_job import IcebergExportJob
from airflow_hiveacid.progress import PhaseClock

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.reports.iceberg_report import IcebergExportReport
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
    job.validate()
    if importlib.util.find_spec("pyiceberg") is None:
        raise IcebergLibraryMissing(f"The export of {job.target} requires pyiceberg.")
    from airflow_hiveacid.iceberg.export import Export

    return Export(client, job, scheduler, phases or PhaseClock()).run()
