"""Columns with the types of Hive."""

from dbt.adapters.spark.column import SparkColumn


class HiveAcidColumn(SparkColumn):
    """A column; its type is complete, such as ``decimal(10,2)``."""

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
