"""Folders of new partitions and tables: leftovers in them would become visible rows.

Files in the folder of a partition that the metastore does not know are never of a committed write:
each writer registers its partitions before it commits. They are the rest of a dropped partition, of
a writer that died, or of a copy. The metastore forgets aborted write ids of partitions that it does
not know, so that a reader would take their rows for committed ones. Write ids of a new table start
at 1, so that every directory of a transaction in its folder would become visible in time.

Hive 4 may drop a partition without removing its files. It then adds a base without rows, marked as a
dropped partition, which hides them from all readers if the partition comes again.
"""

from collections.abc import Mapping, Sequence

from hiveacid.errors import ConflictError, UnsupportedTable
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.directory import DROPPED, Rules
from hiveacid.rules.location import Location
from hiveacid.rules.names import (
    ACID_PREFIXES,
    METADATA_FILE,
    Base,
    first_names,
    is_hidden,
    parse_directory,
)
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import read_marker


def require_unused_partitions(
    client: MetastoreClient,
    table: HiveTable,
    partitions: Sequence[HivePartition],
    bases: Mapping[str, int] | None = None,
    write_id: int | None = None,
) -> None:
    """Refuse partitions to be added whose folders have files that readers would see.

    A partition that another writer has added meanwhile is accepted, and one that Hive 4 has
    dropped without removing its files.

    Args:
        client: The metastore.
        table: The table.
        partitions: The partitions; the metastore lacks them.
        bases: The write id of the base that hides earlier files, for partitions that get one.
        write_id: The write id of the new rows, if any.

    Raises:
        ConflictError: Only transactions that are still open have written such files.
        UnsupportedTable: A folder has such files, or would hide the new rows.
    """
    newest = bases or {}

    def visible(partition: HivePartition) -> list[str]:
        return _visible_files(partition.folder, newest.get(partition.name))

    used_locations = {
        partition.name: (ReadOnlyStorage.of(partition.folder), files)
        for partition, files in zip(partitions, in_threads(visible, partitions), strict=True)
        if files
    }
    if not used_locations:
        return
    # In this order, after the listing: each writer registers its partitions before it commits, so
    # that those of a transaction that has ended by now are known.
    write_ids = Snapshot.take(client, [table.ref]).write_ids[table.ref.full_name]
    unknown_names = sorted(used_locations.keys() - frozenset(client.get_partition_names(table.ref)))
    may_be_dropped = DROPPED in Rules.of(client.features.hides_compactions).data_formats
    leftovers, being_written = [], []
    for name in unknown_names:
        storage, files = used_locations[name]
        visible_paths = [path for path in files if _newest_write_id(path) not in write_ids.open]
        if visible_paths and not (
            may_be_dropped and _are_dropped(storage, visible_paths, write_ids, write_id)
        ):
            leftovers.append(name)
        elif len(visible_paths) < len(files):
            being_written.append(name)
    if leftovers:
        raise UnsupportedTable(
            f"The folders of {first_names(leftovers)} in {table.ref} have files, but the metastore does not"
            " know these partitions: rows of writes that were never committed would become"
            " visible.",
            remedy="Move the files away. To keep their rows, INSERT them from there.",
        )
    if being_written:
        raise ConflictError(
            f"Transactions that are still open are adding the partitions {first_names(being_written)}"
            f" to {table.ref}.",
            remedy="Run the job again when they have ended.",
        )


def require_unused_table_folder(client: MetastoreClient, table: HiveTable) -> None:
    """Refuse a table to be created in a folder that has directories of transactions.

    Files without a transaction are accepted: as in Hive, they are the first rows of the table.

    Args:
        client: The metastore.
        table: The description of the table.

    Raises:
        AccessRefused: The location is not allowed.
        UnsupportedTable: The folder has such directories.
    """
    folder: str | None = table.location
    if folder is None:
        database = client.get_database(table.ref.database)
        folder = f"{database.managed_location or database.location}/{table.ref.name}"
    location = client.allowed_locations.require(folder)
    for path, _, _ in ReadOnlyStorage.of(location).walk():
        names = path.split("/")
        if any(name.startswith(ACID_PREFIXES) for name in names) and not any(map(is_hidden, names)):
            raise UnsupportedTable(
                f"The folder {location} of the new table {table.ref} has {path}, which a transaction"
                " of another table has written: its rows would become visible in time.",
                remedy="Move the directories of transactions away, or create the table elsewhere.",
            )


def _visible_files(folder: Location, base: int | None) -> list[str]:
    """Return the files that readers would see in a folder, apart from those that a base hides.

    An empty base has a meaning, too: it hides the rows before it.
    """
    return [
        path
        for path, size, _ in ReadOnlyStorage.of(folder).walk()
        if not is_hidden(path)
        and (size is not None or path.startswith("base_"))
        and (base is None or _newest_write_id(path) > base)
    ]


def _are_dropped(
    storage: ReadOnlyStorage,
    files: Sequence[str],
    write_ids: ValidWriteIdList,
    write_id: int | None,
) -> bool:
    """Return whether a committed drop of the partition hides all files, and no new row."""
    marked_directories = [
        directory
        for directory, _, name in (path.partition("/") for path in files)
        if name == METADATA_FILE
    ]
    markers = [
        (base.write_id, directory)
        for directory in marked_directories
        if isinstance(base := parse_directory(directory), Base)
        and write_ids.is_valid(base.write_id)
        and (read_marker(storage, directory) or "").lower() == DROPPED
    ]
    if not markers:
        return False
    newest, marked = max(markers)
    return (write_id is None or newest < write_id) and all(
        _newest_write_id(path) <= newest
        and (not path.startswith(f"{marked}/") or is_hidden(path.removeprefix(f"{marked}/")))
        for path in files
    )


def _newest_write_id(path: str) -> int:
    """Return the newest write id of a file in a partition; 0 for a file without a transaction."""
    directory = parse_directory(path.partition("/")[0])
    return 0 if directory is None else directory.write_ids[-1]
