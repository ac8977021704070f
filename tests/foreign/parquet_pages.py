"""Parquet files made of any pages and any footer, which no writer would write."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyarrow import parquet
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

from hiveacid.iceberg.parquet_footer import _write

MAGIC = b"PAR1"
PLAIN, RLE, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 0, 3, 7, 8
UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD = 0, 1, 2, 4, 6
BOOLEAN, INT32, INT64, BYTE_ARRAY, FIXED = 0, 1, 2, 6, 7
DATA, DICTIONARY = 0, 2


def i32(value: int) -> Any:
    return TType.I32, value


def i64(value: int) -> Any:
    return TType.I64, value


def text(value: str) -> Any:
    return TType.STRING, value.encode()


def structs(values: Sequence[Any]) -> Any:
    return TType.LIST, (TType.STRUCT, values)


def encoded(struct: dict[int, Any]) -> bytes:
    buffer = TMemoryBuffer()
    _write(TCompactProtocol(buffer), TType.STRUCT, struct)
    return buffer.getvalue()


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def run(count: int, value: int = 0) -> bytes:
    """A run of equal levels or numbers of up to eight bits."""
    return varint(count << 1) + bytes([value])


def levels(count: int, value: int = 0) -> bytes:
    found = run(count, value)
    return len(found).to_bytes(4, "little") + found


@dataclass
class Page:
    body: bytes
    values: int
    plain: int | None = None
    encoding: int = PLAIN
    kind: int = DATA

    @property
    def content(self) -> bytes:
        inner = {1: i32(self.values), 2: i32(self.encoding)}
        if self.kind == DATA:
            inner |= {3: i32(RLE), 4: i32(RLE)}
        plain = len(self.body) if self.plain is None else self.plain
        header = {1: i32(self.kind), 2: i32(plain), 3: i32(len(self.body))}
        return encoded(header | {5 if self.kind == DATA else 7: (TType.STRUCT, inner)}) + self.body


@dataclass
class Column:
    name: str
    pages: Sequence[Page] = ()
    type: int = INT32
    length: int | None = None
    codec: int = UNCOMPRESSED
    values: int = 1
    # Whether it is a list without a group around its elements.
    repeated: bool = False
    optional: bool = False
    converted: int | None = None
    at: int = field(default=0, init=False)
    size: int = field(default=0, init=False)

    def schema(self) -> dict[int, Any]:
        found = {1: i32(self.type), 3: i32(2 if self.repeated else int(self.optional))}
        if self.length is not None:
            found[2] = i32(self.length)
        if self.converted is not None:
            found[6] = i32(self.converted)
        return found | {4: text(self.name)}

    def chunk(self) -> dict[int, Any]:
        has_dictionary = bool(self.pages) and self.pages[0].kind == DICTIONARY
        first = self.at + (len(self.pages[0].content) if has_dictionary else 0)
        data = {
            1: i32(self.type),
            2: (TType.LIST, (TType.I32, [PLAIN, RLE])),
            3: (TType.LIST, (TType.STRING, [self.name.encode()])),
            4: i32(self.codec),
            5: i64(self.values),
            6: i64(self.size),
            7: i64(self.size),
            9: i64(first),
        }
        if has_dictionary:
            data[11] = i64(self.at)
        return {2: i64(self.at), 3: (TType.STRUCT, data)}


def root(children: int) -> dict[int, Any]:
    return {4: text("schema"), 5: i32(children)}


def footed(content: bytes, footer: bytes) -> bytes:
    return content + footer + len(footer).to_bytes(4, "little") + MAGIC


def file_of(columns: Sequence[Column], rows: int, groups: int = 1) -> bytes:
    """A file with equal row groups, which share their pages."""
    content = bytearray(MAGIC)
    for column in columns:
        column.at = len(content)
        for page in column.pages:
            content += page.content
        column.size = len(content) - column.at
    group = {
        1: structs([column.chunk() for column in columns]),
        2: i64(len(content)),
        3: i64(rows),
    }
    return footed(
        bytes(content),
        encoded(
            {
                1: i32(1),
                2: structs([root(len(columns)), *(column.schema() for column in columns)]),
                3: i64(rows * groups),
                4: structs([group] * groups),
            }
        ),
    )


def written(table: Any, **options: Any) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink, **options)
    return sink.getvalue()
