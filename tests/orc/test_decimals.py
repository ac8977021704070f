"""Decimals that Arrow wrote as integers, beside those that it wrote as decimals."""

import io
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hiveacid.errors import BeyondArrow
from airflow_hiveacid.orc.copying.recompress import recompress
from airflow_hiveacid.orc.format.compression import Codec, Compression
from airflow_hiveacid.orc.format.protobuf import Message, read_varint, unzigzag
from airflow_hiveacid.orc.format.source_and_sink import read_exactly
from airflow_hiveacid.orc.format.streams import StreamKind
from airflow_hiveacid.orc.format.stripe_footer import StripeFooter
from airflow_hiveacid.orc.format.tail import OrcTail
from airflow_hiveacid.orc.values.decimals import DecimalColumns, varints
from tests.orc.acid_files import enveloped
from tests.orc.bucket_files import BUCKET
from tests.orc.orc_tables import flat_file, group_starts, index_positions, read

TYPES = {
    "price": pa.decimal128(15, 2),
    "rate": pa.decimal128(18, 18),
    "whole": pa.decimal128(1, 0),
    "long": pa.decimal128(19, 2),
    "text": pa.string(),
}


def events(columns: dict[str, list[object]]) -> pa.Table:
    rows = pa.table({name: pa.array(columns[name], type_) for name, type_ in TYPES.items()})
    ids = [(1, BUCKET, row) for row in range(rows.num_rows)]
    return enveloped(flat_file(rows), ids)


def numbers(rows: int, seed: int, nulls: bool) -> dict[str, list[object]]:
    random = np.random.default_rng(seed)

    def column(digits: int, scale: int) -> list[object]:
        most = 10 ** random.integers(1, digits + 1, rows)
        drawn = random.integers(-most + 1, most).tolist()
        gone = (random.integers(0, 4, rows) == 0).tolist() if nulls else [False] * rows
        pairs = zip(drawn, gone, strict=True)
        return [None if null else Decimal(draw).scaleb(-scale) for draw, null in pairs]

    return {
        "price": column(15, 2),
        # The sum of as many fits 64 bits.
        "rate": column(14, 18),
        "whole": column(1, 0),
        "long": column(18, 2),
        "text": [f"text {row}" for row in range(rows)],
    }


def by_way_of_integers(rows: pa.Table, stride: int, stripe_size: int, block_size: int):
    types = OrcTail.read(flat_file(rows)).types
    decimals = DecimalColumns(types, rows.num_rows)
    batches = rows.to_batches(max_chunksize=700)
    given_to_arrow = pa.Table.from_batches([decimals.as_integers(batch) for batch in batches])
    plain = flat_file(given_to_arrow, "none", stride, stripe_size=stripe_size)
    sink = io.BytesIO()
    recompress(plain, sink, Compression(Codec.ZLIB, block_size), decimals)
    return sink


def streams(file: io.BytesIO) -> list[dict[tuple[int, int], bytes]]:
    tail = OrcTail.read(file)
    return [
        {
            (stream.kind, stream.column): tail.compression.decompress(
                read_exactly(file, stream.offset, stream.length)
            )
            for stream in StripeFooter.read(file, tail, stripe).data
        }
        for stripe in tail.stripes
    ]


def index_statistics(file: io.BytesIO, column: int) -> list[bytes]:
    tail = OrcTail.read(file)
    found = []
    for stripe in tail.stripes:
        for stream in StripeFooter.read(file, tail, stripe).index:
            if stream.column == column:
                encoded = read_exactly(file, stream.offset, stream.length)
                index = Message.decode(tail.compression.decompress(encoded))
                found += [entry.data(2) for entry in index.all_messages(1)]
    return found


def meaning(statistics: bytes) -> tuple[object, ...]:
    """Return the content of statistics; the library removes trailing zeros, and has a sum of no
    values."""
    message = Message.decode(statistics)
    decimals = message.message(6) or Message()
    bounds = [Decimal((decimals.data(field) or b"0").decode()) for field in (1, 2, 3)]
    return message.without(6).fields, decimals.has(1), decimals.has(2), bounds


@given(
    st.sampled_from([1, 999, 1000, 1001, 2600]),
    st.integers(0, 1 << 20),
    st.booleans(),
    st.sampled_from([100, 512, 10_000]),
)
@settings(max_examples=10, deadline=None)
def test_the_file_is_the_one_that_the_library_writes_of_decimals(rows, seed, nulls, stride):
    content = events(numbers(rows, seed, nulls))
    theirs = flat_file(content, "zlib", stride, block_size=1 << 20)
    ours = by_way_of_integers(content, stride, 64 << 20, 1 << 20)
    assert read(ours).equals(read(theirs))
    our_tail, their_tail = OrcTail.read(ours), OrcTail.read(theirs)
    assert our_tail.types == their_tail.types
    for found, expected in [
        (our_tail.file_statistics, their_tail.file_statistics),
        (our_tail.stripe_statistics[0], their_tail.stripe_statistics[0]),
        *((index_statistics(each, column) for each in (ours, theirs)) for column in range(12)),
    ]:
        assert list(map(meaning, found)) == list(map(meaning, expected))
    (our_streams,), (their_streams,) = streams(ours), streams(theirs)
    assert our_streams.keys() == their_streams.keys()
    for place, data in our_streams.items():
        # Our runs of scales begin again in every row group.
        assert place[0] == StreamKind.SECONDARY or data == their_streams[place]
    for column in range(len(our_tail.types)):
        pairs = zip(index_positions(ours, column), index_positions(theirs, column), strict=True)
        for found, expected in pairs:
            of_scales = 3 if (StreamKind.SECONDARY, column) in our_streams else 0
            assert found[: len(found) - of_scales] == expected[: len(expected) - of_scales]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("block_size", [64, 1000, 1 << 18])
