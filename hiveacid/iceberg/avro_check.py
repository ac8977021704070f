"""Validation of Avro files of Iceberg before pyiceberg reads them.

The decoder of pyiceberg trusts the lengths and counts in a file: wrong ones make it read memory that is
not part of the file, end the process, or allocate gigabytes. So each value of a file is visited first.
"""

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyiceberg.utils.decimal import decimal_required_bytes
from zstandard import ZstdDecompressor, ZstdError

MAGIC = b"Obj\x01"
_SYNC = 16
_VARINT_BYTES = 10
_CHUNK = 1 << 20
# Writers begin another block after some entries.
_LARGEST_BLOCK = 32 << 20
_PARTITION_ID = 102
# The types in files that pyiceberg reads as logical types.
_LOGICAL = {"date": "int", "time-micros": "long", "timestamp-micros": "long"}

# Visits the value at a position, and returns the position behind it.
Visit = Callable[[bytes, int], int]


class AvroInvalid(Exception):
    """The file violates the format, or needs too much memory; the message contains none of its content."""


@dataclass(slots=True)
class Budget:
    """The remaining memory for the files of a table.

    Attributes:
        bytes: The size of files without compression.
        items: The number of values and entries in them.
    """

    bytes: int = 1 << 30
    items: int = 20_000_000

    def spend(self, *, bytes: int = 0, items: int = 0) -> None:
        """Subtract a part.

        Raises:
            AvroInvalid: Less is left.
        """
        if bytes > self.bytes or items > self.items:
            raise AvroInvalid("the files of its metadata are too large")
        self.bytes -= bytes
        self.items -= items


def require_valid(data: bytes, budget: Budget) -> None:
    """Validate an Avro file, so that reading it needs a limited amount of memory and time.

    Args:
        data: The file.
        budget: The remaining memory, which gets smaller.

    Raises:
        AvroInvalid: The file violates the format, or needs too much memory.
    """
    try:
        _visit_file(data, budget)
    except (
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        RecursionError,
        zlib.error,
        ZstdError,
    ) as error:
        raise AvroInvalid(f"it is no valid Avro file ({type(error).__name__})") from None


def _visit_file(data: bytes, budget: Budget) -> None:
    budget.spend(bytes=len(data))
    if not data.startswith(MAGIC):
        raise AvroInvalid("it is no Avro file")
    header, position = _header(data, len(MAGIC), budget)
    sync = data[position : position + _SYNC]
    position += _SYNC
    codec = header.get("avro.codec", b"").decode()
    visit, is_empty = _Schema(budget).record(json.loads(header["avro.schema"]))
    if is_empty:
        raise AvroInvalid("its records have no fields")
    while position < len(data):
        count, position = _integer(data, position)
        size, position = _integer(data, position)
        end = position + size
        if count < 0 or size < 0 or data[end : end + _SYNC] != sync:
            raise AvroInvalid("the length of a block is wrong")
        block = _decompress(codec, data[position:end], budget)
        if _items(count, block, 0, budget, visit) != len(block):
            raise AvroInvalid("a block has other values than its schema")
        position = end + _SYNC
    if position != len(data):
        raise AvroInvalid("it is incomplete")


def _header(data: bytes, position: int, budget: Budget) -> tuple[dict[str, bytes], int]:
    found: dict[str, bytes] = {}

    def entry(data: bytes, position: int) -> int:
        key = _text(data, position)
        end = _text(data, key)
        _, begin = _integer(data, position)
        _, value = _integer(data, key)
        found[data[begin:key].decode()] = data[value:end]
        return end

    return found, _blocks(data, position, budget, entry)


def _decompress(codec: str, block: bytes, budget: Budget) -> bytes:
    # One byte more, in order to recognize a block with further ones.
    limit = min(budget.bytes, _LARGEST_BLOCK) + 1
    if codec == "null":
        return block
    if codec == "deflate":
        found = zlib.decompressobj(-15).decompress(block, limit)
    elif codec == "zstandard":
        found = _decompress_zstandard(block, limit)
    else:
        raise AvroInvalid("its compression is not supported")
    if len(found) > _LARGEST_BLOCK:
        raise AvroInvalid("a block is too large")
    budget.spend(bytes=len(found))
    return found


def _decompress_zstandard(block: bytes, limit: int) -> bytes:
    found = bytearray()
    with ZstdDecompressor().stream_reader(block) as reader:
        while len(found) < limit and (part := reader.read(min(_CHUNK, limit))):
            found += part
    return bytes(found)


