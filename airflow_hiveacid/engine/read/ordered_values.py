"""Values to look up in a column, in the order of statistics."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from airflow_hiveacid.acid.schema import Decimal, HiveType, Primitive
from airflow_hiveacid.engine.spark_versions import java_class
from airflow_hiveacid.orc.format.column_ranges import FIRST_GREGORIAN_DAY, LONG_DIGITS, ColumnRange

# Longer lists become a range: ORC compares each value of a list with each group of rows.
MOST_LISTED = 1000
_LONGEST_LIST = 64 << 10
_LONGEST_TEXT = 1 << 10
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# Spark quotes other names in filters.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SEPARATOR = "\0"
_FILTERS = "org.apache.spark.sql.sources"


class OrderedValues(ABC):
    """Distinct values, compared as by SQL's ``=``: numbers exactly, texts by bytes."""

    @staticmethod
    def of(values: pa.ChunkedArray, hive_type: HiveType) -> "OrderedValues | None":
        """Return values for a column of a type; None if statistics cannot exclude them.

        Statistics of other types compare differently from SQL, see ``search_argument``; statistics
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

    def filters(self, spark: SparkSession, column: str) -> list[Any]:
        """Return filters for ORC, as Java objects of Spark, which are combined by AND."""
        return self._filters(spark, column) if _PLAIN_NAME.fullmatch(column) else []

    @abstractmethod
    def _filters(self, spark: SparkSession, column: str) -> list[Any]:
        pass


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

    def _filters(self, spark: SparkSession, column: str) -> list[Any]:
        if not len(self.values):
            return []
        if len(self.values) > MOST_LISTED:
            return _between(spark, column, self._first, self._last)
        gateway: Any = spark.sparkContext._gateway
        # Convert all values at once, since every Java call takes time.
        longs = gateway.new_array(java_class(spark, "long"), len(self.values))
        data = bytearray(self.values.astype(">i8").tobytes())
        java_class(spark, "java.nio.ByteBuffer").wrap(data).asLongBuffer().get(longs)
        listed = java_class(spark, "java.util.stream.LongStream").of(longs).boxed().toArray()
        return [java_class(spark, f"{_FILTERS}.In")(column, listed)]


@dataclass(frozen=True)
class Days(Integers):
    """Dates, by the number of their day."""

    def _filters(self, spark: SparkSession, column: str) -> list[Any]:
        # Java uses another calendar for earlier dates.
        if not len(self.values) or self._first < FIRST_GREGORIAN_DAY:
            return []
        days = np.array([self._first, self._last], "datetime64[D]")
        date = java_class(spark, "java.sql.Date")
        return _between(spark, column, *[date.valueOf(str(day)) for day in days])


@dataclass(frozen=True)
class Decimals(Integers):
    """Decimals, in units of their last digit."""

    scale: int

    def _filters(self, spark: SparkSession, column: str) -> list[Any]:
        if not len(self.values):
            return []
        ends = (Number(end).scaleb(-self.scale) for end in (self._first, self._last))
        return _between(spark, column, *ends)


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

    def _filters(self, spark: SparkSession, column: str) -> list[Any]:
        if not len(self.values):
            return []
        # ORC compares texts by Java's order of letters, which is that of bytes for ASCII, and it
        # writes invalid bytes as a letter behind all others of that order.
        few = len(self.values) <= MOST_LISTED and self.values.nbytes <= _LONGEST_LIST
        used = self.values if few else self.values.take(pa.array([0, len(self.values) - 1]))
        listed = [text.decode() for text in used.to_pylist()]
        if not all(text.isascii() for text in listed):
            return []
        if few and not any(_SEPARATOR in text for text in listed):
            split = java_class(spark, "java.util.regex.Pattern").compile(_SEPARATOR)
            joined = split.splitAsStream(_SEPARATOR.join(listed)).toArray()
            return [java_class(spark, f"{_FILTERS}.In")(column, joined)]
        if max(map(len, listed)) > _LONGEST_TEXT:
            return []
        return _between(spark, column, listed[0], listed[-1])


def _between(spark: SparkSession, column: str, low: Any, high: Any) -> list[Any]:
    at_least = java_class(spark, f"{_FILTERS}.GreaterThanOrEqual")
    at_most = java_class(spark, f"{_FILTERS}.LessThanOrEqual")
    return [at_least(column, low), at_most(column, high)]


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
