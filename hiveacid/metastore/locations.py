"""The locations of all tables and partitions, in few calls and small answers."""

import re
from collections.abc import Iterator
from threading import Lock
from typing import Any

from hiveacid.errors import MetastoreCallFailed, TableNotFound
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import partitions_of, projected_tables
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.location import Location
from hiveacid.rules.names import TableRef, partition_name, plain_location, same_place

_DEFAULT = "default"
_WAREHOUSES = ("metastore.warehouse.dir", "metastore.warehouse.external.dir")
_STORE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


def other_locations(client: MetastoreClient, besides: HiveTable) -> Iterator[tuple[str, str]]:
    """Find the locations of all other tables of all databases, and of their partitions.

    Args:
        client: The metastore: two calls per database and 200 tables, and one for each table with
            partitions, as no call lists the partitions of several tables.
        besides: The table to exclude.

    Yields:
        "database.table" or "database.table/partition" with its location; views are skipped.
    """
    # The databases that a client lists are of one catalog.
    return _locations_of_tables(client, besides.raw.catName, besides.ref)


def all_locations(client: MetastoreClient, *, partitions: bool = True) -> Iterator[tuple[str, str]]:
    """Find the locations of all tables of all databases, and of their partitions.

    Args:
        client: The metastore; see ``other_locations``.
        partitions: Whether to list partitions; without them no call is made for a single table.

    Yields:
        "database.table" or "database.table/partition" with its location; views are skipped.
    """
    return _locations_of_tables(client, None, partitions=partitions)


def database_locations(client: MetastoreClient) -> Iterator[tuple[str, str]]:
    """Find the folders of all databases.

    Args:
        client: The metastore: one call per database.

    Yields:
        The name of a database with one of its folders.
    """
    for name in client.get_databases():
        try:
            database = client.get_database(name)
        except (TableNotFound, MetastoreCallFailed):
            if name in client.get_databases():
                raise
            continue
        for folder in filter(None, (database.location, database.managed_location)):
            yield name, folder


class Warehouse:
    """The folders that a metastore chooses for tables by their names.

    Nobody can make the name of a table lead to such a folder of another one. All other folders were
    chosen by somebody, also those in the folder of a database that was chosen.

    Attributes:
        roots: The folders of all databases.
    """

    def __init__(self, client: MetastoreClient) -> None:
        """Ask for the folders.

        Args:
            client: The metastore: three calls.
        """
        store = _STORE.match(client.get_database(_DEFAULT).location or "")
        folders = [client.config_value(name, "").rstrip("/") for name in _WAREHOUSES]
        self.roots = [
            root if store is None or _STORE.match(root) else f"{store[0]}{root}"
            for root in folders
            if root
        ]

    def chooses(self, ref: TableRef, location: str) -> bool:
        """Return whether the location of a table follows from its name."""
        folder = ref.name if ref.database == _DEFAULT else f"{ref.database}.db/{ref.name}"
        return any(same_place(location, f"{root}/{folder}") for root in self.roots)


class Locations:
    """The locations of all tables, listed once when they are first needed, by any thread."""

    def __init__(self, client: MetastoreClient) -> None:
        """List nothing yet.

        Args:
            client: The metastore.
        """
        self._client = client
        self._lock = Lock()
        self._listed: tuple[tuple[str, str], ...] | None = None

    def of(self, table: HiveTable) -> tuple[dict[str, Location], list[tuple[str, str]]]:
        """Return the locations of a table's partitions, and those of all others.

        Args:
            table: The table.

        Returns:
            The locations of its partitions by their names, and the names and locations of all other
                tables and their partitions, like ``other_locations``.

        Raises:
            AccessRefused: The location of a partition is not allowed.
        """
        with self._lock:
            if self._listed is None:
                self._listed = tuple(_locations_of_tables(self._client, table.raw.catName))
            all_locations = self._listed
        prefix = f"{table.ref.full_name}/"
        own_locations = {
            name.removeprefix(prefix): self._client.require_location(
                table.ref, plain_location(location)
            )
            for name, location in all_locations
            if name.startswith(prefix)
        }
        return own_locations, [
            location_entry
            for location_entry in all_locations
            if not f"{location_entry[0]}/".startswith(prefix)
        ]


def _locations_of_tables(
    client: MetastoreClient,
    catalog: str | None,
    besides: TableRef | None = None,
    *,
    partitions: bool = True,
) -> Iterator[tuple[str, str]]:
    for database in client.get_databases():
        for table in _described_tables(client, database):
            ref = TableRef(table.dbName, table.tableName)
            if ref == besides or not table.sd.location:
                continue
            yield ref.full_name, table.sd.location
            keys = [key.name for key in table.partitionKeys or () if partitions]
            try:
                raw_locations = _partition_locations(client, ref, catalog, keys) if keys else {}
            except (TableNotFound, MetastoreCallFailed):
                # Releases word it differently that a table is gone; and a failure does not mean that.
                if ref.name in client.get_tables(database):
                    raise
                continue
            for partition, location in raw_locations.items():
                yield f"{ref}/{partition}", location


def _described_tables(client: MetastoreClient, database: str) -> list[Any]:
    """Describe the tables of a database, without those that vanish meanwhile."""
    names: list[str] = []
    try:
        names = client.get_tables(database)
        return list(projected_tables(client, database, names))
    except (TableNotFound, MetastoreCallFailed):
        if database not in client.get_databases():
            return []
        # Releases fail differently if a table of the list is gone.
        if {*names} <= {*client.get_tables(database)}:
            raise
    return _described_tables(client, database)


def partition_locations(client: MetastoreClient, table: HiveTable) -> dict[str, Location]:
    """Find the location of each partition of a table, by the partition's name.

    Args:
        client: The metastore; version 3 answers more slowly, because it always sends everything.
        table: A table with partitions.

    Raises:
        AccessRefused: A location is not allowed.
    """
    keys = [key.name for key in table.partition_keys]
    raw_locations = _partition_locations(client, table.ref, table.raw.catName, keys)
    return {
        name: client.require_location(table.ref, plain_location(location))
        for name, location in raw_locations.items()
    }


def _partition_locations(
    client: MetastoreClient, ref: TableRef, catalog: str | None, keys: list[str]
) -> dict[str, str]:
    if not client.features.takes_requests:
        specs = client.call(
            idl_tables.get_partitions_pspec, ref.database, ref.name, -1, about=ref.full_name
        )
    else:
        request = idl_tables.GetPartitionsRequest(
            catName=catalog,
            dbName=ref.database,
            tblName=ref.name,
            projectionSpec=idl_tables.GetPartitionsProjectionSpec(["values", "sd.location"]),
            filterSpec=idl_tables.GetPartitionsFilterSpec(),
        )
        answer = client.call(idl_tables.get_partitions_with_specs, request, about=ref.full_name)
        specs = answer.partitionSpec
    return {
        partition_name(keys, partition.values): location
        for spec in specs
        for partition, _, location in partitions_of(spec)
    }
