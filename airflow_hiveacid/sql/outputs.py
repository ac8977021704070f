"""Giving the columns that a query returns other names."""

from collections.abc import Sequence

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from airflow_hiveacid.sql.dialect import HiveAcidSql, to_spark


def with_names(sql: str, names: Sequence[str]) -> str | None:
    """Return a query with renamed columns; None if its columns are unknown.

    Args:
        sql: The query.
        names: The new names, in order.
    """
    try:
        tree = parse_one(sql, read=HiveAcidSql)
    except (SqlglotError, RecursionError):
        return None
    first: exp.Expr = tree
    while isinstance(first, exp.SetOperation):
        first = first.this  # It gives its names to all of them.
    if not isinstance(first, exp.Select) or len(first.expressions) != len(names) or first.is_star:
        return None
    named = [
        exp.alias_(column.unalias(), name, quoted=True)
        for column, name in zip(first.expressions, names, strict=True)
    ]
    first.set("expressions", named)
    return to_spark(tree)
