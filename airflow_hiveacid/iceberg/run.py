"""The entry of exports and lags: only their calls load the library of Iceberg, which is optional."""

import importlib.util
from typing import TYPE_CHECKING

from airflow_hiveacid.compaction.scheduling import Scheduler
from airflow_hiveacid.errors import IcebergLibraryMissing
from airflow_hiveacid.jobs.iceberg_job import IcebergExportJob
from airflow_hiveacid.progress import PhaseClock

if TYPE_CHECKING:
    from airflow_hiveacid.acid.mirror_lag import MirrorLag
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
    _require_library(f"The export of {job.target}")
    from airflow_hiveacid.iceberg.export import Export

    return Export(client, job, scheduler, phases or PhaseClock()).run()


def lag_of_mirror(
    client: "MetastoreClient", job: IcebergExportJob, version: int | None = None
) -> "MirrorLag":
    """Compute the current lag of a mirror, without running it.

    Args:
        client: The metastore of the Hive table.
        job: The export that updates the mirror.
        version: The last version to consider; the newest by default.

    Raises:
        IcebergLibraryMissing: pyiceberg is not installed.
        IcebergUnreachable: The catalog does not answer.
        TableNotFound: One of both tables does not exist.
        TableExists: No export has created the Iceberg table.
        MirrorRefused: The Iceberg table cannot follow the Hive table any more.
        VersionUnknown: The Hive table does not have this version.
    """
    job.validate()
    _require_library(f"The lag of {job.table}")
    from airflow_hiveacid.iceberg.lag import lag_of

    return lag_of(client, job, version)


def _require_library(what: str) -> None:
    if importlib.util.find_spec("pyiceberg") is None:
        raise IcebergLibraryMissing(f"{what} requires pyiceberg.")
