"""Aggregates, window functions and generators in the place of one value are refused in one sentence."""

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.names import TableRef
from hiveacid.spark.statements.conditions import require_row_expression
from tests.engine.acid_tables import create, rows_of
from tests.spark_versions.versions import NEEDS_SPARK_4_0

REFUSED = [
    "sum(a)",
    "a = MAX (b)",
    "`count`(*) > 1",
    "first(a)",
    pytest.param("listagg(a) WITHIN GROUP (ORDER BY a)", marks=NEEDS_SPARK_4_0),
    "coalesce(any_value(a), 1)",
    "row_number() OVER (ORDER BY a)",
    "a + sum(a) over (PARTITION BY b)",
    "lag(a)",
    "explode(array(1, 2))",
    "json_tuple('{}', 'a')",
    "inline(array(struct(1)))",
    "stack(2, 1, 2)",
    "window(at, '1 minute').start",
    "CASE WHEN a > 1 THEN sum(a) END",
]
ALLOWED = [
    "a IN (SELECT max(b) FROM u)",
    "a = (SELECT sum(b) FROM u)",
    "EXISTS (SELECT 1 FROM u HAVING count(*) > 1)",
    "aggregate(array(1), 0, (x, y) -> x + y) > 1",
    "exists(array(1), x -> x > 1)",
    "first = 'sum(a)' -- OVER (max(a))",
    "overlay(a PLACING 'max' FROM 1)",
]


@pytest.mark.parametrize("text", REFUSED)
def test_an_expression_over_several_rows_is_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(InvalidJob, match="cannot be computed for a single row") as raised:
        require_row_expression(spark, text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ALLOWED)
def test_subqueries_and_functions_of_arrays_are_allowed(spark: SparkSession, text: str) -> None:
    require_row_expression(spark, text)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_statements_with_such_expressions_begin_nothing(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    create(client, f"{database}.t", {"a": "int", "b": "int"})
    source = spark.sql("SELECT 1 a, 2 b")
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(source)
        for change in (
            lambda: acid.update({"a": "sum(a)"}, all_rows=True),
            lambda: acid.update({"a": "explode(array(1, 2))"}, all_rows=True),
            lambda: acid.update({"a": "1"}, "row_number() OVER (ORDER BY b) = 1"),
            lambda: acid.delete("max(a) = 1"),
            lambda: acid.merge(source, "t.a = max(s.a)").when_matched_delete().execute(),
            lambda: (
                acid.merge(source, "t.a = s.b")
                .when_not_matched_insert({"a": "explode(array(1, 2))", "b": "s.b"})
                .execute()
            ),
        ):
            with pytest.raises(HiveAcidError, match="cannot be computed for a single row"):
                change()
        assert rows_of(acid.to_df()) == [(1, 2)]
    ref = TableRef(database, "t")
    assert Snapshot.take(client, [ref]).write_ids[ref.full_name].high_watermark == 1
