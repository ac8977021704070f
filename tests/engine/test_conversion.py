"""Expressions as values of a column, with any text in them and in the names around them."""

from datetime import date

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import InvalidJob, TypeMismatch
from hiveacid.metastore.catalog import HiveColumn, HiveTable, TableRef
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.rows.conversion import stored

WHAT = r"The insert into it's \n `x`.y"


def converted(spark: SparkSession, value: str, type_: str, name: str = "c") -> object:
    table = HiveTable.new(TableRef("d", "t"), [HiveColumn(name, type_)])
    frame = spark.range(1).selectExpr("id AS `a``b`", "DATE'2020-02-03' AS v")
    with translated_spark_errors(WHAT):
        values = stored(frame, {name: value}, table, WHAT)
        return frame.selectExpr(values[name]).collect()[0][0]


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        ("v -- the day", "date", date(2020, 2, 3)),
        ("`v`", "date", date(2020, 2, 3)),
        ("v", "string", "2020-02-03"),
        ("`a``b` /* ) */", "int", 0),
        ("1 = 1 OR 1 = 2", "string", "true"),
        ("if(true, 'a', 'bcd') -- '", "char(2)", "a"),
        ("NULL", "array<struct<d:date>>", None),
        ("array(v, v)", "array<date>", [date(2020, 2, 3)] * 2),
        ("map('k', map('v', v))", "map<string,map<string,date>>", {"k": {"v": date(2020, 2, 3)}}),
        (
            "array(named_struct('V', v, 'k', array('x ')))",
            "array<struct<k:array<char(1)>,v:date>>",
            [(["x"], date(2020, 2, 3))],
        ),
    ],
)
def test_an_expression_keeps_its_meaning_as_a_part_of_another_one(spark, value, type_, expected):
    assert converted(spark, value, type_) == expected


@pytest.mark.parametrize("literals", ["true", "false"])
@pytest.mark.parametrize(
    ("value", "type_", "shown"),
    [
        ("'a\"bc'", "varchar(3)", "'a\"bc' is longer"),
        ("array(DATE'0000-12-31')", "array<date>", "'0000-12-31' cannot be stored"),
        ("map(TIMESTAMP'1582-10-10 00:00:00', 1)", "map<timestamp,int>", "'1582-10-10 00:00:00'"),
        ("named_struct('f', 'x')", "struct<f:int>", "'x' does not fit"),
        ("TIMESTAMP'1969-12-31 23:59:59.5'", "timestamp", "cannot be stored in column it's\\n"),
    ],
)
def test_an_error_shows_the_value_and_all_names_as_they_are(
    spark, monkeypatch, literals, value, type_, shown
):
    spark.conf.set("spark.sql.parser.escapedStringLiterals", literals)
    try:
        with pytest.raises(TypeMismatch) as raised:
            converted(spark, value, type_, name="it's\\n")
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
    assert str(raised.value).startswith(f"{WHAT}: ")
    assert shown in str(raised.value)


def test_an_expression_has_no_name_of_its_own(spark):
    with pytest.raises(InvalidJob, match="the value of column c does not parse"):
        converted(spark, "v AS x", "date")
