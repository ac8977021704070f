"""Stripes with timestamps are rewritten without a change of their numbers."""

import io
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.copying.reencode import reencode
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import TIMESTAMPS
from hiveacid.orc.format.tail import OrcTail, row_types
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.orc.values.timestamps import finer_column, mark
from hiveacid.rules.schema import parse_type, row_struct
from tests.orc.bucket_files import BUCKET, compact, planned
from tests.orc.orc_tables import CODECS, with_tail
from tests.orc.timestamp_streams import (
    EPOCH,
    ODD,
    PAIR,
    Timestamp,
    clocks_of,
    flat_timestamps,
    pair,
    timestamps_in_file,
)
from tests.samples import examples

# Hive's type, Arrow's with timestamps as pairs, and how a value is made of timestamps.
PLACES = {
    "timestamp": (PAIR, lambda a, b: pair(a)),
    "timestamp with local time zone": (PAIR, lambda a, b: pair(a)),
    "struct<x:int,y:struct<z:timestamp>>": (
        pa.struct({"x": pa.int32(), "y": pa.struct({"z": PAIR})}),
        lambda a, b: None if b is None else {"x": None, "y": {"z": pair(a)}},
    ),
    "array<timestamp>": (
        pa.list_(PAIR),
        lambda a, b: None if b is None else [pair(a), None, pair(b)],
    ),
    "map<timestamp,int>": (
        pa.map_(PAIR, pa.int32()),
        lambda a, b: None if a is None else [(pair(a), 1)],
    ),
    "map<string,array<timestamp>>": (
        pa.map_(pa.string(), pa.list_(PAIR)),
        lambda a, b: [("a", [pair(a)]), ("b", None), ("c", [pair(b), pair(b)])],
    ),
}
TYPES = row_types(
    row_struct([("id", "bigint"), *((f"c{n}", text) for n, text in enumerate(PLACES))])
)
assert all(map(parse_type, PLACES))


def acid_timestamps(
    timestamps: list[tuple[Timestamp | None, Timestamp | None]],
    write_id: int,
    acid: bool = True,
    **options: object,
) -> io.BytesIO:
    """A file of one write id whose rows have timestamps at all places."""
    columns = {"id": pa.array(range(len(timestamps)), pa.int64())}
    for number, (type_, value) in enumerate(PLACES.values()):
        columns[f"c{number}"] = pa.array([value(a, b) for a, b in timestamps], type_)
    flat = flat_timestamps(pa.table(columns), TYPES, **options)
    if not acid:
        return flat
    sink = io.BytesIO()
    transplant([flat], sink, write_id=write_id, bucket=BUCKET)
    return sink


def values_of(rows: list[tuple[Timestamp | None, Timestamp | None]]) -> list[list[Timestamp]]:
    """Return the content of the columns of timestamps, in their order."""
    return [
        [a for a, _ in rows if a is not None],
        [a for a, _ in rows if a is not None],
        [a for a, b in rows if a is not None and b is not None],
        [each for a, b in rows if b is not None for each in (a, b) if each is not None],
        [a for a, _ in rows if a is not None],
        [each for a, b in rows for each in (a, b, b) if each is not None],
    ]


timestamps = (
    st.none()
    | st.sampled_from(ODD)
    | st.tuples(
        st.integers(-(1 << 40), 1 << 40),
        st.integers(0, 10**9 - 1) | st.integers(0, 999).map(lambda millis: millis * 10**6),
    )
)


@pytest.mark.thorough
@given(st.data())
@examples(40)
def test_every_timestamp_that_stays_is_the_one_that_was(data):
    files, rows = [], []
    for write_id in range(1, data.draw(st.integers(2, 4))):
        seeds = data.draw(st.lists(st.tuples(timestamps, timestamps), min_size=1, max_size=30))
        found = seeds * data.draw(st.sampled_from([1, 40, 200]))
        file = acid_timestamps(
            found,
            write_id,
            codec=data.draw(st.sampled_from(CODECS)),
            stride=data.draw(st.sampled_from([1000, 10_000])),
            stripe_size=data.draw(st.sampled_from([64 << 10, 64 << 20])),
        )
        assert list(timestamps_in_file(file).values()) == values_of(found)
        files.append(planned(file))
        rows.append(found)
    deleted = {
        (write_id, BUCKET, row)
        for write_id, found in enumerate(rows, 1)
        for row in data.draw(st.lists(st.integers(0, len(found) - 1), min_size=1, max_size=5))
    }
    plan, found = compact(
        files, sorted(deleted), group_bytes=data.draw(st.sampled_from([1, 1 << 20]))
    )
    assert not any(group.copy for group in plan.groups)
    left = [
        row
        for write_id, given_ in enumerate(rows, 1)
        for number, row in enumerate(given_)
        if (write_id, BUCKET, number) not in deleted
    ]
    assert list(timestamps_in_file(found).values()) == values_of(left)
    assert verify_file(found, kind="insert", bucket=0) == []


