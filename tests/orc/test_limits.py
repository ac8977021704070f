"""Nothing that a file claims takes memory, time or the process before it was checked."""

import io
import json
import subprocess
import sys
import time
import zlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from hiveacid.errors import BeyondArrow, CorruptFile, DataError, UnsupportedFile
from hiveacid.orc.format import batches as arrow_memory
from hiveacid.orc.format.batches import Lengths, read_batches, rows_at_a_time
from hiveacid.orc.format.compression import Codec, Compression
from hiveacid.orc.format.protobuf import Message, read_varint, varint, zigzag
from hiveacid.orc.format.streams import WIDTHS, integer_runs
from hiveacid.orc.format.tail import OrcTail
from tests.memory import peak_megabytes
from tests.orc.hostile import HOSTILE, rewritten, texts
from tests.orc.orc_tables import flat_file, table, with_block_size, with_tail

BLOCK = 256 << 10
LARGE = 16 << 20


@pytest.mark.thorough
def test_hostile_files_are_refused_before_the_library_is_asked():
    # A separate process, which an accepted file would end.
    code = "from tests.orc.test_limits import refuse; refuse()"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False
    )
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, _, _ in ends] == list(HOSTILE), done.stdout[-500:]
    assert [end for end in ends if end[1] not in ("CorruptFile", "UnsupportedFile")] == []
    assert [end for end in ends if end[2] > 0.9] == []
    assert done.returncode == 0


def refuse() -> None:
    for name, make in HOSTILE.items():
        file = make()
        before, end = time.process_time(), "read"
        try:
            for _ in read_batches(file, OrcTail.read(file)):
                pass
        except DataError as error:
            end = type(error).__name__
        print(json.dumps([name, end, time.process_time() - before]), flush=True)
    assert peak_megabytes() < 1024


def chunk(body: bytes) -> bytes:
    return (len(body) << 1).to_bytes(3, "little") + body


def bomb(codec: Codec, size: int) -> bytes:
    plain = bytes(size)
    if codec is Codec.ZLIB:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        return chunk(deflate.compress(plain) + deflate.flush())
    name = "lz4_raw" if codec is Codec.LZ4 else codec.name.lower()
    return chunk(pa.compress(plain, name, asbytes=True))


