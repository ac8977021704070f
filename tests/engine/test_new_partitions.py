"""Partitions that a write creates where another writer has left files."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.progress import Phase
from hiveacid.rules.names import Base, Delta
from tests.engine.acid_tables import create, files, folder, left_behind
from tests.observers import At

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


def leave(table: HiveTable, directory: Delta | Base) -> Path:
    """Leave a directory like an insert of Hive that was killed before it registered p=y."""
    file = folder(table) / "p=y" / directory.name / "bucket_00000"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    return file


def aborted_write_id(client: MetastoreClient, table: HiveTable) -> int:
    txn_id = client.open_txn("hive", "host", None)
    write_id = client.allocate_write_id(txn_id, table.ref)
    client.abort_txn(txn_id)
    return write_id


@pytest.fixture
def table(client: MetastoreClient, database: str) -> HiveTable:
    return create(client, f"{database}.t", {"id": "int"}, {"p": "string"})


def test_an_insert_does_not_show_what_a_killed_writer_has_left(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, table: HiveTable
) -> None:
    write_id = aborted_write_id(client, table)
    left = leave(table, Delta(write_id, write_id, 0))
    rows = spark.sql("SELECT 1 AS id, explode(array('x', 'y')) AS p")
    with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as acid:
        with pytest.raises(UnsupportedTable, match=r"The folders of p=y in .* have files"):
            acid.append(rows)
        assert client.get_partition_names(table.ref) == []
        assert files(table) == [str(left.relative_to(folder(table)))]
        assert left_behind(client) == []
        # The base hides it.
        acid.overwrite(rows)
        assert sorted(acid.to_arrow()["p"].to_pylist()) == ["x", "y"]


def test_an_overwrite_does_not_show_a_younger_leftover(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, table: HiveTable
) -> None:
    leave(table, Delta(9, 9, 0))
    with (
        AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as acid,
        pytest.raises(UnsupportedTable, match="p=y"),
    ):
        acid.overwrite(spark.sql("SELECT 1 AS id, 'y' AS p"))
    assert client.get_partition_names(table.ref) == []


def test_writers_that_create_one_partition_at_the_same_time_succeed(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, table: HiveTable
) -> None:
    def register() -> None:
        client.add_partitions(table.ref, [HivePartition.new(table, ["y"])])
        leave(table, Delta(9, 9, 0))

    other = At(Phase.REGISTER, register)
    with AcidTable(
        table.ref.full_name, hms.uri, spark=spark, run_in="spark", observers=[other]
    ) as acid:
        assert acid.append(spark.sql("SELECT 1 AS id, 'y' AS p")).files == 1
