"""Rows of files that are older than the columns of their table."""

import io
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from hiveacid.errors import BeyondArrow, CorruptFile, UnsupportedFile
from hiveacid.orc.copying.stripe_plan import PlannedFile
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.envelope import TypeField, TypeKind, with_column_names, wrap_types
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.tail import OrcTail, row_types
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.orc.values.evolution import check_lossless
from hiveacid.rules.schema import ColumnMapping, MappedColumns, row_struct
from tests.orc.bucket_files import BUCKET, compact, inserts, planned
from tests.orc.orc_tables import flat_file, read, row_ids


def types_of(*columns: tuple[str, str]) -> tuple[bytes, ...]:
    return wrap_types(row_types(row_struct(list(columns))))


def evolve(rows: pa.Table, *columns: tuple[str, str], deleted=()) -> list[dict[str, object]]:
    """The rows as they are after a compaction of a table with other columns."""
    files = [planned(inserts(rows, [1]))]
    plan, found = compact(files, [(1, BUCKET, row) for row in deleted], types=types_of(*columns))
    assert not any(group.copy for group in plan.groups)
    assert verify_file(found, kind="insert", bucket=0) == []
    # The types may be spelled in several ways; their meaning is the table's.
    assert plan.layout.stores_as(OrcTail.read(found).types)
    ids = row_ids(read(found))
    assert ids == [(1, BUCKET, row) for row in range(rows.num_rows) if row not in deleted]
    return [row["row"] for row in read(found).to_pylist()]


def test_missing_columns_are_null_and_dropped_ones_invisible():
    rows = pa.table({"b": ["x", None], "gone": [1.5, 2.5], "A": pa.array([1, 2], pa.int32())})
    columns = [("a", "int"), ("b", "string"), ("c", "map<string,array<int>>"), ("d", "date")]
    assert evolve(rows, *columns) == [
        {"a": 1, "b": "x", "c": None, "d": None},
        {"a": 2, "b": None, "c": None, "d": None},
    ]


@pytest.mark.parametrize(
    ("old", "values", "new"),
    [
        (pa.int8(), [-128, None, 127], "smallint"),
        (pa.int8(), [-128, None, 127], "bigint"),
        (pa.int16(), [-(2**15), None, 2**15 - 1], "int"),
        (pa.int32(), [-(2**31), None, 2**31 - 1], "bigint"),
        (pa.float32(), [0.1, None, float("-inf")], "double"),
        (pa.decimal128(5, 2), [Decimal("-999.99"), None, Decimal("0.01")], "decimal(38,10)"),
    ],
)
def test_a_widened_column_keeps_its_values(old, values, new):
    rows = pa.table({"v": pa.array(values, old)})
    expected = [None if value is None else pa.scalar(value, old).as_py() for value in values]
    assert [row["v"] for row in evolve(rows, ("v", new))] == expected


def test_nested_fields_go_by_their_names():
    old = pa.struct([("X", pa.int32()), ("renamed", pa.string()), ("y", pa.list_(pa.int16()))])
    values = [
        {"X": 1, "renamed": "a", "y": [1, None]},
        None,
        {"X": None, "renamed": "b", "y": None},
        {"X": 4, "renamed": None, "y": []},
    ]
    rows = pa.table(
        {
            "s": pa.array(values, old),
            "l": pa.array([[value, None] if value else None for value in values], pa.list_(old)),
        }
    )
    new = "struct<y:array<bigint>,x:bigint,name:string>"
    expected = [value and {"y": value["y"], "x": value["X"], "name": None} for value in values]
    found = evolve(rows, ("s", new), ("l", f"array<{new}>"), ("added", "int"), deleted=[1])
    assert found == [
        {"s": value, "l": [value, None] if value else None, "added": None}
        for number, value in enumerate(expected)
        if number != 1
    ]


def test_lists_in_all_stripes_and_batches_keep_their_elements():
    lists = [None if k % 7 == 0 else list(range(k % 5)) for k in range(3000)]
    rows = pa.table({"l": pa.array(lists, pa.list_(pa.int32())), "pad": ["x" * 3000] * 3000})
    found = evolve(rows, ("l", "array<bigint>"), ("pad", "string"))
    assert [row["l"] for row in found] == lists


@pytest.mark.parametrize(
    ("old", "values", "new"),
    [
        (pa.int32(), [1], "string"),
        (pa.int32(), [1], "decimal(12,2)"),
        (pa.int32(), [1], "double"),
        (pa.date32(), [1], "string"),
        (pa.map_(pa.string(), pa.int32()), [[("a", 1)]], "map<string,bigint>"),
    ],
)
def test_other_changes_are_left_to_spark(old, values, new):
    with pytest.raises(BeyondArrow):
        evolve(pa.table({"v": pa.array(values, old)}), ("v", new))


