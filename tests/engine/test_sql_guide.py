"""The statements of docs/sql.md have the documented effects."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift import idl_tables
from hiveacid.parser.script import to_script
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.engine.acid_tables import ONLY_HIVE4, left_behind

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
BLOCKS = re.findall(r"^```(sql|text)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def sales(client: MetastoreClient, spark: SparkSession, tmp_path: Path) -> TableRef:
    """The database of the page, with the plain table that it converts."""
    client.create_database("sales")
    table = HiveTable.new(
        TableRef("sales", "old_orders"),
        [HiveColumn("id", "int"), HiveColumn("note", "string")],
        owner="o",
    )
    for name in ("transactional", "transactional_properties"):
        del table.raw.parameters[name]
    client.call(idl_tables.create_table, table.raw)
    rows = spark.createDataFrame([(1, "first"), (2, "second")], "id int, note string").coalesce(1)
    rows.write.orc(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("part-*")
    folder = Path(client.get_table(table.ref).folder.removeprefix("file:"))
    folder.mkdir(exist_ok=True)
    file.rename(folder / "000000_0")
    yield table.ref
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