@pytest.mark.parametrize("codec", [Codec.ZLIB, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_chunk_decodes_to_no_more_than_a_block(codec):
    compression = Compression(codec, BLOCK)
    assert len(compression.decompress(bomb(codec, BLOCK))) == BLOCK
    for size in (BLOCK + 1, LARGE):
        with pytest.raises(CorruptFile):
            compression.decompress(bomb(codec, size))


@pytest.mark.thorough
def test_a_chunk_that_is_a_bomb_takes_no_memory():
    # A process of its own, because the most memory one ever had does not shrink again.
    code = "from tests.orc.test_limits import explode; explode()"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    assert int(done.stdout) < 100


def explode() -> None:
    # Made piece by piece, because making them at once takes the memory that reading must not.
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        for _ in range(500):
            packed.write(bytes(1 << 20))
    bombs = {
        Codec.ZLIB: b"".join(deflate.compress(bytes(1 << 20)) for _ in range(500)),
        Codec.SNAPPY: b"\x80\x80\x80\x80\x04\x00a" + b"\xfe\x01\x00" * 5000,
        Codec.LZ4: b"\x1fa\x01\x00" + b"\xff" * (4 << 20) + b"\x00",
        Codec.ZSTD: sink.getvalue().to_pybytes(),
    }
    before = peak_megabytes()
    for codec, body in bombs.items():
        with pytest.raises(CorruptFile):
            Compression(codec, BLOCK).decompress(chunk(body))
    print(peak_megabytes() - before)


def test_many_chunks_decode_to_no_more_than_fits_into_memory():
    stream = bomb(Codec.ZLIB, BLOCK) * 2000
    with pytest.raises(UnsupportedFile, match="longer than 128 MB"):
        Compression(Codec.ZLIB, BLOCK).decompress(stream)
    with pytest.raises(UnsupportedFile, match="longer than 1 MB"):
        Compression(Codec.ZLIB, BLOCK).decompress(stream, 1 << 20)


@pytest.mark.parametrize("zone", ["../../../dev/zero", "Europe/../../../../dev/zero"])
def test_a_time_zone_is_no_path_to_another_file(zone):
    # The library would open it: a pipe keeps it waiting for ever.
    timestamps = flat_file(table(50, columns=["moment"]), "none")
    file = rewritten(timestamps, zone=zone.encode())
    with pytest.raises(CorruptFile, match="as its time zone"):
        list(read_batches(file, OrcTail.read(file)))
    file = rewritten(timestamps, zone=b"America/Argentina/Buenos_Aires")
    assert sum(batch.num_rows for batch in read_batches(file, OrcTail.read(file))) == 50


def test_a_number_has_at_most_ten_bytes():
    assert read_varint(b"\xff" * 9 + b"\x01", 0) == ((1 << 64) - 1, 10)
    with pytest.raises(CorruptFile, match="ten bytes"):
        read_varint(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(CorruptFile, match="middle"):
        read_varint(b"\xff" * 3, 0)


def test_a_structure_has_so_many_fields_at_most():
    with pytest.raises(CorruptFile, match="fields"):
        Message.decode(b"\x08\x01" * (1 << 20) + b"\x08\x01")
    with pytest.raises(CorruptFile, match="numbers"):
        Message().add_data(1, bytes((1 << 20) + 1)).all_numbers(1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"stripe_statistics": ((b"",) * 2,) * 2}, "stripes that it does not have"),
        ({"file_statistics": (b"",) * 3}, "columns that it does not have"),
        ({"stride": 0}, None),
    ],
)
def test_statistics_are_about_what_there_is(change, problem):
    file = texts()
    changed = with_tail(file, replace(OrcTail.read(file), **change))
    if problem is None:
        assert OrcTail.read(changed).rows == 50
        return
    with pytest.raises(CorruptFile, match=problem):
        OrcTail.read(changed)


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=40),
    st.sampled_from([1, 2, 511, 512, 513, 1100]),
    st.booleans(),
    st.sampled_from(["none", "zlib"]),
)
def test_lengths_are_added_up_as_the_library_wrote_them(some, count, ascending, codec):
    lengths = (some * count)[:count]
    lengths = sorted(lengths) if ascending else lengths
    file = flat_file(pa.table({"a": ["x" * length for length in lengths]}), codec)
    tail = OrcTail.read(file)
    found = Lengths()
    for stripe in tail.stripes:
        offset = stripe.offset
        for stream in tail.stripe_footer(file, stripe).all_messages(1):
            kind, _, length = (stream.number(field) for field in (1, 2, 3))
            if kind == 2:
                plain = tail.compression.decompress(file.getvalue()[offset : offset + length])
                found = Lengths.of(plain, version=2)
            offset += length
    if len(tail.stripes) == 1:
        assert (found.count, found.total) == (len(lengths), sum(lengths))
        assert found.largest == max(lengths)


@pytest.mark.parametrize(
    ("plain", "count", "total"),
    [
        (bytes((97, 0, 7)), 100, 700),
        (bytes((97, 255, 100)), 100, 100 * 100 - 99 * 50),
        (bytes((251, 2, 3, 6, 7, 11)), 5, 29),
    ],
)
def test_lengths_of_old_writers_are_added_up(plain, count, total):
    found = Lengths.of(plain, version=1)
    assert (found.count, found.total) == (count, total)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2, 7, 255, 256, (1 << 24) - 1, 1 << 26, (1 << 39) - 1]),
            st.sampled_from([1, 2, 3, 10, 511, 512]),
            st.booleans(),
        ),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([1, 2, 50]),
)
def test_runs_of_all_widths_are_added_up(runs, times):
    plain, values = b"", []
    for largest, count, repeated in runs:
        if repeated and count in (3, 10):
            size = max((largest.bit_length() + 7) // 8, 1)
            plain += bytes((size - 1 << 3 | count - 3,)) + largest.to_bytes(size, "big")
            values += [largest] * count
        else:
            run = [largest * k // max(count - 1, 1) for k in range(count)][::-1]
            width = next(w for w in WIDTHS if w >= max(run[0].bit_length(), 1))
            bits = "".join(f"{value:0{width}b}" for value in run)
            bits += "0" * (-len(bits) % 8)
            head = 0x40 | WIDTHS.index(width) << 1 | count - 1 >> 8
            plain += bytes((head, count - 1 & 255)) + int(bits, 2).to_bytes(len(bits) // 8, "big")
            values += run
    # Sections of many kilobytes, which runs reach over.
    found = Lengths.of(plain * times, version=2)
    assert (found.count, found.total) == (len(values) * times, sum(values) * times)
    assert found.largest == max(values)
    with pytest.raises(CorruptFile, match="cut short"):
        Lengths.of((plain * times)[:-1], version=2)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 200),
            st.integers(-3, 80),
            st.sampled_from([1, 2, 10, 257, 512]),
        ),
        min_size=1,
        max_size=30,
    ),
    st.booleans(),
)
def test_runs_of_equal_steps_are_added_up(runs, signed):
    plain, values = b"", []
    for first, step, count in runs:
        run = [first + step * k for k in range(count)]
        if run[-1] >= 0:
            head = bytes((0xC0 | count - 1 >> 8, count - 1 & 255))
            plain += head + varint(zigzag(first) if signed else first) + varint(zigzag(step))
            values += run
    found = Lengths.of(plain, version=2, signed=signed)
    assert (found.count, found.total) == (len(values), sum(values))
    assert found.largest == max(values, default=0)
    if values:
        with pytest.raises(CorruptFile, match=r"cut short|middle of a number"):
            Lengths.of(plain[:-1], version=2, signed=signed)


