"""Directories written by real engines, read by ours with Spark as Hive reads them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.spark.read.acid_snapshot import BUCKET, ROW, WRITE_ID, AcidSnapshot
from hiveacid.spark.session import scan_session
from hiveacid.tables.visible_files import list_partitions
from tests.golden import GoldenSnapshot, GoldenTable, golden_snapshots

DATA = Path(__file__).parents[1] / "data"
HIVE_WRITTEN = json.loads((DATA / "hive-written" / "README.json").read_text())
# All transactions of the engines that wrote the directories are long over.
TXNS = ValidTxnList(high_watermark=1_000_000)

Read = Callable[[HiveTable, Sequence[HivePartition], ValidWriteIdList, ValidTxnList], DataFrame]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return scan_session(spark)


@pytest.fixture
def read(session: SparkSession) -> Read:
    """The visible rows of a folder with their row ids."""

    def rows(
        table: HiveTable,
        partitions: Sequence[HivePartition],
        write_ids: ValidWriteIdList,
        txns: ValidTxnList = TXNS,
    ) -> DataFrame:
        files = list_partitions(table, partitions, write_ids, txns, Rules.HIVE4)
        return AcidSnapshot(table, files, write_ids).rows(session)

    return rows


@pytest.mark.parametrize("writer", ["hive3", "hive4"])
@pytest.mark.parametrize("expected", HIVE_WRITTEN["expect"], ids=lambda e: e["validWriteIds"])
def test_directories_written_by_hive_have_the_rows_hive_wrote(read, writer, expected):
    columns = [HiveColumn("a", "int"), HiveColumn("b", "string")]
    folder = str(DATA / "hive-written" / writer)
    table = HiveTable.new(TableRef("default", writer), columns, location=folder)
    rows = read(table, [], ValidWriteIdList.parse(expected["validWriteIds"])).collect()
    assert sorted([row.a, row.b] for row in rows) == expected["rows"]
    assert {row[BUCKET] for row in rows} == {HIVE_WRITTEN["bucketProperty"]}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("snapshot", golden_snapshots(TableKind.FULL_ACID), ids=str)
def test_tables_of_real_engines_have_the_rows_and_row_ids_hive_selected(read, snapshot):
    check_rows(read, snapshot)


def check_rows(read: Read, snapshot: GoldenSnapshot) -> DataFrame:
    table = GoldenTable.read(snapshot.table)
    frame = read(table.hive_table(), table.hive_partitions(), snapshot.write_ids, snapshot.txns)
    rows = [
        [
            [row[WRITE_ID], row[BUCKET], row[ROW]],
            *[
                None if row[name] is None else str(row[name])
                for name in [*table.columns, *table.partition_keys]
            ],
        ]
        for row in frame.collect()
    ]
    assert sorted(rows, key=str) == sorted(snapshot.rows, key=str)
    return frame
