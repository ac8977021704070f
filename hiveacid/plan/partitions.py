"""Partitions that a condition selects without Spark, and those that an UPDATE or a DELETE locks."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

from sqlglot import exp

from hiveacid.dataclass import dataclass
from hiveacid.errors import SqlError
from hiveacid.jobs.fields import Parameters
from hiveacid.parser.statement import SqlStatement
from hiveacid.plan.scope import ChangeScope
from hiveacid.rules.partitions import INTEGERS, integer, is_day, values_by_name
from hiveacid.rules.sql_names import unquoted

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


def partitions_to_change(
    where: str | None,
    assigned: Iterable[str],
    scope: ChangeScope,
    existing: Callable[[], Sequence[str]],
) -> SelectedPartitions | None:
    """Return the partitions that a change locks; None if it locks the table.

    A condition that selects all partitions locks the table, also against new partitions.

    Args:
        where: The condition; always true if None.
        assigned: The columns that get new values, in any spelling.
        scope: The names that the condition can use.
        existing: Returns the names of the existing partitions.
    """
    keys = scope.table.key_types.keys()
    # Rows with another key move into other partitions.
    moves = not keys.isdisjoint(unquoted(name).lower() for name in assigned)
    if where is None or not keys or moves:
        return None
    selected = selected_partitions(where, scope, existing())
    return None if selected.certain and len(selected.names) == selected.existing else selected


def selected_partitions(
    condition: str | None, scope: ChangeScope, existing: Sequence[str]
) -> SelectedPartitions:
    """Return the partitions that the parts of a condition on partition keys do not rule out.

    Only the parts that AND connects and that contain no other columns count, as in
    ``spark.read.pruning``.

    Args:
        condition: The condition; always true if None.
        scope: The names that it can use.
        existing: The names of the existing partitions.
    """
    if condition is None:
        return SelectedPartitions(existing, len(existing))
    tree, types = condition_tree(condition), scope.table.key_types
    selected, certain = values_by_name(existing, types), tree is not None
    for part in conjuncts(tree):
        if part.find(exp.Query):
            continue
        keys = {id(column): _key(scope, column) for column in part.find_all(exp.Column)}
        if not {*keys.values()} - {None} or "" in keys.values():
            continue
        evaluation = _Evaluation(keys, types, scope.params)
        matching_values = {}
        for name, values in selected.items():
            try:
                matches = evaluation.truth(part, values)
            except (_OnlySpark, RecursionError):
                matches, certain = True, False
            if matches:
                matching_values[name] = values
        selected = matching_values
    return SelectedPartitions([*selected], len(existing), certain)


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


def _key(scope: ChangeScope, column: exp.Column) -> str | None:
    """Return the key that a column means; empty for another column, None if only Spark knows."""
    parts = [part.name for part in column.parts]
    if len(parts) == 1 and scope.source_alias is None and scope.column(parts) is None:
        return None  # A function such as current_date, or an unknown name.
    return scope.key(parts) or ""


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """The evaluation of a part of a condition for partitions.

    Attributes:
        keys: The partition keys that its columns mean, by the identities of their nodes.
        types: The types of the partition keys.
        params: The values of parameters.
    """

    keys: Mapping[int, str | None]
    types: Mapping[str, str]
    params: Parameters

    def truth(self, node: exp.Expr, values: Values) -> bool | None:
        """Return the value of a condition on the keys of a partition; None is null.

        Raises:
            _OnlySpark: Only Spark can evaluate it.
        """
        match node:
            case exp.Paren():
                return self.truth(node.this, values)
            case exp.Not():
                inner = self.truth(node.this, values)
                return None if inner is None else not inner
            case exp.And() | exp.Or():
                parts = [self.truth(part, values) for part in node.flatten()]
                return _any(parts) if isinstance(node, exp.Or) else _all(parts)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return self._value(node.this, values)[0] is None
            case exp.Between() if not node.args.get("symmetric"):
                low = self._compared(exp.GTE, node.this, node.args["low"], values)
                return _all([low, self._compared(exp.LTE, node.this, node.args["high"], values)])
            case exp.In() if node.expressions:
                choices = node.expressions
                return _any([self._compared(exp.EQ, node.this, item, values) for item in choices])
        kind = type(node)
        if kind not in _MIRRORED:
            raise _OnlySpark
        if isinstance(node.this.unnest(), exp.Column):
            return self._compared(kind, node.this, node.expression, values)
        return self._compared(_MIRRORED[kind], node.expression, node.this, values)

    def _compared(
        self, kind: type[exp.Expr], column: exp.Expr, operand: exp.Expr, values: Values
    ) -> bool | None:
        value, type_ = self._value(column, values)
        literal = _literal(type_, operand.unnest(), self.params)
        if kind in (exp.NullSafeEQ, exp.NullSafeNEQ):
            return (value == literal) is (kind is exp.NullSafeEQ)
        return None if value is None or literal is None else _COMPARISONS[kind](value, literal)

    def _value(self, node: exp.Expr, values: Values) -> tuple[Any, str]:
        """Return the value of a key, with the type of the key."""
        key = self.keys.get(id(node.unnest()))
        if not key:
            raise _OnlySpark
        text, type_ = values[key], self.types[key]
        return None if text is None else _value(type_, text), type_


def _any(parts: Sequence[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False


def _all(parts: Sequence[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def _literal(type_: str, node: exp.Expr, params: Parameters) -> Any:
    """A literal as a value of a type, if it can mean only one.

    Spark compares a text with a number or a date by value, so that several texts are equal to it.
    """
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Placeholder) and node.name in params:
        param_value = params[node.name]
        match param_value:
            case None:
                return None
            case date() if type_ == "date" and not isinstance(param_value, datetime):
                return param_value.isoformat()
            case str():
                node = exp.Literal.string(param_value)
            case int() if not isinstance(param_value, bool) and type_ in INTEGERS:
                return param_value
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
