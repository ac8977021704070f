"""The rows of a table, read by plain Python with the engine's own selection of files."""

from typing import Any

from hiveacid.metastore.catalog import HiveTable
from hiveacid.records.table_history import version_of
from hiveacid.rules.directory import Rules
from hiveacid.rules.row_id import RowId
from hiveacid.rules.write_ids import AsOf
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import list_files, read_state
from hiveacid.tables.scan.table_part import visible_rows
from tests.faults.rows import Row


def rows_with_ids(
    context: Any, table: HiveTable, as_of: AsOf | None = None
) -> dict[tuple[str, RowId], Row]:
    """All rows that a transaction sees, by partition and row id.

    Args:
        context: With a client, and the transaction that reads.
        table: The table.
        as_of: The version; None is the newest.
    """
    return visible_in(context.client, context.reader._txn.snapshot, table, as_of)


def visible_in(
    client: Any, snapshot: Any, table: HiveTable, as_of: AsOf | None = None
) -> dict[tuple[str, RowId], Row]:
    """All rows of a version in a snapshot, by partition and row id."""
    rules = Rules.of(client.features.hides_compactions)
    now = snapshot.write_ids[table.ref.full_name]
    write_ids = now if as_of is None else version_of(client, table.ref, as_of, now)
    found = {}
    for partition in client.get_partitions(table):
        storage = Storage.of(partition.folder)
        files = list_files(storage, TableOfFolder.of(table))
        state = read_state(storage, files, write_ids, snapshot.txns, rules=rules, now=now)
        p = partition.values[0] or ""
        for batch in visible_rows(storage, state, write_ids, rules):
            for row_id, row in zip(batch.row_ids(), batch.columns.to_pylist(), strict=True):
                number, text, *_ = row.values()
                found[p, row_id] = Row(number, text, p)
    return found
