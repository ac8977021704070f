"""The entry of exports, comparisons, and lags: only they load the optional library of Iceberg."""

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from hiveacid.errors import HiveAcidError, SoftwareMissing, secrets_of, without_secrets
from hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergExportJob, IcebergJob
from hiveacid.progress import PhaseClock
from hiveacid.upkeep.compaction.scheduling import Scheduler

if TYPE_CHECKING:
    from hiveacid.jobs.iceberg_job import (
        IcebergCompareReport,
        IcebergExportReport,
    )
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.rules.lag import MirrorLag


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
        SoftwareMissing: pyiceberg is not installed.
        TableExists: The Iceberg table exists already, and no export has created it.
        IcebergRefused: The Iceberg table cannot follow the Hive table any more.
        TableReplaced: Another program has changed the Iceberg table meanwhile.
        UnsupportedTable: A column cannot be represented in Iceberg, or the files are not ORC files.
        SharedLocation: The folders of both tables overlap.
        DataError: A file has values that Iceberg's readers would change.
    """
    with _secrets_hidden(job, f"The export of {job.target}"):
        from hiveacid.iceberg.catalogs import require_free_database
        from hiveacid.iceberg.export import Export
        from hiveacid.iceberg.guarded_catalog import transactional_table

        # Before the catalog is opened, which creates the database of a new catalog of SQLite.
        transactional_table(client, job)
        require_free_database(client, job)
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
        SoftwareMissing: pyiceberg is not installed.
        MetastoreUnreachable: The catalog does not answer.
        TableNotFound: One of both tables does not exist.
        TableExists: No export has created the Iceberg table.
        IcebergRefused: The Iceberg table cannot follow the Hive table any more.
        VersionUnknown: The Hive table does not have this version.
    """
    with _secrets_hidden(job, f"The lag of {job.table}"):
        from hiveacid.iceberg.lag import lag_of

        return lag_of(client, job, version)


def compare_with_iceberg(
    client: "MetastoreClient", job: IcebergCompareJob, *, phases: PhaseClock | None = None
) -> "IcebergCompareReport":
    """Compare a table with its Iceberg table.

    Args:
        client: The metastore of the Hive table.
        job: The comparison.
        phases: Receives the phases of the run.

    Raises:
        SoftwareMissing: pyiceberg is not installed.
        IcebergRefused: pyiceberg cannot read the Iceberg table.
        TableNotFound: One of the tables does not exist.
        VersionGone: The version of the mirror was compacted and cleaned.
        UnsupportedTable: A column cannot be compared.
    """
    with _secrets_hidden(job, f"The comparison of {job.target}"):
        from hiveacid.iceberg.catalogs import require_free_database
        from hiveacid.iceberg.comparison import Comparison
        from hiveacid.iceberg.guarded_catalog import transactional_table

        transactional_table(client, job)
        require_free_database(client, job)
        return Comparison(client, job, phases or PhaseClock()).run()


@contextmanager
def _secrets_hidden(job: IcebergJob, subject: str) -> Iterator[None]:
    """Check a job, and remove the secrets of its catalog from errors, in any form a server quotes."""
    job.validate()
    if importlib.util.find_spec("pyiceberg") is None:
        raise SoftwareMissing(
            f"{subject} requires pyiceberg.", remedy="pip install 'hiveacid[iceberg]'"
        )
    from hiveacid.iceberg.catalogs import checked_options

    try:
        checked_options(job)
        yield
    except HiveAcidError as error:
        error.what = without_secrets(error.what, secrets_of(_options(job)))
        error.args = (error.what,)
        raise


def _options(job: IcebergJob) -> dict[str, object]:
    """Return the options of the catalog, with those of a readable configuration of pyiceberg."""
    configuration: Mapping[str, object] = {}
    with suppress(Exception):
        from pyiceberg.utils.config import Config

        configuration = Config().get_catalog_config(job.catalog) or {}
    return {**configuration, **job.catalog_options}
