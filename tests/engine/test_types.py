"""Values of every type come back as they were, through every kind of write."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from airflow_hiveacid.acid.errors import TypeMismatch, UnsupportedTable
from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.engine.types import spark_struct
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.embedded import EmbeddedMetastore
from tests.engine.acid_tables import ONLY_HIVE4, create, files, left_behind, rows_of

TYPES = {
    "id": "int",
    "c_boolean": "boolean",
    "c_tinyint": "tinyint",
    "c_smallint": "smallint",
    "c_bigint": "bigint",
    "c_float": "float",
    "c_double": "double",
    "c_decimal": "decimal(38,10)",
    "c_small_decimal": "decimal(5,2)",
    "c_string": "string",
    "c_char": "char(5)",
    "c_varchar": "varchar(5)",
    "c_binary": "binary",
    "c_date": "date",
    "c_timestamp": "timestamp",
    "c_array": "array<string>",
    "c_map": "map<string,array<int>>",
    "c_struct": "struct<a:int,b:struct<c:string,d:decimal(20,3)>>",
    "c_deep": "array<struct<k:varchar(3),m:map<int,date>>>",
}
TOP, LOW = 2**63 - 1, -(2**63)
VALUES: list[tuple[Any, ...]] = [
    (
        True,
        127,
        32767,
        TOP,
        3.4028234663852886e38,
        1.7976931348623157e308,
        Decimal("9999999999999999999999999999.9999999999"),
        Decimal("999.99"),
        "ünï\0\n😀",
        "abc  ",
        "äöüß€",
        bytes(range(256)),
        date(9999, 12, 31),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        ["a", None, ""],
        {"x": [1, None], "y": None, "": []},
        (1, ("c", Decimal("0.001"))),
        [("abc", {1: date(2024, 2, 29)}), None, (None, {})],
    ),
    (
        False,
        -128,
        -32768,
        LOW,
        float("-inf"),
        5e-324,
        Decimal("-0.0000000001"),
        Decimal("0.00"),
        "",
        "     ",
        "",
        b"",
        date(1, 1, 1),
        datetime(1, 1, 1),
        [],
        {},
        (None, (None, None)),
        [],
    ),
    (
        True,
        0,
        0,
        0,
        -0.0,
        0.1,
        Decimal("0.0000000000"),
        Decimal("-1.10"),
        "'\"`\\",
        "a b  ",
        " b ",
        b"\0",
        date(1970, 1, 1),
        datetime(1969, 12, 31, 23, 59, 58, 500000),
        [None],
        {"k": [2**31 - 1]},
        (0, None),
        [("", None)],
    ),
    tuple([None] * 18),
]

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)


def _shown(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows in a form in which floats of equal text are equal, and timestamps have no zone."""
    timestamp = F.date_format("c_timestamp", "yyyy-MM-dd HH:mm:ss.SSSSSS").alias("c_timestamp")
    columns = [timestamp if name == "c_timestamp" else F.col(name) for name in frame.columns]
    return sorted(tuple(map(repr, row)) for row in frame.select(*columns).collect())


def test_every_type_through_append_update_and_merge(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.t", TYPES)
    schema = spark_struct(table.columns)

    def frame(first: int) -> DataFrame:
        rows = [
            (
                first + number,
                *[
                    value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
                    for value in values
                ],
            )
            for number, values in enumerate(VALUES)
        ]
        return spark.createDataFrame(rows, schema)

    with AcidTable(f"{database}.t", hms.uri, spark=spark) as acid:
        acid.append(frame(0))
        assert _shown(acid.to_df()) == _shown(frame(0))
        # The rows keep all values but one, and all of them are written anew.
        assert acid.update({"id": "id + 10"}).rows_updated == 4
        assert _shown(acid.to_df()) == _shown(frame(10))
        # Row 10 gets its values from itself, row 11 from the source, and two are new.
        source = frame(11).where("id <> 12")
        merge = acid.merge(source, "t.id = s.id or t.id = 10 and s.id = 13")
        merge = merge.when_matched_update({"id": "t.id"}, "t.id = 10").when_matched_update_all()
        report = merge.when_not_matched_insert_all().execute()
        assert (report.rows_updated, report.rows_inserted) == (3, 1)
        kept = frame(10).where("id in (10, 12)")
        assert _shown(acid.to_df()) == _shown(kept.unionAll(frame(11).where("id in (11, 13, 14)")))
        assert acid.to_df().schema == schema
    assert left_behind(client) == []


CONVERTED = [
    ("i", "'7'", 7),
    ("i", "cast(7 as bigint)", 7),
    ("i", "7.9D", 7),
    ("p", "1.005", Decimal("1.01")),
    ("p", "'1.1'", Decimal("1.10")),
    ("s", "date'2024-01-02'", "2024-01-02"),
    ("c", "'a'", "a  "),
    ("c", "'abc   '", "abc"),
    ("v", "123", "123"),
    ("d", "'2024-01-02'", date(2024, 1, 2)),
    ("st", "named_struct('B', 'ab', 'A', '5')", (5, "ab ")),
    ("ar", "array('1', null, 2)", [1, None, 2]),
    ("mp", "map(1L, 'x', 2L, null)", {1: "x  ", 2: None}),
    ("st", "null", None),
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
    }
    table = create(client, f"{database}.t", {"id": "int", **types})
    with AcidTable(f"{database}.t", hms.uri, spark=spark) as acid:
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
        AcidTable(f"{database}.t", hms.uri, spark=spark) as acid,
        pytest.raises(UnsupportedTable, match="Column odd"),
    ):
        acid.to_df()
