"""Append and overwrite."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import DataError, UnknownColumn, UserError
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import (
    ONLY_HIVE4,
    create,
    files,
    folder,
    left_behind,
    problems_of_keys,
    rows_of,
)

Open = Callable[[str], AcidTable]
SCHEMA = "id bigint, name string, day string, hour int"


@pytest.fixture
def open_table(spark: SparkSession, hms: EmbeddedMetastore) -> Open:
    return lambda name: AcidTable(name, hms.uri, spark=spark, run_in="spark")


def test_append_adds_and_overwrite_replaces(
    spark: SparkSession, open_table: Open, client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.plain", {"id": "bigint", "name": "string"})
    schema = "id bigint, name string"
    with open_table(f"{database}.plain") as acid:
        report = acid.append(spark.createDataFrame([(i, f"n{i}") for i in range(50)], schema))
        assert (report.job, report.target) == ("insert", f"{database}.plain")
        assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (50, 0, 0)
        assert report.write_ids == {f"{database}.plain": 1}
        data = [folder(table) / name for name in files(table) if "bucket_" in name]
        assert report.files == len(data)
        assert report.bytes == sum(path.stat().st_size for path in data)
        assert set(report.seconds) >= {"open", "lock", "snapshot", "write", "publish", "commit"}

        # Columns are found by name, in any case and order; those that are missing are null.
        acid.append(spark.createDataFrame([("x", 50)], "NAME string, Id int"))
        acid.append(spark.createDataFrame([(51,)], "id bigint"))
        assert rows_of(acid.to_df())[49:] == [(49, "n49"), (50, "x"), (51, None)]
        assert acid.append(spark.createDataFrame([], schema)).files == 0
        assert problems_of_keys(table) == []

        seen_before = acid.to_df().where("id < 2")
        report = acid.overwrite(spark.createDataFrame([(7, "only")], schema))
        assert (report.job, report.rows_inserted) == ("overwrite", 1)
        assert rows_of(acid.to_df()) == [(7, "only")]
        assert rows_of(seen_before) == [(0, "n0"), (1, "n1")]
        acid.overwrite(spark.createDataFrame([], schema))
        assert acid.to_df().count() == 0
        acid.append(spark.createDataFrame([(8, "after")], schema))
        assert rows_of(acid.to_df()) == [(8, "after")]
    assert left_behind(client) == []


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_partitions_are_written_and_replaced(
    spark: SparkSession, open_table: Open, client: MetastoreClient, database: str
) -> None:
    keys = {"day": "string", "hour": "int"}
    table = create(client, f"{database}.parts", {"id": "bigint", "name": "string"}, keys)
    with open_table(f"{database}.parts") as acid:
        rows = [(1, "a", "mon", 1), (2, "b", "mon", 2), (3, "c", None, 1), (4, "d", "tue", None)]
        report = acid.append(spark.createDataFrame(rows, SCHEMA))
        null = "__HIVE_DEFAULT_PARTITION__"
        names = [f"day={null}/hour=1", "day=mon/hour=1", "day=mon/hour=2", f"day=tue/hour={null}"]
        assert list(report.partitions) == names
        assert sorted(client.get_partition_names(table.ref)) == names
        assert rows_of(acid.to_df()) == rows

        # One named partition gives its values to the rows.
        acid.append(
            spark.createDataFrame([(5, "e")], "id int, name string"), [{"DAY": "wed", "hour": "3"}]
        )
        # Replaced without being named: only the partitions that get rows.
        report = acid.overwrite(spark.createDataFrame([(6, "f", "mon", 2)], SCHEMA))
        assert list(report.partitions) == ["day=mon/hour=2"]
        rows[1:2] = []
        rows += [(5, "e", "wed", 3), (6, "f", "mon", 2)]
        assert rows_of(acid.to_df()) == rows
        # Named: also those that get none, known to the metastore or not.
        report = acid.overwrite(
            spark.createDataFrame([(7, "g", "mon", 1)], SCHEMA),
            [{"day": "mon", "hour": "1"}, {"day": "wed", "hour": "3"}, {"day": "thu", "hour": "0"}],
        )
        assert list(report.partitions) == ["day=mon/hour=1", "day=thu/hour=0", "day=wed/hour=3"]
        rows = [row for row in rows if row[0] not in (1, 5)] + [(7, "g", "mon", 1)]
        assert rows_of(acid.to_df()) == rows
        assert acid.overwrite(spark.createDataFrame([], SCHEMA)).files == 0
        assert rows_of(acid.to_df()) == rows
        assert rows_of(acid.to_df().where("day = 'mon' and hour = 1")) == [(7, "g", "mon", 1)]
        # A value for every key names the partition, too; for some of them it does not.
        nothing = spark.createDataFrame([], "id int, name string, hour int")
        assert acid.overwrite(nothing, static={"day": "mon"}).files == 0
        report = acid.overwrite(nothing.drop("hour"), static={"Day": "mon", "hour": "1"})
        assert list(report.partitions) == ["day=mon/hour=1"]
        assert rows_of(acid.to_df()) == rows[:-1]
        # However a value of the key's type is spelled.
        late = spark.createDataFrame([(8, "h")], "id int, name string")
        assert list(acid.append(late, static={"day": "sun", "hour": " 07"}).partitions) == [
            "day=sun/hour=7"
        ]
        acid.overwrite(late, [{"day": "sun", "hour": "07"}])
        assert rows_of(acid.to_df()) == [*rows[:-1], (8, "h", "sun", 7)]
    assert left_behind(client) == []


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_rows_outside_of_named_partitions_are_refused(
    spark: SparkSession, open_table: Open, client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.parts", {"id": "bigint"}, {"day": "string", "hour": "int"})
    schema = "id bigint, day string, hour int"
    rows = spark.createDataFrame([(1, "mon", 1), (2, "tue", 1)], schema)
    monday = {"day": "mon", "hour": "1"}
    with open_table(f"{database}.parts") as acid:
        with pytest.raises(DataError, match="day=tue/hour=1"):
            acid.append(rows, [monday])
        with pytest.raises(DataError, match="day=tue/hour=1"):
            acid.overwrite(rows, [monday])
        with pytest.raises(UserError, match="partitioned by day, hour"):
            acid.append(rows, [{"day": "mon"}])
        with pytest.raises(UserError, match="hour is 'noon': that is no int"):
            acid.overwrite(rows.limit(0), [{"day": "mon", "hour": "noon"}])
        with pytest.raises(UnknownColumn, match="partition column hour"):
            acid.append(rows.drop("hour"))
        with pytest.raises(UnknownColumn, match="partition column hour"):
            acid.overwrite(rows.drop("hour"), [monday, {"day": "tue", "hour": "1"}])
    assert files(table) == []
    assert client.get_partition_names(table.ref) == []
    assert left_behind(client) == []


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_rows_of_a_bucketed_table_are_where_hive_looks_for_them(
    spark: SparkSession, open_table: Open, client: MetastoreClient, database: str, version: str
) -> None:
    # Hive's hash of a small integer is the number itself in version 1; the others are its vectors.
    buckets = {
        "1": {0: 0, 1: 1, -1: 7, 42: 2, 1000000: 0},
        "2": {0: 1, 1: 5, -1: 5, 42: 3, 1000000: 7},
    }[version]
    table = create(
        client,
        f"{database}.buckets",
        {"id": "int", "name": "string"},
        bucket_columns=["id"],
        num_buckets=8,
        parameters={"bucketing_version": version},
    )
    with open_table(f"{database}.buckets") as acid:
        rows = [(number, str(number)) for number in buckets]
        acid.append(spark.createDataFrame(rows, "id int, name string"))
        names = {f"delta_0000001_0000001_0000/bucket_{n:05d}" for n in buckets.values()}
        assert {name for name in files(table) if "/bucket_" in name} == names
        for number, bucket in buckets.items():
            path = f"{table.folder}/delta_0000001_0000001_0000/bucket_{bucket:05d}"
            rows = spark.read.orc(path).selectExpr("row.id", "bucket", *_GUARD)
            assert (number, 536870912 + (bucket << 16)) in [tuple(r)[:2] for r in rows.collect()]
        acid.update({"name": "concat(name, '!')"}, "id = 42")
        acid.overwrite(acid.to_df().where("id <> 1"))
        assert rows_of(acid.to_df()) == sorted(
            (n, "42!" if n == 42 else str(n)) for n in buckets if n != 1
        )


# Spark's reader goes astray in ACID files when not all of their columns are read.
_GUARD = ("operation", "originalTransaction", "rowId", "currentTransaction", "row")


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("version", ["0.11", "0.12", "2.0"])
@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
def test_a_version_of_the_format_that_no_library_writes_is_ignored(
    spark: SparkSession,
    open_table: Open,
    client: MetastoreClient,
    database: str,
    kind: TableKind,
    version: str,
) -> None:
    parameters = {"orc.write.format": version}
    create(client, f"{database}.t", {"id": "int"}, kind=kind, parameters=parameters)
    with open_table(f"{database}.t") as acid:
        acid.append(spark.createDataFrame([(1,)], "id int"))
        assert rows_of(acid.to_df()) == [(1,)]
