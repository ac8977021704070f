"""Digests of values: the same for the same rows in other batches, another one for any other value."""

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from hiveacid.orc.row_keys.digests import ValueDigest

VALUES = {
    pa.bool_(): [True, None, False, True, False],
    pa.int8(): [1, None, -1, 0, 7],
    pa.int64(): [1, None, -1, 0, 2**40],
    pa.float64(): [1.5, None, float("nan"), -0.0, 3.25],
    pa.string(): ["a", None, "", "bc", "ä"],
    pa.binary(): [b"a", None, b"", b"bc", b"\0"],
    pa.date32(): [date(1970, 1, 1), None, date(1, 1, 1), date(2020, 2, 2), date(9999, 12, 31)],
    pa.timestamp("ns"): [
        datetime(2020, 1, 1),
        None,
        datetime(1970, 1, 1),
        datetime(1678, 1, 1),
        datetime(2261, 1, 1),
    ],
    pa.decimal128(20, 2): [Decimal("1.25"), None, Decimal("-1.00"), Decimal(0), Decimal(7)],
    pa.list_(pa.int32()): [[1, 2], None, [], [None], [3]],
    pa.map_(pa.string(), pa.int32()): [[("a", 1)], None, [], [("b", None)], [("c", 2), ("d", 3)]],
    pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]): [
        {"x": 1, "y": ["a"]},
        None,
        {"x": None, "y": None},
        {"x": 2, "y": []},
        {"x": 3, "y": [None, "b"]},
    ],
}


def digest(*batches: pa.Array) -> tuple[int, int]:
    taken = ValueDigest()
    for values in batches:
        rows = pa.StructArray.from_arrays([values], ["v"])
        keys = [pa.array(range(len(values)), pa.int64())] * 5
        taken.add(pa.RecordBatch.from_arrays([*keys, rows], names=[*"abcde", "row"]))
    return taken.rows, taken.value


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_a_digest_is_of_the_values_in_their_order(type_):
    values = pa.array(VALUES[type_], type_)
    whole = digest(values)
    assert whole == digest(values.slice(0, 2), values.slice(2, 1), values.slice(3))
    assert whole == digest(pa.concat_arrays([values.slice(3), values]).slice(2))
    seen = {whole}
    for place in range(len(values)):
        others = [*VALUES[type_]]
        others[place] = others[0] if others[place] is None else None
        seen.add(digest(pa.array(others, type_)))
        seen.add(digest(values.take(pa.array([p for p in range(5) if p != place]))))
    seen.add(digest(values.take(pa.array([1, 0, 2, 3, 4]))))
    seen.add(digest(values.take(pa.array([0, 1, 2, 3, 4, 4]))))
    assert len(seen) == 1 + 5 + 5 + 2


def test_values_behind_a_null_are_ignored():
    mask = pa.array([False, True, False])
    some = pa.array([1, 2, 3], pa.int32())
    other = pa.array([1, 9, 3], pa.int32())
    hide = pa.compute.if_else
    assert digest(hide(mask, None, some)) == digest(hide(mask, None, other))
