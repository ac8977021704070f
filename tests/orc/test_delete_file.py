import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import UnsupportedFile
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.envelope import EnvelopeColumn, wrap_types
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import INTEGERS
from hiveacid.orc.format.streams import null_flag_position
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import (
    write_delete_file,
    write_empty_file,
)
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.rules.row_id import RowId, encode_bucket
from tests.orc.orc_tables import (
    CODECS,
    flat_file,
    group_starts,
    index_positions,
    read,
    row_ids,
    table,
)
from tests.samples import examples

ROW_TYPES = OrcTail.read(flat_file(table(0))).types
BUCKETS = [encode_bucket(3), encode_bucket(3, 1), encode_bucket(3, 4095)]
NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 5000), st.integers(0, (1 << 63) - 1))
ROW_IDS = st.lists(
    st.tuples(NUMBERS, st.sampled_from(BUCKETS), NUMBERS), max_size=40, unique=True
).map(sorted)


def delete_file(keys, sink=None, write_id=9, row_types=ROW_TYPES, **layout) -> io.BytesIO:
    sink = sink or io.BytesIO()
    columns = np.array(keys, dtype=np.int64).reshape(len(keys), 3).T
    written = write_delete_file(
        sink, [Keys.deletes(*columns, write_id=write_id)], row_types=row_types, **layout
    )
    assert (written.rows, written.bytes) == (len(keys), len(sink.getvalue()))
    return sink


def rows_of(write_id: int, rows) -> list[tuple[int, int, int]]:
    return [(write_id, BUCKETS[0], int(row)) for row in rows]


@given(
    keys=ROW_IDS,
    codec=st.sampled_from(CODECS),
    stride=st.sampled_from([0, 1, 7, 8, 1000]),
    block_size=st.sampled_from([64, 512, 256 << 10]),
)
@examples(150)
def test_row_ids_are_read_back_and_the_rows_are_null(keys, codec, stride, block_size):
    file = delete_file(keys, codec=codec, stride=stride, block_size=block_size)
    found = read(file)
    assert row_ids(found) == keys
    assert found["operation"].to_pylist() == [2] * len(keys)
    assert found["currentTransaction"].to_pylist() == [9] * len(keys)
    assert found["row"].null_count == len(keys)
    for name, column in (("rowId", EnvelopeColumn.ROW_ID), ("bucket", EnvelopeColumn.BUCKET)):
        statistics = Message.decode(OrcTail.read(file).file_statistics[column])
        total = sum(found[name].to_pylist())
        if keys and total < 1 << 63:
            assert statistics.message(INTEGERS).signed(3) == total
        elif keys:
            assert not statistics.message(INTEGERS).has(3)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("stride", "block_size"), [(1000, 512), (999, 64), (10_000, 256 << 10)])
@pytest.mark.parametrize("step", [1, 3, "random"])
def test_row_indexes_lead_to_the_first_row_of_their_group(codec, stride, block_size, step):
    count = 12_345
    rows = (
        np.sort(np.random.default_rng(1).choice(1 << 40, count, replace=False))
        if step == "random"
        else np.arange(count) * step
    )
    keys = rows_of(1, rows[:7000]) + rows_of(2, rows[7000:])
    file = delete_file(keys, codec=codec, stride=stride, block_size=block_size)
    assert row_ids(read(file)) == keys
    assert list(group_starts(file, EnvelopeColumn.ROW_ID)) == [key[2] for key in keys[::stride]]
    assert list(group_starts(file, EnvelopeColumn.ORIGINAL_TRANSACTION)) == [
        key[0] for key in keys[::stride]
    ]


@pytest.mark.parametrize("codec", ["none", "zlib"])
@pytest.mark.parametrize("stride", [999, 1000])
def test_row_indexes_lead_to_the_null_flags_of_their_group(codec, stride):
    file = delete_file(rows_of(1, range(2500)), codec=codec, stride=stride, block_size=64)
    place = [0] if codec == "none" else [0, 0]
    expected = [[*place[1:], *null_flag_position(group * stride)] for group in range(3)]
    assert list(index_positions(file, EnvelopeColumn.ROW)) == expected
    assert null_flag_position(stride) != (0, 0, 0)


def test_the_user_metadata_contains_the_deletes():
    keys = [*rows_of(1, [5]), *rows_of(4, [1, 2])]
    assert OrcTail.read(delete_file(keys)).user_metadata == {
        "hive.acid.key.index": b"4,%d,2;" % BUCKETS[0],
        "hive.acid.stats": b"0,0,3",
        "hive.acid.version": b"2",
    }


def test_statistics_let_readers_pass_over_the_file():
    keys = [(2, BUCKETS[0], 700), (2, BUCKETS[1], 3), (5, BUCKETS[0], 9)]
    tail = OrcTail.read(delete_file(keys))
    assert tail.int_range(0, EnvelopeColumn.OPERATION) == (2, 2)
    assert tail.int_range(0, EnvelopeColumn.ORIGINAL_TRANSACTION) == (2, 5)
    assert tail.int_range(0, EnvelopeColumn.BUCKET) == (BUCKETS[0], BUCKETS[1])
    assert tail.int_range(0, EnvelopeColumn.ROW_ID) == (3, 700)
    assert tail.int_range(0, EnvelopeColumn.CURRENT_TRANSACTION) == (9, 9)
    assert tail.file_statistics == tail.stripe_statistics[0]


