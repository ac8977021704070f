"""Alter definitions of tables without overwriting concurrent changes.

A call replaces the whole definition. It is therefore sent only if something must change. It is based
on a definition that was read before the transaction with the locks was confirmed, so that clients
with locks change nothing in between. Afterwards the definition is read again. Clients without locks
remain: version 4 compares the definition with the one that was read.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    AnswerLost,
    MetastoreCallFailed,
    MetastoreError,
    SnapshotMoved,
    TransactionAborted,
    UnsupportedTable,
)
from hiveacid.metastore.catalog import (
    ROW_COUNT,
    UNKNOWN_ROW_COUNT,
    HiveColumn,
    HivePartition,
    HiveTable,
)
from hiveacid.metastore.client import MetastoreClient, batches
from hiveacid.metastore.constraints import all_constraints
from hiveacid.metastore.table_rules import require_same_table, same_creation
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.rules.constraints import TableConstraints
from hiveacid.rules.names import TableRef, first_names
from hiveacid.rules.write_ids import ValidWriteIdList

# Time of the last change of the definition, in seconds. Hive's DDL sets it, statistics do not.
DDL_TIME = "transient_lastDdlTime"
_TIME = re.compile("[0-9]{1,12}")
# The statistics that Hive considers accurate.
ACCURATE = "COLUMN_STATS_ACCURATE"
# Else the metastore would count files that it cannot judge.
KEEP_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
TRIES = 10
# The error text of version 4 if the definition has changed in the meantime.
_OVERTAKEN = "The table has been modified"
# Derby and Oracle cannot compare the long texts that parameters are kept as.
_INCOMPARABLE = ("ERROR 42818", "ORA-00932")


@dataclass(frozen=True, slots=True)
class Writer:
    """The transaction that changes statistics.

    Attributes:
        write_id: Its write id.
        write_ids: Its snapshot of the table.
        confirm: Raises an error unless the metastore confirms that the transaction is open: the
            metastore accepts the write id of an aborted one.
    """

    write_id: int
    write_ids: ValidWriteIdList
    confirm: Callable[[], None]


def alter_table(
    client: MetastoreClient,
    table: HiveTable,
    change: Callable[[Any], bool],
    confirm: Callable[[], None],
    *,
    context: Mapping[str, str] | None = None,
    writer: Writer | None = None,
    compares: bool = True,
) -> bool:
    """Change the definition of a table.

    Args:
        client: The metastore.
        table: The table, whose definition may have changed since it was read.
        change: Changes the Thrift struct, also the name in it, and returns whether a change was
            necessary. It is called for each definition that is read, at last for the result.
        confirm: Raises an error unless the metastore confirms that the locks on the table are held.
        context: Further environment context for the metastore.
        writer: The transaction, if this changes statistics.
        compares: Whether to let version 4 compare definitions, even if its database perhaps cannot.

    Returns:
        Whether a change was necessary.

    Raises:
        MetastoreError: The locks were lost while a metastore that does not compare definitions
            replaced this one; or the metastore has changed the constraints, too.
        SnapshotMoved: Concurrent changes exhausted all attempts.
        TableReplaced: The table was dropped or replaced.
    """
    is_sent = False
    is_known = client.features.keeps_constraints is not None
    constraints = None if is_known else all_constraints(client, table.ref)
    for _ in range(TRIES):
        raw = same_creation(client, table).raw
        settings = {**KEEP_STATISTICS, **(context or {})}
        expectations = _expected(raw) if compares else {}
        if not change(raw):
            if is_sent and constraints is not None:
                _require_same_constraints(client, table.ref, constraints)
            return is_sent
        confirm()
        try:
            is_sent |= _replace(client, table.ref, raw, settings, writer, confirm, expectations)
        except AnswerLost:
            is_sent = True  # Perhaps; the next definition shows it.
            continue
        table = replace(table, ref=TableRef(raw.dbName, raw.tableName))
    raise overtaken(table.ref)


def overtaken(ref: TableRef) -> SnapshotMoved:
    """Return the error about too many concurrent changes."""
    return SnapshotMoved(f"Others changed the definition of {ref} each time that this was tried.")


def compares_definitions(
    client: MetastoreClient, table: HiveTable, confirm: Callable[[], None]
) -> bool:
    """Return whether the metastore can compare definitions; this marks the table as changed.

    Args:
        client: The metastore.
        table: The table.
        confirm: Raises an error unless the metastore confirms that the locks on the table are held.
    """
    for _ in range(TRIES):
        raw = same_creation(client, table).raw
        expectations = _expected(raw)
        if not expectations or not client.features.compares_definitions:
            return False
        mark_changed(raw)
        confirm()
        is_replaced = _replace_compared(client, table.ref, raw, {**KEEP_STATISTICS, **expectations})
        if is_replaced is not False:
            return bool(is_replaced)
    raise overtaken(table.ref)


def mark_changed(raw: Any) -> None:
    """Mark a definition as changed for clients that have read it before.

    Args:
        raw: The Thrift struct of a table; its parameters change.
    """
    read = raw.parameters.get(DDL_TIME, "")
    # Of two changes within a second each has a time of its own.
    earliest = int(read) + 1 if _TIME.fullmatch(read) else 0
    raw.parameters[DDL_TIME] = str(max(int(time.time()), earliest))


def forget_row_count(definition: Any) -> bool:
    """Mark the number of rows as unknown and all statistics as inaccurate.

    The number is not maintained: a writer that is killed before the commit, or a concurrent writer,
    would leave a wrong one.

    Args:
        definition: The Thrift struct of a table or a partition; its parameters change.

    Returns:
        Whether the parameters changed.
    """
    old_parameters = dict(definition.parameters or {})
    new_parameters = {name: value for name, value in old_parameters.items() if name != ACCURATE}
    # In partitioned tables, only the partitions have numbers.
    if not getattr(definition, "partitionKeys", None):
        new_parameters[ROW_COUNT] = UNKNOWN_ROW_COUNT
    definition.parameters = new_parameters
    return new_parameters != old_parameters


def send_definition(
    client: MetastoreClient,
    ref: TableRef,
    raw: Any,
    settings: Mapping[str, str] = KEEP_STATISTICS,
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


def _replace(
    client: MetastoreClient,
    ref: TableRef,
    raw: Any,
    settings: Mapping[str, str],
    writer: Writer | None,
    confirm: Callable[[], None],
    expectations: Mapping[str, str],
) -> bool:
    """Replace the definition of a table that has not changed since it was read.

    Returns:
        Whether it was replaced.
    """
    if expectations and client.features.compares_definitions:
        is_replaced = _replace_compared(client, ref, raw, {**settings, **expectations}, writer)
        if is_replaced is not None:
            return is_replaced
        confirm()
    try:
        _send(client, ref, raw, settings, writer)
    finally:
        _require_held(ref, confirm)
    return True


def _replace_compared(
    client: MetastoreClient,
    ref: TableRef,
    raw: Any,
    settings: Mapping[str, str],
    writer: Writer | None = None,
) -> bool | None:
    """Replace a definition if it is unchanged; None if the database cannot compare it."""
    try:
        _send(client, ref, raw, settings, writer)
    except MetastoreCallFailed as error:
        if _OVERTAKEN in error.what:
            return False
        if any(code in error.what for code in _INCOMPARABLE):
            return None
        raise
    return True


def _expected(raw: Any) -> dict[str, str]:
    """Return the settings by which version 4 compares a definition with the current one."""
    read = raw.parameters.get(DDL_TIME)
    if not read:
        return {}
    return {"expected_parameter_key": DDL_TIME, "expected_parameter_value": read}


def _require_held(ref: TableRef, confirm: Callable[[], None]) -> None:
    """Make sure that no client with locks has changed a definition while it was replaced."""
    try:
        confirm()
    except TransactionAborted as lock_loss:
        raise MetastoreError(
            f"The locks on {ref} were lost while its definition was replaced, so that a change which"
            " another client made in this time may have been reverted.",
            remedy="Compare the columns and properties of the table with the expected ones, correct"
            " them, and run the job again.",
        ) from lock_loss


def _send(
    client: MetastoreClient,
    ref: TableRef,
    raw: Any,
    settings: Mapping[str, str],
    writer: Writer | None,
) -> None:
    if writer is None or not client.features.versions_definitions:
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


# Alter definitions of partitions, alone or together with their table.
#
# No metastore compares the definition of a partition with the one that was read. A change of
# columns that is overwritten thereby is found in the table, which is read afterwards.


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
    column_choices: list[list[HiveColumn]] = []

    def change(raw: Any) -> bool:
        table = HiveTable.from_thrift(raw)
        if _commented(table.columns) in column_choices:
            return False
        columns = tuple(choose(table))
        column_choices.append(_commented(columns))
        raw.sd.cols = [
            idl_tables.FieldSchema(column.name, column.type, column.comment) for column in columns
        ]
        mark_changed(raw)
        return columns != table.columns

    # It blocks only clients that request locks.
    with ExclusiveTable(client, ref, run_token, lock_wait_seconds) as locked_table:
        table = require_same_table(client, table)
        columns = tuple(choose(table))
        if columns != table.columns:
            _require_constraints_kept(client, ref)
        writer = None
        if columns[: len(table.columns)] != table.columns:
            writer = _forget_accurate(client, table, locked_table)
        alter_table(
            client,
            table,
            change,
            locked_table.confirm_alive,
            context={"CASCADE": "true"},
            writer=writer,
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
    is_changed = forget_row_count(deepcopy(table.raw)) and alter_table(
        client, table, forget_row_count, writer.confirm, writer=writer
    )
    alter_partitions(
        client, table, partitions, lambda partition: forget_row_count(partition.raw), writer
    )
    return is_changed


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
            changed_partitions = [
                partition for partition in client.get_partitions(table, batch) if change(partition)
            ]
            if not changed_partitions:
                break
            writer.confirm()
            is_answered = _send_partitions(client, table.ref, changed_partitions, writer)
            read = partial(require_same_table, client, table)
            table = complete_columns(client, table, changed_partitions, read, writer)
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
        if all(_send_partitions(client, now.ref, batch, writer) for batch in batches(behind)):
            table = now
    raise overtaken(table.ref)


def _is_behind(
    columns: tuple[HiveColumn, ...],
    old_columns: tuple[HiveColumn, ...],
    now: tuple[HiveColumn, ...],
) -> bool:
    """Return whether a partition lacks a change of the columns of its table."""
    return columns != now and (columns == old_columns or columns == now[: len(columns)])


def _commented(columns: Sequence[HiveColumn]) -> list[HiveColumn]:
    return [replace(column, comment=column.comment or "") for column in columns]


def _require_constraints_kept(client: MetastoreClient, ref: TableRef) -> None:
    """Raise UnsupportedTable where the metastore would move constraints to other columns."""
    if not client.features.keeps_constraints and all_constraints(client, ref).all:
        raise UnsupportedTable(
            f"{ref} has constraints, and this metastore may move them to other columns when the"
            " columns of a table change, as that of Hive 3.1 does.",
            remedy="Drop the constraints in Hive first, and add them again after the change.",
        )


def _require_same_constraints(
    client: MetastoreClient, ref: TableRef, old_constraints: TableConstraints
) -> None:
    """Raise MetastoreError if the metastore has changed the constraints of a table, too."""
    new_constraints = all_constraints(client, ref).all
    changed_constraints = [
        constraint for constraint in old_constraints.all if constraint not in new_constraints
    ]
    changed_constraints += [
        constraint for constraint in new_constraints if constraint not in old_constraints.all
    ]
    if changed_constraints:
        raise MetastoreError(
            f"The metastore has changed the constraints of {ref} together with its definition:"
            f" {first_names(sorted({str(constraint.name) for constraint in changed_constraints}))}.",
            remedy="Correct the constraints in Hive.",
        )


def _forget_accurate(
    client: MetastoreClient, table: HiveTable, locked_table: ExclusiveTable
) -> Writer | None:
    """Forget statistics that are marked as accurate: version 4 refuses to change such columns."""
    if not client.features.versions_definitions:
        return None
    partitions = client.get_partitions(table) if table.partition_keys else []
    accurate = [partition.name for partition in partitions if ACCURATE in partition.parameters]
    if not accurate and ACCURATE not in table.parameters:
        return None
    write_id = client.allocate_write_id(locked_table.txn_id, table.ref)
    snapshot = Snapshot.take(client, [table.ref], locked_table.txn_id)
    writer = Writer(write_id, snapshot.write_ids[table.ref.full_name], locked_table.confirm_alive)
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
        if not client.features.versions_definitions:
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
            for raw_partition in raw:
                raw_partition.writeId = writer.write_id
        client.call(idl_tables.alter_partitions_req, request, about=about)
        return True
    return False
