"""Conversion between Hive's and Spark's column types."""

from collections.abc import Sequence

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

from airflow_hiveacid.acid import schema
from airflow_hiveacid.errors import TypeMismatch, UnsupportedTable
from airflow_hiveacid.metastore.catalog import HiveColumn

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


def hive_type(given: DataType, column: str) -> schema.HiveType:
    """Return Hive's type for the values of a Spark type.

    Raises:
        TypeMismatch: Hive has no such type.
    """
    match given:
        case TimestampNTZType():
            return schema.Primitive("timestamp")
        case CharType() if given.length <= schema.MAX_CHAR_LENGTH:
            return schema.Char(given.length)
        case VarcharType() if given.length <= schema.MAX_VARCHAR_LENGTH:
            return schema.Varchar(given.length)
        case StringType() | CharType() | VarcharType():
            return schema.Primitive("string")
        case DecimalType():
            return schema.Decimal(given.precision, given.scale)
        case ArrayType():
            return schema.Array(hive_type(given.elementType, column))
        case MapType():
            return schema.Map(hive_type(given.keyType, column), hive_type(given.valueType, column))
        case StructType():
            fields = [(_readable(f.name), hive_type(f.dataType, column)) for f in given.fields]
            return schema.Struct(tuple(fields))
    for name, type_ in _PRIMITIVES.items():
        if given == type_:
            return schema.Primitive(name)
    raise TypeMismatch(
        f"Column {column} of the source has type {given.simpleString()}, which Hive lacks.",
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
