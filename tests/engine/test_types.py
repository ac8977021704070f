"""Values on their way into a column of another type, and types that cannot be done."""

from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import TypeMismatch, UnsupportedTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.engine.acid_tables import ONLY_HIVE4, create, files, left_behind, rows_of

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)


CONVERTED = [
    ("i", "'7'", 7),
    ("i", "cast(7 as bigint)", 7),
    ("i", "7.9D", 7),
    ("p", "1.005", Decimal("1.01")),
    ("p", "'1.1'", Decimal("1.10")),
    ("s", "date'2024-01-02'", "2024-01-02"),
    ("c", "'a'", "a"),
    ("c", "'abc   '", "abc"),
    ("v", "123", "123"),
    ("d", "'2024-01-02'", date(2024, 1, 2)),
    ("st", "named_struct('B', 'ab', 'A', '5')", (5, "ab")),
    ("ar", "array('1', null, 2)", [1, None, 2]),
    ("mp", "map(1L, 'x', 2L, null)", {1: "x", 2: None}),
    ("st", "null", None),
    ("d", "date'1582-10-04'", date(1582, 10, 4)),
    ("ds", "array(date'1582-10-15', null)", [date(1582, 10, 15), None]),
]
REFUSED = [
    ("i", "'abc'", "'abc' does not fit into column i int"),
    ("i", "2147483648", "'2147483648' does not fit into column i int"),
    ("i", "double('NaN')", "'NaN' does not fit into column i int"),
    ("p", "1000", "'1000' does not fit into column p decimal"),
    ("d", "'2024-02-30'", "'2024-02-30' does not fit into column d date"),
    ("c", "'abcd'", "'abcd' is longer than column c char"),
    ("v", "'äöüß'", "'äöüß' is longer than column v varchar"),
    ("st", "named_struct('a', 'x', 'b', '')", "'x' does not fit into column st struct"),
    ("st", "named_struct('a', 1, 'b', 'long')", "'long' is longer than column st struct"),
    ("ar", "array(1, 5000000000)", "'5000000000' does not fit into column ar array"),
    ("mp", "map(5000000000, 'x')", "'5000000000' does not fit into column mp map"),
    # Days that were left out when the calendar was reformed, or that Hive does not know.
    ("d", "date'1582-10-05'", "'1582-10-05' cannot be stored in column d date: Hive knows"),
    ("ds", "array(date'1582-10-14')", "'1582-10-14' cannot be stored in column ds array<date>"),
    ("d", "date'0000-12-31'", "'0000-12-31' cannot be stored in column d date"),
    ("d", "date'+10000-01-01'", "'+10000-01-01' cannot be stored in column d date"),
    ("ts", "timestamp'1582-10-05 00:00:00'", "'1582-10-05 00:00:00' cannot be stored in column ts"),
    ("ts", "timestamp'1582-10-14 23:59:59.9'", "'1582-10-14 23:59:59.9' cannot be stored"),
    ("ts", "timestamp'+10000-01-01 00:00:00'", "'+10000-01-01 00:00:00' cannot be stored"),
    # ORC's readers would put them a second later.
    ("ts", "timestamp'1969-12-31 23:59:59.001'", "last second before 1970"),
    ("ts", "'1969-12-31 23:59:59.999999'", "last second before 1970"),
    # Found out before anything runs.
    ("i", "array(1)", "array<int> cannot be stored in column i of type int"),
    ("i", "date'2024-01-01'", "date cannot be stored in column i"),
    ("d", "20240101", "int cannot be stored in column d"),
    ("s", "array('a')", "array<string> cannot be stored in column s"),
    ("ar", "1", "int cannot be stored in column ar"),
    ("st", "named_struct('a', 1)", "cannot be stored in column st"),
    ("st", "named_struct('a', 1, 'x', 'y')", "cannot be stored in column st"),
]


def test_values_are_converted_without_loss_or_refused(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    types = {
        "i": "int",
        "p": "decimal(5,2)",
        "s": "string",
        "c": "char(3)",
        "v": "varchar(3)",
        "d": "date",
        "st": "struct<a:int,b:char(3)>",
        "ar": "array<int>",
        "mp": "map<int,char(3)>",
        "ts": "timestamp",
        "ds": "array<date>",
    }
    table = create(client, f"{database}.t", {"id": "int", **types})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.range(len(CONVERTED)))
        merge = acid.merge(spark.range(len(CONVERTED)), "t.id = s.id")
        for number, (column, expression, _) in enumerate(CONVERTED):
            merge = merge.when_matched_update({column: expression}, f"t.id = {number}")
        assert merge.execute().rows_updated == len(CONVERTED)
        for row, (column, expression, value) in zip(rows_of(acid.to_df()), CONVERTED, strict=True):
            assert row[1 + list(types).index(column)] == value, expression
        before = files(table)
        for column, expression, message in REFUSED:
            with pytest.raises(TypeMismatch) as refused:
                acid.append(spark.range(1).selectExpr(f"{expression} as {column}"))
            assert message in str(refused.value)
        assert files(table) == before
    assert left_behind(client) == []


@pytest.mark.parametrize("hive_type", ["uniontype<int,string>", "interval_day_time"])
def test_a_type_that_spark_lacks_is_refused(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    hive_type: str,
) -> None:
    create(client, f"{database}.t", {"id": "int", "odd": hive_type})
    with (
        AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid,
        pytest.raises(UnsupportedTable, match="Column odd"),
    ):
        acid.to_df()
