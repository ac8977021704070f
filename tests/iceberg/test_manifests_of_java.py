"""Manifests that Iceberg for Java has written, read without its library."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from hiveacid.foreign.avro import AvroFile
from tests.iceberg.lakes import ServedCatalog
from tests.iceberg.test_spark_catalogs import open_in_spark


@pytest.mark.iceberg
def test_manifests_of_java_are_read(rest: ServedCatalog, spark: SparkSession):
    session = spark.newSession()
    open_in_spark(session, rest)
    name = f"{rest.namespace}.java"
    session.sql(
        f"CREATE TABLE lake.{name} (who string, price decimal(9,2), day date, tags array<string>)"
        " USING iceberg PARTITIONED BY (price, bucket(4, who), months(day))"
    )
    session.sql(
        f"INSERT INTO lake.{name} VALUES ('a', 1.5, DATE'2026-01-01', array('x')), ('b', 2, NULL, NULL)"
    )
    session.sql(f"DELETE FROM lake.{name} WHERE who = 'a'")
    table = rest.catalog.load_table(name)
    manifests = {
        each.manifest_path: each
        for snapshot in table.metadata.snapshots
        for each in snapshot.manifests(table.io)
    }
    assert len(manifests) == 2
    for snapshot in table.metadata.snapshots:
        named = AvroFile(_content(snapshot.manifest_list)).records()
        assert [each["manifest_path"] for each in named] == [
            each.manifest_path for each in snapshot.manifests(table.io)
        ]
    for path, manifest in manifests.items():
        expected = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        read = [entry["data_file"] for entry in AvroFile(_content(path)).records()]
        assert [_bounds(file["lower_bounds"]) for file in read] == [
            entry.data_file.lower_bounds for entry in expected
        ]
        assert [file["file_path"] for file in read] == [
            entry.data_file.file_path for entry in expected
        ]


def _content(location: str) -> bytes:
    return Path(urlsplit(location).path).read_bytes()


def _bounds(entries: list[dict[str, Any]]) -> dict[int, bytes]:
    return {entry["key"]: entry["value"] for entry in entries}
