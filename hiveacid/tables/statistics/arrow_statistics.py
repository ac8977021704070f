"""Column statistics of decoded rows."""

from typing import Any

import pyarrow as pa
from pyarrow import compute

from hiveacid.rules.column_statistics import ColumnStatistics, StatisticsKind


class NotComparable(Exception):
    """A column holds a value that has no place in an order."""


def statistics_of(column: pa.Array, kind: StatisticsKind) -> ColumnStatistics:
    """The statistics of a column of the table's own type, its timestamps as ``scan.times`` has them.

    Raises:
        NotComparable: A number is NaN.
    """
    nulls = column.null_count
    values = len(column) - nulls
    if not values:
        return ColumnStatistics(nulls=nulls)
    match kind:
        case StatisticsKind.BOOLEAN:
            trues = compute.sum(column.cast(pa.int64())).as_py()
            return ColumnStatistics(values, nulls, trues=trues)
        case StatisticsKind.STRING | StatisticsKind.BINARY:
            lengths = compute.binary_length(column)
            length, longest = compute.sum(lengths).as_py(), compute.max(lengths).as_py()
            return ColumnStatistics(values, nulls, length=length, longest=longest)
    low, high = _range(column, kind)
    return ColumnStatistics(values, nulls, low, high)


def _range(column: pa.Array, kind: StatisticsKind) -> tuple[Any, Any]:
    match kind:
        case StatisticsKind.DOUBLE:
            if compute.any(compute.is_nan(column)).as_py():
                raise NotComparable
            low, high = _min_max(column)
            return low + 0.0, high + 0.0
        case StatisticsKind.DATE:
            return _min_max(column.cast(pa.int32()))
        case StatisticsKind.TIMESTAMP:
            return _min_max(compute.drop_null(column).field(0))
        case StatisticsKind.DECIMAL:
            low, high = _min_max(column)
            scale = column.type.scale
            return _unscaled(low, scale), _unscaled(high, scale)
    return _min_max(column)


def _min_max(column: pa.Array) -> tuple[Any, Any]:
    found = compute.min_max(column)
    return found["min"].as_py(), found["max"].as_py()


def _unscaled(value: Any, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number
