"""Giving the columns that a query returns other names."""

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hiveacid.errors import SqlError
from hiveacid.sql.statement import Edit, SqlStatement
from hiveacid.sql.with_clauses import subqueries
from hiveacid.sql.words import Words, separated

# Words and signs behind the columns of a SELECT.
_AFTER_COLUMNS = (
    *("FROM", "WHERE", "GROUP BY", "HAVING", "LATERAL", "WINDOW", "ORDER BY", "SORT BY", "LIMIT"),
    *("CLUSTER BY", "DISTRIBUTE BY", "OFFSET", "UNION", "EXCEPT", "MINUS", "INTERSECT", ")", ";"),
)


def with_names(sql: str, names: Sequence[str | None]) -> str | None:
    """Return a query with renamed columns; None if its columns are unknown.

    Args:
        sql: The query.
        names: The new names, in order; None for a column that keeps its name.
    """
    try:
        statement = SqlStatement.of(sql, "")
        # It gives its names to all queries of a UNION.
        first = _first(statement.parse())
        words = Words(statement)
        while words.take("("):
            pass
        words.until("SELECT")
        words.expect("SELECT")
        items = separated(words.until(*_AFTER_COLUMNS))
    except (SqlError, RecursionError):
        return None
    if not isinstance(first, exp.Select) or not (
        len(first.expressions) == len(items) == len(names)
    ):
        return None
    edits = []
    for column, item, name in zip(first.expressions, items, names, strict=True):
        if name is None:
            continue
        alias = column.args.get("alias") if isinstance(column, exp.Alias) else None
        if column.is_star or isinstance(column, exp.Aliases) or not _is_in(column, item):
            return None
        end = item[-1].end + 1
        edit = Edit(end, end, f" AS `{name}`")
        if isinstance(alias, exp.Identifier):
            edit = Edit(alias.meta["start"], alias.meta["end"] + 1, f"`{name}`")
        edits.append(edit)
    return statement.slice(statement.tokens, edits)


def with_names_of_hive(statement: SqlStatement, tree: exp.Expr) -> str:
    """Return the query of a view, with the names that Hive gives to columns without a name.

    For a view with a list of columns, Hive stores a query on a subquery, and calls the second column of it
    `_c1` if it has no name of its own.

    Args:
        statement: The query.
        tree: Its syntax tree.
    """
    text = statement.slice(statement.tokens)
    outer = tree.expressions if isinstance(tree, exp.Select) else []
    wanted = {_column_name(node.unalias()) for node in outer} - {""}
    inner = next(subqueries(statement, statement.tokens), None) if wanted else None
    if not inner:
        return text
    query = statement.slice(inner)
    first = _first(SqlStatement.of(query, "").parse())
    columns = first.expressions if isinstance(first, exp.Select) else []
    named = {column.output_name for column in columns}
    places = (f"_c{at}" for at in range(len(columns)))
    names = [name if name in wanted - named else None for name in places]
    start = inner[0].start - statement.tokens[0].start
    changed = with_names(query, names) or query
    return text[:start] + changed + text[start + len(query) :]


def _column_name(node: exp.Expr) -> str:
    """Return the name of a column that Hive may have given; else nothing."""
    is_named = isinstance(node, exp.Column) and re.fullmatch(r"_c\d+", node.name)
    return node.name if is_named else ""


def _is_in(column: exp.Expr, item: Sequence[Token]) -> bool:
    starts = [node.meta["start"] for node in column.walk() if "start" in node.meta]
    return bool(item) and all(item[0].start <= start <= item[-1].end for start in starts)


def _first(query: exp.Expr) -> exp.Expr:
    """Return the first of the queries that a UNION or brackets connect."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query
