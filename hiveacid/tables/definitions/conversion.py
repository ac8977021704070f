"""CONVERT TABLE: a plain table becomes full ACID in place, or the error has statements that copy it."""

import re
from typing import Any

from hiveacid.errors import MetastoreCallFailed, UnsupportedTable
from hiveacid.jobs.definitions.ddl_jobs import ConvertJob
from hiveacid.metastore.alteration import (
    alter_table,
    compares_definitions,
    mark_changed,
)
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.formats import StorageFormat
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.txn.exclusive import ExclusiveTable
from hiveacid.rules.names import TableRef, is_hidden_path, original_bucket
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import ReadOnlyStorage

# Mark of the metastore of version 4 on tables requested as managed and not transactional.
_TRANSLATED = "TRANSLATED_TO_EXTERNAL"
# The metastore's message on files whose names don't contain their buckets.
_STRANGE_FILES = re.compile(r"Unexpected data file name format.*?File: (?P<file>[^\n]*)", re.DOTALL)
# The metastore's table of next write ids, in its message on a table that has write ids already.
_ALLOCATED = "NEXT_WRITE_ID"
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def convert_to_acid(client: MetastoreClient, ref: TableRef, job: ConvertJob) -> tuple[str, ...]:
    """Make a plain table of ORC files full ACID; its files stay as they are.

    No other process with locks reads or writes the table meanwhile. The metastore checks the names
    of the files, and assigns the first write id that they do not use.

    Files with other names are not renamed. Readers of a plain table hold no locks, so that a running
    query would miss files, and an object store copies a file before it removes the old one, so that
    a killed rename would leave rows twice.

    Returns:
        Notes for the owner.

    Raises:
        UnsupportedTable: The table cannot be converted; the remedy has statements that copy it.
    """

    def change(raw: Any) -> bool:
        now = HiveTable.from_thrift(raw)
        if now.kind is TableKind.FULL_ACID:
            return False
        _check_convertible(now)
        _make_acid(raw)
        mark_changed(raw)
        return True

    with ExclusiveTable(client, ref, job.token, job.lock_wait_seconds) as held:
        table = client.get_table(ref)
        if table.kind is TableKind.FULL_ACID:
            return (f"{ref.full_name} is full ACID already.",)
        _check_convertible(table)
        _check_partitions_elsewhere(client, table)
        # Before the metastore compares the definition, it allocates the first write id, which a
        # refused call leaves behind. So only a database that can compare gets such a call.
        compares = compares_definitions(client, table, held.confirm_alive)
        try:
            alter_table(client, table, change, held.confirm_alive, compares=compares)
        except MetastoreCallFailed as error:
            if _ALLOCATED in error.what:
                raise _unsupported(
                    table, "has write ids of an earlier conversion, which the metastore refused."
                ) from error
            if strange := _STRANGE_FILES.search(error.what):
                raise _strange_file(table, strange["file"]) from error
            raise
        return tuple(held.warnings)


def copy_statements(table: HiveTable) -> str:
    """Return the statements that create a full-ACID copy of a table, named like it with ``_acid``.

    Args:
        table: A table of any kind and format, or a view.
    """
    name, copy = _named(table.ref), _named(_copy_of(table.ref))
    plain = not table.is_view and table.kind is TableKind.NOT_ACID
    if plain and StorageFormat.of(table.serde, str(table.ref)) is StorageFormat.ORC:
        return f"CREATE TABLE {copy} LIKE {name}; INSERT INTO {copy} SELECT * FROM {name};"
    layout = ""
    if table.partition_keys:
        layout = f" PARTITIONED BY ({', '.join(_quoted(key.name) for key in table.partition_keys)})"
    if table.bucket_columns:
        buckets = ", ".join(map(_quoted, table.bucket_columns))
        layout += f" CLUSTERED BY ({buckets}) INTO {table.num_buckets} BUCKETS"
    return f"CREATE TABLE {copy}{layout} STORED AS ORC AS SELECT * FROM {name};"


def exchange_statements(ref: TableRef) -> str:
    """Return the statements that replace a managed table by its copy."""
    name = _named(ref)
    return f"DROP TABLE {name}; ALTER TABLE {_named(_copy_of(ref))} RENAME TO {name};"


def _unsupported(table: HiveTable, problem: str) -> UnsupportedTable:
    remedy = f"Stop its writers, and copy it: {copy_statements(table)}"
    if _is_managed(table):
        remedy += f" Compare the rows, then exchange both: {exchange_statements(table.ref)}"
    return UnsupportedTable(f"{table.ref.full_name} {problem}", remedy=remedy)


def _strange_file(table: HiveTable, file: str) -> UnsupportedTable:
    return _unsupported(
        table, f"has files without a bucket in their names, as Spark writes them, such as {file}."
    )


def _make_acid(raw: Any) -> None:
    """Mark the definition of a table as full ACID."""
    for name in ("EXTERNAL", _TRANSLATED, "external.table.purge"):
        raw.parameters.pop(name, None)
    raw.tableType = "MANAGED_TABLE"
    raw.parameters["transactional"] = "true"
    raw.parameters["transactional_properties"] = "default"


def _is_managed(table: HiveTable) -> bool:
    managed = table.raw.tableType == "MANAGED_TABLE" or _TRANSLATED in table.raw.parameters
    return managed and not table.is_view


def _check_convertible(table: HiveTable) -> None:
    if not _is_managed(table):
        raise _unsupported(table, "is no managed table, so it cannot be full ACID.")
    if table.kind is TableKind.INSERT_ONLY:
        raise _unsupported(table, "is insert-only; only plain tables are converted.")
    if StorageFormat.of(table.serde, table.ref.full_name) is not StorageFormat.ORC:
        raise _unsupported(table, "is not stored as ORC, so it cannot be full ACID.")
    if table.sort_columns:
        columns = ", ".join(table.sort_columns)
        raise _unsupported(table, f"is sorted by {columns}, so it cannot be full ACID.")


def _check_partitions_elsewhere(client: MetastoreClient, table: HiveTable) -> None:
    """Check the files that the metastore does not: it lists only the folder of the table."""
    if not table.partition_keys:
        return
    folder = table.folder.rstrip("/") + "/"
    for location in partition_locations(client, table).values():
        if location.startswith(folder) and ".." not in location.split("/"):
            continue
        for file in ReadOnlyStorage.of(location).list_files(recursive=True, missing_ok=True):
            hidden = is_hidden_path(file.path)
            if not hidden and original_bucket(file.path) is None:
                raise _strange_file(table, f"{location.rstrip('/')}/{file.path}")


def _copy_of(ref: TableRef) -> TableRef:
    return TableRef(ref.database, f"{ref.name}_acid")


def _named(ref: TableRef) -> str:
    return f"{_quoted(ref.database)}.{_quoted(ref.name)}"


def _quoted(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"
