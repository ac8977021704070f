"""Values on their way into a table: which expression fills which column, in the column's type."""

from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException  # noqa: TID253
from pyspark.sql import Column as SparkColumn  # noqa: TID253
from pyspark.sql import DataFrame  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructType  # noqa: TID253

from airflow_hiveacid.acid import schema
from airflow_hiveacid.acid.errors import TypeMismatch, UnknownColumn
from airflow_hiveacid.engine.failures import MISMATCH, spark_errors_as_ours
from airflow_hiveacid.engine.types import spark_type
from airflow_hiveacid.metastore.catalog import Column, HiveTable


def all_columns(table: HiveTable) -> tuple[Column, ...]:
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


def columns_by_name(table: HiveTable, frame: DataFrame, what: str, alias: str) -> dict[str, str]:
    """For every column of the table, the source's column of the same name, as an expression.

    Raises:
        UnknownColumn: The source lacks one of them.
    """
    have = {name.lower(): name for name in frame.columns}
    missing = [column.name for column in all_columns(table) if column.name.lower() not in have]
    if missing:
        raise UnknownColumn(
            f"{what} takes all columns from the source, which has no {', '.join(missing)}.",
            remedy=f"Add them to the source or name the columns; it has {', '.join(frame.columns)}.",
        )
    return {
        column.name: f"`{alias}`.{quoted(have[column.name.lower()])}"
        for column in all_columns(table)
    }


def quoted(name: str) -> str:
    """A column name as SQL text."""
    return "`" + name.replace("`", "``") + "`"


def stored(frame: DataFrame, expression: SparkColumn, column: Column, what: str) -> SparkColumn:
    """An expression over a frame as a value of a table's column.

    A value that does not fit is an error and never silently becomes null or another value.

    Raises:
        TypeMismatch: No value of the expression's type can be stored in the column.
    """
    hive_type = schema.parse_type(column.type)
    target = spark_type(hive_type, column.name)
    with spark_errors_as_ours(f"{what}: the value of column {column.name}"):
        given = frame.select(expression.alias("value")).schema["value"].dataType
    value = expression
    if not _same(given, target):
        if isinstance(target, StructType | ArrayType | MapType) != isinstance(
            given, StructType | ArrayType | MapType
        ) and not isinstance(given, NullType):
            raise _mismatch(what, column, given)
        try:
            value = expression.try_cast(target)
            frame.select(value)
        except AnalysisException as error:
            raise _mismatch(what, column, given) from error
        if not isinstance(given, NullType):
            value = F.when(
                expression.isNotNull() & value.isNull(),
                _failure(
                    f"{what}: ",
                    expression,
                    f" does not fit into column {column.name} {column.type}.",
                ),
            ).otherwise(value)
    if isinstance(hive_type, schema.Char | schema.Varchar):
        value = _fitted(value, hive_type, column, what)
    return value


def assignments(
    frame: DataFrame, table: HiveTable, values: Mapping[str, str], what: str
) -> dict[str, SparkColumn]:
    """Expressions by target column, as the values those columns store."""
    by_name = {column.name: column for column in all_columns(table)}
    found: dict[str, SparkColumn] = {}
    for name, given in zip(find_columns(table, list(values), what), values.values(), strict=True):
        with spark_errors_as_ours(f"{what}: the expression of column {name}"):
            expression = F.expr(given)
        found[name] = stored(frame, expression, by_name[name], what)
    return found


def _same(given: DataType, target: DataType) -> bool:
    """Equal but for nullability and for the metadata of fields."""
    return given.simpleString() == target.simpleString()


def _fitted(
    value: SparkColumn, hive_type: schema.Char | schema.Varchar, column: Column, what: str
) -> SparkColumn:
    """A char padded to its length, or a varchar checked against it, as Hive stores them."""
    is_char, length = isinstance(hive_type, schema.Char), hive_type.length
    bare = F.rtrim(value) if is_char else value
    fitted = F.rpad(bare, length, " ") if is_char else value
    too_long = F.length(bare) > length
    text = f" is longer than column {column.name} {column.type} allows."
    return F.when(too_long, _failure(f"{what}: ", value, text)).otherwise(fitted)


def _failure(before: str, value: SparkColumn, after: str) -> SparkColumn:
    shown = F.substring(value.cast(StringType()), 1, 80)
    return F.raise_error(F.concat(F.lit(MISMATCH + " " + before + "'"), shown, F.lit("'" + after)))


def _mismatch(what: str, column: Column, given: DataType) -> TypeMismatch:
    return TypeMismatch(
        f"{what}: a value of type {given.simpleString()} cannot be stored in column "
        f"{column.name} of type {column.type}.",
        remedy="Cast the expression to the column's type.",
    )
