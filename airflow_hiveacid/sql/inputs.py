"""The tables that a statement reads, as the named inputs of a job."""

import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from airflow_hiveacid.acid.as_of import AsOf
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.errors import InvalidJob, UserError
from airflow_hiveacid.jobs.sources import ChangesSource, Input, QuerySource, TableSource
from airflow_hiveacid.sql.statement import SqlStatement

# Marks the name of what a query has in common with others, which is no table either.
COMMON = "common"
_CHANGES = "TABLE_CHANGES"
# Spark reads a file by parquet.`/path`.
_FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text"})


class Inputs:
    """Gives every table that a statement reads a name of one word, and keeps what it stands for.

    Args:
        statement: The statement.
        tree: All of it: what its WITH defines is no table of the metastore.
        prefix: What the names begin with.
    """

    def __init__(self, statement: SqlStatement, tree: exp.Expr, prefix: str = "") -> None:
        self.sources: dict[str, Input] = {}
        self._statement = statement
        self._prefix = prefix
        self._taken = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        self._names: dict[TableSource | ChangesSource, str] = {}

    def query(self, tree: exp.Expr) -> QuerySource:
        """A query as a source of its own; its tree is changed."""
        self.take(tree)
        return QuerySource(sql=self._statement.spark(tree), inputs=self.sources)

    def take(self, tree: exp.Expr) -> exp.Expr:
        """Let the tree read the inputs in place of the tables; it is changed, and returned."""
        known = set()
        for table in list(tree.find_all(exp.Table)):
            if self._is_changes(table):
                changes = self._changes(table.this)
                table.set("this", exp.to_identifier(self._name(changes), quoted=True))
            elif self._is_of_metastore(table):
                source = self._source(table)
                if not table.alias:
                    # Its columns are known by the name of the table.
                    name = exp.to_identifier(table.name, quoted=True)
                    table.set("alias", exp.TableAlias(this=name))
                    known.add(source.name)
                table.set("this", exp.to_identifier(self._name(source), quoted=True))
                table.set("db", None)
                table.set("version", None)
        for column in tree.find_all(exp.Column):
            if column.db and f"{column.db}.{column.table}".lower() in known:
                column.set("db", None)
        return tree

    def _source(self, table: exp.Table) -> TableSource:
        """A table, and which version of it."""
        source = TableSource(self._statement.full_name(table))
        version = table.args.get("version")
        if version is None:
            return source
        value = version.expression
        # FOR TIMESTAMP is another word for FOR SYSTEM_TIME, and both may be left out.
        by_time = version.name == "TIMESTAMP"
        if isinstance(value, exp.Cast) and value.to.is_type("timestamp", "timestamptz", "date"):
            value = value.this
        if (
            version.args.get("kind") != "AS OF"
            or not isinstance(value, exp.Literal)
            or value.is_string is not by_time
        ):
            self._statement.refuse(
                version,
                "A version is a number or a text.",
                "Write FOR VERSION AS OF 7, or FOR SYSTEM_TIME AS OF '2026-03-01 12:00:00+00:00'.",
            )
        as_of = str(value.this)
        try:
            if by_time and as_of.strip().isdecimal():
                # It would be taken for a write id.
                as_of = str(AsOf.of_time(as_of).time)
            source = replace(source, as_of=as_of)
            source.validate()
        except InvalidJob as error:
            raise self._statement.error(version, str(error)) from error
        return source

    @staticmethod
    def _is_changes(table: exp.Table) -> bool:
        function = table.this
        return isinstance(function, exp.Anonymous) and function.name.upper() == _CHANGES

    def _changes(self, function: exp.Anonymous) -> ChangesSource:
        """TABLE_CHANGES('db.t', 3, 9): what was changed after version 3 up to version 9."""
        given = function.expressions
        if not 2 <= len(given) <= 3 or not all(isinstance(value, exp.Literal) for value in given):
            self._statement.refuse(
                function,
                f"{_CHANGES} takes a table, and one or two versions.",
                f"Write {_CHANGES}('db.t', 3, 9), or times as texts in place of numbers.",
            )
        table, after, up_to = [*[str(value.this) for value in given], None][:3]
        name = str(table) if "." in str(table) else f"{self._statement.database}.{table}"
        try:
            source = ChangesSource(TableRef.parse(name).full_name, str(after), up_to)
            source.validate()
        except UserError as error:
            raise self._statement.error(function, str(error)) from error
        return source

    def _name(self, source: TableSource | ChangesSource) -> str:
        if source not in self._names:
            base = name = re.sub(r"\W", "_", self._prefix + source.name.replace(".", "__"))
            number = 1
            while name in self._taken:
                number += 1
                name = f"{base}_{number}"
            self._taken.add(name)
            self._names[source] = name
            self.sources[name] = source
        return self._names[source]

    def _is_of_metastore(self, table: exp.Table) -> bool:
        if COMMON in table.meta:
            return False
        if not isinstance(table.this, exp.Identifier) or table.catalog:
            return False  # A function of rows, or a table of a catalog of Spark.
        if table.db:
            return not (table.db.lower() in _FILES and "/" in table.name)
        return table.name.lower() not in _defined_above(table)


def _defined_above(node: exp.Expr) -> Iterator[str]:
    """The names that the WITH of a query around a node has for it."""
    child, parent = node, node.parent
    while parent is not None:
        clause = parent.args.get("with_")
        if clause is not None and clause is not child:
            yield from (cte.alias.lower() for cte in clause.expressions)
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is child and not parent.args.get("recursive"):
                    break
                yield cte.alias.lower()
        child, parent = parent, parent.parent
