import gzip
import io
import os
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.envelope import EnvelopeColumn, parse_key_index
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.row_id import RowId, encode_bucket
from tests.orc.orc_tables import (
    CODECS,
    SCHEMA,
    flat_file,
    group_starts,
    read,
    row_ids,
    table,
    with_block_size,
    with_tail,
)
from tests.samples import examples

BUCKET = encode_bucket(3)


def transplanted(file: io.BytesIO, write_id: int = 1, first_row: int = 0) -> io.BytesIO:
    sink = io.BytesIO()
    written = transplant([file], sink, write_id=write_id, bucket=BUCKET, first_row=first_row)
    assert written.bytes == len(sink.getvalue())
    return sink


@given(
    sizes=st.lists(st.sampled_from([1, 2, 511, 512, 513, 999, 1000, 1001]), max_size=6),
    first_row=st.sampled_from([0, 1, 5000, 1 << 40]),
    seed=st.integers(0, 1 << 20),
    codec=st.sampled_from(CODECS),
    stride=st.sampled_from([100, 512, 1000, 10_000]),
    block_size=st.sampled_from([64 << 10, 256 << 10]),
    stripe_size=st.sampled_from([64 << 10, 64 << 20]),
    bloom_filters=st.booleans(),
    columns=st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=4, unique=True),
)
@examples(60)
def test_rows_and_row_ids_are_read_back(
    sizes, first_row, seed, codec, stride, block_size, stripe_size, bloom_filters, columns
):
    ids = [(7, BUCKET, first_row + n) for n in range(sum(sizes))]
    rows = table(len(ids), seed, columns)
    flat = flat_file(rows, codec, stride, block_size, stripe_size, bloom_filters)
    acid = transplanted(flat, 7, first_row)

    found = read(acid)
    assert row_ids(found) == ids
    assert pa.table(found["row"].combine_chunks().flatten(), columns).equals(read(flat))
    assert set(found["operation"].to_pylist()) <= {0}
    assert found["currentTransaction"].to_pylist() == [7] * len(ids)

    tail = OrcTail.read(acid)
    ends = [sum(stripe.rows for stripe in tail.stripes[: n + 1]) for n in range(len(tail.stripes))]
    assert parse_key_index(tail.user_metadata["hive.acid.key.index"]) == [
        ids[end - 1] for end in ends
    ]
    assert tail.user_metadata["hive.acid.stats"] == b"%d,0,0" % len(ids)
    assert tail.user_metadata["hive.acid.version"] == b"2"
    for column, values in zip((2, 3, 4), zip(*ids, strict=True), strict=False):
        start = 0
        for stripe, end in enumerate(ends):
            assert tail.int_range(stripe, column) == (
                min(values[start:end]),
                max(values[start:end]),
            )
            start = end


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("block_size", [64, 512, 64 << 10])
def test_row_indexes_lead_to_the_first_row_of_their_group(codec, block_size):
    rows = pa.table({"same": pa.array([5] * 9000)})
    flat = flat_file(rows, codec, stride=300)
    # One value, and so little data that no chunk of the file is longer than the smaller blocks.
    small = with_tail(flat, with_block_size(OrcTail.read(flat), block_size))
    acid = transplanted(small, 2, 1 << 40)
    ids = [(2, BUCKET, (1 << 40) + k) for k in range(9000)]
    firsts = ids[::300]
    assert list(group_starts(acid, EnvelopeColumn.ORIGINAL_TRANSACTION)) == [
        key[0] for key in firsts
    ]
    assert list(group_starts(acid, EnvelopeColumn.BUCKET)) == [key[1] for key in firsts]
    assert list(group_starts(acid, EnvelopeColumn.ROW_ID)) == [key[2] for key in firsts]
    assert list(group_starts(acid, EnvelopeColumn.CURRENT_TRANSACTION)) == [
        key[0] for key in firsts
    ]
    assert list(group_starts(acid, EnvelopeColumn.OPERATION)) == [0] * 30


def test_the_schema_is_the_one_hive_knows():
    acid = transplanted(flat_file(table(3)))
    fields = read(acid).schema
    assert fields.names == [
        "operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row",
    ]  # fmt: skip
    assert [fields.field(n).type for n in range(5)] == [
        pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64(),
    ]  # fmt: skip
    assert OrcTail.read(acid).is_acid


def test_the_metadata_of_the_flat_file_is_kept():
    flat = flat_file(table(4000), "zstd", stride=500, bloom_filters=True)
    before = OrcTail.read(flat)
    acid = transplanted(flat)
    after = OrcTail.read(acid)
    assert (after.compression, after.stride, after.footer.fields) == (
        before.compression,
        before.stride,
        before.footer.fields,
    )
    assert after.file_statistics[6:] == before.file_statistics
    assert [columns[6:] for columns in after.stripe_statistics] == list(before.stripe_statistics)


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_without_rows_stays_one_with_the_schema(codec):
    rows = table(0)
    sink = io.BytesIO()
    written = transplant([flat_file(rows, codec)], sink, write_id=4, bucket=BUCKET)
    assert (written.rows, written.key_index) == (0, ())
    assert read(sink)["row"].type == read(transplanted(flat_file(table(1))))["row"].type
    assert OrcTail.read(sink).user_metadata["hive.acid.key.index"] == b""


