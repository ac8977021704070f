"""Partitions that a condition selects, as far as simple comparisons show it."""

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from airflow_hiveacid.errors import SqlError
from airflow_hiveacid.sql.statement import SqlStatement

_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DIGITS = re.compile("[0-9]{1,18}")


def possible_partitions(
    condition: str | None,
    alias: str,
    keys: Mapping[str, str],
    partitions: Mapping[str, Mapping[str, str | None]],
    *,
    qualified: bool = False,
) -> list[str]:
    """Return the partitions not ruled out by ``key = literal`` and ``key IN (literals)``.

    Other parts of a condition rule out more of them when it is evaluated.

    Args:
        condition: The condition; always true if None.
        alias: The name of the table in it.
        keys: The partition keys with their types.
        partitions: The values of the keys of each partition, by its name.
        qualified: Whether a column without a table may be that of another one.
    """
    wanted = dict(_fixed(condition, alias, keys, qualified)) if condition else {}
    return [
        name
        for name, values in partitions.items()
        if all(_may_be(keys[key], values[key], allowed) for key, allowed in wanted.items())
    ]


def condition_tree(condition: str) -> exp.Expr | None:
    """Return the syntax tree of a condition or an expression; None if only Spark can read it."""
    try:
        tree = SqlStatement.of(f"SELECT 1 WHERE {condition}", "").parse()
    except SqlError:
        return None
    where: exp.Expr = tree.args["where"].this
    return where


def conjuncts(tree: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition that are connected by AND, in their order; none if it is unreadable."""
    pending = [] if tree is None else [tree]
    while pending:
        node = pending.pop().unnest()
        if isinstance(node, exp.And):
            pending += [node.expression, node.this]
        else:
            yield node


def _fixed(
    condition: str, alias: str, keys: Mapping[str, str], qualified: bool
) -> Iterator[tuple[str, frozenset[str]]]:
    """The values that a key can have; of several such parts of a condition, the last one counts."""
    for node in conjuncts(condition_tree(condition)):
        if isinstance(node, exp.EQ):
            column, values = node.this, [node.expression]
            if not isinstance(column, exp.Column):
                column, values = node.expression, [node.this]
        elif isinstance(node, exp.In) and node.expressions:
            column, values = node.this, node.expressions
        else:
            continue
        if not isinstance(column, exp.Column):
            continue
        *table, name = [part.name.lower() for part in column.parts]
        mine = table == [alias.lower()] or not (table or qualified)
        if mine and name in keys:
            texts = [_literal(keys[name], value) for value in values]
            if None not in texts:
                yield name, frozenset(text for text in texts if text is not None)


def _literal(type_: str, node: exp.Expr) -> str | None:
    """A literal as the text of its value, if it can only mean one value of this type.

    Spark compares a text with a number or a date by value, so that several texts are equal to it.
    """
    if type_ == "date" and isinstance(node, exp.Cast) and node.to.is_type("date"):
        node = node.this
    if not isinstance(node, exp.Literal) or not (node.is_string or type_ in _NUMBERS):
        return None
    return _normal(type_, str(node.this))


def _may_be(type_: str, text: str | None, allowed: frozenset[str]) -> bool:
    """Whether the value of a partition can be one of some; null never is."""
    if text is None:
        return False
    known = _normal(type_, text)
    return known is None or known in allowed


def _normal(type_: str, text: str) -> str | None:
    """Return the only text of a value; None if it may have several."""
    if type_ == "string":
        return text
    if type_ == "date":
        return text if _DATE.fullmatch(text) else None
    if type_ in _NUMBERS and _DIGITS.fullmatch(text):
        return str(int(text))
    return None


def named_partitions(
    specs: Sequence[Mapping[str, str | None]],
    keys: Mapping[str, str],
    partitions: Mapping[str, Mapping[str, str | None]],
) -> list[str]:
    """The partitions with all values of one of several PARTITION clauses.

    Args:
        specs: Keys and values of each, some keys or all.
        keys: The partition keys with their types.
        partitions: The values of the keys of each partition, by its name.
    """
    return [
        name
        for name, values in partitions.items()
        if any(
            all(_is(keys, key.lower(), value, values) for key, value in spec.items())
            for spec in specs
        )
    ]


def _is(
    keys: Mapping[str, str], key: str, value: str | None, values: Mapping[str, str | None]
) -> bool:
    if key not in keys or value is None or values[key] is None:
        return value is None and key in keys and values[key] is None
    wanted = _normal(keys[key], value)
    return wanted is None or _may_be(keys[key], values[key], frozenset({wanted}))
