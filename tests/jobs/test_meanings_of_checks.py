"""The meaning of checks of several rows, apart from engines."""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.jobs.checks import (
    Absent,
    Apart,
    Balanced,
    Check,
    Fresh,
    Keys,
    NoRows,
    QueryCheck,
    References,
    Repeated,
    Returned,
    TooOld,
    Unique,
)
from hiveacid.jobs.job import accesses_of
from hiveacid.jobs.sources import BatchSource, TableSource
from hiveacid.writes.sums import part_of_sum, parts_of_sums, sum_of

Number = int | Decimal | float


def apart(sums: list[Number], tolerance: float = 0) -> bool:
    totals = {f"d.t{n}": "x" for n in range(len(sums))}
    meaning = Balanced(totals=totals, tolerance=tolerance).meaning("d.t0")
    assert isinstance(meaning, Apart)
    return meaning.is_violated(sums)


@pytest.mark.parametrize(
    ("sums", "tolerance", "expected"),
    [
        ([1, 1, 1], 0, False),
        ([1, 1, 2], 0, True),
        ([1, Decimal("1.5")], 0.5, False),
        ([1, Decimal("1.51")], 0.5, True),
        ([Decimal(10**60), Decimal(10**60 + 1)], 0, True),
        ([2**80, 2**80], 0, False),
        ([0.1, Decimal("0.1")], 0, False),
        ([0.1, 0.3], 0.1, True),
        ([math.nan, math.nan], 0, True),
        ([math.nan, 1], 100, True),
        ([math.inf, math.inf], 0, True),
        ([1, 10**100], math.inf, False),
    ],
)
def test_sums_are_apart(sums: list[Number], tolerance: float, expected: bool) -> None:
    assert apart(sums, tolerance) is expected


def total(values: pa.Array, parts: int = 1) -> Number:
    size = -(-max(len(values), 1) // parts)
    batches = [
        pa.RecordBatch.from_arrays([values.slice(at, size)], ["x"])
        for at in range(0, len(values), size)
    ]
    found = [text for batch in parts_of_sums(batches) for text in batch.column(0).to_pylist()]
    return sum_of(found, values.type)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([], pa.int32()), 0),
        (pa.array([None], pa.float64()), 0.0),
        (pa.array([2**63 - 1] * 3 + [None], pa.int64()), 3 * (2**63 - 1)),
        (pa.array([127, 127, -1], pa.int8()), 253),
        (pa.array([Decimal("9" * 38)] * 3, pa.decimal128(38, 0)), Decimal(3 * int("9" * 38))),
        (pa.array([Decimal("0.10"), Decimal("-2.25")], pa.decimal128(5, 2)), Decimal("-2.15")),
        (pa.array([0.1] * 10), 1.0),
        (pa.array([1e308, 1e308, -1e308, -1e308, 1.0]), 1.0),
        (pa.array([1e308, 1e308]), math.inf),
        (pa.array([-1e308, -1e308]), -math.inf),
        (pa.array([5e-324, 1e300, -1e300]), 5e-324),
        (pa.array([-0.0, -0.0]), 0.0),
        (pa.array([0.1, 0.2], pa.float32()), float(np.float32(0.1)) + float(np.float32(0.2))),
    ],
)
def test_sums_are_exact_in_every_order(values: pa.Array, expected: Number) -> None:
    for parts in (1, 2, 5):
        assert total(values, parts) == expected
        assert total(values.take(pa.array(range(len(values))[::-1], pa.int64())), parts) == expected
    assert type(total(values)) is type(expected)


def test_a_sum_with_nan_or_infinity_is_no_number() -> None:
    for odd in (math.nan, math.inf, -math.inf):
        assert math.isnan(total(pa.array([1.0, odd, 2.0]), 3))


def test_random_doubles_have_the_sum_of_fractions() -> None:
    numbers = np.random.default_rng(7).integers(0, 2**64, 2000, dtype=np.uint64).view(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    assert Fraction(part_of_sum(pa.array(numbers))) == sum(map(Fraction, numbers.tolist()))


def test_checks_are_of_written_rows_or_of_tables() -> None:
    written, whole = BatchSource("d.t"), TableSource("d.T")
    unique = Unique(columns=["a"])
    assert unique.meaning("d.T") == Repeated(Keys(written, unique.columns))
    assert Unique(columns=["a"], whole_table=True).meaning("d.T") == Repeated(
        Keys(whole, unique.columns)
    )
    references = References(columns=["a"], to="d.o", to_columns=["b"])
    found = references.meaning("d.t")
    assert isinstance(found, Absent)
    assert (found.known.rows, tuple(found.known.columns)) == (TableSource("d.o"), ("b",))
    query = NoRows(sql="SELECT 1", inputs={"x": BatchSource("D.O")}).meaning("d.t")
    assert isinstance(query, Returned)
    assert query.query.inputs == {"new_rows": written, "x": BatchSource("d.o")}


EXAMPLES: dict[type[Check], QueryCheck] = {
    Unique: Unique(columns=["a"]),
    References: References(columns=["a"], to="d.o", to_columns=["b"]),
    Fresh: Fresh(column="at", within_hours=2),
    Balanced: Balanced(totals={"d.t": "x", "d.u": "y"}),
    NoRows: NoRows(sql="SELECT 1 FROM o", inputs={"o": TableSource("d.o")}),
}


def test_each_table_of_a_meaning_is_an_access_of_its_check() -> None:
    """Otherwise a job would read tables that its user may not read."""
    kinds = {kind for kind in Check.kinds() if issubclass(kind, QueryCheck)}
    assert kinds == set(EXAMPLES)
    for check in EXAMPLES.values():
        named_tables = {access.table for access in accesses_of(check.meaning("d.t"))}
        assert named_tables == {access.table for access in accesses_of(check)}


def test_the_newest_value_is_too_old() -> None:
    meaning = Fresh(column="at", within_hours=2).meaning("d.t")
    assert isinstance(meaning, TooOld)
    now = datetime.now(UTC).replace(tzinfo=None)
    assert not meaning.is_violated(None)
    assert not meaning.is_violated(now - timedelta(hours=1))
    assert meaning.is_violated(now - timedelta(hours=3))
