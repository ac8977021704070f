"""Columns of a table as Spark reads and writes them: names, types, and the texts of chars."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from hiveacid.errors import TypeMismatch, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable, StorageFormat, layout_of
from hiveacid.orc.values.column_bounds import compare_like_values
from hiveacid.plan.columns import columns_of_row
from hiveacid.rules import schema
from hiveacid.rules.features import Features
from hiveacid.rules.schema import LOCAL_ZONE
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.java_objects import java_class, java_frame, kept_objects
from hiveacid.spark.session import require_utc

# A column name, with or without the name of its table.
_COLUMN = re.compile(r"(`([^`]|``)*`\.)?`([^`]|``)*`")

_PRIMITIVES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "smallint": ShortType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    schema.LOCAL_ZONE: TimestampType(),
}


def all_columns(table: HiveTable) -> tuple[HiveColumn, ...]:
    """The columns of the files, then those of the partition name."""
    return (*table.columns, *table.partition_keys)


def without(rows: DataFrame, exclude: Collection[str], subject: str) -> DataFrame:
    """Return rows without some columns; see ``columns_of_row``."""
    names = columns_of_row(rows.columns, exclude, subject)
    return rows.select(*map(quoted, names)) if exclude else rows


def as_operand(expression: str) -> str:
    """An expression as a part of another expression."""
    # After a comment at its end, other SQL needs a line of its own.
    return expression if _COLUMN.fullmatch(expression) else f"({expression}\n)"


def shown_columns(columns: Sequence[HiveColumn], sources: Sequence[str] | None = None) -> list[str]:
    """Return columns as readers show them, in SQL.

    Args:
        columns: The columns.
        sources: The names of their values; by default their own names.
    """
    names = [column.name for column in columns] if sources is None else sources
    # As texts, since every expression object costs the driver several Java calls.
    return [
        f"{_within(quoted(name), schema.parse_type(column.type))} AS {quoted(column.name)}"
        for column, name in zip(columns, names, strict=True)
    ]


def spark_struct(columns: Sequence[HiveColumn], *, lengths: bool = False) -> StructType:
    """The columns of a table as a Spark struct; every column can be null.

    Args:
        columns: The columns.
        lengths: Keep char and varchar, which few sessions support; otherwise they are strings.

    Raises:
        UnsupportedTable: Spark cannot find one of the columns in a file, or lacks its type.
    """
    return StructType(
        [
            StructField(
                _readable(column.name),
                spark_type(schema.parse_type(column.type), column.name, lengths=lengths),
            )
            for column in columns
        ]
    )


def spark_type(hive_type: schema.HiveType, column: str, *, lengths: bool = False) -> DataType:
    """Convert a Hive type to Spark's; char and varchar become strings, unless lengths are kept.

    Raises:
        UnsupportedTable: Spark has no such type.
    """

    def part(inner: schema.HiveType) -> DataType:
        return spark_type(inner, column, lengths=lengths)

    match hive_type:
        case schema.Primitive(name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case schema.Decimal(precision, scale):
            return DecimalType(precision, scale)
        case schema.Char(length) if lengths:
            return CharType(length)
        case schema.Varchar(length) if lengths:
            return VarcharType(length)
        case schema.Char() | schema.Varchar():
            return StringType()
        case schema.Array(element):
            return ArrayType(part(element))
        case schema.Map(key, value):
            return MapType(part(key), part(value))
        case schema.Struct(fields):
            return StructType([StructField(_readable(name), part(type_)) for name, type_ in fields])
    raise UnsupportedTable(
        f"Column {column} has type {hive_type}, which Spark cannot read or write.",
        remedy="Leave this table to Hive.",
    )


def hive_type(spark_type: DataType, column: str) -> schema.HiveType:
    """Return Hive's type for the values of a Spark type.

    Raises:
        TypeMismatch: Hive has no such type.
    """
    match spark_type:
        case TimestampNTZType():
            return schema.Primitive("timestamp")
        case CharType() if spark_type.length <= schema.MAX_CHAR_LENGTH:
            return schema.Char(spark_type.length)
        case VarcharType() if spark_type.length <= schema.MAX_VARCHAR_LENGTH:
            return schema.Varchar(spark_type.length)
        case StringType() | CharType() | VarcharType():
            return schema.Primitive("string")
        case DecimalType():
            return schema.Decimal(spark_type.precision, spark_type.scale)
        case ArrayType():
            return schema.Array(hive_type(spark_type.elementType, column))
        case MapType():
            return schema.Map(
                hive_type(spark_type.keyType, column), hive_type(spark_type.valueType, column)
            )
        case StructType():
            fields = [(_readable(f.name), hive_type(f.dataType, column)) for f in spark_type.fields]
            return schema.Struct(tuple(fields))
    for name, type_ in _PRIMITIVES.items():
        if spark_type == type_:
            return schema.Primitive(name)
    raise TypeMismatch(
        f"Column {column} of the source has type {spark_type.simpleString()}, which Hive lacks.",
        remedy="Cast it, or leave it out.",
    )


def require_whole_maps(columns: Sequence[HiveColumn]) -> None:
    """Refuse columns that Spark cannot write to ORC files.

    When Spark's writer sorts the keys of a map, it treats all dates as equal and keeps a single
    entry.

    Raises:
        UnsupportedTable: A map has dates in its keys.
    """
    for column in columns:
        if _has_dated_key(schema.parse_type(column.type)):
            raise UnsupportedTable(
                f"Column {column.name} has type {column.type}: Spark loses entries of maps whose "
                "keys are dates.",
                remedy="Use strings as keys, or an array of structs.",
            )


def _has_dated_key(hive_type: schema.HiveType, key: bool = False) -> bool:
    match hive_type:
        case schema.Primitive(name):
            return key and name == "date"
        case schema.Array(element):
            return _has_dated_key(element, key)
        case schema.Map(keys, values):
            return _has_dated_key(keys, key=True) or _has_dated_key(values, key)
        case schema.Struct(fields):
            return any(_has_dated_key(type_, key) for _, type_ in fields)
    return False


def _readable(name: str) -> str:
    """Return a name, or refuse it: Spark reads a column as nulls if its name has a backtick."""
    if "`" in name:
        raise UnsupportedTable(
            f"Column {name} has a backtick in its name, which Spark cannot read from ORC files.",
            remedy="Rename the column, or leave this table to Hive.",
        )
    return name


def pad_chars(frame: DataFrame, columns: Sequence[HiveColumn]) -> DataFrame:
    """Return a frame with the values of some of its columns as stored in files.

    In frames a char has no trailing blanks, as Hive compares it and as ORC reads it. In files it is
    padded with blanks, because Hive searches for the padded value.
    """
    chars = [column for column in columns if re.search(r"\bchar\b", column.type.lower())]
    # The rows of a source that only deletes have other columns alone.
    names = {name.lower() for name in frame.columns} if chars else ()
    values = {
        column.name: F.expr(padded(quoted(column.name), schema.parse_type(column.type)))
        for column in chars
        if column.name.lower() in names
    }
    return frame.withColumns(values) if values else frame


def padded(value: str, hive_type: schema.HiveType) -> str:
    """A value as stored in files, in SQL: every char in it is padded with blanks."""

    def fill(text: str, type_: schema.Char | schema.Varchar) -> str:
        return f"rpad({text}, {type_.length}, ' ')" if isinstance(type_, schema.Char) else text

    return _with_texts(value, hive_type, fill) if contains_type(_is_char, hive_type) else value


def _within(value: str, hive_type: schema.HiveType) -> str:
    """A value as readers show it, in SQL: texts are cut to their type's length, chars are trimmed.

    A file may contain longer texts if the column had a longer type when the file was written.
    """

    def cut(text: str, type_: schema.Char | schema.Varchar) -> str:
        shortened = f"substring({text}, 1, {type_.length})"
        return f"rtrim({shortened})" if isinstance(type_, schema.Char) else shortened

    return _with_texts(value, hive_type, cut)


def _with_texts(
    value: str,
    hive_type: schema.HiveType,
    change: Callable[[str, schema.Char | schema.Varchar], str],
) -> str:
    """Replace every char and varchar in a value."""
    if not contains_type(_is_text, hive_type):
        return value
    match hive_type:
        case schema.Char() | schema.Varchar():
            return change(value, hive_type)
        case schema.Array(element):
            return f"transform({value}, v -> {_with_texts('v', element, change)})"
        case schema.Map(key, item):
            keyed = f"transform_keys({value}, (k, v) -> {_with_texts('k', key, change)})"
            return f"transform_values({keyed}, (k, v) -> {_with_texts('v', item, change)})"
        case schema.Struct(fields):
            field_values = [
                f"{_with_texts(f'{value}.{quoted(name)}', type_, change)} AS {quoted(name)}"
                for name, type_ in fields
            ]
            return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(field_values)}) END"
    raise AssertionError(hive_type)


def _is_text(hive_type: schema.HiveType) -> bool:
    return isinstance(hive_type, schema.Char | schema.Varchar)


def _is_char(hive_type: schema.HiveType) -> bool:
    return isinstance(hive_type, schema.Char)


def has_exact_statistics(column: HiveColumn) -> bool:
    """Whether ORC can compare the statistics of a column instead of its values."""
    # A name with a dot could be that of a field.
    return "." not in column.name and compare_like_values(schema.parse_type(column.type))


def contains_type(kind: Callable[[schema.HiveType], bool], hive_type: schema.HiveType) -> bool:
    """Whether a type or a nested type is of a kind."""
    match hive_type:
        case schema.Array(element):
            return contains_type(kind, element)
        case schema.Map(key, value):
            return contains_type(kind, key) or contains_type(kind, value)
        case schema.Struct(fields):
            return any(contains_type(kind, type_) for _, type_ in fields)
    return kind(hive_type)


# Refusal of unsupported tables, before rows are read or written


STRIPE_SIZE = "orc.stripe.size"
_USUAL_STRIPE_SIZE = 64 << 20


def check_readable(spark: SparkSession, table: HiveTable) -> None:
    """Refuse a table whose columns Spark cannot read or write exactly.

    Raises:
        UnsupportedTable: The table has a type or a name that Spark cannot handle.
        UserError: The table has timestamps and Spark's time zone is not UTC.
    """
    spark_struct(all_columns(table))
    if any("timestamp" in column.type.lower() for column in all_columns(table)):
        require_utc(spark, table.ref.full_name)


def check_writable(table: HiveTable, features: Features) -> None:
    """Refuse a table if Hive could not read the written rows.

    Raises:
        UnsupportedTable: The table is sorted inside of its buckets, has no columns of its own, or
            has a column that Spark or this version of Hive cannot handle.
        TypeMismatch: A clustering column is not a column of the table.
    """
    if StorageFormat.of(table.serde, table.ref.full_name) is StorageFormat.ORC:
        stripe_size(table)
        require_whole_maps(table.columns)
        local_times = table.local_time_columns
        if local_times and not features.reads_local_times:
            raise UnsupportedTable(
                f"{table.ref.full_name} has columns of {LOCAL_ZONE}, which Hive 3 cannot read from "
                f"ORC files: {', '.join(local_times)}.",
                remedy="Use plain timestamps, in UTC.",
            )
    if table.sort_columns:
        raise UnsupportedTable(
            f"{table.ref.full_name} is sorted by {', '.join(table.sort_columns)}; "
            "rows of ACID tables are in the order of their row ids.",
            remedy="Create the table without SORTED BY.",
        )
    layout_of(table)


def stripe_size(table: HiveTable) -> int:
    """The table's stripe size in bytes.

    Raises:
        UnsupportedTable: The property has an invalid value.
    """
    return table.number(STRIPE_SIZE, _USUAL_STRIPE_SIZE, range(1, 1 << 63))


# Projections of frames, in few calls of Java.
#
# Each call of Java takes a fraction of a millisecond, and PySpark passes each text of a list with
# a call of its own: a projection of a table with twenty columns takes twenty-five calls.


_SEPARATOR = "\0"
_PATTERN = "separator"


def select_texts(frame: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """Return the same frame as ``selectExpr``."""
    if not _can_be_joined(expressions):
        return frame.selectExpr(*expressions)
    texts = _java_texts(frame.sparkSession, expressions)
    return DataFrame(java_frame(frame).selectExpr(texts), frame.sparkSession)


def select_as(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Project a frame to columns with new names.

    Args:
        frame: The frame.
        columns: The expression of each column, by its name.
    """
    projection = select_texts(frame, [*columns.values()])
    if not _can_be_joined([*columns]):
        return projection.toDF(*columns)
    names = _java_texts(frame.sparkSession, [*columns])
    return DataFrame(java_frame(projection).toDF(names), frame.sparkSession)


def _java_texts(spark: SparkSession, texts: Sequence[str]) -> Any:
    """Return an array of Java with at least one text; no text contains a zero byte."""
    kept = kept_objects(spark)
    if _PATTERN not in kept:
        kept[_PATTERN] = java_class(spark, "java.util.regex.Pattern").compile(_SEPARATOR)
    # Without a limit, Java drops empty texts at the end.
    return kept[_PATTERN].split(_SEPARATOR.join(texts), -1)


def _can_be_joined(texts: Sequence[str]) -> bool:
    return bool(texts) and not any(_SEPARATOR in text for text in texts)
