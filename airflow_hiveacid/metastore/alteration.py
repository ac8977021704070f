"""Alter definitions of tables and partitions without overwriting concurrent changes.

An alter replaces the whole definition. It is therefore sent only if something must change, and is
based on a definition just read; version 4 receives the identity of that definition.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.errors import MetastoreCallFailed, SnapshotMoved, UnsupportedTable
from airflow_hiveacid.metastore.catalog import (
    ROW_COUNT,
    UNKNOWN_ROW_COUNT,
    HiveColumn,
    HivePartition,
    HiveTable,
)
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.constraints import all_constraints
from airflow_hiveacid.metastore.same_table import require_same_table
from airflow_hiveacid.metastore.thrift import idl_tables
from airflow_hiveacid.metastore.txn.exclusive import ExclusiveTable
from airflow_hiveacid.metastore.txn.snapshot import Snapshot

# Time of the last change of the definition, in seconds. Hive's DDL sets it, statistics do not.
DDL_TIME = "transient_lastDdlTime"
_TIME = re.compile("[0-9]{1,12}")
# The statistics that Hive considers accurate.
ACCURATE = "COLUMN_STATS_ACCURATE"
# Else the metastore would count files that it cannot judge.
_KEEP_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
_TRIES = 10
# The error text of version 4 if the definition has changed in the meantime.
_OVERTAKEN = "The table has been modified"
# Derby and Oracle cannot compare the long texts that parameters are kept as.
_INCOMPARABLE = ("ERROR 42818", "ORA-00932")
_PARTITIONS_PER_CALL = 500


@dataclass(frozen=True, slots=True)
class Writer:
    """The transaction that changes statistics.

    Attributes:
        write_id: Its write id.
        write_ids: Its snapshot of the table.
    """

    write_id: int
    write_ids: ValidWriteIdList


def alter_table(
    client: MetastoreClient,
    ref: TableRef,
    change: Callable[[Any], bool],
    *,
    context: Mapping[str, str] | None = None,
    writer: Writer | None = None,
    current: HiveTable | None = None,
) -> bool:
    """Change the definition of a table.

    Args:
        client: The metastore.
        ref: The table.
        change: Changes the Thrift struct, also the name in it, and returns whether a change was
            necessary. It is called again after a concurrent change.
        context: Further environment context for the metastore.
        writer: The transaction, if this changes statistics.
        current: The table if it has just been read; its Thrift struct changes.

    Returns:
        Whether a change was necessary.

    Raises:
        SnapshotMoved: Concurrent changes exhausted all attempts.
    """
    for _ in range(_TRIES):
        raw, current = (current or client.get_table(ref)).raw, None
        read = raw.parameters.get(DDL_TIME)
        if not change(raw):
            return False
        settings = {**_KEEP_STATISTICS, **(context or {})}
        expected = {"expected_parameter_key": DDL_TIME, "expected_parameter_value": read}
        try:
            _send(client, ref, raw, {**settings, **expected} if read else settings, writer)
            return True
        except MetastoreCallFailed as error:
            if any(code in error.what for code in _INCOMPARABLE):
                _send(client, ref, raw, settings, writer)
                return True
            if _OVERTAKEN not in error.what:
                raise
    raise SnapshotMoved(f"Others changed the definition of {ref} each time that this was tried.")


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
        current: The table if it has just been read; its Thrift struct changes.

    Returns:
        Whether the definition of the table had to be changed.
    """
    table = current or client.get_table(ref)
    changed = alter_table(client, ref, forget_row_count, writer=writer, current=table)
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
        table: The table.
        names: The partitions; one that does not exist is skipped.
        change: Changes the Thrift struct of a partition, and returns whether a change was
            necessary.
        writer: The transaction.
    """
    for start in range(0, len(names), _PARTITIONS_PER_CALL):
        batch = names[start : start + _PARTITIONS_PER_CALL]
        changed = [
            partition.raw for partition in client.get_partitions(table, batch) if change(partition)
        ]
        if changed:
            _send_partitions(client, table.ref, changed, writer)


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

    def change(raw: Any) -> bool:
        table = HiveTable.from_thrift(raw)
        columns = tuple(choose(table))
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
            writer = _forget_accurate(client, table, held.txn_id)
        alter_table(client, ref, change, context={"CASCADE": "true"}, writer=writer)
        return client.get_table(ref)


def _require_constraints_kept(client: MetastoreClient, ref: TableRef) -> None:
    """Raise UnsupportedTable where the metastore would move constraints to other columns."""
    if not client.version.keeps_constraints and all_constraints(client, ref).all:
        raise UnsupportedTable(
            f"{ref} has constraints, and a metastore of version 3 moves them to other columns when the"
            " columns of a table change.",
            remedy="Drop the constraints in Hive first, and add them again after the change.",
        )


def _forget_accurate(client: MetastoreClient, table: HiveTable, txn_id: int) -> Writer | None:
    """Forget statistics that are marked as accurate: version 4 refuses to change such columns."""
    if not client.version.versions_definitions:
        return None
    partitions = client.get_partitions(table) if table.partition_keys else []
    accurate = [each.name for each in partitions if ACCURATE in each.parameters]
    if not accurate and ACCURATE not in table.parameters:
        return None
    write_id = client.allocate_write_id(txn_id, table.ref)
    snapshot = Snapshot.take(client, [table.ref], txn_id)
    writer = Writer(write_id, snapshot.write_ids[table.ref.full_name])
    forget_statistics(client, table.ref, accurate, writer)
    return writer


def mark_changed(raw: Any) -> None:
    """Mark a definition as changed for clients that have read it before.

    Args:
        raw: The Thrift struct of a table; its parameters change.
    """
    read = raw.parameters.get(DDL_TIME, "")
    # Of two changes within a second each has a time of its own.
    earliest = int(read) + 1 if _TIME.fullmatch(read) else 0
    raw.parameters[DDL_TIME] = str(max(int(time.time()), earliest))


def forget_row_count(described: Any) -> bool:
    """Mark the number of rows as unknown and all statistics as inaccurate.

    The number is not maintained: a writer that is killed before the commit, or a concurrent writer,
    would leave a wrong one.

    Args:
        described: The Thrift struct of a table or a partition; its parameters change.

    Returns:
        Whether the parameters changed.
    """
    before = dict(described.parameters or {})
    after = {name: value for name, value in before.items() if name != ACCURATE}
    # In partitioned tables, only the partitions have numbers.
    if not getattr(described, "partitionKeys", None):
        after[ROW_COUNT] = UNKNOWN_ROW_COUNT
    described.parameters = after
    return after != before


def send_definition(
    client: MetastoreClient,
    ref: TableRef,
    raw: Any,
    settings: Mapping[str, str] = _KEEP_STATISTICS,
) -> None:
    """Replace the definition of a table without a write id.

    Args:
        client: The metastore.
        ref: The table; the definition may have another name.
        raw: The Thrift struct of the definition.
        settings: The properties of the call.
    """
    call = idl_tables.alter_table_with_environment_context
    context = idl_tables.EnvironmentContext(dict(settings))
    client.call(call, ref.database, ref.name, raw, context, about=ref.full_name)


def _send(
    client: MetastoreClient,
    ref: TableRef,
    raw: Any,
    settings: Mapping[str, str],
    writer: Writer | None,
) -> None:
    if writer is None or not client.version.versions_definitions:
        send_definition(client, ref, raw, settings)
        return
    raw.writeId = writer.write_id
    request = idl_tables.AlterTableRequest(
        catName=raw.catName,
        dbName=ref.database,
        tableName=ref.name,
        table=raw,
        environmentContext=idl_tables.EnvironmentContext(dict(settings)),
        writeId=writer.write_id,
        validWriteIdList=writer.write_ids.format(),
        processorCapabilities=list(idl_tables.CAPABILITIES),
        processorIdentifier=idl_tables.PROCESSOR,
    )
    client.call(idl_tables.alter_table_req, request, about=ref.full_name)


def _send_partitions(
    client: MetastoreClient, ref: TableRef, raw: list[Any], writer: Writer
) -> None:
    about = ref.full_name
    context = idl_tables.EnvironmentContext(dict(_KEEP_STATISTICS))
    if not client.version.versions_definitions:
        call = idl_tables.alter_partitions_with_environment_context
        client.call(call, ref.database, ref.name, raw, context, about=about)
        return
    for partition in raw:
        partition.writeId = writer.write_id
    request = idl_tables.AlterPartitionsRequest(
        catName=raw[0].catName,
        dbName=ref.database,
        tableName=ref.name,
        partitions=raw,
        environmentContext=context,
        writeId=writer.write_id,
        validWriteIdList=writer.write_ids.format(),
    )
    client.call(idl_tables.alter_partitions_req, request, about=about)
