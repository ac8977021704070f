"""Sums of row hashes: equal for equal rows in any form and order, and different for all others."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.errors import UnsupportedTable
from hiveacid.iceberg import row_hash
from hiveacid.iceberg.row_hash import TableSum, described

Sums = dict[tuple[int, int], tuple[int, tuple[int, int]]]

STRUCT = pa.struct({"x": pa.int32(), "names": pa.list_(pa.string())})
SCHEMA = pa.schema(
    {
        "flag": pa.bool_(),
        "tiny": pa.int8(),
        "big": pa.int64(),
        "single": pa.float32(),
        "real": pa.float64(),
        "text": pa.string(),
        "blob": pa.binary(),
        "day": pa.date32(),
        "moment": pa.timestamp("us"),
        "price": pa.decimal128(12, 2),
        "tags": pa.list_(pa.string()),
        "counts": pa.map_(pa.string(), pa.int32()),
        "place": STRUCT,
        "places": pa.list_(STRUCT),
        "p": pa.string(),
    }
)


def sums(*batches: pa.RecordBatch | pa.Table, keys: Sequence[str] = ()) -> Sums:
    total = TableSum([*keys])
    for table in batches:
        parts = table.to_batches() if isinstance(table, pa.Table) else [table]
        for batch in parts:
            total.add(batch)
    return {key: (part.rows, part.lanes) for key, part in total.parts.items()}


def column(values: Sequence[Any], type_: pa.DataType) -> Sums:
    return sums(pa.table({"c": pa.array(values, type_)}))


def random_value(random: Random, type_: pa.DataType) -> Any:
    if random.random() < 0.15:
        return None
    few, many = random.randrange(4), random.randrange(1 << 30)
    if pa.types.is_map(type_):
        return [(f"k{n}", random_value(random, type_.item_type)) for n in range(few)]
    if pa.types.is_list(type_):
        return [random_value(random, type_.value_type) for _ in range(few)]
    if pa.types.is_struct(type_):
        return {each.name: random_value(random, each.type) for each in type_}
    text = random.choice("abcü\0") * random.randrange(30)
    choices: dict[pa.DataType, Any] = {
        pa.bool_(): few > 1,
        pa.int8(): many % 256 - 128,
        pa.int32(): many,
        pa.int64(): many * many,
        pa.float32(): float(many % 1000) / 4,
        pa.float64(): many / 7,
        pa.string(): text,
        pa.binary(): text.encode(),
        pa.date32(): date.fromordinal(1 + many % 3_000_000),
        pa.timestamp("us"): datetime(1700 + many % 500, 2, 3, microsecond=many % 10**6),
        pa.decimal128(12, 2): Decimal(many - (1 << 29)) / 100,
    }
    return choices[type_]


def random_rows(seed: int, count: int = 40) -> list[dict[str, Any]]:
    random = Random(seed)
    return [{each.name: random_value(random, each.type) for each in SCHEMA} for _ in range(count)]


def of_rows(rows: Sequence[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Sums:
    return sums(pa.Table.from_pylist([*rows], schema=schema), keys=["p"])


def wider(type_: pa.DataType) -> pa.DataType:
    """Return another type for the same values."""
    if pa.types.is_map(type_):
        return pa.map_(wider(type_.key_type), wider(type_.item_type))
    if pa.types.is_list(type_):
        return pa.large_list(wider(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct({each.name.upper(): wider(each.type) for each in type_})
    return {
        pa.int8(): pa.int32(),
        pa.int32(): pa.int64(),
        pa.float32(): pa.float64(),
        pa.string(): pa.large_string(),
        pa.binary(): pa.large_binary(),
        pa.timestamp("us"): pa.timestamp("us", "UTC"),
        pa.decimal128(12, 2): pa.decimal128(38, 5),
    }.get(type_, type_)


def renamed(value: Any, type_: pa.DataType) -> Any:
    """Return a value with the fields of structs in capitals, and reversed maps."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return [(key, renamed(inside, type_.item_type)) for key, inside in reversed(value)]
    if pa.types.is_list(type_):
        return [renamed(inside, type_.value_type) for inside in value]
    if pa.types.is_struct(type_):
        return {each.name.upper(): renamed(value[each.name], each.type) for each in type_}
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


