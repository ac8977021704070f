"""The blocks of docs/sql.md, and the table that the page finds there."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.names import TableRef

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
BLOCKS = re.findall(r"^```(sql|text)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def create_old_orders(
    client: MetastoreClient, spark: SparkSession, database: str, folder: Path
) -> None:
    """Create the plain table that the page converts."""
    table = HiveTable.new(
        TableRef(database, "old_orders"),
        [HiveColumn("id", "int"), HiveColumn("note", "string")],
        owner="o",
    )
    for name in ("transactional", "transactional_properties"):
        del table.raw.parameters[name]
    client.call(idl_tables.create_table, table.raw)
    rows = spark.createDataFrame([(1, "first"), (2, "second")], "id int, note string").coalesce(1)
    rows.write.orc(str(folder / database))
    (file,) = (folder / database).glob("part-*")
    place = Path(client.get_table(table.ref).folder.removeprefix("file:"))
    place.mkdir(exist_ok=True)
    file.rename(place / "000000_0")
