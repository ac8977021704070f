"""Folders of new partitions and tables: leftovers in them would become visible rows.

Files in the folder of a partition that the metastore does not know are never of a committed write:
each writer registers its partitions before it commits. They are the rest of a dropped partition, of
a writer that died, or of a copy. The metastore forgets aborted write ids of partitions that it does
not know, so that a reader would take their rows for committed ones. Write ids of a new table start
at 1, so that every directory of a transaction in its folder would become visible in time.
"""

from collections.abc import Mapping, Sequence

from airflow_hiveacid.acid.names import ACID_PREFIXES, is_hidden, parse_directory
from airflow_hiveacid.errors import UnsupportedTable
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.storage.folder import ReadOnlyStorage
from airflow_hiveacid.storage.threads import in_threads

_NAMED = 5


def require_unused_partitions(
    client: MetastoreClient,
    table: HiveTable,
    partitions: Sequence[HivePartition],
    bases: Mapping[str, int] | None = None,
) -> None:
    """Refuse partitions to be added whose folders have files that readers would see.

    A partition that another writer has added meanwhile is accepted.

    Args:
        client: The metastore.
        table: The table.
        partitions: The partitions; the metastore lacks them.
        bases: The write id of the base that hides earlier files, for partitions that get one.

    Raises:
        UnsupportedTable: A folder has such files.
    """
    newest = bases or {}

    def is_used(partition: HivePartition) -> bool:
        return _shows_files(partition.folder, newest.get(partition.name))

    used = [
        partition.name
        for partition, has_files in zip(partitions, in_threads(is_used, partitions), strict=True)
        if has_files
    ]
    if not used:
        return
    # Requested after the listing: a writer registers a partition before it publishes files there.
    known = frozenset(client.get_partition_names(table.ref))
    if unknown := sorted(name for name in used if name not in known):
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        raise UnsupportedTable(
            f"The folders of {', '.join(unknown[:_NAMED])}{more} in {table.ref} have files, but the"
            " metastore does not know these partitions: rows of writes that were never committed"
            " would become visible.",
            remedy="Move the files away, unless another engine is writing them now. To keep their"
            " rows, INSERT them from there.",
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
    location = table.location
    if location is None:
        database = client.get_database(table.ref.database)
        location = f"{database.managed_location or database.location}/{table.ref.name}"
    client.allowed_locations.require(location)
    for path, _, _ in ReadOnlyStorage.of(location).walk():
        names = path.split("/")
        if any(name.startswith(ACID_PREFIXES) for name in names) and not any(map(is_hidden, names)):
            raise UnsupportedTable(
                f"The folder {location} of the new table {table.ref} has {path}, which a transaction"
                " of another table has written: its rows would become visible in time.",
                remedy="Move the directories of transactions away, or create the table elsewhere.",
            )


def _shows_files(folder: str, base: int | None) -> bool:
    """Return whether readers would see files in a folder, apart from those that a base hides.

    An empty base has a meaning, too: it hides the rows before it.
    """
    return any(
        not is_hidden(path)
        and (size is not None or path.startswith("base_"))
        and (base is None or _newest_write_id(path) > base)
        for path, size, _ in ReadOnlyStorage.of(folder).walk()
    )


def _newest_write_id(path: str) -> int:
    """Return the newest write id of a file in a partition; 0 for a file without a transaction."""
    directory = parse_directory(path.partition("/")[0])
    return 0 if directory is None else directory.write_ids[-1]
