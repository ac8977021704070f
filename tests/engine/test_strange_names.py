"""Names of columns and values of partitions that are more than letters."""

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import CheckFailed, DataError, UnsupportedTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.engine.acid_tables import (
    ONLY_HIVE4,
    create,
    files,
    folder,
    left_behind,
    problems_of_keys,
    rows_of,
)
from tests.engine.compaction_case import report_of_compaction

VALUES = [
    "it's",
    'a "quote"',
    "a b",
    "a/b",
    "a=b/c=d",
    "100%",
    "%2F",
    "../../..",
    "..",
    ".",
    "/etc",
    "日本 ünï 😀",
    "tick`tick",
    "back\\slash",
    "{a,b}[c]*?",
    "line\nbreak",
    "semi;colon:#",
    "_hidden",
    ".dot",
    " ",
    "delta_0000001_0000001",
    "NULL",
]


@pytest.mark.sampled(1)
def test_partition_values_are_unchanged(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.t", {"id": "int", "v": "int"}, {"p": "string", "q": "int"})
    around = set(folder(table).parent.iterdir())
    rows = [(number, 0, value, 1) for number, value in enumerate(VALUES)]
    schema = "id int, v int, p string, q int"
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.createDataFrame(rows, schema))
        assert rows_of(acid.to_df()) == rows
        assert {p.values[0] for p in client.get_partitions(client.get_table(table.ref))} == set(
            VALUES
        )
        assert set(folder(table).parent.iterdir()) == around
        assert all(name.startswith("p=") and name.count("/") == 3 for name in files(table))

        # Found by its value, moved to another one, and deleted by that value.
        merge = acid.merge(spark.createDataFrame(rows, schema), "t.p = s.p and t.q = s.q")
        merge = merge.when_matched_delete("s.id % 4 = 0").when_matched_update({"v": "s.id"})
        report = merge.execute()
        assert len(report.partitions) == len(VALUES)
        rows = [(number, number, value, 1) for number, _, value, _ in rows if number % 4]
        assert acid.update({"p": "concat(p, '/../x')"}, "p in ('..', '%2F')").rows_updated == 1
        rows = [(n, v, p + "/../x" if p in ("..", "%2F") else p, q) for n, v, p, q in rows]
        assert acid.delete("p = 'a/b' and q = 1").rows_deleted == 1
        rows = [row for row in rows if row[2] != "a/b"]
        assert rows_of(acid.to_df()) == rows
        acid.overwrite(spark.range(1).selectExpr("7 as id"), [{"p": "../../..", "q": "1"}])
        rows = [row for row in rows if row[2] != "../../.."] + [(7, None, "../../..", 1)]
        assert rows_of(acid.to_df()) == sorted(rows)
        # An empty value is the null partition, as in Hive.
        acid.overwrite(spark.createDataFrame([(50, "", 1)], "id int, p string, q int"))
        assert rows_of(acid.to_df().where("p is null")) == [(50, None, None, 1)]
    assert set(folder(table).parent.iterdir()) == around
    assert problems_of_keys(table) == []
    assert left_behind(client) == []


@pytest.mark.parametrize("values", [["a", "a "], ["a ", "a"]])
def test_partition_values_that_differ_only_by_blanks_are_refused(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    values: list[str],
) -> None:
    table = create(client, f"{database}.t", {"id": "int"}, {"q": "int", "p": "string"})
    first, second = (
        spark.createDataFrame([(1, 1, value)], "id int, q int, p string") for value in values
    )
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        with pytest.raises(DataError, match="differ only by blanks at their ends"):
            acid.append(first.unionAll(second))
        assert rows_of(acid.to_df()) == []
        acid.append(first)
        with pytest.raises(DataError, match="differ only by blanks at their ends"):
            acid.append(second)
        assert rows_of(acid.to_df()) == [(1, 1, values[0])]
    assert client.get_partition_names(table.ref) == [f"q=1/p={values[0]}"]
    assert left_behind(client) == []


COLUMNS = [
    "operation",
    "originaltransaction",
    "bucket",
    "rowid",
    "currenttransaction",
    "row",
    "t",
    "s",
    "id",
    "with space",
    "it's",
    "höhe",
    "select",
    "a=b%2f",
    "dot.dot",
    "_metadata",
]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_columns_of_any_name(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    table = create(
        client,
        f"{database}.t",
        dict.fromkeys(COLUMNS, "int"),
        {"höhe p": "string"},
        bucket_columns=["with space"],
        num_buckets=2,
    )
    assert [column.name for column in table.columns] == COLUMNS
    names = [*COLUMNS, "höhe p"]
    rows = [(*range(number, number + len(COLUMNS)), "ä b") for number in (100, 200, 300)]
    # The source calls them as it likes: names of columns have no case.
    frame = spark.createDataFrame(rows, [name.upper() for name in names])
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(frame)
        assert acid.to_df().columns == names
        assert rows_of(acid.to_df()) == rows
        assert acid.delete("t.bucket = 102 and `it's` = 110").rows_deleted == 1
        assert acid.delete("operation is null or t.`row` is null").rows_deleted == 0
        report = acid.update({"rowid": "rowid + 1", "`with space`": "`it's`"}, "`dot.dot` = 214")
        assert report.rows_updated == 1
        updated = list(rows[1])
        updated[COLUMNS.index("rowid")] += 1
        updated[COLUMNS.index("with space")] = 210
        assert rows_of(acid.to_df()) == [tuple(updated), rows[2]]
        on = "t.`dot.dot` = s.`dot.dot` and t.`höhe p` = s.`höhe p`"
        report = (
            acid.merge(frame, on).when_matched_update_all().when_not_matched_insert_all().execute()
        )
        assert (report.rows_updated, report.rows_inserted) == (2, 1)
        assert rows_of(acid.to_df()) == rows
        twice = acid.merge(frame.unionAll(frame.limit(1)), on).when_matched_delete("TRUE")
        with pytest.raises(CheckFailed, match=r"dot\.dot=114, höhe p='ä b' \(2 source rows"):
            twice.execute()
        assert problems_of_keys(table) == []
        # Two rows of one bucket, of which one remains, so that their stripe is encoded again.
        more = [(*range(number, number + len(COLUMNS)), "ä b") for number in (400, 400)]
        kept = tuple(
            500 if name == "id" else value for name, value in zip(names, more[0], strict=True)
        )
        acid.append(spark.createDataFrame([more[0], kept], names))
        assert acid.delete("`dot.dot` = 414 and id = 408").rows_deleted == 1
        rows.append(kept)
        assert report_of_compaction(acid, "major").partitions[0].stripes_encoded
        assert rows_of(acid.to_df()) == rows
    assert left_behind(client) == []


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
@pytest.mark.parametrize("columns", [{"tick`tick": "int"}, {"id": "struct<`a``b`:int>"}])
def test_a_name_that_spark_would_read_as_null_is_refused(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    columns: dict[str, str],
) -> None:
    create(client, f"{database}.t", columns)
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        with pytest.raises(UnsupportedTable, match="backtick"):
            acid.append(spark.range(1))
        with pytest.raises(UnsupportedTable, match="backtick"):
            acid.to_df()
