"""Timestamps and days of all eras, converted to the current calendar.

Arrow's timestamps of nanoseconds end with the year 2262, and those of microseconds lack digits. So
data that is read from a file has its timestamps in the type TIMESTAMP, which holds all of them
exactly; `as_unit` converts them into Arrow's own.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import (
    compute,
    types,
)

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.foreign.text import parse_json
from hiveacid.orc.format.streams import UTC
from hiveacid.orc.format.tail import FIRST_GREGORIAN_DAY
from hiveacid.orc.values.timestamps import SECONDS_OF_2015

if TYPE_CHECKING:
    from pyarrow.parquet import ColumnSchema, FileMetaData

# How Parquet files store times, and which calendar and time zone a reader applies to them.
#
# Hive has the same rules: the physical type of a column decides, not the type in the table.


# Hive 4 stores the time zone of a file's writer under this name.
_ZONE = b"writer.time.zone"
_NAMES_OF_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})
# Hive 4 declares under this name that it converted instants by java.util.TimeZone. Versions that
# declare a zone only used java.time.
_LEGACY_CONVERSION = b"writer.zone.conversion.legacy"
# Hive 4 declares the calendar of dates under this name, if it is not the hybrid one.
_PROLEPTIC_DATES = b"writer.date.proleptic"
# Spark declares its version, and the hybrid calendar, which its older versions used.
_SPARK = b"org.apache.spark.version"
_SPARK_INT96 = (b"org.apache.spark.legacyINT96", b"3.1.0")
_SPARK_OTHERS = (b"org.apache.spark.legacyDateTime", b"3.0.0")

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True, slots=True)
class StoredTime:
    """The form of the dates or timestamps in a leaf of a file's schema.

    Attributes:
        physical: Parquet's physical type: "INT32" (dates), "INT64", or "INT96".
        unit: The unit of the stored numbers: "day", "ms", "us", or "ns".
        hybrid: Whether days before October 1582 are counted by the Julian calendar.
        instant: Whether the values are instants, not dates or local times.
        zone: The time zone in which a reader shows instants; UTC if the file does not declare it.
        legacy: Whether the zone has its current standard offset before 1900, as in java.util.TimeZone;
            in java.time it has the offset of the period.
    """

    physical: str
    unit: str
    hybrid: bool
    instant: bool
    zone: str
    legacy: bool


def stored_times(footer: "FileMetaData") -> dict[str, tuple[StoredTime, ...]]:
    """Return the forms of all dates and timestamps of a Parquet file.

    Returns:
        The forms in each column that has any, in the order of its leaves.

    Raises:
        pa.ArrowException: The schema is invalid.
    """
    marks = footer.metadata or {}
    leaves = (footer.schema.column(number) for number in range(footer.num_columns))
    columns = {}
    for field in footer.schema.to_arrow_schema():
        forms = (_form(leaf, marks) for leaf in islice(leaves, _leaf_count(field.type)))
        if times := tuple(form for form in forms if form is not None):
            columns[field.name] = times
    return columns


def _form(leaf: "ColumnSchema", marks: Mapping[bytes, bytes]) -> StoredTime | None:
    logical = parse_json(leaf.logical_type.to_json())
    if leaf.physical_type != "INT96" and logical["Type"] not in ("Timestamp", "Date"):
        return None
    instant = leaf.physical_type == "INT96" or logical.get("isAdjustedToUTC", False)
    zone = marks.get(_ZONE, b"UTC").decode(errors="replace")
    in_utc = not instant or zone in _NAMES_OF_UTC
    return StoredTime(
        leaf.physical_type,
        _unit(leaf.physical_type, logical),
        hybrid=_is_hybrid(leaf.physical_type, marks),
        instant=instant,
        zone=UTC if in_utc else zone,
        legacy=not in_utc and marks.get(_LEGACY_CONVERSION, b"").lower() == b"true",
    )


def _unit(physical: str, logical: Mapping[str, Any]) -> str:
    if physical == "INT96":
        return "ns"
    return "day" if logical["Type"] == "Date" else _UNITS[logical["timeUnit"]]


def _is_hybrid(physical: str, marks: Mapping[bytes, bytes]) -> bool:
    if _SPARK in marks:
        mark, first_without = _SPARK_INT96 if physical == "INT96" else _SPARK_OTHERS
        return mark in marks or marks[_SPARK] < first_without
    if physical == "INT32":
        return marks.get(_PROLEPTIC_DATES, b"").lower() != b"true"
    # Hive counts the days of INT96 by the hybrid calendar, whatever it declares, but never INT64.
    return physical == "INT96"


def _leaf_count(kind: pa.DataType) -> int:
    parts = [kind.field(number).type for number in range(kind.num_fields)]
    return sum(map(_leaf_count, parts)) if parts else 1


# Seconds since 1970 on a clock without a zone, rounded down, and the remainder. No type in a file
# is equal to it: there everything may be null.
TIMESTAMP = pa.struct(
    [
        pa.field("seconds", pa.int64(), nullable=False),
        pa.field("nanos", pa.int32(), nullable=False),
    ]
)
# The form of a timestamp after `orc.timestamps` has split it.
_SPLIT = pa.struct({"seconds": pa.int64(), "nanos": pa.timestamp("ns")})
_FRACTION = re.compile("[0-9]{1,9}")
_DAY = 86_400
_NANOS = 10**9
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": _NANOS}
# No calendar reaches as far.
_MOST_SECONDS = 1 << 45
# java.util.TimeZone has zone rules from here on; earlier, it uses the current standard offset.
YEAR_1900 = -2_208_988_800
# Time zone files list the changes up to this year, and a rule for all later ones.
_LAST_KNOWN_YEAR = 2036
_WINTER_AND_SUMMER = (1_420_070_400, 1_435_708_800)

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


def of_orc(array: pa.Array, *, julian: bool, clock: str | None) -> pa.Array:
    """Bring the times in a column of an ORC file to the calendar of today.

    Args:
        array: The column, its timestamps taken apart by ``split_timestamps``.
        julian: Whether days before October 1582 are counted by the calendar of that time.
        clock: The zone that timestamps are counted by.
    """

    def change(leaf: pa.Array) -> pa.Array | None:
        if leaf.type == _SPLIT:
            return _joined(leaf, julian, clock or UTC)
        return today(leaf) if julian and types.is_date32(leaf.type) else None

    return _changed(array, change)


def of_parquet(array: pa.Array, fine: pa.Array, times: Sequence[StoredTime]) -> pa.Array:
    """Bring the times in a column of a Parquet file to the calendar of today; see ``of_orc``.

    Args:
        array: The column, its timestamps of 96 bits read as microseconds, which hold all years.
        fine: The column, its timestamps of 96 bits read as nanoseconds, even if they overflow.
        times: The forms of its times in the file, in the order of its leaves.
    """
    leaves = zip(times, _time_leaves(fine), strict=True)

    def change(leaf: pa.Array) -> pa.Array | None:
        if not _is_time(leaf.type):
            return None
        form, fine_leaf = next(leaves)
        if not types.is_timestamp(leaf.type):
            return today(leaf) if form.hybrid else leaf
        per_second = _PER_SECOND[leaf.type.unit]
        numbers = _numbers(leaf)
        seconds = numbers // per_second
        nanos = (numbers - seconds * per_second) * (_NANOS // per_second)
        if form.physical == "INT96":
            # The difference of two numbers is correct even if both have overflowed.
            nanos += _numbers(fine_leaf) - numbers * 1000
        # Instants have their calendar in UTC, unlike in ORC files.
        moments = _as_today(seconds) if form.hybrid else seconds
        walls = _on_the_wall(moments, form.zone, legacy=form.legacy)
        return _timestamps(walls, nanos, _nulls_of(leaf))

    return _changed(array, change)


def parse_timestamp(text: str) -> pa.Array:
    """Parse a timestamp in the name of a partition, with up to nine digits of its second.

    Returns:
        One value of the type TIMESTAMP.

    Raises:
        ValueError: The text is not a timestamp of the Gregorian calendar.
    """
    time, point, digits = text.partition(".")
    if point and not _FRACTION.fullmatch(digits):
        raise ValueError(f"{digits!r} is not a fraction of a second.")
    seconds = pa.array([time]).cast(pa.timestamp("s"))
    nanos = np.array([int(digits.ljust(9, "0"))])
    return _timestamps(_numbers(seconds), nanos, _nulls_of(seconds))


def has_finer_times(array: pa.Array) -> bool:
    """Return whether timestamps of the type TIMESTAMP have more digits than microseconds.

    Args:
        array: Any array, whose timestamps may be nested.
    """
    if array.type == TIMESTAMP:
        return bool((_numbers(array.field(1)) % 1000).any())
    if types.is_struct(array.type):
        fields = (array.field(number) for number in range(array.type.num_fields))
        return any(map(has_finer_times, fields))
    if types.is_map(array.type):
        return any(map(has_finer_times, entries(array)))
    return bool(types.is_list(array.type)) and has_finer_times(elements(array))


def as_unit(array: pa.Array, unit: str, zone: str | None = None) -> pa.Array:
    """Convert to Arrow's own timestamps.

    Args:
        array: Of the type TIMESTAMP.
        unit: "us" cuts to microseconds, "ns" cannot hold all years.
        zone: Their time zone, if they are moments.

    Raises:
        UnsupportedFile: A timestamp is not representable in Arrow.
    """
    seconds, nanos = (_numbers(part) for part in (array.field(0), array.field(1)))
    per_second = _PER_SECOND[unit]
    mask = _nulls_of(array)
    present_seconds = seconds if mask is None else seconds[~mask]
    limit = (1 << 63) // per_second - 1
    if len(present_seconds) and not -limit < present_seconds.min() <= present_seconds.max() < limit:
        raise UnsupportedFile(
            "There is a timestamp before 1677 or after 2262, which has no number of nanoseconds.",
            remedy="Ask for microseconds.",
        )
    numbers = seconds * per_second + nanos // (_NANOS // per_second)
    return pa.array(numbers, pa.int64(), mask=mask).view(pa.timestamp(unit, zone))


def today(days: pa.Array) -> pa.Array:
    """Convert days whose values before October 1582 are in the Julian calendar."""
    numbers = days.cast(pa.int32())
    first = compute.min(numbers).as_py()
    if first is None or first >= FIRST_GREGORIAN_DAY:
        return days
    day_numbers = _numbers(numbers)
    mask = _nulls_of(days)
    return pa.array(_rebased(day_numbers).astype(np.int32), pa.int32(), mask=mask).cast(pa.date32())


def _rebased(days: Int64s) -> Int64s:
    old = days < FIRST_GREGORIAN_DAY
    if not old.any():
        return days
    # The usual count of days in years that begin in March, first in one calendar, then in the
    # other.
    past = np.where(old, days, 0) + 719_163 + 1_753_507
    year = (4 * past + 3) // 1461
    past -= 1461 * year // 4
    month = (5 * past + 2) // 153
    day = past - (153 * month + 2) // 5
    year -= 4800
    age = year // 400
    year -= age * 400
    of_year = (153 * month + 2) // 5 + day
    rebased = age * 146_097 + year * 365 + year // 4 - year // 100 + of_year - 719_468
    return np.where(old, rebased, days)


def _as_today(seconds: Int64s) -> Int64s:
    days = seconds // _DAY
    return (_rebased(days) - days) * _DAY + seconds


def _joined(pairs: pa.Array, julian: bool, clock: str) -> pa.Array:
    """Build timestamps from the values in an ORC file, like ORC's readers in Java."""
    seconds = _numbers(pairs.field(0))
    nanos = _numbers(pairs.field(1)) - SECONDS_OF_2015 * _NANOS
    missing = _nulls_of(pairs)
    if missing is not None:
        seconds, nanos = np.where(missing, 0, seconds), np.where(missing, 0, nanos)
    if len(nanos) and not -_NANOS < nanos.min() <= nanos.max() < _NANOS:
        raise CorruptFile("A timestamp has more nanoseconds than a second has.")
    if len(seconds) and not -_MOST_SECONDS <= seconds.min() <= seconds.max() <= _MOST_SECONDS:
        raise CorruptFile("A timestamp is of a year that no calendar has.")
    moments = seconds + (SECONDS_OF_2015 - _offset_at(SECONDS_OF_2015, clock))
    # Java's writers round towards 1970, unless the remainder is less than a millisecond. Others
    # also round this way, with negative remainders.
    are_rounded = moments < 0
    if are_rounded.any() or (nanos < 0).any():
        moments -= (are_rounded & (nanos > 999_999)) | (nanos < 0)
        nanos = np.where(nanos < 0, nanos + _NANOS, nanos)
    walls = _on_the_wall(moments, clock, legacy=True)
    return _timestamps(_as_today(walls) if julian else walls, nanos, missing)


