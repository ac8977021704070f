"""The parts of conditions that Spark can pass to readers of files."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from hiveacid.metastore.catalog import HiveColumn
from hiveacid.spark.read.spark_trees import conjuncts, kind, nodes
from hiveacid.spark.rows.columns import has_exact_statistics, spark_struct
from hiveacid.spark.spark_versions import java_class

_SOURCES = "org.apache.spark.sql.execution.datasources"


def filters_of(
    spark: SparkSession,
    condition: str,
    columns: Sequence[HiveColumn],
    others: Sequence[HiveColumn],
    alias: str,
) -> list[Any]:
    """The parts of a condition that ORC can use, as filters of Spark, in Java.

    Args:
        spark: Any session; no job is run.
        condition: A condition over the columns of a table.
        columns: The columns in the files.
        others: Columns that the condition may name and that are in no file, such as partition
            columns.
        alias: The alias of the table in the condition.
    """
    both = spark_struct([*columns, *others])
    session: Any = spark._jsparkSession
    # An RDD prevents the optimizer from detecting an empty relation and dropping the filter.
    nothing: Any = spark.sparkContext._jsc.emptyRDD()
    rows = session.createDataFrame(nothing, session.parseDataType(both.json()))
    plan = rows.alias(alias).where(condition).queryExecution().optimizedPlan()
    searchable = {column.name for column in columns if has_exact_statistics(column)}
    strategy = getattr(java_class(spark, f"{_SOURCES}.DataSourceStrategy$"), "MODULE$")
    filters = []
    for conjunct in _filters(plan):
        translated = strategy.translateFilter(conjunct, True)
        if not translated.isDefined() or _lists_null(found := translated.get()):
            continue
        # ORC compares texts by Java's order of letters, but its statistics use the order of bytes.
        if not found.toString().isascii():
            continue
        if set(found.references()) <= searchable:
            filters.append(found)
    return filters


def _lists_null(expression: Any) -> bool:
    """Whether a filter has an IN with a null, which Spark cannot convert to a search argument."""
    match kind(expression):
        case "In":
            return any(value is None for value in expression.values())
        case "Not":
            return _lists_null(expression.child())
        case "And" | "Or":
            return _lists_null(expression.left()) or _lists_null(expression.right())
    return False


def _filters(plan: Any) -> Iterator[Any]:
    """The parts of all filters in a plan that are connected by AND."""
    for node in nodes(plan):
        if kind(node) == "Filter":
            yield from conjuncts(node.condition())
