"""Column statistics: their kind for each type, and their union over several parts."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.rules.schema import Char, Decimal, HiveType, Primitive, Varchar


class StatisticsKind(StrEnum):
    """The kinds of column statistics that the metastore stores."""

    BOOLEAN = "boolean"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"

    @property
    def has_range(self) -> bool:
        """Whether the metastore stores a smallest and a largest value."""
        return self not in (StatisticsKind.BOOLEAN, StatisticsKind.STRING, StatisticsKind.BINARY)


_PRIMITIVES = {
    "boolean": StatisticsKind.BOOLEAN,
    "tinyint": StatisticsKind.LONG,
    "smallint": StatisticsKind.LONG,
    "int": StatisticsKind.LONG,
    "bigint": StatisticsKind.LONG,
    "float": StatisticsKind.DOUBLE,
    "double": StatisticsKind.DOUBLE,
    "string": StatisticsKind.STRING,
    "binary": StatisticsKind.BINARY,
    "date": StatisticsKind.DATE,
    "timestamp": StatisticsKind.TIMESTAMP,
}


def kind_of_statistics(hive_type: HiveType) -> StatisticsKind | None:
    """Return the kind of statistics for a type; None for a type without statistics in Hive."""
    match hive_type:
        case Primitive(name):
            return _PRIMITIVES.get(name)
        case Decimal():
            return StatisticsKind.DECIMAL
        case Char() | Varchar():
            return StatisticsKind.STRING
    return None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Exact statistics of one column over some rows.

    Integers have their own value, dates are days since 1970, timestamps whole seconds (rounded
    down), and decimals units of their last digit. Without any value, the range is undefined.

    Attributes:
        values: The number of values that are not null.
        nulls: The number of nulls.
        low: The smallest value.
        high: The largest value.
        length: The bytes of all texts or binaries.
        longest: The bytes of the longest one, if known: only planners use it.
        trues: The number of values that are true.
    """

    values: int = 0
    nulls: int = 0
    low: Any = None
    high: Any = None
    length: int = 0
    longest: int = 0
    trues: int = 0

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.values + self.nulls

    @property
    def average_length(self) -> float:
        """The average length in Hive's definition: a null counts as an empty text."""
        return self.length / self.rows if self.rows else 0.0


def united(parts: Iterable[ColumnStatistics]) -> ColumnStatistics:
    """Return the statistics of all rows of several parts."""
    values = nulls = length = longest = trues = 0
    low: Any = None
    high: Any = None
    for part in parts:
        values += part.values
        nulls += part.nulls
        length += part.length
        trues += part.trues
        longest = max(longest, part.longest)
        if part.low is not None:
            low = part.low if low is None else min(low, part.low)
            high = part.high if high is None else max(high, part.high)
    return ColumnStatistics(values, nulls, low, high, length, longest, trues)
