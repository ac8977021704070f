"""Partition keys with more digits than Iceberg stores."""

import pytest

from hiveacid.errors import UnsupportedFile
from hiveacid.iceberg.data_file import require_microseconds_in_keys
from hiveacid.metastore.catalog import HiveColumn


def test_partition_keys_with_nanoseconds_are_refused() -> None:
    keys = [HiveColumn("k", "timestamp"), HiveColumn("s", "string")]
    texts = {"k": "2020-01-01 10:00:00.123456000", "s": "a.1234567"}
    require_microseconds_in_keys("db.t", keys, texts)
    require_microseconds_in_keys("db.t", keys, {"k": None, "s": None})
    with pytest.raises(UnsupportedFile, match=r"k=2020-01-01 10:00:00\.1234567 of db\.t"):
        require_microseconds_in_keys("db.t", keys, {**texts, "k": "2020-01-01 10:00:00.1234567"})
