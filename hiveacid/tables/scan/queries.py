"""Queries of SQL on transactional tables by Python's DB-API, which DuckDB answers without Java."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from hiveacid.errors import UserError
from hiveacid.foreign.text import parse_json
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table, require_transactional
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from hiveacid.rules.sql_names import quoted_in_duckdb
from hiveacid.tables.scan.row_filter import Expression
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.tables.scan.visible_table import VisibleTable, see_table

# A query reads the tables of the metastore, and no other files or addresses.
_CLOSED: dict[str, Any] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}


class QueryConnection:
    """A connection of DB-API whose queries read transactional tables, by the SQL of DuckDB.

    Every query reads all its tables as one transaction sees them. The transaction ends, and the
    result is in memory, when ``execute`` returns.

    Args:
        metastore: The options of the metastore.
        database: The database of tables that a query names without one.

    Raises:
        UserError: DuckDB is not installed.
    """

    def __init__(self, metastore: MetastoreOptions, database: str = "default") -> None:
        try:
            import duckdb  # noqa: F401 - only checked
        except ImportError as error:
            raise UserError(
                "Queries of SQL in this process require DuckDB, which is not installed.",
                remedy="pip install 'hiveacid[duckdb]'",
            ) from error
        self._metastore = metastore
        self._database = database

    def cursor(self) -> "QueryCursor":
        """Return a cursor, which is independent of all others."""
        return QueryCursor(self._metastore, self._database)

    def commit(self) -> None:
        """Do nothing: queries change nothing."""

    rollback = close = commit


class QueryCursor:
    """A cursor of ``QueryConnection``.

    Attributes:
        description: The columns of the result, as DB-API defines it.
        rowcount: Unknown, as DB-API allows.
    """

    rowcount = -1

    def __init__(self, metastore: MetastoreOptions, database: str) -> None:
        self.description: Sequence[Sequence[Any]] | None = None
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._metastore = metastore
        self._database = database

    def execute(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object] | None = None
    ) -> None:
        """Run a query.

        Args:
            sql: The query.
            parameters: The values of ``?``, or by their names those of ``$name``.

        Raises:
            UserError: The statement is no query, or not valid.
            WrongTableKind: A table is not transactional.
            duckdb.Error: The query fails, for example because a column does not exist.
        """
        import duckdb

        with MetastoreClient(self._metastore) as client, duckdb.connect(config=_CLOSED) as duck:
            names = _names_of_tables(duck, sql)
            refs = {
                name: TableRef.parse(f"{name[0] or self._database}.{name[1]}") for name in names
            }
            scans = {ref: _SnapshotScan(ref, self._metastore) for ref in refs.values()}
            tables = [existing_table(client, ref) for ref in scans]
            for table in tables:
                require_transactional(table)
            with Transaction(client, reads=[*scans]) as txn:
                for table in tables:
                    scans[table.ref].begin(txn, table)
                for number, (name, ref) in enumerate(refs.items()):
                    duck.register(f"_scan_{number}", scans[ref])
                    # With its catalog, since `temp` is another one.
                    schema = quoted_in_duckdb("memory", name[0] or "main")
                    duck.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                    duck.execute(
                        f"CREATE VIEW {schema}.{quoted_in_duckdb(name[1])} AS FROM _scan_{number}"
                    )
                duck.execute(sql, parameters)
                self.description = duck.description
                self._rows = iter(duck.fetchall())

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last one."""
        return next(self._rows, None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Return the next rows, at most as many as given."""
        return [row for _, row in zip(range(size), self._rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all remaining rows."""
        return list(self._rows)

    def close(self) -> None:
        """Release the result."""
        self._rows = iter(())


class _SnapshotScan(TableScan):
    """A table as the transaction of a query sees it."""

    def __init__(self, ref: TableRef, metastore: MetastoreOptions) -> None:
        super().__init__(ref.full_name, metastore)
        self._txn: Transaction
        self._table: HiveTable

    def begin(self, txn: Transaction, table: HiveTable) -> None:
        """Read in a transaction that has its locks."""
        self._txn, self._table = txn, txn.definitions.current(table)

    @contextmanager
    def _snapshot(self, condition: Expression | None) -> Iterator[VisibleTable]:
        # DuckDB reads several tables at once, so that each needs a client of its own.
        with MetastoreClient(self._metastore) as client:
            select = partial(self._selected_partitions, condition)
            visible = see_table(client, self._txn, self._table, partitions=select)
            # The result leaves the query after the end of the transaction, which verifies it.
            yield replace(visible, txn=None)


def _names_of_tables(duck: Any, sql: str) -> set[tuple[str, str]]:
    """Find the database and the name of each table of a query; the database may be missing.

    Raises:
        UserError: The text has another statement, or no valid one.
    """
    [(text,)] = duck.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed_query = parse_json(text)
    if parsed_query["error"]:
        if parsed_query["error_type"] == "parser":
            raise UserError(f"The query is not valid: {parsed_query['error_message']}.")
        raise UserError(
            "This connection only reads, and the statement is no query.",
            remedy="Write a SELECT; HiveAcidSqlOperator and `hiveacid sql` run all statements.",
        )
    nodes = list(_nodes(parsed_query["statements"]))
    defined = {
        entry["key"].lower() for node in nodes for entry in node.get("cte_map", {}).get("map", ())
    }
    tables = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    names = {(node["schema_name"].lower(), node["table_name"].lower()) for node in tables}
    return {name for name in names if name[0] or name[1] not in defined}


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Return all objects of a JSON document."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
