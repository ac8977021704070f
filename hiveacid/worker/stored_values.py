"""Values of expressions as the columns of a table store them, with the errors of Spark's conversion."""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.errors import SparkNeeded, TypeMismatch
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.rules.schema import Decimal, HiveType, Primitive, Varchar, parse_type
from hiveacid.worker.expressions import (
    INTEGERS,
    Expression,
    arrow_type,
    cast,
    days_of,
    is_wider,
    widened,
)

_BIGINT, _FLOAT, _DOUBLE = Primitive("bigint"), Primitive("float"), Primitive("double")
_STRING, _DATE, _TIMESTAMP = Primitive("string"), Primitive("date"), Primitive("timestamp")
# The calendars of Hive, of its files, and of Arrow agree.
_FIRST, _LAST = date(1582, 10, 15), date(9999, 12, 31)
_SECOND = 1_000_000
# The forms of texts that are written into columns of times.
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIMES: Mapping[HiveType, str] = {
    _DATE: f"^{_DAY}$",
    _TIMESTAMP: rf"^{_DAY}( [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?)?$",
}
# All integers up to here are floats, too.
_EXACT_AS_FLOAT = 1 << 24


def stored(value: Expression, column: HiveColumn, subject: str) -> Expression:
    """Convert an expression to the values of a column.

    Args:
        value: The expression.
        column: The column.
        subject: The name of the operation, at the beginning of error messages.

    Raises:
        SparkNeeded: The conversion is not evaluated here.
    """
    target = parse_type(column.type)
    kind = arrow_type(target)
    place = f"column {column.name} {column.type}"

    def checked(value: Expression, wrong: Callable[[Any], Any], reason: str) -> Expression:
        def values(rows: pa.Table) -> pa.ChunkedArray:
            checked_values = value.values(rows)
            mask = wrong(checked_values)
            if pc.any(mask).as_py():
                example = checked_values.filter(mask)[:1].cast(pa.string())[0].as_py()[:80]
                raise TypeMismatch(f"{subject}: '{example}'{reason}")
            return checked_values

        return Expression(value.type, values)

    if isinstance(target, Varchar):
        length, value = target.length, _of_type(value, _STRING, place)
        reason = f" is longer than {place} allows."
        return checked(value, lambda texts: pc.greater(pc.utf8_length(texts), length), reason)
    if (fits := _fits(value.type, target)) is not None:
        value = checked(value, fits, f" does not fit into {place}.")
        return Expression(target, lambda rows: value.values(rows).cast(kind))
    value = _of_type(value, target, place)
    if target in _TIMES:
        return Expression(target, lambda rows: _of_one_calendar(value.values(rows)))
    return value


def _of_type(value: Expression, target: HiveType, place: str) -> Expression:
    number, scalar = value.literal, None
    if value.is_literal and isinstance(number, int | Number) and not isinstance(number, bool):
        scalar = _number(number, target)
    if scalar is not None:
        return Expression(target, lambda _: scalar, number, is_literal=True)
    if is_wider(target, value.type):
        return widened(value, target)
    if isinstance(number, str) and target in _TIMES:
        return cast(value, target)
    if value.type == _STRING and target in _TIMES:
        return Expression(target, lambda rows: _times(value.values(rows), target))
    if isinstance(value.type, Decimal) and target in (_FLOAT, _DOUBLE):
        # Arrow's own conversion is not always to the nearest number, unlike that of its digits.
        kind = arrow_type(target)
        return Expression(target, lambda rows: value.values(rows).cast(pa.string()).cast(kind))
    if value.type == _BIGINT and target == _DOUBLE:
        return Expression(_DOUBLE, lambda rows: value.values(rows).cast(pa.float64(), safe=False))
    raise SparkNeeded(f"a value of {value.type} in the {place}")


def _times(texts: pa.ChunkedArray, target: HiveType) -> pa.ChunkedArray:
    """Convert texts of the forms that literals have."""
    if not pc.all(pc.match_substring_regex(texts, _TIMES[target]), min_count=0).as_py():
        raise SparkNeeded(f"another form of a {target}")
    return texts.cast(arrow_type(target))


def _number(number: int | Number, target: HiveType) -> pa.Scalar | None:
    """Return a literal in the type of a column, if it has an equal value."""
    value: object = number
    if target == _DOUBLE or (
        # A decimal would be rounded twice.
        target == _FLOAT and isinstance(number, int) and abs(number) <= _EXACT_AS_FLOAT
    ):
        value = float(number)
    elif isinstance(target, Decimal):
        value = Number(number)
    elif str(target) not in INTEGERS or not isinstance(number, int):
        return None
    try:
        return pa.scalar(value, arrow_type(target))
    except (pa.ArrowException, OverflowError):
        return None


def _fits(source: HiveType, target: HiveType) -> Callable[[Any], Any] | None:
    """Return what finds the numbers that a narrower type does not hold."""
    names = [str(source), str(target)]
    if all(name in INTEGERS for name in names) and not is_wider(target, source):
        kind = arrow_type(target)
        return lambda values: pc.not_equal(
            pc.cast(values, kind, safe=False).cast(values.type), values
        )
    if not isinstance(source, Decimal) or not isinstance(target, Decimal):
        return None
    if source.scale != target.scale or source.precision <= target.precision:
        return None
    limit = pa.scalar(Number(f"{'9' * target.precision}E-{target.scale}"))
    return lambda values: pc.greater(pc.abs(values), limit)


def _of_one_calendar(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Check that files hold the values in one form only."""
    if pa.types.is_timestamp(values.type):
        micros = np.asarray(pc.fill_null(values.cast(pa.int64()), 0))
        if np.any((micros > -_SECOND) & (micros < 0)):
            raise SparkNeeded("a timestamp within the last second before 1970")
    days = days_of(values)
    first, last = (day.toordinal() - date(1970, 1, 1).toordinal() for day in (_FIRST, _LAST))
    if np.any((days < first) | (days > last)):
        raise SparkNeeded(f"a day before {_FIRST} or after {_LAST}")
    return values