@pytest.mark.parametrize("seed", range(10))
def test_the_sum_does_not_depend_on_types_and_order(seed: int) -> None:
    rows = random_rows(seed)
    expected = of_rows(rows)
    assert sum(count for count, _ in expected.values()) == len(rows)
    random = Random(seed)
    random.shuffle(rows)
    others = [
        {name.upper(): renamed(value, SCHEMA.field(name).type) for name, value in row.items()}
        for row in rows
    ]
    fields = [(each.name.upper(), wider(each.type)) for each in SCHEMA]
    random.shuffle(fields)
    assert of_rows(others, pa.schema(fields)) == expected


@pytest.mark.parametrize("seed", range(10))
def test_the_sum_does_not_depend_on_batches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.Table.from_pylist(random_rows(seed), schema=SCHEMA)
    expected = sums(table, keys=["p"])
    (batch,) = table.combine_chunks().to_batches()
    cuts = sorted(Random(seed).sample(range(1, len(batch)), 3))
    slices = [
        batch.slice(start, end - start)
        for start, end in zip([0, *cuts], [*cuts, len(batch)], strict=True)
    ]
    assert sums(*slices, keys=["p"]) == expected
    monkeypatch.setattr(row_hash, "_MOST_BYTES", 1)
    assert sums(batch, keys=["p"]) == expected
    merged = TableSum(["p"])
    for each in slices:
        one = TableSum(["p"])
        one.add(each)
        merged.merge(one)
    assert {key: (part.rows, part.lanes) for key, part in merged.parts.items()} == expected


def changed(random: Random, row: dict[str, Any]) -> dict[str, Any]:
    name = random.choice(SCHEMA.names)
    type_ = SCHEMA.field(name).type
    # No elements are the same as null if they would be structs.
    before = row[name] or None if name == "places" else row[name]
    while (value := random_value(random, type_)) == before or (not value and not before):
        pass
    return {**row, name: value}


def test_a_changed_row_changes_the_sum() -> None:
    for seed in range(60):
        rows = random_rows(seed, 10)
        random = Random(seed)
        place = random.randrange(len(rows))
        others = [*rows[:place], changed(random, rows[place]), *rows[place + 1 :]]
        assert of_rows(others) != of_rows(rows), seed


def test_duplicates_and_missing_rows_count() -> None:
    rows = random_rows(1, 6)
    different = [rows, rows[:5], [*rows, rows[0]], [*rows[1:], rows[1]], [*rows, *rows], []]
    found = [of_rows(each) for each in different]
    assert all(left != right for n, left in enumerate(found) for right in found[:n])


def test_a_row_in_another_partition_is_another_row() -> None:
    rows = [{"a": n, "p": f"p{n % 2}"} for n in range(6)]
    schema = pa.schema({"a": pa.int32(), "p": pa.string()})
    moved = [{**rows[0], "p": "p1"}, {**rows[1], "p": "p0"}, *rows[2:]]
    before, after = of_rows(rows, schema), of_rows(moved, schema)
    assert before.keys() == after.keys()
    assert all(before[key] != after[key] for key in before)


def test_partitions_are_named_by_their_values() -> None:
    total = TableSum(["p", "missing"])
    total.add(pa.record_batch({"a": [1, 2, 3], "P": [None, "x", None]}))
    found = {part.values: part.rows for part in total.parts.values()}
    assert found == {(None, None): 2, ("x", None): 1}
    assert total.rows == 3


@pytest.mark.parametrize(
    "values",
    [
        [None, 0, 1, -1, 1 << 40, -(1 << 63)],
        [None, "", "\0", "\0\0", " ", "a", "a\0", "a" * 8, "a" * 9, "a" * 16, "b" + "a" * 15],
        [None, b"", b"\0"],
        [
            None,
            [],
            [None],
            [None, None],
            ["", None],
            ["a", "b"],
            ["b", "a"],
            ["ab"],
            ["a", "", "b"],
        ],
        [None, {"x": None}, {"x": 0}],
        [None, [[]], [[], []], [[1], [2]], [[1, 2]], [[2], [1]], [None]],
        [None, Decimal("0.0"), Decimal("0.1"), Decimal("-0.1"), Decimal("1e20"), Decimal("1e-10")],
        [None, False, True],
    ],
    ids=str,
)
def test_similar_values_differ(values: list[Any]) -> None:
    type_ = pa.array(values).type
    if pa.types.is_decimal(type_):
        type_ = pa.decimal128(38, 10)
    found = [column([value], type_) for value in values]
    assert all(left != right for n, left in enumerate(found) for right in found[:n])


