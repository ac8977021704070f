"""The records of an Avro file, which may be damaged or forged: Iceberg's manifests are such files."""

from collections.abc import Callable, Iterator
from typing import Any

from hiveacid.foreign.compressed import inflated, unzstd
from hiveacid.foreign.text import parse_json

AVRO = b"Obj\x01"
_SYNC = 16
_LONGEST_NUMBER = 10
# Writers begin another block after some entries.
_LARGEST_BLOCK = 32 << 20
# Of all blocks, and by each byte of the file.
_LARGEST, _RATIO = 256 << 20, 64
# Types in a schema, and values in a record, of which each is an object.
_MOST_TYPES, _MOST_OF_RECORD = 100_000, 1_000_000
# Values of all records, which take a microsecond each, and by each byte of the file.
_MOST_VALUES, _VALUES_OF_A_BYTE = 2_000_000, 2


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
        cursor.values = _MOST_TYPES
        entries = cursor.items(lambda: (cursor.text().decode(), cursor.text()))
        self.header: dict[str, bytes] = dict(entries)
        self._sync = cursor.take(_SYNC)
        self._begin = cursor.at

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records; logical types are left as they are stored."""
        schema = parse_json(self.header["avro.schema"], limit=_MOST_TYPES)
        codec = self.header.get("avro.codec", b"null").decode()
        cursor = _Cursor(self._content, self._begin)
        values = _MOST_VALUES + _VALUES_OF_A_BYTE * len(self._content)
        size_left = _LARGEST + _RATIO * len(self._content)
        while cursor.at < len(self._content):
            count, size = cursor.number(), cursor.number()
            block = _Cursor(_decompressed(codec, cursor.take(size)), 0)
            size_left -= len(block.data)
            if cursor.take(_SYNC) != self._sync:
                raise ValueError("the length of a block is wrong")
            for _ in range(block.limited(count)):
                block.values = min(values, _MOST_OF_RECORD)
                values_before = block.values
                yield block.value(schema)
                values -= values_before - block.values
            if size_left < 0:
                raise ValueError("its blocks are too large")
            if block.at != len(block.data):
                raise ValueError("a block has other values than its schema")


class _Cursor:
    """Reads values one after the other."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.at = data, position
        # That may still be read.
        self.values = _MOST_OF_RECORD

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

    def spend(self, values: int) -> None:
        self.values -= values
        if self.values < 0:
            raise ValueError("it has too many values")

    def items(self, read: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while count := self.number():
            if count < 0:
                self.number()  # The size of the block.
            self.spend(self.limited(abs(count)))
            found += (read() for _ in range(abs(count)))
        return found

    def value(self, schema: Any) -> Any:
        self.spend(1)
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
    match codec:
        case "null":
            return block
        case "deflate":
            return inflated(block, _LARGEST_BLOCK)
        case "zstandard":
            return unzstd(block, _LARGEST_BLOCK)
    raise ValueError(f"its compression {codec} is not supported")