@pytest.mark.parametrize("signed", [False, True])
def test_runs_that_become_negative_are_damage(signed):
    down = bytes((0xC0, 9)) + varint(zigzag(8) if signed else 8) + varint(zigzag(-1))
    with pytest.raises(CorruptFile, match="negative"):
        Lengths.of(down, version=2, signed=signed)


@given(st.lists(st.integers(0, 38), min_size=1, max_size=1100))
def test_scales_are_looked_at_one_by_one(scales):
    found = Lengths.of(integer_runs(np.array(scales)), version=2, signed=True)
    assert (found.count, found.total, found.largest) == (len(scales), sum(scales), max(scales))


@pytest.mark.parametrize(("precision", "scale"), [(18, 4), (20, 0), (38, 38)])
def test_decimals_of_any_scale_are_read(precision, scale):
    rows = pa.table({"a": pa.array([0, None, 0, 0] * 200, pa.decimal128(precision, scale))})
    file = flat_file(rows, "zlib")
    assert pa.Table.from_batches(read_batches(file, OrcTail.read(file))) == rows


def test_negative_lengths_are_damage():
    with pytest.raises(CorruptFile, match="negative"):
        Lengths.of(bytes((97, 255, 3)), version=1)
    with pytest.raises(CorruptFile, match="cut short"):
        Lengths.of(integer_runs(np.arange(300) * 7 % 13)[:-2], version=2)
    patched = bytes((0x81, 43, 1, 0xE1, 0)) + bytes(38)
    assert Lengths.of(patched + b"\xff\x40", version=2).largest == 2
    with pytest.raises(CorruptFile, match="cut short"):
        Lengths.of(patched + b"\xff\x00", version=2)
    with pytest.raises(BeyondArrow, match="more lengths"):
        Lengths.of(b"\x00\x01" * 500_001, version=2)


def test_wide_rows_are_read_a_few_at_a_time(monkeypatch):
    file = io.BytesIO()
    rows = pa.table({"a": ["x" * 5000] * 1000, "b": [[1, 2, 3]] * 1000})
    # One text many times takes little in a file with a dictionary, and a lot in memory.
    orc.write_table(rows, file, dictionary_key_size_threshold=0.9)
    tail = OrcTail.read(file)
    assert rows_at_a_time(file, tail, 0) == 1000
    monkeypatch.setattr(arrow_memory, "_MEMORY", 1 << 20)
    assert 150 < rows_at_a_time(file, tail, 0) < 210
    batches = list(read_batches(file, tail))
    assert sum(batch.num_rows for batch in batches) == 1000
    assert max(batch.nbytes for batch in batches) < 1 << 20
    monkeypatch.setattr(arrow_memory, "_MEMORY", 5000)
    with pytest.raises(BeyondArrow, match="row may take"):
        rows_at_a_time(file, tail, 0)


def test_blocks_count_as_memory_with_any_content():
    wide = pa.table({f"column {n}": ["a", None] for n in range(300)})
    file = flat_file(wide, "zstd", block_size=BLOCK)
    tail = OrcTail.read(file)
    assert pa.Table.from_batches(read_batches(file, tail)) == wide
    claiming = with_block_size(tail, 8 << 20)
    with pytest.raises(BeyondArrow, match="blocks"):
        list(read_batches(with_tail(file, claiming), claiming))
