"""Exact sums: they depend neither on the order of their values, nor on the process that adds them."""

from collections.abc import Iterable, Iterator
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

# A part of a sum as a fraction; NaN if it is no finite number.
_NAN = "NaN"
# The digits of a decimal's sum; Arrow's own 38 overflow silently.
_MOST_DIGITS = 76
_HALF = 26
_DIGITS = Context(prec=200)


def part_of_sum(values: pa.Array | pa.ChunkedArray) -> str:
    """Return the exact sum of numbers without nulls, as a part of a larger sum."""
    if pa.types.is_floating(values.type):
        return _of_doubles(np.asarray(values.drop_null().cast(pa.float64())))
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    total = pc.sum(values.cast(pa.decimal256(_MOST_DIGITS, scale))).as_py()
    return str(Fraction(total or 0))


def parts_of_sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the only column of batches, for ``mapInArrow``."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"part": pa.array([part_of_sum(batch.column(0))])})


def sum_of(parts: Iterable[str], of: pa.DataType) -> int | Decimal | float:
    """Add the parts of a sum.

    Args:
        parts: The parts.
        of: The type of the values; the sum of floats is rounded once.
    """
    sums = [*parts]
    if _NAN in sums:
        return float("nan")
    total = sum(map(Fraction, sums), Fraction())
    if pa.types.is_floating(of):
        try:
            return float(total)
        except OverflowError:
            return float("inf") if total > 0 else float("-inf")
    if pa.types.is_decimal(of):
        exact = _DIGITS.divide(Decimal(total.numerator), Decimal(total.denominator))
        return exact.quantize(Decimal(1).scaleb(-of.scale), context=_DIGITS)
    return int(total)


def _of_doubles(numbers: np.ndarray) -> str:
    if not np.isfinite(numbers).all():
        return _NAN
    fractions, exponents = np.frexp(numbers)
    whole = np.ldexp(fractions, 53).astype(np.int64)
    total = Fraction()
    for exponent in np.unique(exponents).tolist():
        numerators = whole[exponents == exponent]
        # In two halves, whose sums do not overflow.
        high, low = int((numerators >> _HALF).sum()), int((numerators & ((1 << _HALF) - 1)).sum())
        total += ((high << _HALF) + low) * Fraction(2) ** (exponent - 53)
    return str(total)