@cache
def _offset_at(moment: int, clock: str) -> int:
    """Return the offset of a zone at a moment, by the rules of java.util.TimeZone."""
    return int(_offset(np.array([moment]), clock, legacy=True)[0])


def _on_the_wall(moments: Int64s, clock: str, *, legacy: bool) -> Int64s:
    """Return the local time in a zone, in seconds."""
    return moments if clock == UTC else moments + _offset(moments, clock, legacy=legacy)


def _offset(moments: Int64s, clock: str, *, legacy: bool) -> Int64s:
    """Return the offset of a zone from UTC in seconds, positive if ahead.

    Args:
        moments: The seconds since 1970 in UTC.
        clock: The zone.
        legacy: Whether to apply the rules of java.util.TimeZone instead of those of java.time.
    """
    if clock == UTC:
        return np.zeros_like(moments)
    offsets = _listed_offset(_in_known_years(moments), clock)
    return np.where(moments < YEAR_1900, standard_offset(clock), offsets) if legacy else offsets


def standard_offset(clock: str) -> int:
    """Return the current offset of a zone from UTC without daylight saving time, in seconds."""
    return int(_listed_offset(np.array(_WINTER_AND_SUMMER), clock).min())


def _listed_offset(moments: Int64s, clock: str) -> Int64s:
    try:
        stamps = pa.array(moments, pa.int64()).view(pa.timestamp("s", clock))
        return _numbers(compute.local_timestamp(stamps)) - moments
    except pa.ArrowInvalid as error:
        raise UnsupportedFile(f"There are timestamps by an unknown zone: {error}") from error


