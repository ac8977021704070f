"""Rows as lines of JSON, by the rules of Hive's JsonSerDe as far as Spark shares them."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from hiveacid.errors import UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.rules.schema import (
    Array,
    Decimal,
    HiveType,
    Map,
    Primitive,
    Struct,
    parse_type,
)
from hiveacid.spark.failures import MISMATCH
from hiveacid.spark.rows.columns import quoted, spark_struct

_OPTIONS = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd HH:mm:ss[.SSSSSS]"}
# All numbers with this many digits differ as doubles, and Hive reads numbers as doubles.
_DIGITS_OF_A_DOUBLE = 15


class JsonText:
    """The conversion of a table's rows to lines.

    Spark is stricter than Hive: text in place of a number is an error, which Hive reads as zero.

    Args:
        columns: The columns.
        parameters: The parameters of the serde.

    Raises:
        UnsupportedTable: A column is or contains a map whose keys are not strings.
    """

    def __init__(self, columns: Sequence[HiveColumn], parameters: Mapping[str, str]) -> None:
        self._columns = columns
        for column in columns:
            if not _keys_are_strings(parse_type(column.type)):
                raise UnsupportedTable(
                    f"Column {column.name} of type {column.type}: Spark reads no keys of maps from "
                    "JSON but strings.",
                    remedy="Let Hive copy the rows into an ORC table.",
                )
        ignored = parameters.get("ignore.malformed.json", "").lower() == "true"
        self._mode = "PERMISSIVE" if ignored else "FAILFAST"

    def with_row(self, lines: DataFrame, line: str, row: str) -> DataFrame:
        """Append the row in each line; missing fields are null."""
        names = [column.name for column in self._columns]
        # Hive accepts any case of a name; Spark would not find the field.
        other = F.exists(
            F.json_object_keys(line), lambda key: F.lower(key).isin(names) & ~key.isin(names)
        )
        parsed = F.from_json(line, spark_struct(self._columns), {"mode": self._mode})
        wrong = F.lit(f"{MISMATCH} a line of JSON is empty, or names a column in capital letters.")
        refused = other | (F.trim(line) == "")
        return lines.withColumn(row, F.when(refused, F.raise_error(wrong)).otherwise(parsed))

    def with_line(self, rows: DataFrame, line: str, what: str) -> DataFrame:
        """Append the line of each row."""
        values = [
            _exact(F.col(quoted(column.name)), parse_type(column.type)).alias(column.name)
            for column in self._columns
        ]
        return rows.withColumn(line, F.to_json(F.struct(*values), _OPTIONS))


def _keys_are_strings(type_: HiveType) -> bool:
    match type_:
        case Map(key, item):
            return key == Primitive("string") and _keys_are_strings(item)
        case Array(element):
            return _keys_are_strings(element)
        case Struct(fields):
            return all(_keys_are_strings(field) for _, field in fields)
    return True


def _exact(value: SparkColumn, type_: HiveType) -> SparkColumn:
    """Convert long decimals to texts, since Hive reads all digits of a text."""
    match type_:
        case Decimal(precision) if precision > _DIGITS_OF_A_DOUBLE:
            return value.cast(StringType())
        case Array(element):
            return F.transform(value, lambda item: _exact(item, element))
        case Map(_, item):
            return F.transform_values(value, lambda _, entry: _exact(entry, item))
        case Struct(fields):
            parts = [_exact(value.getField(name), field).alias(name) for name, field in fields]
            return F.when(value.isNotNull(), F.struct(*parts))
    return value
