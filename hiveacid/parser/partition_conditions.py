"""Partitions that a condition selects, as far as it is evaluated without Spark."""

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any

from sqlglot import exp

from hiveacid.errors import SqlError
from hiveacid.jobs.fields import Parameters
from hiveacid.parser.statement import SqlStatement
from hiveacid.rules.partitions import INTEGERS, integer, is_day, values_by_name

_DIGITS = re.compile("-?[0-9]{1,18}")
_COMPARISONS: Mapping[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_MIRRORED: Mapping[type[exp.Expr], type[exp.Expr]] = {
    **{each: each for each in (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)},
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
# The values of the keys of a partition, by their names.
Values = Mapping[str, str | None]


class _OnlySpark(Exception):
    """Only Spark can evaluate a part of a condition."""


@dataclass(frozen=True)
class KeyScope:
    """The names that a condition on a partitioned table can use.

    Attributes:
        alias: The name of the table.
        keys: The partition keys with their types.
        columns: The other columns of the table.
        qualified: Whether a column without a table may be that of another one.
        params: The values of parameters.
    """

    alias: str
    keys: Mapping[str, str]
    columns: Collection[str] = ()
    qualified: bool = False
    params: Parameters = field(default_factory=dict)

    def key(self, column: exp.Column) -> str | None:
        """Return the key that a column means; empty for another one, None if only Spark knows."""
        first, *rest = (part.name.lower() for part in column.parts)
        if rest and first == self.alias.lower() and rest[0] in self._own:
            first, *rest = rest
        elif self.qualified or (rest and first not in self._own):
            return ""
        elif first not in self._own:
            return None  # A function such as current_date, or an unknown name.
        return first if first in self.keys and not rest else ""

    @cached_property
    def _own(self) -> frozenset[str]:
        return frozenset(self.keys) | {name.lower() for name in self.columns}


@dataclass(frozen=True, slots=True)
class SelectedPartitions:
    """The partitions whose rows can satisfy a condition.

    Attributes:
        names: The partitions that the condition does not rule out.
        existing: The number of existing partitions.
        certain: Whether all parts of the condition on partition keys were evaluated: otherwise
            Spark may rule out further partitions.
    """

    names: Sequence[str]
    existing: int
    certain: bool = True


def selected_partitions(
    condition: str | None, scope: KeyScope, known: Sequence[str]
) -> SelectedPartitions:
    """Return the partitions that the parts of a condition on partition keys do not rule out.

    Only the parts that AND connects and that contain no other columns count, as in
    ``spark.read.pruning``.

    Args:
        condition: The condition; always true if None.
        scope: The names that it can use.
        known: The names of the existing partitions.
    """
    if condition is None:
        return SelectedPartitions(known, len(known))
    tree = condition_tree(condition)
    selected, certain = values_by_name(known, scope.keys), tree is not None
    for part in conjuncts(tree):
        if part.find(exp.Query):
            continue
        keys = {scope.key(column) for column in part.find_all(exp.Column)}
        if not keys - {None} or "" in keys:
            continue
        kept = {}
        for name, values in selected.items():
            try:
                matches = _truth(part, scope, values)
            except (_OnlySpark, RecursionError):
                matches, certain = True, False
            if matches:
                kept[name] = values
        selected = kept
    return SelectedPartitions([*selected], len(known), certain)


def condition_tree(condition: str) -> exp.Expr | None:
    """Return the syntax tree of a condition or an expression; None if only Spark can read it."""
    try:
        tree = SqlStatement.of(f"SELECT 1 WHERE {condition}", "").parse()
        where: exp.Expr = tree.args["where"].this
    except (SqlError, RecursionError, AttributeError, LookupError, TypeError, ValueError):
        return None
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


def _truth(node: exp.Expr, scope: KeyScope, values: Values) -> bool | None:
    """The value of a condition on the keys of a partition; None is null.

    Raises:
        _OnlySpark: Only Spark can evaluate it.
    """
    match node:
        case exp.Paren():
            return _truth(node.this, scope, values)
        case exp.Not():
            inner = _truth(node.this, scope, values)
            return None if inner is None else not inner
        case exp.And() | exp.Or():
            parts = [_truth(part, scope, values) for part in node.flatten()]
            return _any(parts) if isinstance(node, exp.Or) else _all(parts)
        case exp.Is() if isinstance(node.expression, exp.Null):
            return _key_value(node.this, scope, values)[0] is None
        case exp.Between() if not node.args.get("symmetric"):
            low = _compared(exp.GTE, node.this, node.args["low"], scope, values)
            return _all([low, _compared(exp.LTE, node.this, node.args["high"], scope, values)])
        case exp.In() if node.expressions:
            each = (_compared(exp.EQ, node.this, one, scope, values) for one in node.expressions)
            return _any([*each])
    kind = type(node)
    if kind not in _MIRRORED:
        raise _OnlySpark
    if isinstance(node.this.unnest(), exp.Column):
        return _compared(kind, node.this, node.expression, scope, values)
    return _compared(_MIRRORED[kind], node.expression, node.this, scope, values)


def _any(parts: Sequence[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False


def _all(parts: Sequence[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def _compared(
    kind: type[exp.Expr], column: exp.Expr, other: exp.Expr, scope: KeyScope, values: Values
) -> bool | None:
    value, type_ = _key_value(column, scope, values)
    wanted = _literal(type_, other.unnest(), scope.params)
    if kind in (exp.NullSafeEQ, exp.NullSafeNEQ):
        return (value == wanted) is (kind is exp.NullSafeEQ)
    return None if value is None or wanted is None else _COMPARISONS[kind](value, wanted)


def _key_value(node: exp.Expr, scope: KeyScope, values: Values) -> tuple[Any, str]:
    """The value of a key, with the type of the key."""
    node = node.unnest()
    key = scope.key(node) if isinstance(node, exp.Column) else None
    if not key:
        raise _OnlySpark
    text, type_ = values[key], scope.keys[key]
    return None if text is None else _value(type_, text), type_


def _literal(type_: str, node: exp.Expr, params: Parameters) -> Any:
    """A literal as a value of a type, if it can mean only one.

    Spark compares a text with a number or a date by value, so that several texts are equal to it.
    """
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Placeholder) and node.name in params:
        given = params[node.name]
        match given:
            case None:
                return None
            case date() if type_ == "date" and not isinstance(given, datetime):
                return given.isoformat()
            case str():
                node = exp.Literal.string(given)
            case int() if not isinstance(given, bool) and type_ in INTEGERS:
                return given
    if type_ == "date" and isinstance(node, exp.Cast) and node.to.is_type("date"):
        node = node.this
    minus = isinstance(node, exp.Neg)
    if minus:
        node = node.this
    if not isinstance(node, exp.Literal) or (node.is_string and minus):
        raise _OnlySpark
    if not node.is_string and type_ not in INTEGERS:
        raise _OnlySpark
    return _value(type_, f"-{node.this}" if minus else str(node.this), is_key=False)


def _value(type_: str, text: str, *, is_key: bool = True) -> Any:
    """The value of a text that has only one meaning."""
    if type_ == "string" or type_.startswith("varchar"):
        return text
    with suppress(ValueError):
        if type_ == "date" and is_day(text):
            return text
        if type_ in INTEGERS and _DIGITS.fullmatch(text):
            return integer(text, INTEGERS[type_] if is_key else 64)
    raise _OnlySpark