def _in_known_years(moments: Int64s) -> Int64s:
    """Move moments in years without listed rules into a year with the same days."""
    stamps = moments.astype("datetime64[s]")
    years = stamps.astype("datetime64[Y]").astype(np.int64) + 1970
    if not len(years) or years.max() <= _LAST_KNOWN_YEAR:
        return moments
    starts = _start_of(years)
    leap = (_start_of(years + 1) - starts) // _DAY - 365
    weekday = starts // _DAY % 7
    like = years.copy()
    for year in range(_LAST_KNOWN_YEAR - 27, _LAST_KNOWN_YEAR + 1):
        first = _start_of(np.array([year, year + 1]))
        is_alike = (first[0] // _DAY % 7 == weekday) & ((first[1] - first[0]) // _DAY - 365 == leap)
        like[is_alike & (years > _LAST_KNOWN_YEAR)] = year
    return moments - starts + _start_of(like)


def _start_of(years: Int64s) -> Int64s:
    starts: Int64s = (years - 1970).astype("datetime64[Y]").astype("datetime64[s]").astype(np.int64)
    return starts


def _timestamps(seconds: Int64s, nanos: Int64s, missing: Mask | None) -> pa.Array:
    parts = [pa.array(seconds, pa.int64()), pa.array(nanos.astype(np.int32), pa.int32())]
    mask = None if missing is None else pa.array(missing)
    return pa.StructArray.from_arrays(parts, fields=list(TIMESTAMP), mask=mask)


def _nulls_of(array: pa.Array) -> Mask | None:
    """Return where an array is null; None if it is nowhere."""
    return np.asarray(array.is_null()) if array.null_count else None


def _numbers(array: pa.Array) -> Int64s:
    """The numbers of an array, zero for null."""
    integers = array.cast(pa.int64())
    if integers.null_count:
        integers = compute.fill_null(integers, 0)
    numbers: Int64s = integers.to_numpy(zero_copy_only=False)
    return numbers


def _changed(array: pa.Array, change: Callable[[pa.Array], pa.Array | None]) -> pa.Array:
    """Return an array with some of its nested arrays replaced."""
    if not _has_times(array.type):
        return array
    if (changed_array := change(array)) is not None:
        return changed_array
    if types.is_struct(array.type):
        parts = [_changed(array.field(number), change) for number in range(array.type.num_fields)]
        fields = [field.with_type(part.type) for field, part in zip(array.type, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if types.is_map(array.type):
        keys, items = (_changed(part, change) for part in entries(array))
        return map_of(array, keys, items)
    if types.is_list(array.type):
        return list_of(array, _changed(elements(array), change))
    return array


def _has_times(kind: pa.DataType) -> bool:
    return _is_time(kind) or any(
        _has_times(kind.field(number).type) for number in range(kind.num_fields)
    )


def _time_leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The dates and timestamps in an array, in the order in which ``_changed`` visits them."""
    if _is_time(array.type):
        yield array
    elif types.is_struct(array.type):
        for number in range(array.type.num_fields):
            yield from _time_leaves(array.field(number))
    elif types.is_map(array.type):
        for part in entries(array):
            yield from _time_leaves(part)
    elif types.is_list(array.type):
        yield from _time_leaves(elements(array))


def _is_time(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) or types.is_date(kind))


def elements(array: pa.Array) -> pa.Array:
    """Return the elements of all lists, without other arrays' elements in the same memory."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first)


def list_of(array: pa.Array, values: pa.Array) -> pa.Array:
    """The same lists with other elements."""
    return pa.ListArray.from_arrays(_offsets(array), values, mask=array.is_null())


def entries(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The keys and the values of all maps; see ``elements``."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.keys.slice(first, last - first), array.items.slice(first, last - first)


def map_of(array: pa.Array, keys: pa.Array, items: pa.Array) -> pa.Array:
    """The same maps with other keys and values."""
    return pa.MapArray.from_arrays(_offsets(array), keys, items, mask=array.is_null())


def _offsets(array: pa.Array) -> pa.Array:
    return pa.array(np.asarray(array.offsets) - array.offsets[0].as_py(), pa.int32())
