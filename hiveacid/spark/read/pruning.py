"""Determines the partitions that a condition can affect, before any row is read."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.plan.scope import ChangeScope
from hiveacid.plan.ties import equals_one_partition
from hiveacid.rules.names import parse_partition_name
from hiveacid.rules.partitions import canonical_text, is_day, named_partition, texts_in_rows
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.java_objects import java_context, java_frame, java_session, scala_object
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.rows.columns import as_operand, has_exact_statistics, spark_struct
from hiveacid.spark.session import parsed_texts, sql_parser
from hiveacid.spark.spark_versions import from_rows, try_cast

# Trees of expressions and plans, as Spark's parser and optimizer build them


def parsed(spark: SparkSession, condition: str, subject: str = "The condition") -> Any:
    """Parse a condition, or any expression, into a tree.

    Args:
        spark: A session.
        condition: The text.
        subject: The beginning of an error message.

    Raises:
        InvalidJob: The text is invalid.
    """
    # Other sessions live long, and their settings may change.
    cache = parsed_texts(spark)
    if condition not in cache:
        with translated_spark_errors(f"{subject} {condition!r}"), sql_parser(spark) as parser:
            cache[condition] = parser.parseExpression(condition)
    return cache[condition]


def nodes(tree: Any) -> Iterator[Any]:
    """A tree and all trees below it, from the top."""
    yield tree
    for child in children(tree):
        yield from nodes(child)


def children(node: Any) -> list[Any]:
    """The trees directly below a tree."""

    def look_up(node: Any) -> list[Any]:
        child_list = node.children()
        return [child_list.apply(index) for index in range(child_list.size())]

    trees: list[Any] = _remembered(node, "_children", look_up)
    return trees


def kind(node: Any) -> str:
    """The name of a node's class."""
    name: str = _remembered(node, "_kind", lambda node: node.getClass().getSimpleName())
    return name


def _remembered(node: Any, name: str, look_up: Callable[[Any], Any]) -> Any:
    """Return a property of a node, which never changes: Java is called once for it."""
    properties = vars(node)
    if name not in properties:
        properties[name] = look_up(node)
    return properties[name]


def conjuncts(condition: Any) -> Iterator[Any]:
    """The parts of a condition that are connected by AND, in their order."""
    pending = [condition]
    while pending:
        expression = pending.pop()
        if kind(expression) == "And":
            pending += reversed(children(expression))
        else:
            yield expression


def column_names(expression: Any) -> list[tuple[str, ...]]:
    """The names of columns in an expression, split at their dots."""
    names = []
    for node in nodes(expression):
        if kind(node) == "UnresolvedAttribute":
            names.append(_remembered(node, "_name", _name))
    return names


def _name(attribute: Any) -> tuple[str, ...]:
    parts = attribute.nameParts()
    return tuple(parts.apply(index) for index in range(parts.size()))


def has_subquery(expression: Any) -> bool:
    """Whether an expression contains a subquery."""
    kinds = map(kind, nodes(expression))
    return any("Subquery" in name or name in ("Exists", "ListQuery") for name in kinds)


_NUMBER = own_column("number")
_WHOLE = re.compile("0|[1-9][0-9]*")
# Numbers with this many digits always fit into their type.
_SURE_DIGITS = {"int": 9, "bigint": 18}


def matching_partitions(
    spark: SparkSession, condition: str | None, scope: ChangeScope, names: Sequence[str]
) -> list[str]:
    """Return the partitions whose rows can satisfy the condition, judged by partition columns.

    Input and output are partition names, which cost the metastore much less than partition objects.
    """
    if condition is None:
        return list(names)
    usable = [
        conjunct.sql()
        for conjunct in _plain_conjuncts(spark, condition)
        if (used_columns := column_names(conjunct)) and None not in map(scope.key, used_columns)
    ]
    if not usable or not names:
        return list(names)
    typed = _typed(spark, scope.table, [_values(name) for name in names])
    with translated_spark_errors("The condition on the partition columns"):
        matching = typed.alias(scope.target_alias)
        for conjunct in usable:
            fewer = matching.where(conjunct)
            # A nondeterministic condition must be evaluated only once, for each row.
            if java_frame(fewer).queryExecution().analyzed().expressions().head().deterministic():
                matching = fewer
        numbers = sorted(row[_NUMBER] for row in matching.select(_NUMBER).collect())
    return [names[number] for number in numbers]


def called(
    spark: SparkSession, table: HiveTable, canonical_names: Collection[str], names: Sequence[str]
) -> list[str]:
    """Return the partitions whose rows belong into one of the wanted partitions.

    A partition may be called ``month=01`` although the column is an integer.

    Args:
        spark: A session.
        table: The table.
        canonical_names: The canonical names of partitions.
        names: The existing partitions.
    """
    among = set(canonical_names)
    values = canonical_values(spark, table, [_values(name) for name in names])
    return [
        name
        for name, canonical in zip(names, values, strict=True)
        if named_partition(canonical, table.key_types) in among
    ]


def canonical_values(
    spark: SparkSession, table: HiveTable, partition_values: Sequence[Sequence[str | None]]
) -> list[tuple[str | None, ...]]:
    """Return the canonical texts of partition values, as Spark reads them by the types of the keys.

    A value that is invalid for its column becomes None.
    """
    types = [*table.key_types.values()]
    canonical = [tuple(values) for values in partition_values]
    unclear = [
        number
        for number, values in enumerate(canonical)
        if not all(map(_is_canonical, values, types))
    ]
    if unclear:
        typed = _typed(spark, table, [canonical[number] for number in unclear])
        keys = [F.col(quoted(k.name)).cast("string").alias(k.name) for k in table.partition_keys]
        for row in typed.select(_NUMBER, *keys).collect():
            texts = map(canonical_text, tuple(row)[1:], types)
            canonical[unclear[row[_NUMBER]]] = tuple(texts)
    return canonical


