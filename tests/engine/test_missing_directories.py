"""Tables whose directories were removed without the metastore: an error, and never an empty table."""

import shutil

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.cli.main import main
from hiveacid.errors import DirectoryMissing
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from hiveacid.tables.visible_files import usual_listings
from tests.engine.acid_tables import create, folder, left_behind, rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
@pytest.mark.parametrize("lost", ["", "day=mon"])
def test_a_missing_directory_is_an_error_until_it_is_overwritten(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    kind: TableKind,
    lost: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = {"day": "string"} if lost else {}
    columns = {"id": "int"} if lost else {"id": "int", "day": "string"}
    table = create(client, f"{database}.t", columns, keys, kind=kind)
    rows = spark.sql("SELECT 1 AS id, 'mon' AS day")
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(rows)
        gone = folder(table) / lost
        shutil.rmtree(gone)
        calls = {
            "read": acid.to_df,
            "read without Spark": acid.to_arrow,
            "append": lambda: acid.append(rows),
            "compact": lambda: acid.compact("major"),
            "changes": lambda: acid.changes(0),
            "difference": lambda: acid.diff(0),
        }
        if kind is TableKind.FULL_ACID:
            calls["update"] = lambda: acid.update({"id": "2"}, "id = 1")
        for what, call in calls.items():
            with pytest.raises(DirectoryMissing, match=f"{gone.name} does not exist"):
                pytest.fail(f"{what}: {call()}")
            assert not gone.exists(), what
        assert main(["cat", f"{database}.t", "--metastore", hms.uri]) == DirectoryMissing.exit_code
        assert "does not exist, although the metastore has a table" in capsys.readouterr().err
        acid.overwrite(rows)
        assert acid.to_arrow().num_rows == 1
    assert left_behind(client) == []


def test_an_insert_into_a_new_partition_does_not_hide_that_the_others_are_lost(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.t", {"id": "int"}, {"day": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.sql("SELECT 1 AS id, 'mon' AS day"))
        shutil.rmtree(folder(table))
        with pytest.raises(DirectoryMissing):
            acid.append(spark.sql("SELECT 1 AS id, 'tue' AS day"))
    assert not folder(table).exists()
    assert left_behind(client) == []


def test_a_hostile_name_of_a_partition_lists_nothing_outside_of_the_table(
    client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.t", {"id": "int"}, {"a": "string", "b": "string"})
    (folder(table).parent / "other").mkdir()
    names = ["../other", "a=1/..", "a=1/../../other", "a=1/b=2"]
    assert set(usual_listings(table, names)) == {f"{table.location}/a=1/b=2"}


@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
@pytest.mark.parametrize("at_usual_place", ["missing", "other rows", "a file"])
def test_a_partition_is_read_at_its_location_whatever_is_at_the_usual_place(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    kind: TableKind,
    at_usual_place: str,
) -> None:
    table = create(client, f"{database}.t", {"id": "int"}, {"day": "string"}, kind=kind)
    tuesday = HivePartition.new(table, ["tue"])
    tuesday.raw.sd.location = f"{table.folder}/elsewhere"
    client.add_partitions(table.ref, [tuesday])
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.sql("SELECT id, day FROM VALUES (1, 'mon'), (2, 'tue') AS (id, day)"))
        if at_usual_place == "other rows":
            shutil.copytree(folder(table) / "day=mon", folder(table) / "day=tue")
        elif at_usual_place == "a file":
            (folder(table) / "day=tue").write_text("x")
        assert rows_of(acid.to_df()) == [(1, "mon"), (2, "tue")]
