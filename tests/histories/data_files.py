"""Files as writers of all kinds leave them in the directories of a table, written without Spark."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from pyarrow import orc

from airflow_hiveacid.acid.names import ACID_VERSION_FILE, Base, BucketFile, Delta
from airflow_hiveacid.acid.row_id import RowId, decode_bucket, encode_bucket
from airflow_hiveacid.acid.schema import row_struct
from airflow_hiveacid.orc.delete_file import write_delete_file
from airflow_hiveacid.orc.row_types import row_types
from airflow_hiveacid.orc.transplant import Segment, transplant
from tests.histories.table_model import Row

COLUMNS = {"k": "bigint", "note": "string", "payload": "binary"}
_SCHEMA = pa.schema({"k": pa.int64(), "note": pa.string(), "payload": pa.binary()})
_TYPES = row_types(row_struct(list(COLUMNS.items())))
# Four of these make a stripe that is too large to be called tiny.
_LARGE_PAYLOAD = 300_000


@dataclass(frozen=True)
class FileStyle:
    """How a writer lays its files out.

    Attributes:
        codec: ORC's name of the compression.
        stripe_rows: The rows of a stripe; 0 leaves the size of stripes to the library.
        stride: The rows of a row group.
        large: Whether the rows are so large that a few of them fill a stripe.
        attempt: Whether the names of files carry the number of an attempt, as Hive 4's do.
    """

    codec: str
    stripe_rows: int
    stride: int
    large: bool
    attempt: bool

    @classmethod
    def random(cls, random: Random, *, large: bool, attempt: bool) -> "FileStyle":
        # Only without compression does the library heed a small stripe size.
        codecs = ["snappy", "none"] if large else ["zlib", "zlib", "snappy", "none", "none", "none"]
        codec = random.choice(codecs)
        return cls(
            codec,
            random.choice([0, 3, 8]) if codec == "none" and not large else 0,
            random.choice([10_000, 10_000, 1000]),
            large,
            attempt,
        )

    def rows(self, random: Random, first: int, count: int) -> list[Row]:
        return [
            (
                number,
                None if number % 5 == 0 else f"note {number % 7}",
                random.randbytes(_LARGE_PAYLOAD) if self.large else None,
            )
            for number in range(first, first + count)
        ]


def write_rows(
    folder: Path,
    directory: Base | Delta,
    bucket: int,
    rows: Mapping[int, Sequence[Row]],
    style: FileStyle,
) -> dict[RowId, Row]:
    """Write one bucket file of inserted rows, by write id; tell their row ids."""
    statement = 0 if isinstance(directory, Base) else directory.statement_id or 0
    property_ = encode_bucket(bucket, statement)
    segments = [
        Segment(len(some), write_id, property_, 0, write_id) for write_id, some in rows.items()
    ]
    flat = _flat_file([row for some in rows.values() for row in some], style)
    with _bucket_file(folder, directory, bucket, style).open("xb") as sink:
        transplant(flat, sink, segments)
    return {
        RowId(write_id, property_, number): row
        for write_id, some in rows.items()
        for number, row in enumerate(some)
    }


def write_deletes(folder: Path, directory: Delta, keys: Sequence[RowId], style: FileStyle) -> None:
    """Write the delete events of a write id, each bucket into a file of its own."""
    buckets: dict[int, list[RowId]] = {}
    for key in sorted(keys):
        buckets.setdefault(decode_bucket(key.bucket).writer_id, []).append(key)
    for bucket, some in buckets.items():
        parts = np.array(some, dtype=np.int64).T
        with _bucket_file(folder, directory, bucket, style).open("xb") as sink:
            write_delete_file(
                sink, *parts, write_id=directory.max_write_id, row_types=_TYPES, codec=style.codec
            )


def make_directory(folder: Path, directory: Base | Delta) -> Path:
    """The directory, with the side file that Hive puts into each."""
    path = folder / directory.name
    if not path.exists():
        path.mkdir(parents=True)
        (path / ACID_VERSION_FILE).write_text("2")
    return path


def _bucket_file(folder: Path, directory: Base | Delta, bucket: int, style: FileStyle) -> Path:
    name = BucketFile(bucket, 0 if style.attempt else None).name
    return make_directory(folder, directory) / name


def _flat_file(rows: Sequence[Row], style: FileStyle) -> io.BytesIO:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    table = pa.table(
        [pa.array(part, field.type) for part, field in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA,
    )
    file = io.BytesIO()
    orc.write_table(
        table,
        file,
        compression="uncompressed" if style.codec == "none" else style.codec,
        row_index_stride=style.stride,
        stripe_size=1 if style.stripe_rows else 1 << 20,
        batch_size=style.stripe_rows or (1 if style.large else 1024),
    )
    file.seek(0)
    return file
