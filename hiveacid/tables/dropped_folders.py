"""The folders of tables and partitions to be dropped or moved, in which nothing else may be."""

import posixpath
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

from hiveacid.errors import HiveAcidError
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import all_locations, other_locations, partition_locations
from hiveacid.rules.location import Location
from hiveacid.rules.names import STAGING_PREFIX, parse_directory, same_place, split_location
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.locations import (
    OwnPlaces,
    default_folders,
    place_resolver,
    shared_location,
)

# The beginnings of the names of this package's folders and notes.
_OF_PACKAGE = ("_hiveacid_", STAGING_PREFIX)


def require_own_folders(
    client: MetastoreClient, table: HiveTable, partition_names: Sequence[str]
) -> None:
    """Check that nothing else has files in the folders of partitions that will be dropped.

    Args:
        client: The metastore.
        table: The table.
        partition_names: The names of its partitions; missing partitions have no folder.

    Raises:
        SharedLocation: Another table, or a partition that remains, may have its files in a folder,
            around it or inside it.
    """
    places_of = place_resolver()
    locations = partition_locations(client, table)
    removed = {
        name: places_of(locations.pop(name)) for name in partition_names if name in locations
    }
    root = places_of(table.folder)
    for name, partition_places in removed.items():
        if any(place.may_be_inside(partition) for place in root for partition in partition_places):
            raise shared_location(f"{table.ref}/{name}", table.ref.full_name, table.folder)
    own_places = OwnPlaces(
        (f"{table.ref}/{name}", partition_places) for name, partition_places in removed.items()
    )
    remaining_locations = (
        (f"{table.ref}/{name}", location) for name, location in locations.items()
    )
    for owner, location in chain(remaining_locations, other_locations(client, table)):
        if (overlapping := own_places.overlapping(places_of(location))) is not None:
            raise shared_location(overlapping, owner, location)


def require_unshared(
    client: MetastoreClient, tables: Sequence[HiveTable], *, partitions: bool = True
) -> None:
    """Refuse to drop or move tables if another table has files in their folders.

    No lock on these tables keeps others from adding partitions to theirs, and no call lists the
    partitions of several tables. So they are listed only if the folders may have files of such a
    partition, and before the lock is requested, which others would otherwise wait for. The tables
    themselves are listed once more under it.

    Args:
        client: The metastore: two calls per database and 200 tables; and one for each table with
            partitions, unless the files in the folders rule them out.
        tables: The tables; views, and external tables whose files remain, have no folders.
        partitions: Whether the partitions of other tables count, too.

    Raises:
        SharedLocation: Another table or partition is registered in a folder, around it or inside it.
    """
    owning = [table for table in tables if table.location and not _keeps_files(table)]
    if not owning:
        return
    own_locations = [
        (table, partition_locations(client, table) if table.partition_keys else {})
        for table in owning
    ]
    places_of = place_resolver()
    folders = OwnPlaces(
        (name, places_of(location))
        for table, partition_locations in own_locations
        for name, location in (
            (table.ref.full_name, table.folder),
            *(
                (f"{table.ref}/{partition}", partition_location)
                for partition, partition_location in partition_locations.items()
            ),
        )
    )
    dropped_names = {table.ref.full_name for table in tables}
    needs_partitions = partitions and not all(
        _has_only_own_files(client, table, partition_locations.values())
        for table, partition_locations in own_locations
    )
    for owner, location in all_locations(client, partitions=needs_partitions):
        if owner.partition("/")[0] in dropped_names:
            continue
        if (overlapping := folders.overlapping(places_of(location))) is not None:
            raise shared_location(overlapping, owner, location)


def _has_only_own_files(
    client: MetastoreClient, table: HiveTable, partitions: Iterable[Location]
) -> bool:
    """Return whether the files of a table rule out those of a partition of another table.

    Its folder is the one that follows from its name, and has only the folders of its partitions, with
    directories of transactions and of this package. The metastore makes a folder for each partition,
    so that one of another table would be there, too.
    """
    if not any(same_place(table.folder, folder) for folder in default_folders(client, table.ref)):
        return False
    paths = [split_location(table.folder, location)[1] for location in partitions]
    data = {*paths} if table.partition_keys else {""}
    known_parents = {
        parent for path in paths for parent in accumulate(path.split("/"), posixpath.join)
    }
    try:
        storage = ReadOnlyStorage.of(table.folder)
        if not storage.exists("") or storage.is_link(""):
            return False  # The metastore may have it on another machine.
        for path, size, _ in storage.walk():
            of_package = any(name.startswith(_OF_PACKAGE) for name in path.split("/"))
            if of_package or (size is None and path in known_parents):
                continue
            parent, name = posixpath.split(path if size is None else posixpath.dirname(path))
            if parent not in data or parse_directory(name) is None:
                return False
    except HiveAcidError:
        return False  # This process may not read them, or does not know their names.
    return "" not in paths


def _keeps_files(table: HiveTable) -> bool:
    """Return whether the metastore keeps the files of a table that is dropped."""
    external = table.parameters.get("EXTERNAL", "").lower() == "true"
    return external and table.parameters.get("external.table.purge", "").lower() != "true"