def test_one_insert_numbers_its_rows_from_the_first_row_on():
    sink = io.BytesIO()
    flat = flat_file(table(1500, columns=["number"]))
    written = transplant([flat], sink, write_id=4, bucket=BUCKET, first_row=100)
    assert row_ids(read(sink)) == [(4, BUCKET, row) for row in range(100, 1600)]
    assert written.key_index == (RowId(4, BUCKET, 1599),)


def test_a_sum_beyond_64_bits_does_not_break_the_statistics():
    huge = (1 << 63) - 1000
    acid = transplanted(flat_file(table(900)), huge, huge)
    assert row_ids(read(acid)) == [(huge, BUCKET, huge + row) for row in range(900)]
    assert OrcTail.read(acid).int_range(0, EnvelopeColumn.ROW_ID) == (huge, huge + 899)


def test_an_acid_file_is_not_wrapped_again():
    acid = transplanted(flat_file(table(5)))
    with pytest.raises(UnsupportedFile, match="already"):
        transplant([acid], io.BytesIO(), write_id=1, bucket=BUCKET)


def test_a_file_whose_root_is_no_struct_is_refused():
    flat = flat_file(table(5))
    tail = OrcTail.read(flat)
    flat = with_tail(flat, replace(tail, types=(b"\x08\x04", *tail.types[1:])))
    with pytest.raises(UnsupportedFile, match="struct"):
        transplant([flat], io.BytesIO(), write_id=1, bucket=BUCKET)


def test_a_stripe_of_another_length_than_its_streams_is_noticed():
    flat = flat_file(table(100))
    tail = OrcTail.read(flat)
    (stripe,) = tail.stripes
    moved = replace(
        stripe, index_length=stripe.index_length + 1, data_length=stripe.data_length - 1
    )
    with pytest.raises(CorruptFile, match="add up"):
        transplant(
            [with_tail(flat, replace(tail, stripes=(moved,)))],
            io.BytesIO(),
            write_id=1,
            bucket=BUCKET,
        )


def test_a_damaged_stripe_footer_is_noticed():
    content = bytearray(flat_file(table(100), "zlib").getvalue())
    stripe = OrcTail.read(io.BytesIO(bytes(content))).stripes[0]
    start = stripe.offset + stripe.body_length
    content[start + 3 : start + 40] = b"\xff" * 37
    with pytest.raises(CorruptFile):
        transplant([io.BytesIO(bytes(content))], io.BytesIO(), write_id=1, bucket=BUCKET)


@pytest.mark.parametrize(
    "open_sink",
    [
        partial(open, mode="wb"),
        partial(open, mode="wb", buffering=0),
        partial(open, mode="w+b"),
        partial(open, mode="ab"),
        partial(pa.OSFile, mode="wb"),
    ],
)
@pytest.mark.parametrize("open_source", [partial(open, mode="rb"), pa.OSFile, pa.memory_map])
def test_every_pair_of_files_gets_the_same_bytes(tmp_path, open_source, open_sink):
    flat = flat_file(table(2000), stripe_size=64 << 10)
    expected = io.BytesIO()
    transplant([flat], expected, write_id=1, bucket=BUCKET)
    (tmp_path / "flat").write_bytes(flat.getvalue())
    with open_source(str(tmp_path / "flat")) as source, open_sink(str(tmp_path / "acid")) as sink:
        written = transplant([source], sink, write_id=1, bucket=BUCKET)
        assert sink.tell() == written.bytes
    assert (tmp_path / "acid").read_bytes() == expected.getvalue()


def test_a_source_is_read_through_its_own_methods(tmp_path):
    # The file number of this one leads to other bytes than its read().
    flat, expected = flat_file(table(2000)), io.BytesIO()
    transplant([flat], expected, write_id=1, bucket=BUCKET)
    with gzip.open(tmp_path / "flat.gz", "wb") as packed:
        packed.write(flat.getvalue())
    with gzip.open(tmp_path / "flat.gz") as source, open(tmp_path / "acid", "wb") as sink:
        transplant([source], sink, write_id=1, bucket=BUCKET)
    assert (tmp_path / "acid").read_bytes() == expected.getvalue()


def test_a_sink_that_takes_little_at_a_time_gets_everything():
    class Slow(io.RawIOBase):
        def __init__(self):
            self.taken = bytearray()

        def write(self, data):
            self.taken += data[:100]
            return min(len(data), 100)

    flat = flat_file(table(500))
    slow, expected = Slow(), io.BytesIO()
    transplant([flat], slow, write_id=1, bucket=BUCKET)
    transplant([flat], expected, write_id=1, bucket=BUCKET)
    assert bytes(slow.taken) == expected.getvalue()


def test_a_full_disk_is_reported(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    (tmp_path / "flat").write_bytes(flat_file(table(2000)).getvalue())
    with (
        pytest.raises(OSError, match="No space"),
        open(tmp_path / "flat", "rb") as source,
        open("/dev/full", "wb", buffering=0) as sink,
    ):
        transplant([source], sink, write_id=1, bucket=BUCKET)
