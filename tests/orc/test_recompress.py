"""Files that Arrow wrote uncompressed, compressed by ourselves, beside those that it compressed."""

import io
import zlib
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from airflow_hiveacid.errors import BeyondArrow
from airflow_hiveacid.orc.copying.recompress import recompress
from airflow_hiveacid.orc.format import compression
from airflow_hiveacid.orc.format.compression import Codec, Compression
from airflow_hiveacid.orc.format.protobuf import Message
from airflow_hiveacid.orc.format.source_and_sink import read_exactly
from airflow_hiveacid.orc.format.stripe_footer import StripeFooter
from airflow_hiveacid.orc.format.tail import OrcTail
from tests.orc.bucket_files import compact, inserts, planned, survivors
from tests.orc.orc_tables import SCHEMA, flat_file, index_positions, read, table, with_tail


def many_kinds(rows: int, seed: int) -> pa.Table:
    """Columns with nulls and without, of texts with a dictionary and without one."""
    found = table(rows, seed)
    count = range(rows)
    more = {
        "always": pa.array(count, pa.int64()),
        "always_flag": pa.array([n % 3 == 0 for n in count], pa.bool_()),
        "always_text": pa.array([f"a text of its own: {n * 7919}" for n in count], pa.string()),
        "short": pa.array([n % 3000 for n in count], pa.int16()),
        "small": pa.array([n / 3 for n in count], pa.float32()),
        "wide": pa.array([n * 10**9 for n in count], pa.int64()).cast(pa.decimal128(38, 0)),
        "nulls": pa.array([None] * rows, pa.int32()),
        "lists": pa.array([[[n], [], None] for n in count], pa.list_(pa.list_(pa.int32()))),
    }
    for name, values in more.items():
        found = found.append_column(name, values)
    return found


def arrow_file(rows: pa.Table, codec: str, stride: int, stripe_size: int = 64 << 20) -> io.BytesIO:
    file = io.BytesIO()
    orc.write_table(
        rows,
        file,
        compression=codec,
        compression_block_size=1 << 20,
        row_index_stride=stride,
        stripe_size=stripe_size,
        dictionary_key_size_threshold=0.8,
    )
    return file


def recompressed(plain: io.BytesIO, codec: Codec, block_size: int) -> io.BytesIO:
    sink = io.BytesIO()
    recompress(plain, sink, Compression(codec, block_size))
    tail = OrcTail.read(sink)
    assert (tail.codec, tail.block_size) == (codec, block_size)
    return sink


def streams(file: io.BytesIO) -> list[list[tuple[int, int, bytes, tuple[int, ...]]]]:
    """For each stripe kind, column, content and beginnings of the chunks of all streams of data."""
    tail = OrcTail.read(file)
    found = []
    for stripe in tail.stripes:
        found.append([])
        for stream in StripeFooter.read(file, tail, stripe).data:
            encoded = read_exactly(file, stream.offset, stream.length)
            starts, at = [], 0
            while at < len(encoded) and tail.codec is not Codec.NONE:
                starts.append(at)
                at += 3 + (int.from_bytes(encoded[at : at + 3], "little") >> 1)
            plain = tail.compression.decompress(encoded)
            found[-1].append((stream.kind, stream.column, plain, tuple(starts)))
    return found


@given(
    st.sampled_from([0, 1, 2, 999, 1000, 1001, 2500]),
    st.integers(0, 1 << 20),
    st.sampled_from([100, 512, 10_000]),
    st.sampled_from([Codec.ZLIB, Codec.SNAPPY, Codec.ZSTD]),
)
@settings(max_examples=30, deadline=None)
def test_streams_and_positions_are_those_of_the_library(rows, seed, stride, codec):
    content = many_kinds(rows, seed)
    plain = arrow_file(content, "uncompressed", stride)
    # No stream is longer than a block of the library, so that all chunks begin at 0.
    theirs = arrow_file(content, codec.name.lower(), stride)
    ours = recompressed(plain, codec, 1 << 20)
    assert read(ours).equals(read(plain))
    assert streams(ours) == [
        [(kind, column, data, (0,) if data else ()) for kind, column, data, _ in stripe]
        for stripe in streams(theirs)
    ]
    for column in range(len(OrcTail.read(plain).types)):
        assert list(index_positions(ours, column)) == list(index_positions(theirs, column))


