"""Avro files: read as pyiceberg reads them, and damaged ones are refused."""

import io
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from pyiceberg.avro.file import AvroFile as IcebergAvroFile
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from hiveacid.foreign.avro import AvroFile

SCHEMA = Schema(
    NestedField(1, "number", LongType()),
    NestedField(2, "flag", BooleanType()),
    NestedField(3, "text", StringType(), required=True),
    NestedField(4, "inner", StructType(NestedField(5, "real", DoubleType(), required=True))),
    NestedField(6, "list", ListType(7, LongType(), element_required=True), required=True),
    NestedField(8, "bounds", MapType(9, IntegerType(), 10, BinaryType(), value_required=True)),
    NestedField(11, "names", MapType(12, StringType(), 13, LongType(), value_required=True)),
)
ROWS = [
    Record(1 << 60, True, "größe", Record(0.5), [1, 2, 300], {3: b"\xff", 4: b""}, {"a": 1}),
    Record(None, False, "", None, [], None, {}),
]
READ = [
    {
        "number": 1 << 60,
        "flag": True,
        "text": "größe",
        "inner": {"real": b"\0\0\0\0\0\0\xe0?"},
        "list": [1, 2, 300],
        "bounds": [{"key": 3, "value": b"\xff"}, {"key": 4, "value": b""}],
        "names": [{"key": "a", "value": 1}],
    },
    {
        "number": None,
        "flag": False,
        "text": "",
        "inner": None,
        "list": [],
        "bounds": None,
        "names": [],
    },
]


def written(folder: Path, codec: str) -> bytes:
    path = folder / "x.avro"
    output = PyArrowFileIO().new_output(f"file:{path}")
    header = {"own": "value", "avro.codec": codec}
    with AvroOutputFile[Record](output, SCHEMA, "rows", metadata=header) as file:
        for row in ROWS:
            file.write_block([row])
    with IcebergAvroFile[Record](PyArrowFileIO().new_input(f"file:{path}"), SCHEMA) as file:
        assert [str(row) for row in file] == [str(row) for row in ROWS]
    return path.read_bytes()


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_records_are_those_that_pyiceberg_has_written(tmp_path: Path, codec: str):
    file = AvroFile(written(tmp_path, codec))
    assert file.header["own"] == b"value"
    assert file.header["avro.codec"].decode() == codec
    assert [*file.records()] == READ


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_damaged_file_is_no_other_file(tmp_path: Path, codec: str):
    content = written(tmp_path, codec)
    whole = [*AvroFile(content).records()]
    for end in range(len(content)):
        try:
            found = [*AvroFile(content[:end]).records()]
        except (ValueError, KeyError):
            continue
        # The file ends between two blocks.
        assert found == whole[: len(found)]
        assert len(found) < len(whole)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        with suppress(ValueError, LookupError, TypeError, RecursionError, OSError, zlib.error):
            list(AvroFile(bytes(changed)).records())


def test_endless_values_without_bytes_are_refused():
    schema = b'{"type": "array", "items": "null"}'
    header = _map({b"avro.schema": schema})
    block = _number(1 << 50) + _number(0)
    content = b"Obj\x01" + header + bytes(16) + _number(1) + _number(len(block)) + block + bytes(16)
    with pytest.raises(ValueError, match="number of values"):
        list(AvroFile(content).records())


def test_a_block_that_is_much_larger_than_the_file_is_refused():
    deflate = zlib.compressobj(wbits=-15)
    block = deflate.compress(bytes(65 << 20)) + deflate.flush()
    header = _map({b"avro.schema": b'"bytes"', b"avro.codec": b"deflate"})
    content = b"Obj\x01" + header + bytes(16) + _number(1) + _number(len(block)) + block + bytes(16)
    with pytest.raises(ValueError, match="too large"):
        list(AvroFile(content).records())


def _map(entries: dict[bytes, bytes]) -> bytes:
    sink = io.BytesIO()
    sink.write(_number(len(entries)))
    for each in (part for entry in entries.items() for part in entry):
        sink.write(_number(len(each)) + each)
    return sink.getvalue() + _number(0)


def _number(value: int) -> bytes:
    value, found = value << 1, bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
