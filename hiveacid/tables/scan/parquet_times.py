"""How Parquet files store times, and which calendar and time zone a reader applies to them.

Hive has the same rules: the physical type of a column decides, not the type in the table.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa  # noqa: TID253
from pyarrow import parquet  # noqa: TID253

from hiveacid.orc.format.stripe_footer import UTC

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


def stored_times(footer: parquet.FileMetaData) -> dict[str, tuple[StoredTime, ...]]:
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


def _form(leaf: parquet.ColumnSchema, marks: Mapping[bytes, bytes]) -> StoredTime | None:
    logical = json.loads(leaf.logical_type.to_json())
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