@pytest.mark.parametrize("block_size", [64, 100, 1000, 4096])
def test_positions_lead_to_the_same_places_if_there_are_many_chunks(block_size):
    content = many_kinds(3000, 5)
    plain = arrow_file(content, "uncompressed", 200)
    whole = recompressed(plain, Codec.ZLIB, 1 << 20)
    cut = recompressed(plain, Codec.ZLIB, block_size)
    assert read(cut).equals(read(plain))
    (of_cut,) = streams(cut)
    assert [each[:3] for each in of_cut] == [each[:3] for each in streams(whole)[0]]
    moved = 0
    for column in range(len(OrcTail.read(plain).types)):
        chunks = [starts for _, of, _, starts in of_cut if of == column]
        pairs = zip(index_positions(cut, column), index_positions(whole, column), strict=True)
        for found, expected in pairs:
            assert len(found) == len(expected)
            at = 0
            while at < len(found):
                if found[at] == expected[at]:
                    at += 1
                    continue
                # The beginning of a chunk, and a place in it.
                assert expected[at] == 0
                assert any(
                    found[at] in starts
                    and starts.index(found[at]) * block_size + found[at + 1] == expected[at + 1]
                    for starts in chunks
                )
                moved += 1
                at += 2
    assert moved > 50


def test_files_of_several_stripes_and_of_none_are_compressed():
    content = many_kinds(6000, 1)
    plain = arrow_file(content, "uncompressed", 500, stripe_size=64 << 10)
    ours = recompressed(plain, Codec.ZLIB, 64 << 10)
    assert len(OrcTail.read(ours).stripes) > 1
    assert read(ours).equals(read(plain))
    assert len(ours.getvalue()) < len(plain.getvalue()) * 0.7
    nothing = recompressed(arrow_file(content[:0], "uncompressed", 500), Codec.ZLIB, 64 << 10)
    assert read(nothing).equals(read(plain)[:0])


def test_a_row_index_of_other_positions_is_noticed():
    file = flat_file(pa.table({"n": range(5000)}), "none", stride=1000)
    # The library stores more about a text than about a number.
    tail = OrcTail.read(file)
    text = Message.decode(tail.types[1]).with_numbers({1: 7}).encode()
    lying = with_tail(file, replace(tail, types=(tail.types[0], text)))
    with pytest.raises(BeyondArrow, match="positions"):
        recompressed(lying, Codec.ZLIB, 1 << 16)


@pytest.mark.parametrize("installed", [True, False], ids=["with ISA-L", "without"])
def test_stripes_are_written_again_with_the_faster_library_and_without(monkeypatch, installed):
    if not installed:
        monkeypatch.setattr(compression, "fast_zlib", lambda: None)
    files = [
        planned(inserts(table(3000, n, SCHEMA.names), [n], codec="zlib", stride=500))
        for n in (1, 2)
    ]
    deleted = [(1, 536870912, 5), (2, 536870912, 2999)]
    plan, found = compact(files, deleted, tiny_bytes=0)
    assert [group.copy for group in plan.groups] == [False]
    assert OrcTail.read(found).codec is Codec.ZLIB
    assert read(found).combine_chunks().equals(survivors(files, deleted))


def test_the_output_of_the_faster_library_is_readable_by_zlib():
    plain = b"".join(b"%d," % (n * n) for n in range(20_000))
    chunk = Compression(Codec.ZLIB, 1 << 18).compress(plain)
    assert zlib.decompress(chunk[3:], wbits=-15) == plain
    assert len(chunk) < len(plain) / 2
