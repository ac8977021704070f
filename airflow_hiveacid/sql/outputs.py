"""Giving the columns that a query returns other names."""

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from airflow_hiveacid.errors import SqlError
from airflow_hiveacid.sql.statement import Edit, SqlStatement
from airflow_hiveacid.sql.words import Words, separated

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


def _is_in(column: exp.Expr, item: Sequence[Token]) -> bool:
    starts = [node.meta["start"] for node in column.walk() if "start" in node.meta]
    return bool(item) and all(item[0].start <= start <= item[-1].end for start in starts)


def _first(query: exp.Expr) -> exp.Expr:
    """Return the first of the queries that a UNION or brackets connect."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query
