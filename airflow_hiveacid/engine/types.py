"""Hive's types as Spark's."""

from collections.abc import Sequence

from pyspark.sql.types import (  # noqa: TID253
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
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
    TimestampType,
)

from airflow_hiveacid.acid import schema
from airflow_hiveacid.acid.errors import UnsupportedTable
from airflow_hiveacid.metastore.catalog import Column

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


def spark_struct(columns: Sequence[Column]) -> StructType:
    """The columns of a table as a Spark struct; every column can be null.

    Raises:
        UnsupportedTable: Spark cannot find one of them in a file, or has no such type.
    """
    return StructType(
        [
            StructField(
                _readable(column.name), spark_type(schema.parse_type(column.type), column.name)
            )
            for column in columns
        ]
    )


def spark_type(hive_type: schema.HiveType, column: str) -> DataType:
    """One Hive type as Spark's; char and varchar are strings to Spark.

    Raises:
        UnsupportedTable: Spark has no such type.
    """
    match hive_type:
        case schema.Primitive(name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case schema.Decimal(precision, scale):
            return DecimalType(precision, scale)
        case schema.Char() | schema.Varchar():
            return StringType()
        case schema.Array(element):
            return ArrayType(spark_type(element, column))
        case schema.Map(key, value):
            return MapType(spark_type(key, column), spark_type(value, column))
        case schema.Struct(fields):
            return StructType(
                [StructField(_readable(name), spark_type(type_, column)) for name, type_ in fields]
            )
    raise UnsupportedTable(
        f"Column {column} has type {hive_type}, which Spark cannot read or write.",
        remedy="Leave this table to Hive.",
    )


def _readable(name: str) -> str:
    """A name as it is; Spark reads a column as nulls if its name has a backtick."""
    if "`" in name:
        raise UnsupportedTable(
            f"Column {name} has a backtick in its name, which Spark cannot read from ORC files.",
            remedy="Rename the column, or leave this table to Hive.",
        )
    return name
