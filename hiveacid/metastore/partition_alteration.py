"""Alter definitions of partitions, alone or together with their table.

No metastore compares the definition of a partition with the one that was read. A change of columns
that is overwritten thereby is found in the table, which is read afterwards.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from hiveacid.errors import AnswerLost, UnsupportedTable
from hiveacid.metastore.alteration import (
    ACCURATE,
    KEEP_STATISTICS,
    TRIES,
    Writer,
    alter_table,
    forget_row_count,
    mark_changed,
    overtaken,
)
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient, batches
from hiveacid.metastore.constraints import all_constraints
from hiveacid.metastore.same_table import require_same_table
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.exclusive import ExclusiveTable
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.rules.names import TableRef


def change_columns(
    client: MetastoreClient,
    table: HiveTable,
    choose: Callable[[HiveTable], Sequence[HiveColumn]],
    *,
    run_token: str | None,
    lock_wait_seconds: float,
) -> HiveTable:
    """Change the columns of a table and of all of its partitions under an exclusive lock.

    Args:
        client: The metastore.
        table: The table, of which other columns may have been changed since its lookup.
        choose: Returns the new columns for the table as read under the lock.
        run_token: The token of the run.
        lock_wait_seconds: The longest wait for other owners.

    Returns:
        The table after the change.

    Raises:
        TableReplaced: The table was dropped, moved or replaced since its lookup.
    """
    ref = table.ref
    chosen: list[list[HiveColumn]] = []

    def change(raw: Any) -> bool:
        table = HiveTable.from_thrift(raw)
        if _commented(table.columns) in chosen:
            return False
        columns = tuple(choose(table))
        chosen.append(_commented(columns))
        raw.sd.cols = [
            idl_tables.FieldSchema(column.name, column.type, column.comment) for column in columns
        ]
        mark_changed(raw)
        return columns != table.columns

    # It blocks only clients that request locks.
    with ExclusiveTable(client, ref, run_token, lock_wait_seconds) as held:
        table = require_same_table(client, table)
        columns = tuple(choose(table))
        if columns != table.columns:
            _require_constraints_kept(client, ref)
        writer = None
        if columns[: len(table.columns)] != table.columns:
            writer = _forget_accurate(client, table, held)
        alter_table(
            client, table, change, held.confirm_alive, context={"CASCADE": "true"}, writer=writer
        )
        return client.get_table(ref)


def forget_statistics(
    client: MetastoreClient,
    ref: TableRef,
    partitions: Sequence[str],
    writer: Writer,
    current: HiveTable | None = None,
) -> bool:
    """Keep Hive from answering queries out of statistics that the transaction makes wrong.

    Args:
        client: The metastore.
        ref: The written table.
        partitions: The names of the written partitions.
        writer: The transaction.
        current: The table if it has been read since the transaction has its write id.

    Returns:
        Whether the definition of the table had to be changed.
    """
    table = current or client.get_table(ref)
    changed = forget_row_count(deepcopy(table.raw)) and alter_table(
        client, table, forget_row_count, writer.confirm, writer=writer
    )
    alter_partitions(
        client, table, partitions, lambda partition: forget_row_count(partition.raw), writer
    )
    return changed


def alter_partitions(
    client: MetastoreClient,
    table: HiveTable,
    names: Sequence[str],
    change: Callable[[HivePartition], bool],
    writer: Writer,
) -> None:
    """Change the definitions of partitions.

    Args:
        client: The metastore.
        table: The table, read before this call.
        names: The partitions; one that does not exist is skipped.
        change: Changes the Thrift struct of a partition, and returns whether a change was
            necessary.
        writer: The transaction.

    Raises:
        SnapshotMoved: Concurrent changes exhausted all attempts.
        TableReplaced: The table was dropped, moved or replaced.
    """
    for batch in batches(names):
        for _ in range(TRIES):
            changed = [each for each in client.get_partitions(table, batch) if change(each)]
            if not changed:
                break
            writer.confirm()
            is_answered = _send_partitions(client, table.ref, changed, writer)
            read = partial(require_same_table, client, table)
            table = complete_columns(client, table, changed, read, writer)
            if is_answered:
                break
        else:
            raise overtaken(table.ref)


def add_partitions(
    client: MetastoreClient,
    table: HiveTable,
    partitions: Sequence[HivePartition],
    confirm: Callable[[], None],
) -> None:
    """Add partitions, with the columns that their table has by then.

    Args:
        client: The metastore.
        table: The table that the partitions were described by.
        partitions: The partitions.
        confirm: Raises an error unless the metastore confirms that the locks on the table are held.

    Raises:
        SnapshotMoved: Concurrent changes exhausted all attempts.
        TableReplaced: The table was dropped, moved or replaced.
    """
    if partitions:
        confirm()
        client.add_partitions(table.ref, partitions)
        complete_columns(client, table, partitions, partial(require_same_table, client, table))


def complete_columns(
    client: MetastoreClient,
    table: HiveTable,
    partitions: Sequence[HivePartition],
    read: Callable[[], HiveTable],
    writer: Writer | None = None,
) -> HiveTable:
    """Give the columns of a table to partitions whose definitions were sent with its former ones.

    It needs no lock, because it restores what was overwritten, and reads the table again after that.

    Args:
        client: The metastore.
        table: The table as it was read before the partitions were sent.
        partitions: The partitions.
        read: Reads the table, and raises an error if it is another one.
        writer: The transaction, if there is one with a write id.

    Returns:
        The table, which has the columns of these partitions.

    Raises:
        SnapshotMoved: The columns changed in each of some attempts.
    """
    for _ in range(TRIES):
        now = read()
        if now.columns == table.columns:
            return now
        names = [partition.name for partition in partitions]
        behind = [
            partition
            for partition in client.get_partitions(now, names)
            if _is_behind(partition.columns, table.columns, now.columns)
        ]
        for partition in behind:
            partition.raw.sd.cols = deepcopy(now.raw.sd.cols)
        if all(_send_partitions(client, now.ref, each, writer) for each in batches(behind)):
            table = now
    raise overtaken(table.ref)


def _is_behind(
    columns: tuple[HiveColumn, ...], before: tuple[HiveColumn, ...], now: tuple[HiveColumn, ...]
) -> bool:
    """Return whether a partition lacks a change of the columns of its table."""
    return columns != now and (columns == before or columns == now[: len(columns)])


def _commented(columns: Sequence[HiveColumn]) -> list[HiveColumn]:
    return [replace(column, comment=column.comment or "") for column in columns]


def _require_constraints_kept(client: MetastoreClient, ref: TableRef) -> None:
    """Raise UnsupportedTable where the metastore would move constraints to other columns."""
    if not client.version.keeps_constraints and all_constraints(client, ref).all:
        raise UnsupportedTable(
            f"{ref} has constraints, and a metastore of version 3 moves them to other columns when the"
            " columns of a table change.",
            remedy="Drop the constraints in Hive first, and add them again after the change.",
        )


def _forget_accurate(
    client: MetastoreClient, table: HiveTable, held: ExclusiveTable
) -> Writer | None:
    """Forget statistics that are marked as accurate: version 4 refuses to change such columns."""
    if not client.version.versions_definitions:
        return None
    partitions = client.get_partitions(table) if table.partition_keys else []
    accurate = [each.name for each in partitions if ACCURATE in each.parameters]
    if not accurate and ACCURATE not in table.parameters:
        return None
    write_id = client.allocate_write_id(held.txn_id, table.ref)
    snapshot = Snapshot.take(client, [table.ref], held.txn_id)
    writer = Writer(write_id, snapshot.write_ids[table.ref.full_name], held.confirm_alive)
    forget_statistics(client, table.ref, accurate, writer)
    return writer


def _send_partitions(
    client: MetastoreClient,
    ref: TableRef,
    partitions: Sequence[HivePartition],
    writer: Writer | None,
) -> bool:
    """Replace the definitions of partitions.

    Returns:
        Whether an answer has shown it.
    """
    about, raw = ref.full_name, [partition.raw for partition in partitions]
    context = idl_tables.EnvironmentContext(dict(KEEP_STATISTICS))
    with suppress(AnswerLost):
        if not client.version.versions_definitions:
            call = idl_tables.alter_partitions_with_environment_context
            client.call(call, ref.database, ref.name, raw, context, about=about)
            return True
        request = idl_tables.AlterPartitionsRequest(
            catName=raw[0].catName,
            dbName=ref.database,
            tableName=ref.name,
            partitions=raw,
            environmentContext=context,
        )
        if writer is not None:
            request.writeId = writer.write_id
            request.validWriteIdList = writer.write_ids.format()
            for each in raw:
                each.writeId = writer.write_id
        client.call(idl_tables.alter_partitions_req, request, about=about)
        return True
    return False
