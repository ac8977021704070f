"""A search for texts in all bytes of files, independent of the readers of the package.

Every stream of an ORC file is decompressed, whichever column and stripe it belongs to, with the
footers, the statistics, and the indexes. All other bytes are searched as they are.
"""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

_NONE, _ZLIB, _SNAPPY, _LZO, _LZ4, _ZSTD = range(6)
_NAMES = {_SNAPPY: "snappy", _LZ4: "lz4_raw", _ZSTD: "zstd"}


def remnants(folder: Path, texts: Iterable[str]) -> dict[str, set[str]]:
    """Return the texts that are somewhere in the files below a folder, by file."""
    wanted = {text: text.encode() for text in texts}
    found = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        content = b"\0".join(_plain(path.read_bytes()))
        if hits := {text for text, bytes_ in wanted.items() if bytes_ in content}:
            found[str(path)] = hits
    return found


def _plain(data: bytes) -> Iterator[bytes]:
    """Yield all bytes of a file, and decompressed parts of an ORC file."""
    yield data
    if not data.startswith(b"ORC") or len(data) < 8:
        return
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
