"""Alter definitions of tables without overwriting concurrent changes.

A call replaces the whole definition. It is therefore sent only if something must change. It is based
on a definition that was read before the transaction with the locks was confirmed, so that clients
with locks change nothing in between. Afterwards the definition is read again. Clients without locks
remain: version 4 compares the definition with the one that was read.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hiveacid.errors import (
    AnswerLost,
    MetastoreCallFailed,
    MetastoreError,
    SnapshotMoved,
    TransactionAborted,
)
from hiveacid.metastore.catalog import (
    ROW_COUNT,
    UNKNOWN_ROW_COUNT,
    HiveTable,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.same_table import same_creation
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.names import TableRef
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
            replaced this one.
        SnapshotMoved: Concurrent changes exhausted all attempts.
        TableReplaced: The table was dropped or replaced.
    """
    is_sent = False
    for _ in range(TRIES):
        raw = same_creation(client, table).raw
        settings = {**KEEP_STATISTICS, **(context or {})}
        expected = _expected(raw) if compares else {}
        if not change(raw):
            return is_sent
        confirm()
        try:
            is_sent |= _replace(client, table.ref, raw, settings, writer, confirm, expected)
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
        expected = _expected(raw)
        if not expected or not client.version.versions_definitions:
            return False
        mark_changed(raw)
        confirm()
        done = _replace_compared(client, table.ref, raw, {**KEEP_STATISTICS, **expected})
        if done is not False:
            return bool(done)
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
    expected: Mapping[str, str],
) -> bool:
    """Replace the definition of a table that has not changed since it was read.

    Returns:
        Whether it was replaced.
    """
    if expected and client.version.versions_definitions:
        done = _replace_compared(client, ref, raw, {**settings, **expected}, writer)
        if done is not None:
            return done
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
    except TransactionAborted as lost:
        raise MetastoreError(
            f"The locks on {ref} were lost while its definition was replaced, so that a change which"
            " another client made in this time may have been reverted.",
            remedy="Compare the columns and properties of the table with the expected ones, correct"
            " them, and run the job again.",
        ) from lost


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