def _is_canonical(value: str | None, type: str) -> bool:
    """Whether a text is certainly in the form that Spark produces; this is the usual case."""
    if value is None or type == "string":
        return True
    if type in ("int", "bigint"):
        return len(value) <= _SURE_DIGITS[type] and _WHOLE.fullmatch(value) is not None
    return type == "date" and is_day(value)


def _values(name: str) -> list[str | None]:
    return [value for _, value in parse_partition_name(name)]


def _typed(
    spark: SparkSession, table: HiveTable, partition_values: Sequence[Sequence[str | None]]
) -> DataFrame:
    keys = spark_struct(table.partition_keys).fields
    rows = [
        (number, *texts_in_rows(values, table.key_types))
        for number, values in enumerate(partition_values)
    ]
    text = StructType(
        [StructField(_NUMBER, IntegerType())] + [StructField(k.name, StringType()) for k in keys]
    )
    return from_rows(spark, rows, text).select(
        _NUMBER, *[try_cast(F.col(quoted(k.name)), k.dataType).alias(k.name) for k in keys]
    )


def same_expression(spark: SparkSession, first_text: str, second_text: str) -> bool:
    """Whether two texts are certainly the same expression, apart from blanks and case."""
    trees = [parsed(spark, text) for text in (first_text, second_text)]
    if all(kind(tree) == "UnresolvedAttribute" for tree in trees):
        first, second = ([part.lower() for part in column_names(tree)[0]] for tree in trees)
        return first == second
    return bool(trees[0].sql() == trees[1].sql())


def partitions_of_source(
    source: DataFrame, alias: str, keys: Mapping[str, str], table: HiveTable
) -> list[str] | None:
    """Return the names of the partitions that the rows of a source belong to.

    Returns ``None`` if a row may equal partitions of several names.
    """
    with translated_spark_errors("Looking for the partitions of the source"):
        tied = tied_partition_columns(source.alias(alias), keys, table)
        if tied is None:
            return None
        texts = [f"CAST({key} AS STRING)" for key in tied.values()]
        rows = source.alias(alias).selectExpr(*texts).distinct().collect()
    return sorted({named_partition(list(row), table.key_types) for row in rows})


def tied_partition_columns(
    source: DataFrame, keys: Mapping[str, str], table: HiveTable
) -> dict[str, str] | None:
    """Return the typed partition keys of the rows that source rows can match, by name.

    Returns ``None`` if a row may equal partitions of several names.

    Args:
        source: The source under its alias.
        keys: See ``ties_of``.
        table: The target.
    """
    fields = spark_struct(table.partition_keys).fields
    expressions = [keys[key.name.lower()] for key in fields]
    types = [
        field.dataType.simpleString() for field in source.selectExpr(*expressions).schema.fields
    ]
    if not all(map(equals_one_partition, types, table.key_types.values())):
        return None
    return {
        key.name: f"TRY_CAST({as_operand(value)} AS {key.dataType.simpleString()})"
        for value, key in zip(expressions, fields, strict=True)
    }


def _plain_conjuncts(spark: SparkSession, condition: str) -> Iterator[Any]:
    """The parts of a condition that are connected by AND and contain no subquery."""
    return (part for part in conjuncts(parsed(spark, condition)) if not has_subquery(part))


def without_subqueries(spark: SparkSession, condition: str) -> str | None:
    """Return the parts of a condition that contain no subquery."""
    whole = parsed(spark, condition)
    if not has_subquery(whole):
        return condition
    return " AND ".join(f"({part.sql()})" for part in _plain_conjuncts(spark, condition)) or None


# The parts of conditions that Spark can pass to readers of files


_SOURCES = "org.apache.spark.sql.execution.datasources"


def filters_of(
    spark: SparkSession,
    condition: str,
    columns: Sequence[HiveColumn],
    further_columns: Sequence[HiveColumn],
    alias: str,
) -> list[Any]:
    """The parts of a condition that ORC can use, as filters of Spark, in Java.

    Args:
        spark: Any session; no job is run.
        condition: A condition over the columns of a table.
        columns: The columns in the files.
        further_columns: Columns that the condition may name and that are in no file, such as partition
            columns.
        alias: The alias of the table in the condition.
    """
    all_columns_of_table = spark_struct([*columns, *further_columns])
    session = java_session(spark)
    # An RDD prevents the optimizer from detecting an empty relation and dropping the filter.
    nothing = java_context(spark).emptyRDD()
    rows = session.createDataFrame(nothing, session.parseDataType(all_columns_of_table.json()))
    plan = rows.alias(alias).where(condition).queryExecution().optimizedPlan()
    searchable = {column.name for column in columns if has_exact_statistics(column)}
    strategy = scala_object(spark, f"{_SOURCES}.DataSourceStrategy")
    filters = []
    for conjunct in _filters(plan):
        translated = strategy.translateFilter(conjunct, True)
        if not translated.isDefined() or _lists_null(source_filter := translated.get()):
            continue
        # ORC compares texts by Java's order of letters, but its statistics use the order of bytes.
        if not source_filter.toString().isascii():
            continue
        if set(source_filter.references()) <= searchable:
            filters.append(source_filter)
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
