"""Unusual Parquet files are read as Arrow reads them."""

import io
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from hiveacid.foreign.parquet import ParquetInput
from tests.foreign.parquet_bombs import READ

_ROWS = 4000


def table() -> pa.Table:
    half, whole = _ROWS // 2, _ROWS
    return pa.table(
        {
            "text": pa.array(["x", None] * half),
            "long": pa.array(["y" * 10_000, "z"] * half),
            "different": [str(number) * 10 for number in range(whole)],
            "numbered": pa.array(["x", "y"] * half).dictionary_encode(),
            "lists": pa.array([["x", "y"], None, [None], []] * (whole // 4)),
            "structs": pa.array([{"a": "w", "b": 1}] * whole),
            "maps": pa.array([[("k", "v")]] * whole, pa.map_(pa.string(), pa.string())),
            "pairs": pa.array([[1, 2]] * whole, pa.list_(pa.int32(), 2)),
            "decimals": pa.array([Decimal("1.23")] * whole, pa.decimal128(20, 2)),
            "times": pa.array([datetime(2020, 1, 1)] * whole, pa.timestamp("us")),
            "flags": pa.array([True, None] * half),
            "number.of": range(whole),
        }
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "gzip", "row_group_size": 999},
        {"compression": "none", "use_deprecated_int96_timestamps": True},
        {"compression": "brotli", "use_dictionary": False},
        {"store_schema": False, "data_page_size": 100},
        {"use_dictionary": False, "column_encoding": {"different": "DELTA_BYTE_ARRAY"}},
    ],
    ids=str,
)
def test_all_rows_are_read(options: dict[str, Any]) -> None:
    file = io.BytesIO()
    parquet.write_table(table(), file, **options)
    wanted = parquet.read_table(file, use_threads=False).replace_schema_metadata()
    opened = ParquetInput(file, "x")
    opened.require_small(1 << 30)
    found = pa.Table.from_batches(opened.batches()).replace_schema_metadata()
    assert found.equals(wanted)
    some = pa.Table.from_batches(opened.batches(["lists", "number.of"], rows=100))
    assert some.equals(wanted.select(["lists", "number.of"]))


@pytest.mark.parametrize("name", READ)
def test_unusual_files_are_valid(name: str) -> None:
    opened = ParquetInput(io.BytesIO(READ[name]()), "x")
    columns = opened.names[:50]
    rows = sum(len(batch) for batch in opened.batches(columns))
    assert rows == opened.metadata.num_rows
