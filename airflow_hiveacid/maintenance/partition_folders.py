"""The folders of a table and its partitions, and the check that nobody else uses them."""

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.errors import InvalidJob, SharedLocation
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.locations import partition_locations, table_locations
from airflow_hiveacid.storage.filesystems import real_place
from airflow_hiveacid.storage.folder import ReadOnlyStorage


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """Where a partition, or a table without partitions, has its directories.

    Attributes:
        partition: The partition's name; None for a table without partitions.
        location: Its folder, in the metastore's spelling.
        below: The table's folder, if it lies in there, else its own.
        path: How to come from there to the folder; "" where it is the same.
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


def partition_folders(
    client: MetastoreClient, table: HiveTable, partitions: Sequence[str] | None
) -> list[PartitionFolder]:
    """Find the folders that a job is about, all of them its table's alone.

    Args:
        client: The metastore.
        table: The table.
        partitions: The names of its partitions; None is all of them. One that is not there (any
            more) has no folder.

    Raises:
        InvalidJob: Partitions are asked of a table that has none.
        SharedLocation: Another table or partition lies there, around there or inside.
    """
    if partitions is not None and not table.partition_keys:
        raise InvalidJob(f"{table.ref} has no partitions.")
    whole = PartitionFolder(None, table.folder, table.folder, "")
    folders = [whole]
    if table.partition_keys:
        locations = partition_locations(client, table)
        folders = [folder_of(table.folder, *named) for named in sorted(locations.items())]
    _refuse_shared(table, folders, table_locations(client))
    if partitions is None:
        return folders
    named = frozenset(partitions)
    return [folder for folder in folders if folder.partition in named]


def folder_of(table: str, partition: str | None, location: str) -> PartitionFolder:
    """The folder of a partition, as its table's folder and its own location tell."""
    root = table.rstrip("/")
    inside = location.startswith(f"{root}/")
    below, path = (root, location[len(root) + 1 :].strip("/")) if inside else (location, "")
    return PartitionFolder(partition, location, below, path)


def _refuse_shared(
    table: HiveTable, folders: Sequence[PartitionFolder], tables: Sequence[tuple[TableRef, str]]
) -> None:
    root = real_place(table.folder)
    own = {root: table.ref.full_name}
    for folder in folders:
        if folder.partition is not None:
            name = f"{table.ref}/{folder.partition}"
            first = own.setdefault(real_place(folder.location), name)
            if first != name:
                raise _shared(name, first, folder.location)
    others = {real_place(location): ref.full_name for ref, location in tables if ref != table.ref}
    for parts, name in (others | own).items():
        if parts in own and parts in others:
            raise _shared(name, others[parts], "/".join(parts))
        for depth in range(len(parts) - 1, 1, -1):
            above = parts[:depth]
            # Partitions lie in the folder of their table; how others lie is none of our business.
            inside = None if parts in own and above == root else own.get(above)
            around = others.get(above) if parts in own else None
            if other := inside or around:
                raise _shared(name, other, "/".join(parts))


def _shared(one: str, other: str, where: str) -> SharedLocation:
    return SharedLocation(f"{one} and {other} have their files in one place: {where}.")