def _integer(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = shift = 0
    for place in range(position, position + _VARINT_BYTES):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place + 1
        shift += 7
    raise AvroInvalid("a number is too long")


def _long(data: bytes, position: int) -> int:
    if data[position] < 0x80:
        return position + 1
    return _integer(data, position)[1]


def _text(data: bytes, position: int) -> int:
    size, position = _integer(data, position)
    if not 0 <= size <= len(data) - position:
        raise AvroInvalid("the length of a text is wrong")
    return position + size


def _fixed(size: int) -> Visit:
    def visit(data: bytes, position: int) -> int:
        if size > len(data) - position:
            raise AvroInvalid("it is incomplete")
        return position + size

    return visit


def _items(count: int, data: bytes, position: int, budget: Budget, visit: Visit) -> int:
    if count > len(data) - position:
        raise AvroInvalid("the number of values is wrong")
    budget.spend(items=count)
    for _ in range(count):
        position = visit(data, position)
    return position


def _blocks(data: bytes, position: int, budget: Budget, visit: Visit) -> int:
    """Visit the blocks of an array or a map."""
    while True:
        count, position = _integer(data, position)
        if not count:
            return position
        size = None
        if count < 0:
            size, position = _integer(data, position)
        end = _items(abs(count), data, position, budget, visit)
        if size not in (None, end - position):
            raise AvroInvalid("the length of an array is wrong")
        position = end


class _Schema:
    """Builds the visits of the types of a schema, each with the information whether it has no bytes."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def record(self, schema: dict[str, Any], *, decimals: bool = False) -> tuple[Visit, bool]:
        if schema["type"] != "record":
            raise AvroInvalid("its type is no record")
        visits, is_empty = [], True
        for field in schema["fields"]:
            is_partition = field.get("field-id") == _PARTITION_ID
            visit, without_bytes = self._type(field["type"], decimals or is_partition)
            visits.append(visit)
            is_empty = is_empty and without_bytes

        def visit_all(data: bytes, position: int) -> int:
            for visit in visits:
                position = visit(data, position)
            return position

        return visit_all, is_empty

    def _type(self, schema: Any, decimals: bool) -> tuple[Visit, bool]:
        if isinstance(schema, list):
            return self._optional(schema, decimals), False
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = None if isinstance(schema, str) else schema.get("logicalType")
        if kind == "record":
            return self.record(schema, decimals=decimals)
        if kind == "array":
            return self._array(schema, logical, decimals), False
        if kind == "map" and logical is None:
            value, _ = self._type(schema["values"], decimals)
            return self._repeated(lambda data, position: value(data, _text(data, position))), False
        if kind == "fixed":
            size = int(schema["size"])
            if size <= 0 or not _is_plain_fixed(schema, logical, size, decimals):
                raise AvroInvalid("it has a type that is not supported")
            return _fixed(size), False
        visit = _PRIMITIVES.get(kind)
        if visit is None or _LOGICAL.get(logical or "", kind if logical is None else None) != kind:
            raise AvroInvalid("it has a type that is not supported")
        return visit, False

    def _optional(self, schema: list[Any], decimals: bool) -> Visit:
        null, other = schema
        if null != "null" or isinstance(other, list):
            raise AvroInvalid("it has a type that is not supported")
        visit, _ = self._type(other, decimals)

        def visit_optional(data: bytes, position: int) -> int:
            index, position = _integer(data, position)
            if index not in (0, 1):
                raise AvroInvalid("a value has an unknown type")
            return visit(data, position) if index else position

        return visit_optional

    def _array(self, schema: dict[str, Any], logical: str | None, decimals: bool) -> Visit:
        item, is_empty = self._type(schema["items"], decimals)
        names = logical == "map" and [field["name"] for field in schema["items"]["fields"]]
        if is_empty or logical not in (None, "map") or names not in (False, ["key", "value"]):
            raise AvroInvalid("it has a type that is not supported")
        return self._repeated(item)

    def _repeated(self, item: Visit) -> Visit:
        return lambda data, position: _blocks(data, position, self._budget, item)


def _is_plain_fixed(schema: dict[str, Any], logical: str | None, size: int, decimals: bool) -> bool:
    if logical == "uuid":
        return size == 16
    if logical == "decimal":
        # pyiceberg skips a decimal in another way than it reads one, but reads those of partitions.
        return decimals and size == decimal_required_bytes(int(schema["precision"]))
    return logical is None


_PRIMITIVES: dict[str, Visit] = {
    "boolean": _fixed(1),
    "int": _long,
    "long": _long,
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _text,
    "string": _text,
}
