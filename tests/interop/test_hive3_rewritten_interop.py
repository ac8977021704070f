"""Rows that a compaction has rewritten, as Hive 3.1.3's own classes read and search them."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.interop.hive3 import hive3_classpath, read_with_hive3
from tests.orc.bucket_files import BUCKET, compact, inserts, planned
from tests.orc.orc_tables import CODECS, SCHEMA, table
from tests.orc.test_row_writer import many_kinds

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

ROWS, STRIDE = 5000, 1000
DELETED = [0, 7, 999, 1000, 2500, 4999]
SEARCHES = {
    "always": "3600",
    "always_text": f"a text of its own: {4200 * 7919}",
    "wide": f"{1300 - 50}{'0' * 30}",
}


@pytest.fixture(scope="module")
def classpath() -> str:
    return hive3_classpath()


def hive_type(type_: pa.DataType) -> str:
    """Hive's name of a type."""
    if pa.types.is_list(type_):
        return f"array<{hive_type(type_.value_type)}>"
    if pa.types.is_map(type_):
        return f"map<{hive_type(type_.key_type)},{hive_type(type_.item_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in type_)}>"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    names = {
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.binary(): "binary",
        pa.date32(): "date",
    }
    return names.get(type_, "timestamp")


def folder_of(root: Path, file: bytes) -> Path:
    delta = root / "delta_0000001_0000001"
    delta.mkdir(parents=True)
    (delta / "bucket_00000").write_bytes(file)
    return root


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec not in ("zstd", "lz4")])
def test_hive_3_reads_and_finds_rewritten_rows(tmp_path, classpath, codec):
    rows = many_kinds(ROWS, 3)
    # With moments, of which the other columns have none.
    rows = rows.append_column("moment", table(ROWS, 4, SCHEMA.names)["moment"])
    # Values of nested columns are not cut correctly by `_value`.
    rows = rows.select(
        sorted(rows.column_names, key=lambda name: pa.types.is_nested(rows[name].type))
    )
    columns = {field.name: hive_type(field.type) for field in rows.schema}
    old = inserts(rows, [1], codec=codec, stride=STRIDE)
    plan, new = compact([planned(old)], [(1, BUCKET, row) for row in DELETED])
    assert [group.copy for group in plan.groups] == [False]
    before, after = (
        folder_of(tmp_path / name, file.getvalue()) for name, file in (("old", old), ("new", new))
    )
    lines = read_with_hive3(classpath, before, columns)
    assert len(lines) == ROWS
    expected = [line for row, line in enumerate(lines) if row not in DELETED]
    assert read_with_hive3(classpath, after, columns) == expected
    for column, value in SEARCHES.items():
        found = read_with_hive3(classpath, after, columns, f"search={column}={value}")
        place = list(columns).index(column)
        (sought,) = (line for line in expected if _value(line, place) == value)
        assert sought in found
        assert len(found) < len(expected), column


def _value(line: str, place: int) -> str:
    """A value of a printed row, before the first nested column."""
    return line.strip("{}").split(", ")[place]
