"""Values to look up in a column, in the order of statistics."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hiveacid.orc.format.column_ranges import LONG_DIGITS, ColumnRange
from hiveacid.rules.schema import Decimal, HiveType, Primitive

# Longer lists become a range: ORC compares each value of a list with each group of rows.
MOST_LISTED = 1000
_LONGEST_LIST = 64 << 10
_LONGEST_TEXT = 1 << 10
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


class OrderedValues(ABC):
    """Distinct values, compared as by SQL's ``=``: numbers exactly, texts by bytes."""

    @staticmethod
    def of(values: pa.ChunkedArray, hive_type: HiveType) -> "OrderedValues | None":
        """Return values for a column of a type; None if statistics cannot exclude them.

        Statistics of other types compare differently from SQL, see ``has_exact_statistics``; statistics
        of long decimals do not fit into 64-bit numbers.
        """
        given = values.type
        match hive_type:
            case Primitive(name) if name in _INTEGERS and pa.types.is_signed_integer(given):
                return Integers(_distinct(values.drop_null().to_numpy().astype(np.int64)))
            case Primitive("date") if pa.types.is_date32(given):
                return Days(
                    _distinct(values.drop_null().cast(pa.int32()).to_numpy().astype(np.int64))
                )
            case Primitive("string") if pa.types.is_string(given) or pa.types.is_large_string(
                given
            ):
                return Texts.of_valid(values.drop_null())
            case Decimal(precision, scale) if (
                pa.types.is_decimal128(given)
                and max(precision, given.precision) <= LONG_DIGITS
                and given.scale == scale
            ):
                return Decimals(_distinct(_unscaled(values.drop_null())), scale)
        return None

    @abstractmethod
    def any_in(self, bounds: ColumnRange) -> bool:
        """Whether one of the values is in a range."""

    @abstractmethod
    def condition(self, column: str) -> str | None:
        """Return a condition, in SQL, that a column satisfies if it has one of the values.

        Args:
            column: The column, quoted.
        """


@dataclass(frozen=True)
class Integers(OrderedValues):
    """Integers of any size."""

    values: NDArray[np.int64]

    def any_in(self, bounds: ColumnRange) -> bool:
        """Whether one of the values is in a range."""
        if not len(self.values) or bounds.low > self._last or bounds.high < self._first:
            return False
        at = int(np.searchsorted(self.values, max(bounds.low, self._first)))
        return bool(self.values[at] <= bounds.high)

    @property
    def _first(self) -> int:
        return int(self.values[0])

    @property
    def _last(self) -> int:
        return int(self.values[-1])

    def condition(self, column: str) -> str | None:
        """Return the values as a list, or as a range."""
        if not len(self.values):
            return "FALSE"
        if len(self.values) > MOST_LISTED:
            return self._between(column, self._first, self._last)
        return f"{column} IN ({', '.join(map(self._literal, self.values.tolist()))})"

    def _between(self, column: str, low: int, high: int) -> str:
        return f"{column} BETWEEN {self._literal(low)} AND {self._literal(high)}"

    def _literal(self, value: int) -> str:
        # Without a cast, the lowest value would be the negative of a number that is too large.
        return f"CAST('{value}' AS BIGINT)"


@dataclass(frozen=True)
class Days(Integers):
    """Dates, by the number of their day."""

    def _literal(self, value: int) -> str:
        return f"date_from_unix_date({value})"


@dataclass(frozen=True)
class Decimals(Integers):
    """Decimals, in units of their last digit."""

    scale: int

    def _literal(self, value: int) -> str:
        return (
            f"CAST('{Number(value).scaleb(-self.scale):f}' AS DECIMAL({LONG_DIGITS}, {self.scale}))"
        )


@dataclass(frozen=True)
class Texts(OrderedValues):
    """Texts, in the order of their bytes."""

    values: pa.Array

    @classmethod
    def of_valid(cls, values: pa.ChunkedArray) -> "Texts | None":
        """Return texts, or None if a value is not valid UTF-8, which Java decodes differently."""
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            return None
        unique = pc.unique(values).cast(pa.large_binary())
        return cls(unique.take(pc.array_sort_indices(unique)))

    def any_in(self, bounds: ColumnRange) -> bool:
        """Whether one of the values is in a range."""
        low, high = 0, len(self.values)
        while low < high:
            middle = (low + high) // 2
            if self._text(middle) < bounds.low:
                low = middle + 1
            else:
                high = middle
        return low < len(self.values) and self._text(low) <= bounds.high

    def _text(self, index: int) -> Any:
        return self.values[index].as_py()

    def condition(self, column: str) -> str | None:
        """Return the values as a list, or as a range."""
        if not len(self.values):
            return "FALSE"
        if len(self.values) <= MOST_LISTED and self.values.nbytes <= _LONGEST_LIST:
            return f"{column} IN ({', '.join(map(_literal, self.values.to_pylist()))})"
        low, high = self._text(0), self._text(len(self.values) - 1)
        if max(len(low), len(high)) > _LONGEST_TEXT:
            return None
        return f"{column} BETWEEN {_literal(low)} AND {_literal(high)}"


def _literal(text: bytes) -> str:
    return f"CAST(X'{text.hex()}' AS STRING)"


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct numbers in order; numpy's hash-based method is ten times slower."""
    ordered = np.sort(values)
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    return np.delete(ordered, repeated)


def _unscaled(values: pa.ChunkedArray) -> NDArray[np.int64]:
    """Decimals of at most 18 digits as integers: the lower halves of their 128 bits."""
    parts: Sequence[pa.Array] = values.chunks
    halves = [
        np.frombuffer(part.buffers()[1], "<i8")[2 * part.offset : 2 * (part.offset + len(part)) : 2]
        for part in parts
        if len(part)
    ]
    return np.concatenate(halves) if halves else np.zeros(0, np.int64)
