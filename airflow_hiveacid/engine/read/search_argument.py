"""ORC search arguments for ACID files.

Spark's own push-down is wrong for ACID files, because ORC resolves the pushed names against the
``row`` struct. So this module builds the argument, over the columns of ``row``, and passes it to
the reader as an option. ORC uses it only to skip row groups: Spark still applies the condition
itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_hiveacid.acid.schema import LOCAL_ZONE, Char, Primitive, Varchar, parse_type
from airflow_hiveacid.engine.read.spark_trees import conjuncts, kind, nodes
from airflow_hiveacid.engine.rows.columns import spark_struct
from airflow_hiveacid.engine.rows.frames import java_texts
from airflow_hiveacid.engine.spark_versions import java_class
from airflow_hiveacid.metastore.catalog import HiveColumn

_SOURCES = "org.apache.spark.sql.execution.datasources"


@dataclass(frozen=True)
class SearchArgument:
    """A search argument in the format that ORC reads from its configuration."""

    argument: str
    columns: str

    def read_options(self) -> Mapping[str, str]:
        """The options of a Spark reader that carry the argument."""
        return {"orc.kryo.sarg": self.argument, "orc.sarg.column.names": self.columns}


def search_argument(
    spark: SparkSession,
    condition: str,
    columns: Sequence[HiveColumn],
    others: Sequence[HiveColumn],
    alias: str,
) -> SearchArgument | None:
    """Return the search argument for a condition; ``None`` if ORC cannot use it.

    Args:
        spark: Any session; no job is run.
        condition: A condition over the columns of a table.
        columns: The columns in the files.
        others: Columns that the condition may name and that are in no file, such as partition
            columns.
        alias: The alias of the table in the condition.
    """
    filters = filters_of(spark, condition, columns, others, alias)
    return argument_of(spark, filters, columns)


def filters_of(
    spark: SparkSession,
    condition: str,
    columns: Sequence[HiveColumn],
    others: Sequence[HiveColumn],
    alias: str,
) -> list[Any]:
    """The parts of a condition that ORC can use, as filters of Spark, in Java.

    The arguments are those of ``search_argument``.
    """
    both = spark_struct([*columns, *others])
    session: Any = spark._jsparkSession
    # An RDD prevents the optimizer from detecting an empty relation and dropping the filter.
    nothing: Any = spark.sparkContext._jsc.emptyRDD()
    rows = session.createDataFrame(nothing, session.parseDataType(both.json()))
    plan = rows.alias(alias).where(condition).queryExecution().optimizedPlan()
    # A name with a dot could be that of a field.
    searchable = {c.name for c in columns if _has_exact_statistics(c) and "." not in c.name}
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


def argument_of(
    spark: SparkSession, filters: Sequence[Any], columns: Sequence[HiveColumn]
) -> SearchArgument | None:
    """Return the search argument for filters of Spark, in Java, which are combined by AND.

    Args:
        spark: Any session; no job is run.
        filters: Over columns with exact statistics.
        columns: The columns in the filters, and possibly others of the files.
    """
    if not filters:
        return None
    session: Any = spark._jsparkSession
    row = session.parseDataType(spark_struct(columns).json())
    orc_filters = getattr(java_class(spark, f"{_SOURCES}.orc.OrcFilters$"), "MODULE$")
    made = orc_filters.createFilter(row, java_class(spark, "PythonUtils").toSeq(filters))
    if not made.isDefined():
        return None
    configuration = java_class(spark, "org.apache.hadoop.conf.Configuration")(False)
    names = java_texts(spark, [column.name for column in columns])
    format_ = java_class(spark, "org.apache.orc.mapred.OrcInputFormat")
    format_.setSearchArgument(configuration, made.get(), names)
    return SearchArgument(
        configuration.get("orc.kryo.sarg"), configuration.get("orc.sarg.column.names")
    )


def _has_exact_statistics(column: HiveColumn) -> bool:
    """Whether the statistics of a column compare as Spark compares its values.

    Exceptions: statistics of a char include padding, those of a varchar may be of longer texts than
    are shown, those of floating-point numbers order -0.0 before 0.0, and those of a timestamp may
    be of another clock.
    """
    match parse_type(column.type):
        case Char() | Varchar():
            return False
        case Primitive(name):
            return name not in ("float", "double", "timestamp", LOCAL_ZONE)
    return True


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
