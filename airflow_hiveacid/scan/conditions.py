"""Conditions on columns that allow skipping partitions and stripes without matching rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import ge, gt, le, lt
from typing import Any, Protocol

from airflow_hiveacid.acid.schema import HiveType, Primitive, parse_type
from airflow_hiveacid.metastore.catalog import HiveColumn
from airflow_hiveacid.orc.format.column_ranges import ColumnRange, ranges_of
from airflow_hiveacid.orc.format.tail import OrcTail

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_EPOCH = date(1970, 1, 1).toordinal()


class StripeChoice(Protocol):
    """A choice among the stripes of a file."""

    def stripes(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe whether it is read."""


@dataclass(frozen=True)
class Condition:
    """A comparison of a column with values; null values do not match.

    Attributes:
        column: The name of the column.
        type: Its type.
        operator: "<", "<=", ">" or ">="; "in" compares with several values for equality.
        values: The values to compare with.
    """

    column: str
    type: HiveType
    operator: str
    values: tuple[Any, ...]

    @classmethod
    def of(
        cls, columns: Sequence[HiveColumn], name: str, operator: str, values: Sequence[Any]
    ) -> "Condition | None":
        """Return a condition, if it is suitable for skipping.

        Python's comparison agrees with that of all engines only for integers, days and texts.
        """
        types = {column.name.lower(): parse_type(column.type) for column in columns}
        match types.get(name.lower()):
            case Primitive(known) as type_ if known in (*_INTEGERS, "date", "string"):
                wanted = {"date": date, "string": str}.get(known, int)
                if all(type(value) is wanted for value in values):
                    return cls(name.lower(), type_, operator, tuple(values))
        return None

    def is_met(self, value: Any) -> bool:
        """Return whether a value matches."""
        if value is None:
            return False
        if self.operator == "in":
            return value in self.values
        return _ORDERS[self.operator](value, self.values[0])

    def stripes(self, tail: OrcTail) -> list[bool]:
        """Return for each stripe of a file whether it may have matching rows."""
        if self.type == Primitive("string"):
            # Writers do not agree about the order of texts.
            return [True] * len(tail.stripes)
        return [self._is_met_in(bounds) for bounds in ranges_of(tail, self.column, self.type)]

    def _is_met_in(self, bounds: ColumnRange | None) -> bool:
        if bounds is None:
            return True
        if bounds.is_empty:
            return False
        values = [v.toordinal() - _EPOCH if isinstance(v, date) else v for v in self.values]
        if self.operator == "in":
            return any(bounds.low <= value <= bounds.high for value in values)
        bound = bounds.low if self.operator.startswith("<") else bounds.high
        return _ORDERS[self.operator](bound, values[0])
