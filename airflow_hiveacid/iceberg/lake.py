"""The Iceberg table of an export in its catalog: looked up, and created together with its rows."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import CreateTableTransaction, Table
from pyiceberg.utils.config import Config

from airflow_hiveacid.errors import CommitUncertain, HiveAcidError, IcebergConflict, IcebergRefused
from airflow_hiveacid.iceberg.metastore_catalog import MetastoreCatalog
from airflow_hiveacid.iceberg.schema import IcebergTableSchema
from airflow_hiveacid.jobs.iceberg_job import IcebergExportJob

_TYPE, _URI = "type", "uri"
# Files that Iceberg's engines write later are Parquet files. Their readers decode ORC files row by row
# unless this property is set.
_PROPERTIES = {
    "format-version": "2",
    "write.format.default": "parquet",
    "read.orc.vectorization.enabled": "true",
}
# The commit surely had no effect.
_REFUSALS = (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)


class Lake:
    """A catalog of Iceberg, with the name of the table of an export.

    Args:
        job: The export.
    """

    def __init__(self, job: IcebergExportJob) -> None:
        self._job = job
        self._name = job.table
        with self._errors("The catalog cannot be opened"):
            self._catalog: Catalog = _open_catalog(job)

    def table(self) -> Table | None:
        """Return the table if it exists.

        Raises:
            IcebergRefused: The catalog does not answer, or has something else of this name.
        """
        with self._errors("The catalog cannot be asked"):
            try:
                return self._catalog.load_table(self._name)
            except NoSuchTableError:
                return None

    def new_table(self, definition: IcebergTableSchema) -> "NewTable":
        """Define the table, which does not exist before its first snapshot.

        Args:
            definition: Its columns and partitions.

        Raises:
            IcebergRefused: The namespace does not exist, or the definition is invalid.
        """
        with self._errors("The table cannot be defined"):
            transaction = self._catalog.create_table_transaction(
                self._name,
                definition.schema,
                location=self._job.location,
                partition_spec=definition.spec,
                properties={**_PROPERTIES, **self._job.properties},
            )
        return NewTable(self._name, transaction)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except NoSuchNamespaceError as error:
            raise IcebergRefused(
                f"The namespace of {self._name} does not exist: {error}", remedy="Create it first."
            ) from error
        except HiveAcidError:
            raise
        except Exception as error:
            raise IcebergRefused(
                f"{what} for {self._name}: {type(error).__name__}: {error}",
                remedy="Check the options of the catalog.",
            ) from error


class NewTable:
    """An Iceberg table that is created by its first snapshot."""

    def __init__(self, name: str, transaction: CreateTableTransaction) -> None:
        self._name = name
        self._transaction = transaction
        metadata = transaction.table_metadata
        self.schema: Schema = metadata.schema()
        self.location: str = metadata.location.rstrip("/")
        self.spec_id: int = metadata.default_spec_id

    @property
    def key_names(self) -> list[str]:
        """The names of the partition keys."""
        return [field.name for field in self._transaction.table_metadata.spec().fields]

    def commit(self, files: Sequence[DataFile], summary: Mapping[str, str], attempt: Any) -> int:
        """Create the table with a snapshot of these files, in one step.

        Args:
            files: The files.
            summary: Properties of the snapshot.
            attempt: The uuid of the attempt, which the names of new manifests contain.

        Returns:
            The number of the snapshot.

        Raises:
            IcebergConflict: The table was created by another program meanwhile.
            CommitUncertain: It is unknown whether the table was created.
        """
        append: Any = self._transaction.update_snapshot(
            snapshot_properties=dict(summary)
        ).fast_append()
        append.commit_uuid = attempt
        try:
            with append:
                for file in files:
                    append.append_data_file(file)
        except Exception as error:
            raise IcebergRefused(
                f"The metadata of {self._name} cannot be written: {type(error).__name__}: {error}"
            ) from error
        try:
            self._transaction.commit_transaction()
        except _REFUSALS as error:
            raise IcebergConflict(
                f"{self._name} was not created: {error}",
                remedy="Look for another program that creates the table, and run the job again.",
            ) from error
        except Exception as error:
            raise CommitUncertain(
                f"The outcome of the creation of {self._name} is unknown: {type(error).__name__}:"
                f" {error}",
                remedy="Run the job again: it finds out.",
            ) from error
        return int(append.snapshot_id)


def _open_catalog(job: IcebergExportJob) -> Catalog:
    """Open the catalog; without options and configuration, it is the metastore of the Hive table."""
    known: Mapping[str, Any] = Config().get_catalog_config(job.catalog) or {}
    options: dict[str, Any] = {**known, **job.catalog_options}
    uri = options.get(_URI, job.connection.uris if not options else "")
    if "py-catalog-impl" in options or not (
        str(options.get(_TYPE, "")).lower() == "hive" or uri.startswith("thrift:") or not options
    ):
        return load_catalog(job.catalog, **job.catalog_options)
    options = {name: value for name, value in options.items() if name != _TYPE}
    return MetastoreCatalog(job.catalog, **{_URI: job.connection.uris, **options})
