"""A table in a notebook: how it shows itself, and conditions as columns of PySpark."""

import datetime as dt
import doctest

import pytest
from pyspark.sql import functions as F  # noqa: N812

from hiveacid.api.changes import TableChanges
from hiveacid.api.engines import Engines
from hiveacid.api.table import AcidTable
from hiveacid.errors import InvalidJob
from hiveacid.jobs.iceberg_job import mirror_job
from hiveacid.jobs.maintenance_jobs import compaction_groups
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from hiveacid.spark.statements.conditions import as_sql
from tests.engine.acid_tables import create, rows_of


@pytest.fixture(scope="module")
def fake(fake4):
    with MetastoreClient(fake4.options) as client:
        client.create_database("notebook")
        yield client
        client.drop_database("notebook", cascade=True)


def test_a_table_shows_its_columns_and_no_markup_of_others(spark, fake):
    table = create(fake, "notebook.shown", {"id": "int"}, {"day": "string"})
    evil = HiveColumn("x", "string", "<script>alert(1)</script>")
    ref = table.ref
    fake.drop_table(ref)
    fake.create_table(
        HiveTable.new(ref, [*table.columns, evil], partition_keys=table.partition_keys)
    )
    with AcidTable("notebook.shown", fake.options, spark=spark, run_in="spark") as shown:
        assert repr(shown) == f"AcidTable('notebook.shown', '{fake.options.uris}')"
        html = shown._repr_html_()
        assert "<caption>notebook.shown, full acid</caption>" in html
        assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in html
        assert "<script" not in html
        assert shown.schema.names == ["id", "x", "day"]
    with AcidTable("notebook.<b>", fake.options, spark=spark, run_in="spark") as none:
        assert "&lt;b&gt;" in none._repr_html_()
        assert "<b>" not in none._repr_html_()


def test_examples_of_the_docstrings_have_the_documented_output(spark, fake):
    create(fake, "notebook.orders", {"id": "int", "status": "string"})
    runner, finder = doctest.DocTestRunner(verbose=False), doctest.DocTestFinder(recurse=False)
    with AcidTable("notebook.orders", fake.options, spark=spark, run_in="spark") as orders:
        names = {
            "orders": orders,
            "spark": spark,
            "mirror_job": mirror_job,
            "compaction_groups": compaction_groups,
        }
        examples = [
            # The first one fills the table for the others.
            AcidTable.append,
            AcidTable.schema,
            AcidTable.to_df,
            AcidTable.to_arrow,
            AcidTable.detail,
            AcidTable.history,
            mirror_job,
            compaction_groups,
        ]
        for documented in examples:
            [found] = finder.find(documented, "example", globs=names)
            assert found.examples
            said: list[str] = []
            runner.run(found, out=said.append)
            assert not said, "".join(said)


def test_conditions_and_values_may_be_columns(spark, fake):
    create(fake, "notebook.changed", {"id": "int", "name": "string"})
    with AcidTable("notebook.changed", fake.options, spark=spark, run_in="spark") as table:
        table.append(spark.sql("SELECT CAST(id AS INT) id, 'old' name FROM range(1, 4)"))
        new = {"name": F.concat("t.name", F.lit("'s \\ n\n"))}
        table.update(new, (F.col("t.id") >= F.lit(-2)) & ~F.col("id").isin(1, 3))
        assert rows_of(table.to_df(F.col("t.id").between(2, 3))) == [
            (2, "old's \\ n\n"),
            (3, "old"),
        ]


def test_statements_take_columns_as_the_texts_that_people_write(spark):
    collected = []
    engines = Engines("thrift://nowhere:9083", spark, "auto", None, ())
    table = TableChanges("a.b", engines, lambda job, rows: collected.append(job))
    table.delete((F.col("t.day") == "mon") | ~F.col("id").isin(1, 2))
    merge = table.merge(spark.range(1), F.col("t.id") == F.col("s.id"), source_alias="s")
    merge = merge.when_matched_delete(F.col("s.gone")).when_matched_update(
        {"v": F.col("t.v") + 1, "w": "s.w"}, F.col("s.`a b`").isNotNull()
    )
    merge = merge.when_not_matched_insert({"id": F.col("s.id")}, F.col("s.id") > F.lit(0))
    merge = merge.when_not_matched_by_source_update({"v": F.lit(None)}, F.col("t.v") < 3)
    merge.when_not_matched_by_source_delete(F.col("t.v") == F.lit("'")).execute()
    delete, merged = collected
    assert delete.where == "((t.day = 'mon') OR (NOT (id IN (1, 2))))"
    assert merged.on == "(t.id = s.id)"
    assert merged.when == (
        MatchedDelete("s.gone"),
        MatchedUpdate(
            {"v": "(t.v + 1)", "w": "s.w"},
            "isNotNull(s.`a b`)" if VERSION >= SPARK_4_0 else "(s.`a b` IS NOT NULL)",
        ),
        NotMatchedInsert({"id": "s.id"}, "(s.id > 0)"),
        NotMatchedBySourceUpdate({"v": "NULL"}, "(t.v < 3)"),
        NotMatchedBySourceDelete("(t.v = '\\'')"),
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame["id"] == 1,
        lambda frame: F.udf(lambda x: True, "boolean")(F.col("id")),
        lambda frame: F.exists(F.col("ids"), lambda x: x > 1),
        lambda frame: F.expr("id IN (SELECT id FROM x)"),
        lambda frame: F.col("id").alias("other"),
    ],
)
def test_a_column_without_a_text_form_is_refused(make, spark):
    with pytest.raises(InvalidJob, match=r"cannot be expressed in SQL\. Name columns by F\.col"):
        as_sql(spark, make(spark.range(1)))


def test_a_time_is_written_in_the_zone_of_the_session_that_reads_it(spark):
    time = F.col("a") == F.lit(dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC))
    tokyo = spark.newSession()
    tokyo.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert as_sql(tokyo, time) == "(a = TIMESTAMP '2026-01-01 21:00:00')"
    assert as_sql(spark, F.lit(dt.date(2026, 1, 1))) == "DATE '2026-01-01'"
    # The session that was active before is active again.
    assert as_sql(spark, time) == "(a = TIMESTAMP '2026-01-01 12:00:00')"
