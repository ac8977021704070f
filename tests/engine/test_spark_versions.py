"""Every function for a difference between versions of Spark does the same on each of them."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DecimalType, IntegerType, LongType

from hiveacid.errors import InvalidJob, JobFailed, SoftwareMissing
from hiveacid.spark import spark_versions
from hiveacid.spark.session import SQL_SETTINGS, scan_session
from hiveacid.spark.spark_versions import (
    SPARK_4_0,
    SPARK_4_1,
    VERSION,
    bound_text,
    error_condition,
    from_arrow,
    inheriting_target,
    is_same_expression,
    java_expression,
    python_data_sources,
    rebalanced,
    requiring_stages_run_once,
    to_arrow,
    try_cast,
    with_arrow_column,
)
from hiveacid.spark.statements.conditions import as_sql

pytestmark = pytest.mark.every_spark

ROWS = pa.table(
    {
        "id": pa.array([1, None, -(2**63)], pa.int64()),
        "text": ["", "é€", None],
        "exact": pa.array([Decimal("0.01"), None, Decimal("-9.99")], pa.decimal128(38, 2)),
        "early": pa.array(
            [datetime(1, 1, 1), None, datetime(9999, 12, 31)], pa.timestamp("us", "UTC")
        ),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
    }
)


def test_tables_of_arrow_become_frames_and_come_back(spark: SparkSession) -> None:
    assert to_arrow(from_arrow(spark, ROWS)).to_pylist() == ROWS.to_pylist()
    empty = to_arrow(from_arrow(spark, ROWS.slice(0, 0)))
    assert (empty.num_rows, empty.column_names) == (0, ROWS.column_names)


def test_a_python_function_computes_a_column_from_exact_values(spark: SparkSession) -> None:
    def sums(ids: pa.Array, texts: pa.Array, early: pa.Array) -> pa.Array:
        rows = zip(ids.to_pylist(), texts.to_pylist(), early.to_pylist(), strict=True)
        return pa.array(["|".join(map(str, row)) for row in rows])

    frame = from_arrow(spark, ROWS).withColumnRenamed("id", "an id")
    # Its type is that of the text column.
    text = frame.schema["text"].dataType
    joined = with_arrow_column(frame, "joined", sums, text, ["an id", "text", "early"])
    assert joined.columns == [*frame.columns, "joined"]
    of_rows = {row["joined"].replace("+00:00", "") for row in joined.select("joined").collect()}
    assert of_rows == {
        "1||0001-01-01 00:00:00",
        "None|é€|None",
        f"{-(2**63)}|None|9999-12-31 00:00:00",
    }


def test_equal_values_stay_together_in_sessions_for_little_data(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", "200k")
    rows = session.range(0, 100_000, 1, 2).selectExpr("id % 300 AS k", "sha2(string(id), 256) AS v")
    together = rebalanced(rows, ["k"]).selectExpr("k", "spark_partition_id() AS p", "v")
    places = [(row.k, row.p) for row in together.collect()]
    assert len(places) == 100_000
    assert len(set(places)) == 300


def test_a_failed_cast_is_null(spark: SparkSession) -> None:
    session = scan_session(spark)
    frame = session.sql("SELECT explode(array('1', 'x', '12345678901', NULL)) AS t")
    column = F.col("t")
    cast = frame.select(try_cast(column, IntegerType()), try_cast(column, DecimalType(3, 1)))
    assert [tuple(row) for row in cast.collect()] == [
        (1, Decimal("1.0")),
        (None, None),
        (None, None),
        (None, None),
    ]


def test_rows_with_equal_values_go_together(spark: SparkSession) -> None:
    frame = spark.range(0, 1000, 1, 8).withColumn("a key", F.col("id") % 5)
    places = rebalanced(frame, ["`a key`"]).select("a key", F.spark_partition_id()).distinct()
    assert places.count() == 5
    assert rebalanced(frame, []).count() == 1000


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("SELECT :id, ':id', `:id`", "SELECT 7, ':id', `:id`"),
        ("SELECT a FROM t WHERE s.x:id = :id -- :id", "SELECT a FROM t WHERE s.x:id = 7 -- :id"),
        ("SELECT CAST(x AS STRUCT<id:INT>), :id", "SELECT CAST(x AS STRUCT<id:INT>), 7"),
    ],
)
def test_parameters_become_literals(spark: SparkSession, text: str, bound: str) -> None:
    assert bound_text(spark, text, {"id": F.lit(7)}) == bound


def test_a_parameter_needs_a_value(spark: SparkSession) -> None:
    with pytest.raises((InvalidJob, AnalysisException), match="other"):
        bound_text(spark, "SELECT :other", {"id": F.lit(7)})


@pytest.mark.parametrize(
    "column",
    [
        lambda: F.col("t.a") > 1,
        lambda: (F.col("t.a") == F.lit("x'y")) & ~F.col("t.b").isin(1, 2) | F.col("c").isNull(),
        lambda: F.upper("t.a").cast("int") + F.lit(Decimal("1.50")),
        lambda: F.when(F.col("a") < 0, F.lit(None)).otherwise(F.coalesce("a", F.lit(0))),
        lambda: F.to_date(F.lit("2026-01-31")) < F.current_date(),
    ],
)
def test_columns_have_an_equivalent_text(spark: SparkSession, column: Callable[[], Any]) -> None:
    assert spark._jsparkSession.sessionState().sqlParser().parseExpression(as_sql(spark, column()))


@pytest.mark.parametrize(
    "column",
    [
        lambda spark: spark.range(1)["id"] > 0,
        lambda spark: F.udf(lambda x: x)(F.col("t.a")),
        lambda spark: F.exists(F.col("a"), lambda item: item > 0),
        lambda spark: F.col("a").alias("b"),
    ],
)
def test_columns_without_an_equivalent_text_are_refused(
    spark: SparkSession, column: Callable[[SparkSession], Any]
) -> None:
    with pytest.raises(InvalidJob, match="cannot be expressed in SQL"):
        as_sql(spark, column(spark))


def test_different_expressions_are_not_the_same(spark: SparkSession) -> None:
    one, other = (java_expression(spark, F.col("a") > value) for value in (1, 2))
    assert is_same_expression(one, one)
    assert not is_same_expression(one, other)


def test_threads_inherit_the_properties_of_jobs(spark: SparkSession) -> None:
    seen: list[str | None] = []
    context = spark.sparkContext
    context.setLocalProperty("spark.test", "inherited")
    try:
        target = inheriting_target(
            spark, lambda: seen.append(context.getLocalProperty("spark.test"))
        )
    finally:
        context.setLocalProperty("spark.test", None)  # type: ignore[arg-type]
    thread = Thread(target=target)
    thread.start()
    thread.join()
    assert seen == ["inherited"]


def test_errors_have_a_condition(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.range(1).select("missing")
    assert error_condition(caught.value).startswith("UNRESOLVED_COLUMN")


def test_only_spark_4_has_data_sources_in_python() -> None:
    if VERSION >= SPARK_4_0:
        assert python_data_sources().DataSource.__name__ == "DataSource"
        return
    with pytest.raises(SoftwareMissing, match=r"needs Spark 4\.0"):
        python_data_sources()


def test_settings_of_the_cluster_do_not_change_the_meaning_of_sql(spark: SparkSession) -> None:
    user = spark.newSession()
    opposite = {"true": "false", "false": "true", "CORRECTED": "LEGACY", "ANSI": "LEGACY"}
    opposite |= {"EXCEPTION": "LAST_WIN", "TIMESTAMP_LTZ": "TIMESTAMP_NTZ"}
    for key, value in SQL_SETTINGS.items():
        user.conf.set(key, opposite[value])
    session = scan_session(user)
    assert {key: session.conf.get(key) for key in SQL_SETTINGS} == SQL_SETTINGS
    (row,) = session.sql("SELECT CAST(5 AS DECIMAL(38, 18)) / CAST(3 AS DECIMAL(38, 18))").collect()
    assert row[0].as_tuple().exponent == -6
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        session.sql("SELECT CAST('x' AS INT)").collect()


def test_the_documented_options_are_those_of_every_statement() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
    section = page.partition("## Session options")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"\| `(spark\.\S+)` \| `(\S+)` (?=\|)", section))
    assert documented == SQL_SETTINGS


@pytest.mark.server
def test_legacy_settings_of_the_application_do_not_apply(tmp_path: Path) -> None:
    program = (
        "from pyspark.sql import SparkSession\n"
        "from hiveacid.spark.session import scan_session\n"
        "names = ('spark.sql.legacy.followThreeValuedLogicInArrayExists', "
        "'spark.sql.legacy.json.allowEmptyString.enabled')\n"
        "builder = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')\n"
        "for name in names: builder.config(name, str('json' in name).lower())\n"
        "conf = scan_session(builder.getOrCreate()).conf\n"
        "import json\n"
        "print(json.dumps([conf.get(name) for name in names]))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    # The default of the first option is true; the second one is of a file format.
    assert json.loads(ended.stdout.splitlines()[-1]) == ["true", "true"]


def test_a_number_of_a_bucket_is_exact(spark: SparkSession) -> None:
    def doubled(numbers: pa.Array) -> pa.Array:
        return pa.array([None if n is None else n - 1 for n in numbers.to_pylist()], pa.int64())

    frame = spark.createDataFrame([(2**53 + 1,), (None,)], "n bigint")
    made = with_arrow_column(frame, "less", doubled, LongType(), ["n"])
    assert [row.less for row in made.collect()] == [2**53, None]


@pytest.mark.skipif(VERSION >= SPARK_4_1, reason="Spark 4.1 compares the rows itself")
def test_a_stage_that_a_later_job_computes_again_is_refused(spark: SparkSession) -> None:
    rows = spark.sparkContext.parallelize([(number % 7, number) for number in range(100)], 4)
    shuffled = rows.partitionBy(3)
    with requiring_stages_run_once(spark, "INSERT INTO db.t"):
        assert shuffled.count() == shuffled.count() == 100

    def compute_again() -> None:
        again = rows.partitionBy(3)
        assert again.count() == 100
        # The loss of an executor between two jobs has the same effect.
        tracker = spark._jvm.org.apache.spark.SparkEnv.get().mapOutputTracker()
        newest = max(map(int, tracker.shuffleStatuses().keySet().mkString(",").split(",")))
        tracker.unregisterAllMapAndMergeOutput(newest)
        assert again.count() == 100

    lost = r"^INSERT INTO db.t: Spark .* lost the output of"
    with (
        pytest.raises(JobFailed, match=lost),
        requiring_stages_run_once(spark, "INSERT INTO db.t"),
    ):
        compute_again()


@pytest.mark.skipif(VERSION >= SPARK_4_1, reason="Spark 4.1 compares the rows itself")
def test_removed_records_of_skipped_stages_prove_nothing_wrong(
    spark: SparkSession, monkeypatch
) -> None:
    recorded = spark_versions._newest_attempt

    def without_skipped(context: Any, stage: int) -> Any:
        attempt = recorded(context, stage)
        return None if str(attempt.status()) == "SKIPPED" else attempt

    monkeypatch.setattr(spark_versions, "_newest_attempt", without_skipped)
    rows = spark.sparkContext.parallelize([(number % 7, number) for number in range(100)], 4)
    with requiring_stages_run_once(spark, "INSERT INTO db.t"):
        shuffled = rows.partitionBy(3)
        assert shuffled.count() == shuffled.groupByKey(2).flatMapValues(list).count() == 100


@pytest.mark.skipif(VERSION >= SPARK_4_1, reason="Spark 4.1 compares the rows itself")
@pytest.mark.parametrize("removed", ["job", "stage"])
def test_a_removed_record_of_a_job_is_no_proof(spark: SparkSession, monkeypatch, removed) -> None:
    def missing(*_: object) -> None:
        return None

    if removed == "stage":
        monkeypatch.setattr(spark_versions, "_newest_attempt", missing)
    newest = spark_versions._newest_jobs

    def without_oldest(context: Any) -> Any:
        jobs = list(newest(context))
        return iter(jobs[:1] if removed == "job" and len(started) else jobs)

    started: list[bool] = []
    monkeypatch.setattr(spark_versions, "_newest_jobs", without_oldest)

    def run_jobs() -> None:
        for _ in range(3):
            spark.sparkContext.parallelize([1], 1).count()
        started.append(True)

    with (
        pytest.raises(JobFailed, match=f"has removed the record of a {removed}"),
        requiring_stages_run_once(spark, "INSERT INTO db.t"),
    ):
        run_jobs()
