"""The definitions of tables that a transaction reads by."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.same_table import (
    require_described,
    require_same_definition,
    require_same_table,
)
from hiveacid.rules.names import TableRef


class Definitions:
    """The definitions that a transaction reads tables by: each was seen under its locks.

    Work is prepared by definitions from before the transaction. Until it has its locks, others may
    replace a table, whose files and write ids the older definition does not describe. A table that
    was replaced is an error, also if nothing depends on its columns yet: the snapshot does not see
    transactions that were opened later, so that the new table would look empty.
    """

    def __init__(self, client: MetastoreClient) -> None:
        """Begin without definitions.

        Args:
            client: The metastore.
        """
        self._client = client
        self._seen: dict[TableRef, HiveTable] = {}

    def add(self, tables: Iterable[HiveTable]) -> None:
        """Add definitions that were read under the locks and compared with the prepared ones."""
        self._seen.update((table.ref, table) for table in tables)

    def include(self, table: HiveTable) -> bool:
        """Return whether a definition is the one that the transaction reads the table by."""
        seen = self._seen.get(table.ref)
        return seen == table and seen.identity.is_same(table.identity)

    def current(self, table: HiveTable) -> HiveTable:
        """Return the current definition of a table, for work that does not depend on its columns.

        Args:
            table: The table as it was before the transaction.

        Raises:
            TableReplaced: The table was dropped, moved or replaced.
        """
        self._seen[table.ref] = require_same_table(self._client, table)
        return self._seen[table.ref]

    def confirmed(self, table: HiveTable) -> HiveTable:
        """Return the current definition of a table with the columns that work is prepared for.

        Only the first call for a table costs a call of the metastore.

        Args:
            table: The table, or the view, as it was before the transaction.

        Raises:
            TableReplaced: The table was dropped, moved or replaced, or has other columns or another
                storage. It may have more columns.
        """
        seen = self._seen.get(table.ref)
        if seen is None:
            seen = require_same_definition(self._client, table, may_grow=True)
            self._seen[table.ref] = seen
        else:
            require_described(seen, table, may_grow=True)
        if len(seen.columns) == len(table.columns):
            return seen
        return replace(seen, columns=seen.columns[: len(table.columns)])

    def require_unchanged(self, except_for: Collection[TableRef] = ()) -> None:
        """Verify, after the last read, that no table was replaced while it was read.

        Locks do not exclude clients that request none. Such a client may have replaced a table
        before its partitions and files were listed.

        Args:
            except_for: Tables that are verified elsewhere.

        Raises:
            TableReplaced: A table is another one than before, or has another definition.
        """
        for ref, table in self._seen.items():
            if ref not in except_for:
                require_same_definition(self._client, table, may_grow=True)
