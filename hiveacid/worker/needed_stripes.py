"""The partitions and stripes that a condition needs, as a filter of Arrow."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc
from sqlglot import exp

from hiveacid.metastore.catalog import HiveTable
from hiveacid.plan.partitions import conjuncts
from hiveacid.rules.schema import HiveType, Varchar
from hiveacid.tables.scan.row_filter import RowFilter
from hiveacid.worker.expressions import (
    Scope,
    array_of,
    as_type_of,
    bare_column,
    is_wider,
    of_tree,
)

# Values that stripes are compared with one by one; of more, only the smallest and largest.
_FEW_KEYS = 1000


def row_filter(table: HiveTable, parts: Sequence[Any]) -> RowFilter | None:
    """Return a filter of partitions and stripes that all parts of a condition allow."""
    if not parts:
        return None
    return RowFilter.of(reduce(and_, parts), table.columns, table.partition_keys, "us")


def simple_parts(tree: exp.Expr | None, scope: Scope, alias: str) -> Iterator[Any]:
    """Yield the parts of a condition that compare a column with literals, for Arrow."""
    for node in conjuncts(tree):
        sides = [node.this, *(node.expressions or [node.args.get("expression")])]
        if type(node) not in (exp.EQ, exp.In, exp.LT, exp.LTE, exp.GT, exp.GTE) or None in sides:
            continue
        column = bare_column(sides[0], scope)
        if node.args.get("negate") or column is None or not is_ordered(column[1]):
            continue
        value = of_tree(sides[0], scope)
        literals = [as_type_of(of_tree(side, scope), value) for side in sides[1:]]
        if not all(
            literal.is_literal and is_wider(value.type, literal.type) for literal in literals
        ):
            continue
        operand = pc.field(column[0].removeprefix(f"{alias}."))
        values = array_of(literals, value.type).drop_null()
        if isinstance(node, exp.EQ | exp.In) or not len(values):
            yield among(operand, values)
        else:
            is_upper = isinstance(node, exp.LT | exp.LTE)
            yield operand <= values[0] if is_upper else operand >= values[0]


def among(column: Any, values: pa.Array) -> Any:
    """Return what some values allow in a column, for Arrow."""
    if not len(values):
        return pc.scalar(False)
    if len(values) <= _FEW_KEYS:
        return column.isin(values)
    ends = pc.min_max(values)
    return (column >= ends["min"]) & (column <= ends["max"])


def is_ordered(type_: HiveType) -> bool:
    """Whether Arrow orders the values like Spark, and bounds of stripes as well."""
    return isinstance(type_, Varchar) or str(type_) in (
        *("tinyint", "smallint", "int", "bigint", "string", "date"),
    )
