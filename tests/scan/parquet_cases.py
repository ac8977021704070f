"""Parquet files with times as Hive and Spark write them, and the values that Hive 4.0.1 shows."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

NEW_YORK = {"writer.time.zone": "America/New_York"}
PROLEPTIC = {"writer.date.proleptic": "true"}
SPARK = {"org.apache.spark.version": "3.5.1"}
LEGACY = {"org.apache.spark.legacyDateTime": "", "org.apache.spark.legacyINT96": ""}

LOCAL, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Case:
    """A column of a file, and the texts of its values."""

    name: str
    type: str
    values: Sequence[int]
    stored: pa.DataType
    shown: Sequence[str]
    marks: Mapping[str, str] = field(default_factory=dict)
    int96: bool = False

    def write(self, folder: Path) -> Path:
        """Write the file; its column is ``at``."""
        numbers = pa.array(self.values, pa.int32() if self.type == "date" else pa.int64())
        table = pa.table({"at": numbers.view(self.stored)}).replace_schema_metadata(self.marks)
        path = folder / self.name.replace(" ", "_").replace(",", "")
        parquet.write_table(table, path, use_deprecated_int96_timestamps=self.int96)
        return path

    def __str__(self) -> str:
        return self.name


def write_int96(path: Path, values: Sequence[tuple[int, int]]) -> None:
    """Write a column ``at`` of timestamps of 96 bits, which Arrow itself writes of few years.

    Args:
        path: The file.
        values: Julian days, and nanoseconds of the day.
    """
    stored = [struct.pack("<qi", nanos, day) for day, nanos in values]
    sink = BytesIO()
    plain = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    parquet.write_table(pa.table({"at": pa.array(stored, pa.binary(12))}), sink, **plain)
    written = sink.getvalue()
    end = len(written) - 8 - int.from_bytes(written[-8:-4], "little")
    # The schema and the column have their type in the first field, an integer: 7 is that of bytes
    # of a fixed length, 3 that of 96 bits.
    footer = written[end:].replace(b"\x15\x0e", b"\x15\x06")
    path.write_bytes(written[:end] + footer)
    assert parquet.read_schema(path).field("at").type == pa.timestamp("ns")


# The same day, counted by the Julian and by the Gregorian calendar.
JULIAN, GREGORIAN = -171_655, -171_664


def _day(name: str, day: int, shown: str, marks: Mapping[str, str] | None = None) -> Case:
    return Case(f"day, {name}", "date", [day], pa.date32(), [shown], marks or {})


def _midnight(name: str, day: int, shown: str, **more: Any) -> Case:
    values = [day * 86_400_000_000]
    return Case(f"midnight, {name}", "timestamp", values, LOCAL, [f"{shown} 00:00:00"], **more)


# A zone and a conversion of Hive, the day and the second of the day that it writes in INT96, and
# the time that it reads.
_CONVERTED = [
    ("America/New_York", "false", 1_721_424, 17_762, "0001-01-01 00:00:00"),
    ("America/New_York", "true", 1_721_424, 18_000, "0001-01-01 00:00:00"),
    ("America/New_York", "false", 2_268_993, 17_762, "1500-03-01 00:00:00"),
    ("America/New_York", None, 2_396_759, 17_762, "1850-01-01 00:00:00"),
    ("America/New_York", "false", 2_396_759, 17_762, "1850-01-01 00:00:00"),
    ("America/New_York", "true", 2_396_759, 18_000, "1850-01-01 00:00:00"),
    ("America/New_York", "TRUE", 2_396_759, 17_762, "1849-12-31 23:56:02"),
    ("Europe/Berlin", "false", 2_411_549, 83_192, "1890-07-01 00:00:00"),
    ("Europe/Berlin", "true", 2_411_549, 82_800, "1890-07-01 00:00:00"),
    ("Europe/Berlin", "false", 2_415_020, 82_799, "1899-12-31 23:59:59"),
    ("Europe/Berlin", "true", 2_429_811, 79_200, "1940-07-01 00:00:00"),
    ("Europe/Berlin", "false", 5_373_331, 79_199, "9999-07-31 23:59:59"),
]


def _converted(zone: str, legacy: str | None, day: int, second: int, shown: str) -> Case:
    values = [((day - 2_440_588) * 86_400 + second) * 1_000_000]
    marks = {"writer.time.zone": zone}
    if legacy is not None:
        marks["writer.zone.conversion.legacy"] = legacy
    name = f"{zone} {legacy} {day} {second}"
    return Case(name.replace("/", "-"), "timestamp", values, LOCAL, [shown], marks, int96=True)


CASES = [
    Case(
        "local times",
        "timestamp",
        [1_577_872_800_123_456],
        LOCAL,
        ["2020-01-01 10:00:00.123456"],
        NEW_YORK,
    ),
    Case(
        "local times in milliseconds",
        "timestamp",
        [1_577_872_800_123],
        pa.timestamp("ms"),
        ["2020-01-01 10:00:00.123"],
        NEW_YORK,
    ),
    Case(
        "instants", "timestamp", [1_577_872_800_000_000], INSTANT, ["2020-01-01 05:00:00"], NEW_YORK
    ),
    Case(
        "instants of 96 bits",
        "timestamp",
        [1_593_576_000_123_456],
        LOCAL,
        ["2020-07-01 00:00:00.123456"],
        NEW_YORK,
        int96=True,
    ),
    Case(
        "instants without a zone",
        "timestamp",
        [1_577_872_800_000_000],
        LOCAL,
        ["2020-01-01 10:00:00"],
        int96=True,
    ),
    Case(
        "instants in UTC",
        "timestamp",
        [1_577_872_800_000_000],
        LOCAL,
        ["2020-01-01 10:00:00"],
        {"writer.time.zone": "Etc/UTC"},
        int96=True,
    ),
    _day("not declared", JULIAN, "1500-01-01"),
    _day("proleptic", GREGORIAN, "1500-01-01", PROLEPTIC),
    _day("proleptic in capitals", GREGORIAN, "1500-01-01", {"writer.date.proleptic": "TRUE"}),
    _day("not proleptic", JULIAN, "1500-01-01", {"writer.date.proleptic": "false"}),
    _day("of Spark", GREGORIAN, "1500-01-01", SPARK),
    _day("of Spark with the old calendar", JULIAN, "1500-01-01", SPARK | LEGACY),
    _day("of Spark 2.4", JULIAN, "1500-01-01", {"org.apache.spark.version": "2.4.8"}),
    _midnight("96 bits", JULIAN, "1500-01-01", int96=True),
    _midnight("96 bits beside proleptic dates", JULIAN, "1500-01-01", marks=PROLEPTIC, int96=True),
    _midnight("96 bits of Spark", GREGORIAN, "1500-01-01", marks=SPARK, int96=True),
    _midnight("96 bits of Spark, old", JULIAN, "1500-01-01", marks=SPARK | LEGACY, int96=True),
    _midnight("64 bits", GREGORIAN, "1500-01-01"),
    _midnight("64 bits of Spark", GREGORIAN, "1500-01-01", marks=SPARK),
    _midnight("64 bits of Spark, old", JULIAN, "1500-01-01", marks=SPARK | LEGACY),
    # The zone applies to the day of the Gregorian calendar: 1500-02-29 exists only in the other one.
    Case(
        "an evening before a Julian leap day",
        "timestamp",
        [((2_268_993 - 2_440_588) * 86_400 + 7200) * 1_000_000],
        LOCAL,
        ["1500-02-28 21:00:00"],
        {"writer.time.zone": "Etc/GMT+5"},
        int96=True,
    ),
    *(_converted(*each) for each in _CONVERTED),
]
