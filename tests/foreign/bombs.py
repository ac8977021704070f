"""Small files of other formats that describe much memory, or work without an end."""

import json
import struct
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
from pyarrow import orc

from hiveacid.orc.format.streams import StreamKind
from hiveacid.orc.format.tail import OrcTail
from tests.foreign.parquet_bombs import BOMBS as PARQUET
from tests.orc import hostile

MAKE = Callable[[], bytes]
_LONG = (1 << 62) - 1


def raw(content: bytes) -> bytes:
    """Deflate without a header."""
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(content) + stream.flush()


def gzipped(part: bytes, count: int = 1, begin: bytes = b"", end: bytes = b"") -> bytes:
    """Compress a text with many equal parts, each of which is compressed only once."""
    stream = zlib.compressobj(wbits=-15)
    first = stream.compress(begin) + stream.flush(zlib.Z_FULL_FLUSH)
    inner = stream.compress(part) + stream.flush(zlib.Z_FULL_FLUSH)
    checksum = zlib.crc32(begin)
    for _ in range(count):
        checksum = zlib.crc32(part, checksum)
    size = len(begin) + count * len(part) + len(end)
    numbers = struct.pack("<II", zlib.crc32(end, checksum), size)
    return (
        b"\x1f\x8b\x08"
        + bytes(7)
        + first
        + inner * count
        + stream.compress(end)
        + stream.flush()
        + numbers
    )


# ORC


def orc_file(table: pa.Table, **options: Any) -> bytes:
    sink = BytesIO()
    orc.write_table(table, sink, compression="zlib", stripe_size=256 << 20, **options)
    return sink.getvalue()


def same_text(rows: int, length: int) -> bytes:
    """A dictionary with one text, which each row repeats."""
    return orc_file(
        pa.table({"id": pa.array(["x" * length] * rows)}), dictionary_key_size_threshold=1.0
    )


def plain_texts(rows: int, length: int) -> bytes:
    return orc_file(pa.table({"id": pa.array(["x" * length] * rows)}))


def lists(elements: int) -> bytes:
    values = pa.array([0] * elements, pa.int32())
    return orc_file(
        pa.table({"id": pa.ListArray.from_arrays(pa.array([0, elements], pa.int32()), values)})
    )


def long_tail(part: bytes, count: int, place: int) -> bytes:
    """A file whose footer, or metadata, has many parts."""
    tail = OrcTail.read(hostile.texts("zlib"))
    content = tail.compression.compress(part * count)
    lengths = {1: len(content) if place else 0, 5: 0 if place else len(content)}
    post = tail.postscript.with_numbers(lengths).encode()
    return b"ORC" + content + post + bytes([len(post)])


def long_index(entries: int) -> bytes:
    """A row index with many entries."""
    index = b"\n\0" * entries
    return hostile.rewritten(
        BytesIO(orc_file(pa.table({"id": ["a"] * 50}))),
        lambda streams: [
            *((StreamKind.ROW_INDEX, column, index) for column in range(2)),
            *(each for each in streams if not StreamKind.is_index(each[0])),
        ],
        stride=10,
    ).getvalue()


ORC: dict[str, MAKE] = {
    "more rows than time": lambda: hostile.rows(1 << 50).getvalue(),
    "many rows": lambda: hostile.rows(1 << 30).getvalue(),
    "rows of nothing": lambda: hostile.nothing_but_rows(1 << 30).getvalue(),
    "columns of columns": lambda: hostile.nested(1000).getvalue(),
    "large blocks": lambda: hostile.blocks(1 << 30).getvalue(),
    "the same stripe twice": lambda: hostile.twice_the_same_stripe().getvalue(),
    "a text of an exabyte": lambda: hostile.rewritten(
        hostile.texts(), hostile.one_length(1 << 60)
    ).getvalue(),
    "a text of a gigabyte": lambda: hostile.rewritten(
        hostile.texts(), hostile.one_length(1 << 30)
    ).getvalue(),
    "a negative text": lambda: hostile.rewritten(
        hostile.texts(), hostile.one_length(-1)
    ).getvalue(),
    "a long dictionary": lambda: hostile.rewritten(
        hostile.dictionary(), hostile.one_length(1 << 40)
    ).getvalue(),
    "a list of an exabyte": lambda: hostile.rewritten(
        hostile.lists(), hostile.one_length(1 << 60)
    ).getvalue(),
    "a map of a gigabyte": lambda: hostile.rewritten(
        hostile.maps(), hostile.one_length(1 << 30)
    ).getvalue(),
    "decimals of many digits": lambda: hostile.scales(
        b"\x5e\0" + bytes(4) + b"\x7f\xff\xff\xff"
    ).getvalue(),
    "texts that rows repeat": lambda: same_text(60, 2_000_000),
    "long texts": lambda: plain_texts(20, 8_000_000),
    "a long list": lambda: lists(16_000_000),
    "a footer of many parts": lambda: long_tail(b"\x22\0", 30 << 20, 1),
    "a footer of many numbers": lambda: long_tail(b"\x30\0", 30 << 20, 1),
    "metadata of many parts": lambda: long_tail(b"\n\0", 30 << 20, 0),
    "an index of many entries": lambda: long_index(30 << 20),
}

