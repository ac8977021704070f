"""The statements of docs/sql.md have the documented effects."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_script
from hiveacid.spark.run import run
from tests.engine.acid_tables import ONLY_HIVE4, left_behind
from tests.engine.sql_guide import BLOCKS, create_old_orders


@pytest.fixture
def sales(client: MetastoreClient, spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """The database of the page, with the plain table that it converts."""
    client.create_database("sales")
    create_old_orders(client, spark, "sales", tmp_path)
    yield
    client.drop_database("sales", cascade=True)


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
@pytest.mark.usefixtures("sales")
def test_the_page_runs_unchanged(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient
) -> None:
    shown = 0
    for kind, text in BLOCKS:
        if kind == "sql":
            run(spark, replace(to_script(text, "sales"), metastore=hms.options))
            continue
        name, *expected = text.splitlines()
        with AcidTable(f"sales.{name}", hms.uri, spark=spark) as table:
            rows = table.to_df().collect()
        lines = [", ".join("NULL" if v is None else str(v) for v in row) for row in rows]
        assert sorted(lines) == sorted(expected)
        shown += 1
    assert shown == 13
    assert left_behind(client) == []
