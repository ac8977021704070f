"""The rules of all catalogs: properties of tables are data, and files are in folders of the catalog."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import EMPTY_DICT, Properties

from hiveacid.errors import IcebergRefused, WrongTableKind
from hiveacid.iceberg.catalog_files import CatalogFiles, files_of
from hiveacid.jobs.iceberg_job import IcebergJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import PhaseClock
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind

_PROVIDER = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
_METADATA_SUFFIX = ".metadata.json"
_Table = TypeVar("_Table", bound=Table)


class GuardedCatalog(Catalog):
    """A base of catalogs that ignores the properties of tables when it opens files."""

    def _load_file_io(
        self, properties: Properties = EMPTY_DICT, location: str | None = None
    ) -> FileIO:
        return CatalogFiles(self.properties)

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        # The log of a table may name files of other tables.
        metadata_folder = f"{metadata.location.rstrip('/')}/metadata/"
        files = [path.metadata_file for path in base.metadata_log]
        if all(
            file.startswith(metadata_folder) and file.endswith(_METADATA_SUFFIX) for file in files
        ):
            Catalog._delete_old_metadata(io, base, metadata)


class DatabaseCatalog(GuardedCatalog, SqlCatalog):
    """A catalog in a database."""

    def _convert_orm_to_iceberg(self, orm_table: Any) -> Table:
        return require_data_only(super()._convert_orm_to_iceberg(orm_table))


def require_data_only(table: _Table) -> _Table:
    """Check the metadata of a table that another program may have written.

    Args:
        table: The table, whose files are then those of manifests.

    Returns:
        The table.

    Raises:
        IcebergRefused: Its metadata name code, a folder outside of the catalog, or an endless history.
    """
    name, metadata = ".".join(table.name()), table.metadata
    if metadata.properties.get(_PROVIDER):
        raise IcebergRefused(
            f"The property {_PROVIDER} of {name} names code, which is not called.",
            remedy="Remove the property.",
        )
    files = files_of(table.io)
    files.require(metadata.location)
    if table.metadata_location is not None:
        files.require(table.metadata_location)
    require_finite(name, metadata)
    files.holds_manifests = True
    return table


def require_finite(name: str, metadata: TableMetadata) -> None:
    """Refuse a cyclic history of snapshots, which pyiceberg would follow forever.

    Raises:
        IcebergRefused: A snapshot follows itself.
    """
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    finite: set[int] = set()
    for start in parents:
        path: set[int] = set()
        current: int | None = start
        while current in parents and current not in finite:
            if current in path:
                raise IcebergRefused(
                    f"The snapshot {current} of {name} follows itself.",
                    remedy="Drop the Iceberg table, and export again.",
                )
            path.add(current)
            current = parents[current]
        finite |= path


# The Hive table of an export or a comparison, locked for reading


def transactional_table(client: MetastoreClient, job: IcebergJob) -> HiveTable:
    """Return the Hive table of a job.

    Args:
        client: The metastore.
        job: The job.

    Raises:
        AccessRefused: The location of the table is not allowed.
        TableNotFound: The table does not exist.
        WrongTableKind: The table is not transactional.
    """
    table = existing_table(client, TableRef.parse(job.target))
    _require_transactional(table)
    return table


@contextmanager
def locked_table(
    client: MetastoreClient, job: IcebergJob, phases: PhaseClock
) -> Iterator[tuple[Transaction, HiveTable]]:
    """Read the Hive table of a job in a transaction, during which its definition remains.

    Args:
        client: The metastore.
        job: The job.
        phases: Receives the phases of the transaction.

    Raises:
        TableNotFound: The table does not exist.
        WrongTableKind: The table is not transactional.
        TableReplaced: The table was replaced before the transaction had its lock.
    """
    ref = TableRef.parse(job.target)
    earlier_table = existing_table(client, ref)
    with Transaction(
        client,
        reads=[ref],
        run_token=job.token,
        lock_wait_seconds=job.lock_wait_seconds,
        max_restarts=job.max_restarts,
        phases=phases,
    ) as txn:
        # Another client may have changed the definition before the lock.
        table = txn.definitions.current(earlier_table)
        _require_transactional(table)
        yield txn, table


def _require_transactional(table: HiveTable) -> None:
    if table.kind is TableKind.NOT_ACID:
        raise WrongTableKind(f"{table.ref} is not a transactional table.")
