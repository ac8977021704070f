"""Columns with the types of Hive."""

import re
from typing import TYPE_CHECKING

from dbt.adapters.spark.column import SparkColumn

from hiveacid.errors import UnsupportedTable
from hiveacid.rules.schema import parse_type
from hiveacid.rules.sql_names import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


class HiveAcidColumn(SparkColumn):
    """A column; its type is complete, such as ``decimal(10,2)``."""

    @property
    def quoted(self) -> str:
        """The name as SQL."""
        return quoted(self.column)

    @property
    def _kind(self) -> str:
        return str(self.dtype).partition("(")[0].strip().lower()

    def is_string(self) -> bool:
        """Whether its values are texts."""
        return self._kind in ("string", "varchar", "char")

    def is_integer(self) -> bool:
        """Whether its values are whole numbers."""
        return self._kind in ("tinyint", "smallint", "int", "integer", "bigint")

    def is_float(self) -> bool:
        """Whether its values are binary fractions."""
        return self._kind in ("float", "double")

    def is_numeric(self) -> bool:
        """Whether its values are decimal numbers."""
        return self._kind in ("decimal", "numeric")

    def is_number(self) -> bool:
        """Whether its values are numbers."""
        return self.is_integer() or self.is_float() or self.is_numeric()


def type_of_metastore(text: str) -> str:
    """Return the type of a column in a metastore as SQL: no user of the metastore writes a part of it.

    Raises:
        UnsupportedTable: The type is unknown, and more than words.
    """
    try:
        return str(parse_type(text))
    except UnsupportedTable:
        if re.fullmatch(r"[\w ]+", text):
            return text
        raise


def type_of_query(given: "DataType") -> str:
    """Return the type of a column of a query as SQL; Spark would not quote the names of its fields."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match given:
        case ArrayType():
            return f"array<{type_of_query(given.elementType)}>"
        case MapType():
            return f"map<{type_of_query(given.keyType)},{type_of_query(given.valueType)}>"
        case StructType():
            fields = (
                f"{name if re.fullmatch(r'[A-Za-z_][A-Za-z0-9_]*', name) else quoted(name)}"
                f":{type_of_query(field.dataType)}"
                for field in given.fields
                for name in [field.name]
            )
            return f"struct<{','.join(fields)}>"
    return given.simpleString()