def test_similar_maps_differ() -> None:
    type_ = pa.map_(pa.string(), pa.string())
    pairs = [None, [], [("a", None)], [("a", "")], [("a", "b")], [("b", "a")]]
    more = [[("a", "b"), ("c", "d")], [("a", "d"), ("c", "b")], [("a", "b"), ("a", "b")]]
    found = [column([value], type_) for value in [*pairs, *more]]
    assert all(left != right for n, left in enumerate(found) for right in found[:n])


def test_swapped_columns_differ() -> None:
    assert sums(pa.table({"a": [1], "b": [2]})) != sums(pa.table({"a": [2], "b": [1]}))
    assert sums(pa.table({"a": ["x"], "b": [None]})) != sums(pa.table({"a": [None], "b": ["x"]}))


def test_values_swapped_between_rows_differ() -> None:
    before = pa.table({"a": [1, 2], "b": [1, 2]})
    assert sums(before) != sums(pa.table({"a": [1, 2], "b": [2, 1]}))


def test_a_missing_column_is_null() -> None:
    type_ = pa.struct({"x": pa.int32(), "y": pa.int32()})
    with_nulls = pa.table({"a": [1], "s": pa.array([{"x": 1, "y": None}], type_), "b": [None]})
    without = pa.table({"a": [1], "s": pa.array([{"x": 1}], pa.struct({"x": pa.int32()}))})
    assert sums(with_nulls) == sums(without)


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_all_nan_and_both_zeros_are_equal(type_: pa.DataType) -> None:
    nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert column(nan.tolist(), type_) == column([float("nan")] * 2, pa.float64())
    assert column([-0.0], type_) == column([0.0], pa.float64())
    assert column([0.0], type_) != column([None], type_)
    assert column([float("nan")], type_) != column([None], type_)
    assert column([float("inf")], type_) != column([float("-inf")], type_)


def test_timestamps_are_compared_in_microseconds_in_all_years() -> None:
    micros = [253_402_300_799_123_457, -62_135_596_800_000_000, -1]
    exact = column(micros, pa.timestamp("us"))
    assert exact != column([micros[0] + 1, *micros[1:]], pa.timestamp("us"))
    # As Arrow reads ORC files.
    with np.errstate(over="ignore"):
        wrapped = np.array(micros) * 1000
    nanos = pa.array(wrapped).view(pa.timestamp("ns"))
    assert column(nanos.cast(pa.timestamp("us"), safe=False), pa.timestamp("us")) == exact
    assert column([1_000], pa.timestamp("ns")) == column([1], pa.timestamp("us"))


def test_no_elements_are_null_if_they_would_be_structs() -> None:
    lists, maps = pa.list_(STRUCT), pa.map_(pa.string(), STRUCT)
    assert column([None], lists) == column([[]], lists) != column([[None]], lists)
    assert column([None], maps) == column([[]], maps) != column([[("k", None)]], maps)


def test_encoded_values_are_decoded() -> None:
    texts = pa.array(["a", None, "a"])
    assert column(texts.dictionary_encode(), texts.dictionary_encode().type) == column(
        texts, pa.string()
    )
    assert column(texts.cast(pa.string_view()), pa.string_view()) == column(texts, pa.string())
    blobs = [b"ab", b"cd"]
    assert column(blobs, pa.binary(2)) == column(blobs, pa.binary())
    assert column(["a"], pa.string()) != column([b"a"], pa.binary())


def test_hashes_are_the_same_in_every_process() -> None:
    ((_, (rows, lanes)),) = sums(pa.table({"a": [1], "b": ["text"], "c": [[1.5]]})).items()
    assert (rows, lanes) == (1, (7519253985599493040, 17957582056287682093))


def test_kinds_are_described() -> None:
    type_ = pa.struct({"A": pa.list_(pa.map_(pa.string(), pa.timestamp("us", "UTC")))})
    assert described(type_) == "struct<a: array<map<text, timestamp with a zone>>>"
    with pytest.raises(UnsupportedTable, match="time64"):
        described(pa.time64("us"))
    with pytest.raises(UnsupportedTable, match="time64"):
        column([1], pa.time64("us"))


@pytest.mark.parametrize(
    "make", [lambda n: n, lambda n: n << 40, lambda n: f"{n:08d}", lambda n: [n]]
)
def test_hashes_of_similar_rows_are_as_good_as_random(make: Callable[[int], Any]) -> None:
    """Each bit of the hashes is set in half of the rows."""
    numbers = range(2000)
    rows = pa.table({"a": [make(n) for n in numbers], "b": [n % 62 for n in numbers], "n": numbers})
    lanes = np.array([lanes for _, lanes in sums(rows, keys=["n"]).values()], np.uint64)
    bits = (lanes[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 0.07
