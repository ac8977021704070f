"""Detection of tables that were replaced or changed while a job was running.

Locks do not prevent other clients that request no locks from dropping, moving or changing a table.
"""

from collections.abc import Sequence
from dataclasses import replace

from hiveacid.errors import TableNotFound, TableReplaced
from hiveacid.jobs.definitions.table_properties import FILE_PROPERTIES
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.partition_storage import PartitionStorage
from hiveacid.rules.located_table import LocatedTable
from hiveacid.rules.locations import same_place
from hiveacid.rules.partition_keys import require_different_values


def require_same_table(
    client: MetastoreClient, table: HiveTable, allocated: tuple[int, int] | None = None
) -> HiveTable:
    """Verify that a table was neither dropped nor moved.

    Args:
        client: The metastore.
        table: The table as it was.
        allocated: A transaction, and its write id for the table: write ids of a new table restart
            at 1. They are compared if the metastore does not number its tables: the creation time
            alone is in whole seconds.

    Returns:
        The current table.

    Raises:
        TableReplaced: The table was dropped, moved or replaced.
    """
    now = same_creation(client, table)
    _require_same_write_id(client, now, table, allocated)
    if not same_place(now.location, table.location):
        raise TableReplaced(
            f"{table.ref} was moved from {table.location} to {now.location} meanwhile."
        )
    return now


def _require_same_write_id(
    client: MetastoreClient, now: HiveTable, table: HiveTable, allocated: tuple[int, int] | None
) -> None:
    numbered = now.identity.id is not None and table.identity.id is not None
    if allocated is not None and not numbered:
        txn, write_id = allocated
        if (other := client.allocate_write_id(txn, table.ref)) != write_id:
            raise TableReplaced(
                f"{table.ref} was dropped and created again meanwhile: transaction {txn} had write"
                f" id {write_id}, and has {other}."
            )


def same_creation(client: MetastoreClient, table: HiveTable) -> HiveTable:
    """Return the current definition of a table, which may have been moved.

    Raises:
        TableReplaced: The table was dropped or replaced.
    """
    try:
        now = client.get_table(table.ref)
    except TableNotFound as error:
        raise TableReplaced(f"{table.ref} was dropped or renamed meanwhile.") from error
    if not now.identity.is_same(table.identity):
        raise TableReplaced(
            f"{table.ref} was dropped and created again meanwhile: it was {table.identity}, and is"
            f" {now.identity}."
        )
    return now


def located(table: HiveTable) -> LocatedTable:
    """Describe a table for files that must remain distinct from those of any other table.

    Raises:
        UnsupportedTable: The table has no files, like a view.
    """
    return LocatedTable(
        name=table.ref.full_name,
        location=table.folder,
        identity=table.identity,
    )


def require_same_definition(
    client: MetastoreClient,
    table: HiveTable,
    partitions: Sequence[HivePartition] = (),
    allocated: tuple[int, int] | None = None,
    *,
    may_grow: bool = False,
    now: HiveTable | None = None,
) -> HiveTable:
    """Verify that files written for a table, and for some partitions, still fit.

    Args:
        client: The metastore.
        table: The table as it was.
        partitions: The partitions as they were; all must exist by now.
        allocated: See ``require_same_table``.
        may_grow: Whether additional columns are allowed: new rows are null there, but a job that
            rewrites rows would lose values that other writers stored there.
        now: The current table, if ``require_same_table`` has just returned it, without a
            transaction.

    Returns:
        The current table.

    Raises:
        TableReplaced: The table is another one, or has other columns or properties that decide how
            its files are read; or a partition is missing, has another location, or has another
            storage.
    """
    if now is None:
        now = require_same_table(client, table, allocated)
    else:
        _require_same_write_id(client, now, table, allocated)
    require_described(now, table, may_grow=may_grow)
    if not partitions:
        return now
    present = PartitionStorage.read(client, now, [partition.name for partition in partitions])
    for partition in partitions:
        current, before = present.get(partition.name), PartitionStorage.of(partition)
        what = f"The partition {partition.name} of {table.ref}"
        remedy = "Nothing was published; run the job again."
        if current is None:
            # A metastore has not added a partition that it takes for another one.
            known = [*present, *client.get_partition_names(table.ref)]
            require_different_values(table.ref.full_name, [partition.name], known)
            raise TableReplaced(f"{what} was dropped meanwhile.", remedy=remedy)
        if not same_place(current.location, before.location):
            raise TableReplaced(
                f"{what} was moved from {before.location} to {current.location} meanwhile.",
                remedy=remedy,
            )
        if before.created and current.created != before.created:
            raise TableReplaced(f"{what} was dropped and added again meanwhile.", remedy=remedy)
        if replace(current, location=None, created=0) != replace(before, location=None, created=0):
            raise TableReplaced(
                f"{what} has other buckets, another format, or other properties of the format than"
                " before.",
                remedy=remedy,
            )
    return now


def require_described(now: HiveTable, table: HiveTable, *, may_grow: bool = False) -> None:
    """Verify that an earlier definition of a table describes its files like the current one.

    Args:
        now: The current definition.
        table: The earlier definition of the same table.
        may_grow: See ``require_same_definition``.

    Raises:
        TableReplaced: The definitions differ.
    """
    kept = now.columns[: len(table.columns)] if may_grow else now.columns
    if _layout(now) != _layout(table) or _types(kept) != _types(table.columns):
        raise TableReplaced(
            f"The columns of {table.ref}, its storage, or a property that decides how its files are"
            " read, were changed meanwhile.",
            remedy="Nothing was published; run the job again.",
        )


def _layout(table: HiveTable) -> tuple[object, ...]:
    """Return everything that decides which rows the files of a table contain, besides the columns."""
    return (
        table.kind,
        table.view_text,
        _types(table.partition_keys),
        table.bucket_columns,
        max(table.num_buckets, 0),
        table.serde,
        dict(table.serde_parameters),
        table.input_format,
        {name: table.parameters.get(name) for name in FILE_PROPERTIES},
    )


def _types(columns: Sequence[HiveColumn]) -> list[tuple[str, str]]:
    return [(column.name.lower(), column.type.lower()) for column in columns]
