"""Key columns that are recognized by their runs are those that the library decodes."""

import io
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.orc.format.streams import arithmetic_runs, integer_runs
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys import key_stream
from hiveacid.orc.row_keys.key_stream import Progression, read_keys, read_progressions, recognized
from hiveacid.orc.row_keys.keys import Keys
from tests.samples import examples

TABLES = Path(__file__).parents[1] / "data" / "tables"
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
COUNTS = st.one_of(st.integers(1, 20), st.integers(500, 1600), st.integers(9000, 11_000))


@st.composite
def columns(draw, values) -> np.ndarray:
    """A column that mostly has equal steps."""
    count = draw(COUNTS)
    first, step = draw(values), draw(st.sampled_from([0, 0, 1, 1, 3, -2]))
    column = np.arange(count) * step
    disturbed = draw(st.sampled_from([None, None, None, 0, count // 2, count - 1]))
    if disturbed is not None:
        column[disturbed] += draw(st.integers(-2, 2))
    limit = (1 << 63) - 1
    first = max(min(first, limit - int(column.max())), -limit - int(column.min()))
    return column + first


def acid_file(parts: list[np.ndarray], types: list[pa.DataType]) -> io.BytesIO:
    count = min(map(len, parts))
    names = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction")
    rows = {
        name: pa.array(part[:count], type_)
        for name, part, type_ in zip(names, parts, types, strict=True)
    }
    rows["row"] = pa.nulls(count, pa.struct({"a": pa.int32()}))
    file = io.BytesIO()
    orc.write_table(pa.table(rows), file)
    return file


def same(one: Keys, other: Keys) -> bool:
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in fields(Keys)
    )


def decoded(source, tail: OrcTail) -> Keys:
    """The keys as the library decodes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_stream, "read_progressions", lambda *_: None)
        return Keys.joined(list(read_keys(source, tail)))


@given(
    parts=st.tuples(*(columns(INT.filter(lambda n: abs(n) < 1 << 30)) for _ in range(5))),
    rows=st.integers(1, 700),
)
@examples(60)
def test_files_of_the_library_have_the_keys_that_it_decodes(parts, rows):
    types = [pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64()]
    file = acid_file(list(parts), types)
    tail = OrcTail.read(file)
    pieces = list(read_keys(file, tail, rows=rows))
    assert all(0 < len(keys) <= rows for keys in pieces)
    assert same(Keys.joined(pieces), decoded(file, tail))


@given(column=columns(LONG))
def test_a_column_is_recognized_only_with_equal_steps(column):
    found = recognized(integer_runs(column))
    if found is not None:
        assert found[:].tolist() == column.tolist()
        assert (found.first, found.last, found.count) == (column[0], column[-1], len(column))


@pytest.mark.parametrize("step", [0, 1, 3])
def test_columns_of_inserted_rows_are_recognized(step):
    for count in (2, 3, 511, 512, 514, 1600, 8192, 25_001):
        for start in (0, 536870912, -7, (1 << 63) - 2000, -(1 << 63)):
            first = min(start, (1 << 63) - 1 - step * count)
            progression = Progression(first, step, count)
            assert recognized(arithmetic_runs(first, count, step)) == progression


@pytest.mark.parametrize("groups", [[10_000] * 3, [512] * 40, [20_000, 700], [300] * 30])
@pytest.mark.parametrize("gap", [0, 1])
def test_runs_of_row_groups_are_recognized_unless_a_number_is_missing(groups, gap):
    plain, row = b"", 1 << 40
    for number, count in enumerate(groups):
        row += gap * (number == len(groups) // 2)
        plain += arithmetic_runs(row, count, 1)
        row += count
    found = recognized(plain)
    assert found == (None if gap else Progression(1 << 40, 1, sum(groups)))


def test_a_changed_byte_of_many_runs_changes_the_numbers_or_the_recognition():
    plain = arithmetic_runs(1000, 20_000, 1)
    known = recognized(plain)
    for position in range(0, len(plain), 7):
        changed = bytearray(plain)
        changed[position] ^= 1 << position % 8
        assert recognized(bytes(changed)) != known, position


@pytest.mark.parametrize("numbers", [[0], [-7], [1 << 40], [5, 5], [5, 9], [-(1 << 63), -1]])
def test_columns_of_one_or_two_rows_are_recognized(numbers):
    file = acid_file([np.array(numbers)] * 5, [pa.int64()] * 5)
    tail = OrcTail.read(file)
    known = read_progressions(file, tail, 0)
    assert known is not None
    (keys,) = known.batches(10)
    assert same(keys, decoded(file, tail))
    assert keys.rows.tolist() == numbers


def test_a_step_beyond_64_bits_is_left_to_the_library():
    extremes = [-(1 << 63), (1 << 63) - 1]
    file = acid_file([np.array(extremes)] * 5, [pa.int64()] * 5)
    (keys,) = read_keys(file, OrcTail.read(file))
    assert keys.rows.tolist() == extremes


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"\xc0",
        b"\xc1\xff\x00",
        b"\xc1\xff" + b"\x80" * 12,
        b"\xc0\x00\x00\x00",
        b"\x38\x01",
        arithmetic_runs(0, 600, 1)[:-1],
        arithmetic_runs(0, 512, 1) + arithmetic_runs(513, 88, 1),
        arithmetic_runs(0, 512, 1) + arithmetic_runs(512, 88, 2),
    ],
    ids=[
        "nothing",
        "half a header",
        "no step",
        "an endless number",
        "a run of one",
        "a value cut short",
        "the last step missing",
        "a gap",
        "another step",
    ],
)
def test_anything_else_is_left_to_the_library(plain):
    assert recognized(plain) is None


def test_files_of_other_engines_have_the_keys_that_the_library_decodes():
    recognizable = 0
    for path in sorted(TABLES.glob("*/**/*_[0-9]*/bucket_0*[0-9]")):
        file = io.BytesIO(path.read_bytes())
        # Streaming leaves files with an incomplete end.
        tail = None if "streamed" in path.parts else OrcTail.read(file)
        if tail is not None and tail.is_acid and tail.stripes:
            assert same(Keys.joined(list(read_keys(file, tail))), decoded(file, tail)), path
            recognizable += read_progressions(file, tail, 0) is not None
    assert recognizable > 30


def test_integers_beyond_the_type_are_left_to_the_library():
    columns = [np.arange(600) + (1 << 31), *[np.arange(600)] * 4]
    file = acid_file(columns, [pa.int64()] * 5)
    tail = OrcTail.read(file)
    assert read_progressions(file, tail, 0) is not None
    # Both types have the same encoding.
    narrow = OrcTail.read(acid_file([np.arange(600)] * 5, [pa.int32()] * 5)).types
    assert read_progressions(file, replace(tail, types=narrow), 0) is None
