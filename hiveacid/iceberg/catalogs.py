"""The catalogs of jobs."""

import os
from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.utils.config import Config

from hiveacid.errors import IcebergRefused
from hiveacid.iceberg.catalog_files import ALLOWED, LOCATIONS, CatalogFiles, folders_of
from hiveacid.iceberg.catalog_options import TYPE, URI, kind_of, require_known
from hiveacid.iceberg.guarded_catalog import DatabaseCatalog
from hiveacid.iceberg.metastore_catalog import MetastoreCatalog
from hiveacid.iceberg.rest_catalog import ServerCatalog
from hiveacid.jobs.iceberg_job import IcebergExportJob, IcebergJob, sqlite_location
from hiveacid.jobs.options.allowed_locations import AllowedLocations
from hiveacid.jobs.options.configuration import setting
from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.tables.location_owners import require_free

KINDS: dict[str, type[Catalog]] = {
    "hive": MetastoreCatalog,
    "rest": ServerCatalog,
    "sql": DatabaseCatalog,
}


def options_of(job: IcebergJob) -> dict[str, Any]:
    """Return the options of the catalog of a job: its own ones, and those of pyiceberg's settings."""
    known: Mapping[str, Any] = Config().get_catalog_config(job.catalog) or {}
    return {**known, **job.catalog_options} or {TYPE: "hive"}


def checked_options(job: IcebergJob) -> tuple[str, dict[str, Any]]:
    """Return the kind and the options of the catalog of a job, without opening it.

    Raises:
        IcebergRefused: An option is refused, or a necessary one is missing.
    """
    options = options_of(job)
    kind = kind_of(job.catalog, options)
    if kind == "hive":
        options.setdefault(URI, job.connection.uris)
    elif URI not in options:
        raise IcebergRefused(f"The catalog {job.catalog} has no uri.", remedy="Set the option uri.")
    require_known(job.catalog, kind, options)
    # Those of the process, too: a program may pass any job.
    given = job.metastore and MetastoreOptions.of(job.metastore).allowed_locations
    allowed = given or setting("allowed_locations")
    if (database := sqlite_location(options.get(URI, ""))) is not None:
        AllowedLocations.parse(allowed).require(database)
    location = job.location if isinstance(job, IcebergExportJob) else None
    own = {
        **options,
        LOCATIONS: ",".join(filter(None, (options.get(LOCATIONS), location))),
        ALLOWED: allowed,
        PY_IO_IMPL: f"{CatalogFiles.__module__}.{CatalogFiles.__name__}",
    }
    own.pop(TYPE, None)
    if kind in ("rest", "sql") and not folders_of(own):
        raise IcebergRefused(
            f"The folders of the catalog {job.catalog} are unknown.",
            remedy="Set the option warehouse, or locations, to folders with all files of its tables.",
        )
    return kind, own


def require_free_database(client: MetastoreClient, job: IcebergJob) -> None:
    """Refuse a catalog in SQLite whose new file would be in the folder of a table.

    Args:
        client: The metastore of the Hive table.
        job: The job that opens the catalog, which creates the file.

    Raises:
        SharedLocation: A table or a partition is registered there.
    """
    database = sqlite_location(options_of(job).get(URI, ""))
    if database is not None and not os.path.exists(database.removeprefix("file:")):
        require_free(client, [database], f"The database of the catalog {job.catalog}")


def open_catalog(job: IcebergJob) -> Catalog:
    """Open the catalog of a job.

    Without options and configuration, it is the metastore of the Hive table.

    Args:
        job: The export, or the comparison.

    Raises:
        IcebergRefused: An option is refused, or a necessary one is missing.
    """
    kind, options = checked_options(job)
    return KINDS[kind](job.catalog, **options)
