"""Directories written by real engines, read by ours with Spark as Hive reads them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import parse_partition_name
from airflow_hiveacid.acid.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.engine.files import list_partitions
from airflow_hiveacid.engine.reader import BUCKET, ROW, WRITE_ID, TableSnapshot
from airflow_hiveacid.engine.session import scan_session
from airflow_hiveacid.metastore.catalog import Column, HivePartition, HiveTable

DATA = Path(__file__).parents[1] / "data"
HIVE_WRITTEN = json.loads((DATA / "hive-written" / "README.json").read_text())
TABLES = json.loads((DATA / "tables" / "tables.json").read_text())["tables"]
TYPES = {"id": "int", "name": "string", "v": "decimal(12,2)", "dt": "string", "k": "int"}
# All transactions of the engines that wrote the directories are long over.
TXNS = ValidTxnList(high_watermark=1_000_000)

Read = Callable[[Path, str, list[Column]], DataFrame]


@pytest.fixture
def read(spark: SparkSession) -> Read:
    """The visible rows of a folder with their row ids."""
    session = scan_session(spark)

    def rows(folder: Path, write_ids: str, columns: list[Column]) -> DataFrame:
        folders = {path.parent.parent for path in folder.rglob("bucket_*")} - {folder}
        names = [path.relative_to(folder).as_posix() for path in sorted(folders)]
        keys = [key for key, _ in parse_partition_name(names[0])] if names else []
        table = HiveTable.new(
            TableRef("default", folder.name),
            [column for column in columns if column.name not in keys],
            partition_keys=[column for column in columns if column.name in keys],
            location=str(folder),
        )
        partitions = [
            HivePartition.new(table, [value for _, value in parse_partition_name(name)])
            for name in names
        ]
        seen = ValidWriteIdList.parse(write_ids)
        files = list_partitions(table, partitions, seen, TXNS, Rules.HIVE4)
        return TableSnapshot(table, files, seen).rows(session)

    return rows


@pytest.mark.parametrize("writer", ["hive3", "hive4"])
@pytest.mark.parametrize("expected", HIVE_WRITTEN["expect"], ids=lambda e: e["validWriteIds"])
def test_directories_written_by_hive_have_the_rows_hive_wrote(read, writer, expected):
    columns = [Column("a", "int"), Column("b", "string")]
    rows = read(DATA / "hive-written" / writer, expected["validWriteIds"], columns).collect()
    assert sorted([row.a, row.b] for row in rows) == expected["rows"]
    assert {row[BUCKET] for row in rows} == {HIVE_WRITTEN["bucketProperty"]}


@pytest.mark.parametrize(
    ("name", "snapshot"),
    [(name, snapshot) for name, table in TABLES.items() for snapshot in table["snapshots"]],
    ids=lambda value: value if isinstance(value, str) else value["write_ids"],
)
def test_tables_of_real_engines_have_the_rows_and_row_ids_hive_selected(read, name, snapshot):
    columns = [Column(column, TYPES[column]) for column in TABLES[name]["columns"]]
    found = [
        [
            [row[WRITE_ID], row[BUCKET], row[ROW]],
            *[None if row[each.name] is None else str(row[each.name]) for each in columns],
        ]
        for row in read(DATA / "tables" / name, snapshot["write_ids"], columns).collect()
    ]
    null = "__HIVE_DEFAULT_PARTITION__"
    selected = [[None if v == null else v for v in row] for row in snapshot["rows"]]
    assert sorted(found, key=str) == sorted(selected, key=str)
