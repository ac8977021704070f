"""Parquet files with times as Hive and Spark write them, and the values that Hive 4.0.1 shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

NEW_YORK = {"writer.time.zone": "America/New_York"}


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
        path = folder / self.name.replace(" ", "_")
        parquet.write_table(table, path, use_deprecated_int96_timestamps=self.int96)
        return path

    def __str__(self) -> str:
        return self.name


LOCAL, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")

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
]
