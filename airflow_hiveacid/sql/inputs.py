"""The tables that a statement reads, as the named inputs of a job."""

import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.sources import PathSource, QuerySource, TableSource
from airflow_hiveacid.sql.statement import SqlStatement

# Marks the name of what a query has in common with others, which is no table either.
COMMON = "common"
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
        self.sources: dict[str, TableSource | PathSource] = {}
        self._statement = statement
        self._prefix = prefix
        self._taken = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        self._names: dict[TableSource, str] = {}

    def query(self, tree: exp.Expr) -> QuerySource:
        """A query as a source of its own; its tree is changed."""
        self.take(tree)
        return QuerySource(sql=self._statement.spark(tree), inputs=self.sources)

    def take(self, tree: exp.Expr) -> exp.Expr:
        """Let the tree read the inputs in place of the tables; it is changed, and returned."""
        known = set()
        for table in list(tree.find_all(exp.Table)):
            if self._is_of_metastore(table):
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
        try:
            if by_time:
                source = replace(source, as_of_time=str(value.this))
            else:
                source = replace(source, as_of_write_id=int(value.this))
            source.validate()
        except (ValueError, InvalidJob) as error:
            raise self._statement.error(version, str(error)) from error
        return source

    def _name(self, source: TableSource) -> str:
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
