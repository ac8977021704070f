"""Rows are found by values of every type, with any statistics of their files."""

import re

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.engine.acid_tables import create
from tests.engine.compaction_case import report_of_compaction

# A column's type, its only value, and a condition that is true for it.
FOUND = [
    ("char(5)", "'abc'", "c = 'abc'"),
    ("char(5)", "'abc'", "c <= 'abc'"),
    ("char(5)", "'abc'", "c in ('abc', 'x')"),
    ("varchar(5)", "'abc '", "c = 'abc '"),
    ("string", "'abc '", "c = 'abc '"),
    ("double", "double('NaN')", "c = double('NaN')"),
    ("double", "double('NaN')", "c > 5"),
    ("float", "float('NaN')", "c >= float('Infinity')"),
    ("double", "-0.0D", "c = 0.0D"),
    ("double", "0.0D", "c >= 0 and c = -0.0D"),
    ("float", "float('-0.0')", "c in (float('0.0'), float('1'))"),
    ("float", "float('0.1')", "c = float('0.1')"),
    ("date", "date'1500-02-28'", "c = date'1500-02-28'"),
    ("date", "date'1582-10-04'", "c < date'1582-10-05'"),
    ("date", "date'0001-01-01'", "c = '0001-01-01'"),
    ("decimal(38,10)", "cast('9.5' as decimal(38,10))", "c = 9.5"),
    (
        "decimal(38,0)",
        "cast('99999999999999999999999999999999999999' as decimal(38,0))",
        "c > 1e30",
    ),
    ("string", "repeat('ü', 600000)", "c = repeat('ü', 600000)"),
    ("timestamp", "timestamp'1582-10-04 23:59:59.999999'", "c < '1582-10-05'"),
    ("boolean", "false", "not c"),
    ("tinyint", "-128Y", "c = -128"),
    ("int", "7", "not (c not in (7, null))"),
    ("int", "7", "c in (7, null) or c > 8"),
]


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("encoder", ["Spark", "Arrow"])
def test_values_are_found(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    encoder: str,
) -> None:
    cases = [case for case in FOUND if encoder == "Spark" or case[0] != "timestamp"]
    create(client, f"{database}.t", {f"c{n}": type_ for n, (type_, _, _) in enumerate(cases)})
    values = [f"{value} as c{n}" for n, (_, value, _) in enumerate(cases)]
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.range(1).selectExpr(*values))
        if encoder == "Arrow":
            # Several stripes of a few bytes are not copied.
            for _ in range(3):
                acid.append(spark.range(1).selectExpr(*values))
            (done,) = report_of_compaction(acid, "major").partitions
            assert done.stripes_encoded == 4
    lost = []
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        for number, (type_, value, condition) in enumerate(cases):
            where = re.sub(r"\bc\b", f"c{number}", condition)
            if not acid.to_df().where(where).count():
                lost.append((type_, value, condition))
    assert lost == []
