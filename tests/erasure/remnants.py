"""A search for texts in all bytes of files, independent of the readers of the package.

Every stream of an ORC file is decompressed, whichever column and stripe it belongs to, with the
footers, the statistics, and the indexes; every column of a Parquet file is decoded, with its
dictionary; and every block of an Avro file is decompressed. All other bytes are searched as they are.
"""

import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

_NONE, _ZLIB, _SNAPPY, _LZO, _LZ4, _ZSTD = range(6)
_NAMES = {_SNAPPY: "snappy", _LZ4: "lz4_raw", _ZSTD: "zstd"}


def remnants(folder: Path, texts: Iterable[str]) -> dict[str, set[str]]:
    """Return the texts that are somewhere in the files below a folder, or in a file, by file."""
    wanted = {text: text.encode() for text in texts}
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
        if not path.is_file():
            continue
        content = b"\0".join(contents(path))
        if hits := {text for text, bytes_ in wanted.items() if bytes_ in content}:
            found[str(path)] = hits
    return found


def contents(path: Path) -> Iterator[bytes]:
    """Yield all bytes of a file, and its decompressed parts."""
    data = path.read_bytes()
    yield data
    if data.startswith(b"PAR1"):
        yield from _parquet(data)
    elif data.startswith(b"Obj\x01"):
        yield from _avro(data)
    elif data.startswith(b"\x1f\x8b"):
        yield zlib.decompress(data, 31)
    elif data.startswith(b"ORC") and len(data) >= 8:
        yield from _orc(data)


def _parquet(data: bytes) -> Iterator[bytes]:
    """Yield the values of all columns, also those of dictionaries that no row has."""
    schema = parquet.ParquetFile(io.BytesIO(data)).schema
    names = [schema.column(number).path for number in range(len(schema))]
    for dictionaries in (names, []):
        table = parquet.read_table(io.BytesIO(data), read_dictionary=dictionaries)
        for column in table.columns:
            for chunk in column.chunks:
                values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
                yield from (buffer.to_pybytes() for buffer in values.buffers() if buffer)


def _avro(data: bytes) -> Iterator[bytes]:
    at, header = 4, {}

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (value >> 1) ^ -(value & 1)

    def text() -> bytes:
        nonlocal at
        size = number()
        at += size
        return data[at - size : at]

    while entries := number():
        header.update({text(): text() for _ in range(entries)})
    at += 16
    while at < len(data):
        number()
        block = text()
        at += 16
        codec = header.get(b"avro.codec", b"null")
        assert codec in (b"null", b"deflate"), codec
        yield block if codec == b"null" else zlib.decompress(block, -15)


def _orc(data: bytes) -> Iterator[bytes]:
    postscript_length = data[-1]
    postscript = _fields(data[-1 - postscript_length : -1])
    footer_length, codec = _number(postscript, 1), _number(postscript, 2)
    metadata_length, block = _number(postscript, 5), _number(postscript, 3) or 262144
    end = len(data) - 1 - postscript_length
    footer = _decompressed(data[end - footer_length : end], codec, block)
    yield footer
    begin = end - footer_length - metadata_length
    yield _decompressed(data[begin : begin + metadata_length], codec, block)
    for number, value in _fields(footer):
        if number != 3:
            continue
        assert isinstance(value, bytes)
        stripe = _fields(value)
        offset, index, rows, length = (_number(stripe, field) for field in (1, 2, 3, 4))
        at = offset + index + rows
        stripe_footer = _decompressed(data[at : at + length], codec, block)
        yield stripe_footer
        place = offset
        for field, stream in _fields(stripe_footer):
            if field == 1:
                assert isinstance(stream, bytes)
                size = _number(_fields(stream), 3)
                yield _decompressed(data[place : place + size], codec, block)
                place += size


def _decompressed(data: bytes, codec: int, block: int) -> bytes:
    if codec == _NONE:
        return data
    parts = []
    while data:
        header = int.from_bytes(data[:3], "little")
        body, data = data[3 : 3 + (header >> 1)], data[3 + (header >> 1) :]
        if header & 1:
            parts.append(body)
        elif codec == _ZLIB:
            parts.append(zlib.decompress(body, -15))
        elif codec == _ZSTD:
            with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
                parts.append(stream.read())
        else:
            parts.append(_of_unknown_size(body, _NAMES[codec], block))
    return b"".join(parts)


def _of_unknown_size(body: bytes, name: str, block: int) -> bytes:
    if name == "snappy":
        size, shift = 0, 0
        for byte in body:
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        return pa.Codec("snappy").decompress(body, size).to_pybytes()
    raise NotImplementedError(name)


def _fields(message: bytes) -> list[tuple[int, int | bytes]]:
    fields: list[tuple[int, int | bytes]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            fields.append((number, varint()))
        elif kind == 2:
            length = varint()
            fields.append((number, message[at : at + length]))
            at += length
        else:
            length = 8 if kind == 1 else 4
            fields.append((number, message[at : at + length]))
            at += length
    return fields


def _number(fields: list[tuple[int, int | bytes]], wanted: int) -> int:
    return next((value for number, value in fields if number == wanted), 0)  # type: ignore[return-value]
