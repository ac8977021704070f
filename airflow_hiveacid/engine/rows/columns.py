"""Values on their way into a table: which expression fills which column, in the column's type."""

from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from airflow_hiveacid.acid.schema import parse_type, row_struct
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.rows.conversion import Conversion, padded
from airflow_hiveacid.engine.rows.types import spark_type
from airflow_hiveacid.errors import UnknownColumn
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.orc.row_types import row_types


def all_columns(table: HiveTable) -> tuple[HiveColumn, ...]:
    """The columns of the files, then those of the partition name."""
    return (*table.columns, *table.partition_keys)


def find_columns(table: HiveTable, names: Sequence[str], what: str) -> list[str]:
    """The table's own spelling of some column names.

    Raises:
        UnknownColumn: The table has no such column.
    """
    known = {column.name.lower(): column.name for column in all_columns(table)}
    unknown = [name for name in names if name.strip("`").lower() not in known]
    if unknown:
        raise UnknownColumn(
            f"{what} sets {', '.join(unknown)}, but {table.ref.full_name} has no such column.",
            remedy=f"Its columns are {', '.join(known.values())}.",
        )
    return [known[name.strip("`").lower()] for name in names]


def columns_by_name(
    table: HiveTable, names: Sequence[str], what: str, alias: str, *, some: bool = False
) -> dict[str, str]:
    """For every column of the table, the source's column of the same name, as an expression.

    Args:
        table: The table.
        names: The columns of the source.
        what: Who takes them, to begin an error's message with.
        alias: The name of the source.
        some: Leave out what the source lacks, if it is no partition key.

    Raises:
        UnknownColumn: The source lacks one of them.
    """
    have = {name.lower(): name for name in names}
    wanted = table.partition_keys if some else all_columns(table)
    missing = [column.name for column in wanted if column.name.lower() not in have]
    if missing:
        raise UnknownColumn(
            f"{what} takes all columns from the source, which has no {', '.join(missing)}.",
            remedy=f"Add them to the source or name the columns; it has {', '.join(names)}.",
        )
    return {
        column.name: f"`{alias}`.{quoted(have[column.name.lower()])}"
        for column in all_columns(table)
        if column.name.lower() in have
    }


def quoted(name: str) -> str:
    """A column name as SQL text."""
    return "`" + name.replace("`", "``") + "`"


def stored(
    frame: DataFrame, expressions: Mapping[str, SparkColumn], table: HiveTable, what: str
) -> dict[str, SparkColumn]:
    """Expressions over a frame as values of the table's columns they are given for.

    A value that does not fit is an error and never silently becomes null or another value; only
    digits after the point go where the type has no room for them, as everywhere in SQL.

    Raises:
        TypeMismatch: No value of an expression's type can be stored in its column.
    """
    columns = {column.name: column for column in all_columns(table)}
    given = _types(frame, expressions, what)
    values = {
        name: Conversion(columns[name], given[name], what).of(expression)
        for name, expression in expressions.items()
    }
    converted = {name: value for name, value in values.items() if value is not expressions[name]}
    for name in _unresolved(frame, converted):
        raise Conversion(columns[name], given[name], what).impossible()
    return values


def pad_chars(frame: DataFrame, columns: Sequence[HiveColumn]) -> DataFrame:
    """A frame with the values of some of its columns as files hold them.

    In frames a char has no blanks at its end, as Hive compares it and as ORC reads it. In files it
    is filled up with blanks, because Hive searches them for that.
    """
    values = {
        column.name: padded(F.col(quoted(column.name)), parse_type(column.type))
        for column in columns
        if "char" in column.type.lower()
    }
    return frame.withColumns(values) if values else frame


def orc_row_types(table: HiveTable) -> tuple[bytes, ...]:
    """The types of the row of a full ACID table, as its ORC files declare them."""
    return row_types(row_struct([(column.name, column.type) for column in table.columns]))


def null_of(column: HiveColumn) -> SparkColumn:
    """The null of a column's type."""
    return F.lit(None).cast(spark_type(parse_type(column.type), column.name))


def assignments(
    frame: DataFrame, table: HiveTable, values: Mapping[str, str], what: str
) -> dict[str, SparkColumn]:
    """Expressions by target column, as the values those columns store."""
    names = find_columns(table, list(values), what)
    assigned = {}
    for name, given in zip(names, values.values(), strict=True):
        with spark_errors_as_ours(f"{what}: the expression of column {name}"):
            assigned[name] = F.expr(given)
    return stored(frame, assigned, table, what)


def _types(
    frame: DataFrame, expressions: Mapping[str, SparkColumn], what: str
) -> dict[str, DataType]:
    """The types of expressions, all resolved at once: that costs as much as a single one."""
    try:
        resolved = frame.select(*expressions.values()).schema.fields
    except AnalysisException:
        for name, expression in expressions.items():
            with spark_errors_as_ours(f"{what}: the value of column {name}"):
                frame.select(expression)
        raise
    return {name: field.dataType for name, field in zip(expressions, resolved, strict=True)}


def _unresolved(frame: DataFrame, expressions: Mapping[str, SparkColumn]) -> list[str]:
    """The names of the expressions that Spark refuses."""
    try:
        frame.select(*expressions.values())
    except AnalysisException:
        if len(expressions) == 1:
            return list(expressions)
        return [n for n, value in expressions.items() if _unresolved(frame, {n: value})]
    return []
