"""The folders of a table and its partitions, and the check that no other table uses them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from hiveacid.errors import InvalidJob, SharedLocation
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import other_locations, partition_locations
from hiveacid.rules.locations import same_place, split_location
from hiveacid.rules.partition_filter import find_partitions
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hadoop_configuration import hadoop_properties
from hiveacid.tables.canonical_locations import MountTables, OwnPlaces, Place, places


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """The folder of a partition or of an unpartitioned table.

    Attributes:
        partition: The partition's name; None for a table without partitions.
        location: Its folder, without redundant slashes.
        below: The table's folder if it contains this folder, else this folder.
        path: The relative path from ``below`` to the folder; "" if both are the same.
    """

    partition: str | None
    location: str
    below: str
    path: str

    def show(self, name: str) -> str:
        """The path of something in it: relative to the table's folder, or absolute elsewhere."""
        inside = self.partition is None or self.path
        parts = [self.path if inside else self.location.rstrip("/"), name]
        return "/".join(filter(None, parts)) or "."

    def leads_through_link(self) -> bool:
        """Whether a symbolic link may lead to files that are not the table's."""
        return ReadOnlyStorage.of(self.below).is_link(self.path)


class TableFolders:
    """The folders of a table and its partitions, each in a place of its own.

    Attributes:
        table: The table.
        folders: One folder for each partition, or that of an unpartitioned table.
    """

    def __init__(self, table: HiveTable, locations: Mapping[str, str]) -> None:
        """Describe the folders.

        Args:
            table: The table.
            locations: The locations of its partitions, by their names.

        Raises:
            SharedLocation: Two partitions may have files in one folder, or one inside the other, or a
                partition has the folder of its table, or one around it.
        """
        self.table = table
        self._locations = locations
        self.folders = [PartitionFolder(None, table.folder, table.folder, "")]
        if table.partition_keys:
            self.folders = [folder_of(table.folder, *named) for named in sorted(locations.items())]
        self._places_of = place_resolver()
        root = self._places_of(table.folder)
        places_of_partitions = {
            f"{table.ref}/{folder.partition}": (folder.location, self._places_of(folder.location))
            for folder in self.folders
            if folder.partition is not None
        }
        partitions = {name: found for name, (_, found) in places_of_partitions.items()}
        own = OwnPlaces(partitions.items())
        for name, (location, found) in places_of_partitions.items():
            # Partitions lie inside the folder of their table, never at it or around it.
            if any(place.may_be_inside(partition) for place in root for partition in found):
                raise shared_location(name, table.ref.full_name, location)
            if (neighbor := own.overlapping(found, besides=name)) is not None:
                raise shared_location(name, neighbor, location)
        self._own = OwnPlaces([(table.ref.full_name, root), *partitions.items()])

    def of_partitions(self, partitions: Sequence[str] | None) -> list[PartitionFolder]:
        """Return the folders of some partitions; a missing partition has none.

        Args:
            partitions: Their names; all partitions, or an unpartitioned table, if None.

        Raises:
            InvalidJob: Partitions are requested of an unpartitioned table.
        """
        if partitions is None:
            return self.folders
        if not self.table.partition_keys:
            raise InvalidJob(f"{self.table.ref} has no partitions.")
        known = [folder.partition for folder in self.folders if folder.partition is not None]
        named = {*find_partitions(partitions, known, self.table.key_types, lenient=True)}
        return [folder for folder in self.folders if folder.partition in named]

    def has(self, folder: PartitionFolder) -> bool:
        """Return whether a partition has a folder, and no other one."""
        found = self._locations.get(folder.partition or "")
        return folder.partition is None or (
            found is not None and same_place(found, folder.location)
        )

    def require_unshared(self, others: Iterable[tuple[str, str]]) -> None:
        """Check that nothing else uses any of the folders.

        Args:
            others: The names and locations of all other tables and their partitions.

        Raises:
            SharedLocation: Another table or partition may have its files in a folder, around it or
                inside it.
        """
        for other, location in others:
            if (overlapping := self._own.overlapping(self._places_of(location))) is not None:
                raise shared_location(overlapping, other, location)


def require_own_folders(client: MetastoreClient, table: HiveTable, dropped: Sequence[str]) -> None:
    """Check that nothing else has files in the folders of partitions that will be dropped.

    Args:
        client: The metastore.
        table: The table.
        dropped: The names of its partitions; missing partitions have no folder.

    Raises:
        SharedLocation: Another table, or a partition that remains, may have its files in a folder,
            around it or inside it.
    """
    places_of = place_resolver()
    locations = partition_locations(client, table)
    removed = {name: places_of(locations.pop(name)) for name in dropped if name in locations}
    root = places_of(table.folder)
    for name, found in removed.items():
        if any(place.may_be_inside(partition) for place in root for partition in found):
            raise shared_location(f"{table.ref}/{name}", table.ref.full_name, table.folder)
    own = OwnPlaces((f"{table.ref}/{name}", found) for name, found in removed.items())
    kept = ((f"{table.ref}/{name}", location) for name, location in locations.items())
    for other, location in chain(kept, other_locations(client, table)):
        if (overlapping := own.overlapping(places_of(location))) is not None:
            raise shared_location(overlapping, other, location)


def folder_of(table: str, partition: str | None, location: str) -> PartitionFolder:
    """Return the folder of a partition, from its table's folder and its own location."""
    return PartitionFolder(partition, location, *split_location(table, location))


def place_resolver() -> Callable[[str], frozenset[Place]]:
    """Return a function that lists every directory that a location may mean."""
    mounts = MountTables(hadoop_properties())
    # Most partitions lie in few directories, whose links are followed once.
    real_directory = lru_cache(maxsize=1000)(os.path.realpath)

    def resolve(path: str) -> str:
        above, name = os.path.split(path)
        try:
            real = os.path.join(real_directory(above), name)
            if name in ("", ".", "..") or os.path.islink(real):
                return os.path.realpath(path)
        except ValueError:  # It holds a null character, which no directory can have.
            return path
        return real

    return lambda location: places(location, mounts, resolve)


def shared_location(one: str, other: str, where: str) -> SharedLocation:
    """Return the error that two names have, or may have, files in one directory."""
    return SharedLocation(f"{one} and {other} have, or may have, files in one directory: {where}.")
