"""Bucket hashes of dates, timestamps and binary, computed by the classes of Hive 4.0.1.

``python -m tests.interop.bucket_hashes`` writes ``tests/data/hive_bucket_hashes.json``.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hiveacid.metastore.dev.distribution import find_java
from tests.interop.engines import OPENS, hive_classpath

VECTORS = Path(__file__).parents[1] / "data" / "hive_bucket_hashes.json"
_SOURCE = Path(__file__).parent / "java" / "BucketHashes.java"
# A century year that is no leap year separates the calendars by one more day, from 1 March on.
_CENTURIES = [f"{year:04d}-{day}" for year in range(100, 1600, 100) for day in ("02-28", "03-01")]
_DAYS = ["0001-01-01", "0004-02-29", *_CENTURIES, "1582-10-04", "1582-10-15", "1582-12-31"]
_LATER = ["1583-01-01", "1900-03-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31"]
_TIMES = ["00:00:00", "23:59:59.999999", "12:34:56.120", "02:30:00"]
VALUES = [
    *_DAYS,
    *_LATER,
    *(f"{day} {_TIMES[number % 4]}" for number, day in enumerate([*_DAYS, *_LATER])),
    *("1582-10-04 23:59:59.999999", "1582-10-15 00:00:00", "1969-12-31 23:59:59.999999999"),
    *("1700-03-01 12:34:56.123456789", "2262-01-01 00:00:00.000000001"),
    # Daylight saving gaps of Los Angeles and Berlin, which UTC does not have.
    *("2024-03-10 02:30:00", "2024-03-31 02:30:00"),
    *(f"0x{bytes(range(250, 250 + length)).hex()}" for length in range(6)),
    f"0x{'80ff00' * 7}",
]
Vector = tuple[str, str, int, int]


def hashes_by_hive(values: Sequence[str], zone: str = "UTC") -> list[Vector]:
    """The value, the type and the hashes of versions 1 and 2, by a Java in a time zone."""
    command = [find_java(), *OPENS, f"-Duser.timezone={zone}"]
    command += ["-cp", os.pathsep.join(map(str, hive_classpath())), str(_SOURCE)]
    done = subprocess.run(
        command, input="\n".join(values), stdout=subprocess.PIPE, text=True, check=True
    )
    lines = (line.split("\t") for line in done.stdout.splitlines())
    return [(value, type_, int(first), int(second)) for value, type_, first, second in lines]


def main() -> None:
    """Write the vectors."""
    names = ("value", "type", "v1", "v2")
    vectors = [dict(zip(names, vector, strict=True)) for vector in hashes_by_hive(VALUES)]
    description = "Bucket hashes of ObjectInspectorUtils of Hive 4.0.1 in a Java in UTC"
    lines = ",\n".join(json.dumps(vector) for vector in vectors)
    VECTORS.write_text(f'{{"description": "{description}", "vectors": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
