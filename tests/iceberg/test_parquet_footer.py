"""Footers of Parquet files, which are written again with other ids and user metadata."""

import random

import pyarrow as pa
import pytest
from pyarrow import parquet

from hiveacid.errors import CorruptFile
from hiveacid.iceberg.parquet_footer import ParquetFooter
from tests.iceberg.test_parquet_copy import ARROW, ROWS, parquet_file


@pytest.fixture
def written() -> bytes:
    rows = pa.Table.from_pylist(ROWS, schema=ARROW.with_metadata({"a": "b", "c": ""}))
    return parquet_file(rows, row_group_size=1, write_page_index=True)


@pytest.fixture
def content(written: bytes) -> bytes:
    return written[-8 - int.from_bytes(written[-8:-4], "little") : -8]


def test_nothing_but_ids_and_user_metadata_changes(written: bytes, content: bytes) -> None:
    found = parquet.read_metadata(pa.BufferReader(written)).metadata
    metadata = {name: found[name] for name in (b"a", b"c", b"ARROW:schema")}
    footer = ParquetFooter.decode(content)
    assert footer.encode({}, metadata) == content
    changed = footer.encode({3: 7}, {b"x": b"y"})
    assert changed != content
    assert ParquetFooter.decode(changed).encode({}, metadata) == content


def test_damaged_footers_are_errors(content: bytes) -> None:
    chance = random.Random(1)
    refused = 0
    for _ in range(2_000):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            ParquetFooter.decode(bytes(damaged[: chance.randint(0, len(damaged))]))
        except CorruptFile:
            refused += 1
    assert refused > 1_000