@pytest.mark.parametrize("clock", ["America/New_York", ""])
def test_stripes_keep_the_clock_that_they_are_counted_by(clock):
    rows = [(timestamp, None) for timestamp in ODD]
    clocks = [clock, "GMT", "UTC", clock]
    files = [
        planned(acid_timestamps(rows, write_id, clock=each))
        for write_id, each in enumerate(clocks, 1)
    ]
    deleted = [(write_id, BUCKET, 0) for write_id in range(1, 5)]
    plan, found = compact(files, deleted)
    assert [len(group.stripes) for group in plan.groups] == [1, 2, 1]
    kept = clock.encode() or None
    assert clocks_of(found) == [kept, b"UTC", kept]
    assert list(timestamps_in_file(found).values()) == values_of(rows[1:] * 4)
    # Statistics in another clock than UTC's must not be trusted.
    ranges = [
        Message.decode(OrcTail.read(found).stripe_statistics[stripe][8]).has(TIMESTAMPS)
        for stripe in range(3)
    ]
    assert ranges == [False, True, False]
    places = [(file.source, file.tail, [0]) for file in files[:2]]
    layout = Layout.joint([("file", files[0].tail)], like=files[0].tail)
    with pytest.raises(UnsupportedFile, match="clocks of"):
        reencode(places, io.BytesIO(), layout=layout, deletes=[], aborted_ids=[])


@pytest.mark.thorough
@given(st.lists(timestamps.filter(bool), min_size=1, max_size=20))
@examples(100)
def test_statistics_reach_from_before_the_first_to_behind_the_last(found):
    file = planned(acid_timestamps([(each, None) for each in found] + [(None, None)], 1))
    _, new = compact([file], [(1, BUCKET, len(found))])
    tail = OrcTail.read(new)
    statistics = Message.decode(tail.file_statistics[8]).message(TIMESTAMPS)
    # As ORC's Java reader adds them up.
    times = [
        (seconds + EPOCH - (seconds + EPOCH < 0 and nanos > 999_999)) * 1000 + nanos // 10**6
        for seconds, nanos in found
    ]
    assert statistics.signed(3) <= min(times)
    assert statistics.signed(4) >= max(times)
    assert max(times) - min(times) + 4000 >= statistics.signed(4) - statistics.signed(3)


def test_nanoseconds_that_no_reader_takes_are_damage():
    """Arrow writes such before 1970."""
    table = pa.table({"at": pa.array([-1_500_000_000], pa.timestamp("ns"))})
    flat, sink = io.BytesIO(), io.BytesIO()
    orc.write_table(table, flat)
    transplant([flat], sink, write_id=1, bucket=BUCKET)
    file = planned(sink)
    layout = Layout.joint([("file", file.tail)], like=file.tail)
    with pytest.raises(CorruptFile, match="negative number of nanoseconds"):
        reencode([(sink, file.tail, [0])], io.BytesIO(), layout=layout, deletes=[], aborted_ids=[])


@pytest.mark.parametrize("acid", [True, False])
@pytest.mark.parametrize("codec", ["zlib", "none"])
def test_columns_with_more_digits_than_microseconds_are_found(acid, codec):
    coarse = [
        (timestamp, timestamp) for timestamp in [(-EPOCH - 5, 1000), (1 << 39, 999_999_000)]
    ] * 700
    fine = [*coarse, ((-1 << 39, 1001), (0, 0))]
    for rows, expected in ((coarse, None), (fine, "c0")):
        file = acid_timestamps(rows, 1, acid=acid, codec=codec, stripe_size=1 << 16)
        assert finer_column(file, OrcTail.read(file)) == expected
    for number, (type_, value) in enumerate(PLACES.values()):
        columns = {f"c{n}": pa.nulls(2, each) for n, (each, _) in enumerate(PLACES.values())}
        columns[f"c{number}"] = pa.array(
            [value((1, 1000), (1, 1000)), value((1, 1), (1, 1))], type_
        )
        table = pa.table({"id": pa.array([1, 2], pa.int64()), **columns})
        file = flat_timestamps(table, TYPES)
        assert finer_column(file, OrcTail.read(file)) == f"c{number}"
        others = {name for name in columns if name != f"c{number}"}
        assert finer_column(file, OrcTail.read(file), others) is None
        assert finer_column(file, OrcTail.read(file), {f"c{number}"}) == f"c{number}"


@pytest.mark.parametrize("missing", [{"stripe_statistics": ()}, {"file_statistics": ()}])
def test_files_without_statistics_are_searched_for_more_digits(missing):
    file = acid_timestamps([((1, 1), None)] * 3, 1)
    bare = with_tail(file, replace(OrcTail.read(file), **missing))
    assert finer_column(bare, OrcTail.read(bare)) == "c0"


def test_only_the_file_itself_vouches_for_its_digits():
    file = acid_timestamps([((1, 1), None)] * 3, 1)
    tail = OrcTail.read(file)
    for rows, expected in ((3, None), (2, "c0")):
        marked = replace(tail, user_metadata=tail.user_metadata | mark(rows))
        assert finer_column(with_tail(file, marked), marked) == expected