@pytest.mark.parametrize(
    ("old", "values", "new"),
    [
        (pa.int64(), [1], "int"),
        (pa.string(), ["1"], "int"),
        (pa.float64(), [1.5], "float"),
        (pa.int32(), [1], "decimal(9,0)"),
        (pa.decimal128(5, 2), [Decimal("1.25")], "decimal(5,1)"),
        (pa.decimal128(5, 2), [Decimal("1.25")], "decimal(5,3)"),
        (pa.timestamp("ns"), [0], "date"),
        (pa.binary(), [b"1"], "string"),
        (pa.struct([("x", pa.int64())]), [{"x": 1}], "struct<x:smallint>"),
        (pa.struct([("x", pa.int64())]), [{"x": 1}], "string"),
    ],
)
def test_a_change_that_may_lose_values_is_refused_by_name(old, values, new):
    with pytest.raises(UnsupportedFile, match="in the column v"):
        evolve(pa.table({"v": pa.array(values, old)}), ("v", new))


LENGTHS = [
    ("varchar(10)", "varchar(3)", False),
    ("char(10)", "char(3)", False),
    ("varchar(10)", "char(3)", False),
    ("varchar(3)", "varchar(10)", True),
    ("char(3)", "varchar(3)", True),
    ("varchar(3)", "string", True),
    # Files of other writers declare strings in any column of texts.
    ("string", "varchar(3)", True),
    ("int", "varchar(10)", False),
    ("int", "varchar(11)", True),
    ("timestamp", "varchar(4)", False),
    ("timestamp", "string", True),
    ("array<varchar(10)>", "array<varchar(3)>", False),
]


@pytest.mark.parametrize(("old", "new", "is_lossless"), LENGTHS)
def test_a_shorter_text_type_may_cut_values(old, new, is_lossless):
    expected = nullcontext() if is_lossless else pytest.raises(UnsupportedFile, match="column v")
    with expected:
        check_lossless(types_of(("v", old)), types_of(("v", new)), "file")


def test_blanks_behind_texts_are_left_to_spark():
    file = planned(inserts(pa.table({"v": ["a "]}), [1]))
    char = Message().add_number(TypeField.KIND, TypeKind.CHAR)
    char.add_number(TypeField.MAXIMUM_LENGTH, 2)
    types = (*file.tail.types[:-1], char.encode())
    file = PlannedFile(file.source, replace(file.tail, types=types), "file", exact=True)
    with pytest.raises(BeyondArrow):
        compact([file], types=types_of(("v", "string")))
    with pytest.raises(BeyondArrow):
        compact([file], types=types_of(("w", "int"), ("v", "varchar(2)")))
    _, found = compact([file], types=types_of(("v", "char(2)"), ("w", "int")))
    assert read(found)["row"].to_pylist() == [{"v": "a ", "w": None}]


@pytest.mark.parametrize("names", [(), (b"item",), (b"item", b"more")])
def test_elements_of_lists_go_by_their_place(names):
    file = planned(inserts(pa.table({"v": [["a "]]}), [1]))
    *types, elements, _ = file.tail.types
    for name in names:
        elements = Message.decode(elements).add_data(TypeField.FIELD_NAMES, name).encode()
    char = Message().add_number(TypeField.KIND, TypeKind.CHAR)
    char.add_number(TypeField.MAXIMUM_LENGTH, 2)
    for name in names:
        char.add_data(TypeField.FIELD_NAMES, name)
    types = (*types, elements, char.encode())
    file = PlannedFile(file.source, replace(file.tail, types=types), "file", exact=True)
    with pytest.raises(BeyondArrow):
        compact([file], types=types_of(("v", "array<string>")))
    _, found = compact([file], types=types_of(("v", "array<char(2)>"), ("w", "int")))
    assert read(found)["row"].to_pylist() == [{"v": ["a "], "w": None}]


def test_columns_without_names_get_those_of_the_table():
    flat = flat_file(pa.table({"_col0": [7], "_col1": ["x"], "_col2": [1.5]}))
    sink = io.BytesIO()
    transplant([flat], sink, write_id=0, bucket=BUCKET, columns=MappedColumns(("id", "text")))
    assert read(sink)["row"].to_pylist() == [{"id": 7, "text": "x", "_col2": 1.5}]
    named = OrcTail.read(sink).types
    assert with_column_names(named, MappedColumns(("a", "b", "c"))) == named


def test_columns_get_the_names_of_the_table_by_position():
    flat = flat_file(pa.table({"id": [7], "c": ["x"], "b": [1.5]}))
    sink = io.BytesIO()
    columns = MappedColumns(("id", "b"), ColumnMapping.POSITION)
    transplant([flat], sink, write_id=0, bucket=BUCKET, columns=columns)
    assert read(sink)["row"].to_pylist() == [{"id": 7, "b": "x", "#2": 1.5}]


def test_a_file_ends_where_its_writer_says():
    first, second = (inserts(pa.table({"v": [number]}), [1]).getvalue() for number in (1, 2))
    file = io.BytesIO(first + second[:-7])
    tail = OrcTail.read(file, len(first))
    assert tail.encode(0) == OrcTail.read(io.BytesIO(first)).encode(0)
    with pytest.raises(CorruptFile, match="its writer recorded"):
        OrcTail.read(file, len(first + second))