def test_row_groups_are_found_in_many_chunks_and_stripes(block_size):
    columns = numbers(20_000, 3, nulls=True)
    ours = by_way_of_integers(events(columns), 1000, 64 << 10, block_size)
    tail = OrcTail.read(ours)
    assert len(tail.stripes) > 1
    assert read(ours)["row"].combine_chunks().field("price").to_pylist() == columns["price"]
    # The first decimal of each row group, by its index alone, in the column of prices.
    expected, found, row = [], [], 0
    for stripe in tail.stripes:
        for start in range(row, row + stripe.rows, 1000):
            group = columns["price"][start : min(start + 1000, row + stripe.rows)]
            expected.append(next(each for each in group if each is not None))
        row += stripe.rows
    price = 7
    positions = iter(index_positions(ours, price))
    for stripe in tail.stripes:
        placed = {
            stream.kind: read_exactly(ours, stream.offset, stream.length)
            for stream in StripeFooter.read(ours, tail, stripe).data
            if stream.column == price
        }
        for _ in range(-(-stripe.rows // 1000)):
            *_, chunk, at, scale_chunk, scale_at, run = next(positions)
            plain = tail.compression.decompress(placed[StreamKind.DATA][chunk:])
            scales = tail.compression.decompress(placed[StreamKind.SECONDARY][scale_chunk:])
            assert run == 0
            assert unzigzag(read_varint(scales, scale_at + 2)[0]) == 2
            found.append(Decimal(unzigzag(read_varint(plain, at)[0])).scaleb(-2))
    assert found == expected
    assert len(list(group_starts(ours, 4))) == len(found)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_numbers_are_encoded_as_by_the_format(values):
    encoded, lengths = varints(np.array(values, np.int64))
    at, found = 0, []
    for length in lengths.tolist():
        value, end = read_varint(encoded, at)
        found.append(unzigzag(value))
        assert end == at + length
        at = end
    assert (found, at) == (values, len(encoded))


def test_a_column_of_nulls_has_no_range():
    nothing = {name: [None] * 2500 for name in TYPES}
    ours = by_way_of_integers(events(nothing), 1000, 64 << 20, 1 << 18)
    assert read(ours)["row"].combine_chunks().field("price").null_count == 2500
    for column in range(7, 10):
        for statistics in index_statistics(ours, column):
            assert Message.decode(statistics).message(6) is None


def test_a_sum_beyond_64_bits_is_left_out():
    large = [Decimal(10**17)] * 1000 + [Decimal(1)] * 1000
    columns = numbers(2000, 1, nulls=False) | {"rate": [each.scaleb(-18) for each in large]}
    ours = by_way_of_integers(events(columns), 1000, 64 << 20, 1 << 18)
    assert read(ours)["row"].combine_chunks().field("rate").to_pylist() == columns["rate"]
    statistics = [*index_statistics(ours, 8), OrcTail.read(ours).file_statistics[8]]
    found = [Message.decode(each).message(6) for each in statistics]
    assert [each.has(3) for each in found] == [False, True, False]
    assert found[1].data(3) == b"0.000000000000001000"
    assert [Decimal(each.data(2).decode()) * 10**18 for each in found] == [10**17, 1, 10**17]


def test_decimals_that_are_very_many_stay_with_the_library():
    content = events(numbers(10, 1, nulls=False))
    types = OrcTail.read(flat_file(content)).types
    (batch,) = content.to_batches()
    assert DecimalColumns(types, 20_000_000).as_integers(batch) is batch


def test_too_many_digits_are_noticed():
    content = events(numbers(10, 1, nulls=False))
    types = OrcTail.read(flat_file(content)).types
    row = content["row"].combine_chunks()
    wide = pa.array([Decimal(10**25)] * 10, pa.decimal128(38, 2))
    fields = [row.type.field(0).with_type(wide.type), *list(row.type)[1:]]
    rows = pa.StructArray.from_arrays([wide, *row.flatten()[1:]], fields=fields)
    (batch,) = content.set_column(5, "row", rows).to_batches()
    with pytest.raises(BeyondArrow, match="digits"):
        DecimalColumns(types, 10).as_integers(batch)
