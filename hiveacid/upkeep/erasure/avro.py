"""The records of an Avro file, which may be damaged or forged: Iceberg's manifests are such files."""

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

AVRO = b"Obj\x01"
_SYNC = 16
_LONGEST_NUMBER = 10
# Writers begin another block after some entries.
_LARGEST_BLOCK = 64 << 20


class AvroFile:
    """An Avro file.

    Args:
        content: The file.

    Attributes:
        header: The entries of its header; Iceberg stores the columns of the table there.

    Raises:
        ValueError: It is no valid Avro file; so does reading its records.
    """

    def __init__(self, content: bytes) -> None:
        if not content.startswith(AVRO):
            raise ValueError("it is no Avro file")
        self._content = content
        cursor = _Cursor(content, len(AVRO))
        entries = cursor.items(lambda: (cursor.text().decode(), cursor.text()))
        self.header: dict[str, bytes] = dict(entries)
        self._sync = cursor.take(_SYNC)
        self._begin = cursor.at

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records; logical types are left as they are stored."""
        schema = json.loads(self.header["avro.schema"])
        codec = self.header.get("avro.codec", b"null").decode()
        cursor = _Cursor(self._content, self._begin)
        while cursor.at < len(self._content):
            count, size = cursor.number(), cursor.number()
            block = _Cursor(_decompressed(codec, cursor.take(size)), 0)
            if cursor.take(_SYNC) != self._sync:
                raise ValueError("the length of a block is wrong")
            for _ in range(block.limited(count)):
                yield block.value(schema)
            if block.at != len(block.data):
                raise ValueError("a block has other values than its schema")


class _Cursor:
    """Reads values one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError("it is incomplete")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        value = 0
        for place in range(_LONGEST_NUMBER):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("a number is too long")

    def text(self) -> bytes:
        return self.take(self.number())

    def limited(self, count: int) -> int:
        """Refuse more values than bytes: values without bytes could be endless."""
        if not 0 <= count <= len(self.data) - self.at:
            raise ValueError("the number of values is wrong")
        return count

    def items(self, read: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while count := self.number():
            if count < 0:
                self.number()  # The size of the block.
            found += (read() for _ in range(self.limited(abs(count))))
        return found

    def value(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self.value(schema[self.limited(self.number())])
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "null":
                return None
            case "boolean":
                return self.take(1) != b"\0"
            case "int" | "long":
                return self.number()
            case "float" | "double":
                return self.take(4 if kind == "float" else 8)
            case "bytes":
                return self.text()
            case "string":
                return self.text().decode()
            case "fixed":
                return self.take(schema["size"])
            case "record":
                return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
            case "array":
                return self.items(lambda: self.value(schema["items"]))
        raise ValueError("it has a type that is not supported")


def _decompressed(codec: str, block: bytes) -> bytes:
    # One byte more, in order to recognize a larger block.
    limit = _LARGEST_BLOCK + 1
    match codec:
        case "null":
            found = block
        case "deflate":
            found = zlib.decompressobj(-15).decompress(block, limit)
        case "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
                found = stream.read(limit)
        case _:
            raise ValueError(f"its compression {codec} is not supported")
    if len(found) > _LARGEST_BLOCK:
        raise ValueError("a block is too large")
    return found