def test_sorted_keys_take_little_room():
    keys = rows_of(1, range(0, 300_000, 3))
    assert len(delete_file(keys, codec="none").getvalue()) < 12_000


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (rows_of(1, [2, 1]), "come after"),
        (rows_of(1, [1, 1]), "come after"),
        (rows_of(2, [1]) + rows_of(1, [2]), "come after"),
        ([(1, BUCKETS[1], 0), (1, BUCKETS[0], 1)], "come after"),
        ([(1, encode_bucket(1), 0), (1, encode_bucket(2), 0)], r"buckets \[1, 2\]"),
    ],
)
def test_keys_that_readers_would_miss_are_refused(keys, problem):
    sink = io.BytesIO()
    with pytest.raises(ValueError, match=problem):
        delete_file(keys, sink)
    assert sink.getvalue() == b""


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="length"):
        write_delete_file(
            io.BytesIO(),
            [Keys.deletes(np.arange(2), np.arange(3), np.arange(3), write_id=1)],
            row_types=ROW_TYPES,
        )


def test_the_order_of_old_and_new_bucket_properties_is_the_signed_one():
    # A row from before Hive 3 has its bare bucket number there.
    assert row_ids(read(delete_file([(1, 3, 0), (1, BUCKETS[0], 0)]))) == [
        (1, 3, 0),
        (1, BUCKETS[0], 0),
    ]


def test_a_row_type_we_do_not_know_is_refused():
    geometry = b"\x08\x13"
    with pytest.raises(UnsupportedFile, match="19"):
        delete_file(rows_of(1, [1]), row_types=(b"\x08\x0c\x12\x01\x01\x1a\x01a", geometry))


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_file_has_the_schema_and_nothing_else(codec):
    empty, filled = io.BytesIO(), io.BytesIO()
    written = write_empty_file(empty, ROW_TYPES, codec=codec)
    assert (written.rows, written.bytes, written.key_index) == (0, len(empty.getvalue()), ())
    transplant([flat_file(table(1))], filled, write_id=1, bucket=BUCKETS[0])
    assert read(empty).num_rows == 0
    assert read(empty).schema == read(filled).schema
    tail = OrcTail.read(empty)
    assert (tail.types, tail.stripes) == (wrap_types(ROW_TYPES), ())
    assert tail.user_metadata == {
        "hive.acid.key.index": b"",
        "hive.acid.stats": b"0,0,0",
        "hive.acid.version": b"2",
    }


def test_no_keys_make_an_empty_file():
    empty = io.BytesIO()
    write_empty_file(empty, ROW_TYPES)
    assert delete_file([]).getvalue() == empty.getvalue()


def test_the_last_row_id_is_reported():
    written = write_delete_file(
        io.BytesIO(),
        [Keys.deletes(np.array([1, 1]), np.array([BUCKETS[0]] * 2), np.array([4, 8]), write_id=2)],
        row_types=ROW_TYPES,
    )
    assert written.key_index == (RowId(1, BUCKETS[0], 8),)


def events(rows, write_ids, bucket: int = BUCKETS[0]) -> Keys:
    """Deletes of rows of the write id 1."""
    count = len(rows)
    one = np.ones(count, dtype=np.int64)
    return Keys(one * 2, one, one * bucket, np.asarray(rows), np.asarray(write_ids))


@given(
    write_ids=st.lists(st.integers(1, 1 << 40), max_size=60),
    chunk=st.integers(1, 20),
    stride=st.sampled_from([0, 7, 1000]),
)
@examples(40)
def test_every_event_keeps_its_own_write_id(write_ids, chunk, stride):
    keys = events(range(len(write_ids)), write_ids)
    chunks = (keys[start : start + chunk] for start in range(0, len(keys), chunk))
    sink = io.BytesIO()
    written = write_delete_file(sink, chunks, row_types=ROW_TYPES, stride=stride)
    found = read(sink)
    assert found["currentTransaction"].to_pylist() == write_ids
    assert found["rowId"].to_pylist() == list(range(len(write_ids)))
    assert (written.rows, written.bytes) == (len(write_ids), len(sink.getvalue()))
    assert verify_file(sink, kind="delete", bucket=3) == []


def test_many_events_become_several_stripes():
    count, chunk = 2_100_000, 65_536
    chunks = (
        events(np.arange(start, end), np.arange(start, end) // 1000)
        for start in range(0, count, chunk)
        for end in [min(start + chunk, count)]
    )
    sink = io.BytesIO()
    written = write_delete_file(sink, chunks, row_types=ROW_TYPES)
    tail = OrcTail.read(sink)
    assert [stripe.rows for stripe in tail.stripes] == [1_000_000, 1_000_000, 100_000]
    assert [key.row for key in written.key_index] == [999_999, 1_999_999, count - 1]
    assert tail.user_metadata["hive.acid.stats"] == b"0,0,%d" % count
    assert verify_file(sink, kind="delete", bucket=3, write_ids=range(2100)) == []


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (events([5], [9]), "come after"),
        (events([4], [9]), "come after"),
        (events([6], [9], encode_bucket(4)), r"buckets \[3, 4\]"),
    ],
)
def test_chunks_that_do_not_continue_each_other_are_refused(second, problem):
    with pytest.raises(ValueError, match=problem):
        write_delete_file(io.BytesIO(), [events([1, 5], [9, 9]), second], row_types=ROW_TYPES)