# Avro


def number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def avro(
    schema: Any, blocks: Sequence[tuple[int, bytes]], codec: str = "null", more: bytes = b""
) -> bytes:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    entries = {b"avro.schema": text, b"avro.codec": codec.encode()}
    header = b"".join(number(len(part)) + part for pair in entries.items() for part in pair)
    pack = {"null": bytes, "deflate": raw, "zstandard": zstd}[codec]
    sync = bytes(16)
    content = b"Obj\1" + number(len(entries)) + header + more + b"\0" + sync
    for count, block in blocks:
        packed = pack(block)
        content += number(count) + number(len(packed)) + packed + sync
    return content


def zstd(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


def record(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{at}", "type": type_} for at, type_ in enumerate(types)]
    return {"type": "record", "name": "r", "fields": fields}


_NULLS = {"type": "array", "items": "null"}
_LONGS = {"type": "array", "items": "long"}
_MAP = {"type": "map", "values": "bytes"}


def nested_type(depth: int) -> bytes:
    return (
        b'{"type":"record","name":"r","fields":[{"name":"f","type":'
        + b'{"type":"array","items":' * depth
        + b'"long"'
        + b"}" * depth
        + b"}]}"
    )


def of_itself() -> bytes:
    """Unions within unions: a value of few bytes that is deep."""
    return (
        b'{"type":"record","name":"r","fields":[{"name":"f","type":'
        + b"[" * 900
        + b'"null"'
        + b"]" * 900
        + b"}]}"
    )


def with_sizes(blocks: int, plain: int, codec: str) -> bytes:
    one = number(plain) + bytes(plain)
    return avro(record("bytes"), [(1, one)] * blocks, codec)


AVRO: dict[str, MAKE] = {
    "arrays of nulls": lambda: avro(
        record(_NULLS), [(1, number(4_000_000) * 8 + bytes(1 << 24))], "deflate"
    ),
    "many arrays of nulls": lambda: avro(
        record(_NULLS), [(1, number(10_000_000) * 1_000_000 + b"\0")], "deflate"
    ),
    "records of nulls": lambda: avro(record(*["null"] * 25_000), [(30_000, bytes(30_000))]),
    "empty records": lambda: avro(record(), [(1 << 24, bytes(1 << 24))], "deflate"),
    "many longs": lambda: avro(
        record(_LONGS), [(1, number(30 << 20) + bytes(30 << 20) + b"\0")], "deflate"
    ),
    "many records": lambda: avro(record("long"), [(30 << 20, bytes(30 << 20))], "zstandard"),
    "a block of deflate": lambda: with_sizes(1, 100 << 20, "deflate"),
    "a block of Zstandard": lambda: with_sizes(1, 200 << 20, "zstandard"),
    "many blocks": lambda: with_sizes(40, 30 << 20, "zstandard"),
    "blocks of deflate": lambda: with_sizes(2, 40 << 20, "deflate"),
    "a text of an exabyte": lambda: avro(record("string"), [(1, number(1 << 60))]),
    "a negative text": lambda: avro(record("string"), [(1, number(-5))]),
    "a block of negative records": lambda: avro(record("long"), [(-_LONG, b"\0")]),
    "more records than bytes": lambda: avro(record("null"), [(_LONG, b"\0")]),
    "a fixed of an exabyte": lambda: avro(
        record({"type": "fixed", "name": "x", "size": 1 << 60}), [(1, b"\0")]
    ),
    "arrays of arrays": lambda: avro(nested_type(35_000), [(1, b"\2" * 60_000)]),
    "unions of unions": lambda: avro(of_itself(), [(1, b"\0" * 1000)]),
    "a schema of many types": lambda: avro(b"[" + b"[]," * 300_000 + b"[]]", [(1, b"\0")]),
    "a header of many entries": lambda: avro(
        record("long"), [], more=number(400_000) + bytes(800_000)
    ),
    "an endless number": lambda: avro(record("long"), [(1, b"\xff" * 900_000)]),
    "a map of nothing": lambda: avro(
        record(_MAP), [(1, number(8_000_000) + bytes(16_000_000) + b"\0")], "deflate"
    ),
}

# Metadata of tables in JSON


def snapshots(part: bytes, count: int) -> bytes:
    return b'{"format-version":2,"snapshots":[' + part + (b"," + part) * count + b"]}"


METADATA: dict[str, MAKE] = {
    **{
        f"{of} in gzip of {size} MB": lambda part=part, size=size: gzipped(
            (part + b",") * ((1 << 20) // (len(part) + 1)),
            size,
            b'{"format-version":2,"snapshots":[',
            part + b"]}",
        )
        for of, part in {
            "lists": b"[]",
            "objects": b"{}",
            "numbers": b"1",
            "pairs": b'{"a":1}',
            "summaries": b'{"snapshot-id":1,"summary":{"hiveacid.table":"x"}}',
        }.items()
        for size in (24, 200)
    },
    "blanks in gzip": lambda: gzipped(b" " * (1 << 20), 300),
    "a text in gzip": lambda: gzipped(b"x" * (1 << 20), 300, b'{"a":"', b'"}'),
    "garbage in gzip": lambda: gzipped(b"{}") + bytes(900_000),
    "half of gzip": lambda: gzipped(bytes(1 << 20), 90)[:50_000],
    "lists within lists": lambda: b"[" * 900_000,
    "objects within objects": lambda: b'{"a":' * 190_000,
    "lists": lambda: snapshots(b"[]", 330_000),
    "objects": lambda: snapshots(b"{}", 330_000),
    "a long number": lambda: b"9" * 900_000,
    "a long fraction": lambda: b"0." + b"9" * 900_000,
    "no text": lambda: b"\xff" * 900_000,
}

# Puffin


def puffin(described: bytes, size: int | None = None) -> bytes:
    length = len(described) if size is None else size
    return b"PFA1" + described + length.to_bytes(4, "little") + bytes(4) + b"PFA1"


PUFFIN: dict[str, MAKE] = {
    "nothing": lambda: b"PFA1",
    "a description of four gigabytes": lambda: puffin(b"{}", (1 << 32) - 1),
    "a description of nothing": lambda: puffin(b"{}", 0),
    **{
        name: lambda make=make: puffin(make())
        for name, make in METADATA.items()
        if "gzip" not in name
    },
    **{
        f"{count} blobs": lambda count=count, part=part: puffin(
            b'{"blobs":[' + part + (b"," + part) * count + b"]}"
        )
        for count, part in (
            (20_000, b'{"snapshot-id":1,"type":"x"}'),
            (300_000, b"{}"),
            (330_000, b"[]"),
            (450_000, b"1"),
        )
    },
    "blobs of nothing": lambda: puffin(b'{"blobs":[null]}'),
    "blobs of many snapshots": lambda: puffin(
        json.dumps(
            {"blobs": [{"snapshot-id": number, "type": "x"} for number in range(25_000)]}
        ).encode()
    ),
    "snapshots that are lists": lambda: puffin(b'{"blobs":[{"snapshot-id":[],"type":"x"}]}'),
    "a number in the place of blobs": lambda: puffin(b'{"blobs":1}'),
    "no blobs": lambda: puffin(b"{}"),
    "blobs that are an object": lambda: puffin(b'{"blobs":{"a":1}}'),
}

# Notes of this package


NOTES: dict[str, MAKE] = {
    **{name: make for name, make in METADATA.items() if "gzip" not in name},
    "words": lambda: b"abcdef " * 140_000,
    "slashes": lambda: b"a/" * 500_000,
    "a word": lambda: b"x" * 1_000_000,
    "numbers": lambda: b"[" + b"1," * 490_000 + b"1]",
    "pairs": lambda: b"[" + b'{"a":1},' * 120_000 + b"1]",
    "names": lambda: json.dumps({str(number): 1 for number in range(80_000)}).encode(),
    "signs of four bytes": lambda: b'["' + "\U0001f600".encode() * 240_000 + b'"]',
    "escapes": lambda: b'["' + b"\\u0041" * 150_000 + b'"]',
    "a half of a note": lambda: json.dumps({str(number): 1 for number in range(80_000)}).encode()[
        :-9
    ],
    "commas": lambda: b"," * 1_000_000,
    "quotes": lambda: b'"' * 1_000_000,
    "braces": lambda: b"{" * 1_000_000,
    "zeros": lambda: bytes(1_000_000),
}

LINES: dict[str, MAKE] = {
    **NOTES,
    "empty lines": lambda: b"\n" * 1_000_000,
    "short lines": lambda: b"a\n" * 500_000,
    "objects in lines": lambda: b'{"id":"a"}\n' * 90_000,
}

BOMBS: dict[str, dict[str, MAKE]] = {
    "parquet": PARQUET,
    "orc": ORC,
    "avro": AVRO,
    "metadata": METADATA,
    "puffin": PUFFIN,
    "notes": NOTES,
    "lines": LINES,
}
