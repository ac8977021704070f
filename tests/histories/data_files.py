"""Files as writers of all kinds leave them in the directories of a table, written without Spark."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from pyarrow import orc

from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.tail import row_types
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.names import (
    ACID_VERSION_FILE,
    FLUSH_LENGTH_SUFFIX,
    Base,
    BucketFile,
    Delta,
)
from hiveacid.rules.row_id import RowId, decode_bucket, encode_bucket
from hiveacid.rules.schema import row_struct
from tests.histories.table_model import Row, row_of
from tests.orc.acid_files import enveloped, with_acid_metadata

# The types of the columns of a table, one after the other.
COLUMNS: Sequence[Mapping[str, str]] = (
    {"k": "int", "note": "string", "payload": "binary"},
    {"k": "bigint", "note": "string", "payload": "binary"},
    {"k": "bigint", "note": "string", "payload": "binary", "more": "struct<a:int>"},
    {"k": "bigint", "note": "string", "payload": "binary", "more": "struct<b:string,a:bigint>",
     "last": "decimal(5,2)"},
)  # fmt: skip
_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "struct<a:int>": pa.struct({"a": pa.int32()}),
    "struct<b:string,a:bigint>": pa.struct({"b": pa.string(), "a": pa.int64()}),
    "decimal(5,2)": pa.decimal128(5, 2),
}
_UNION = "HIVE_UNION_SUBDIR_1"
# Four of these make a stripe that is too large to be called tiny.
_LARGE_PAYLOAD = 300_000


@dataclass(frozen=True)
class FileStyle:
    """The layout of a writer's files.

    Attributes:
        codec: ORC's name of the compression.
        stripe_rows: The rows of a stripe; 0 leaves the size of stripes to the library.
        stride: The rows of a row group.
        large: Whether the rows are so large that a few of them fill a stripe.
        attempt: Whether the names of files contain the number of an attempt, as Hive 4's do.
        columns: The columns with their types.
    """

    codec: str
    stripe_rows: int
    stride: int
    large: bool
    attempt: bool
    columns: Mapping[str, str]

    @classmethod
    def random(
        cls, random: Random, columns: Mapping[str, str], *, large: bool, attempt: bool
    ) -> "FileStyle":
        # Only without compression does the library heed a small stripe size.
        codecs = ["snappy", "none"] if large else ["zlib", "zlib", "snappy", "none", "none", "none"]
        codec = random.choice(codecs)
        return cls(
            codec,
            random.choice([0, 3, 8]) if codec == "none" and not large else 0,
            random.choice([10_000, 10_000, 1000]),
            large,
            attempt,
            columns,
        )

    def rows(self, random: Random, first: int, count: int) -> list[Row]:
        return [self._row(random, number) for number in range(first, first + count)]

    def _row(self, random: Random, number: int) -> Row:
        values = {
            "k": number,
            "note": None if number % 5 == 0 else f"note {number % 7}",
            "payload": random.randbytes(_LARGE_PAYLOAD) if self.large else None,
            "more": {"a": number} if number % 3 else None,
            "last": Decimal(number) / 100,
        }
        if "b" in self.columns.get("more", "") and number % 3:
            values["more"] = {"a": 1 << 40 | number, "b": f"{number}" if number % 2 else None}
        return row_of({name: values[name] for name in self.columns})


def write_rows(
    folder: Path,
    directory: Base | Delta,
    bucket: int,
    rows: Mapping[int, Sequence[Row]],
    style: FileStyle,
) -> dict[RowId, Row]:
    """Write one bucket file of inserted rows, by write id; return their row ids."""
    statement = 0 if isinstance(directory, Base) else directory.statement_id or 0
    property_ = encode_bucket(bucket, statement)
    keys = {
        RowId(write_id, property_, number): row
        for write_id, some in rows.items()
        for number, row in enumerate(some)
    }
    flat = _flat_file(list(keys.values()), style)
    with _bucket_file(folder, directory, bucket, style).open("xb") as sink:
        if len(rows) == 1:
            (write_id,) = rows
            transplant([flat], sink, write_id=write_id, bucket=property_)
        else:
            file = _orc_file(enveloped(flat, list(keys)), style)
            sink.write(with_acid_metadata(file, list(keys)).getvalue())
    return keys


def write_flat_rows(
    folder: Path, write_id: int, statement: int, rows: Mapping[int, Sequence[Row]], style: FileStyle
) -> dict[RowId, Row]:
    """Write files without row ids, in several files and folders, as Hive does; return the row ids."""
    keys: dict[RowId, Row] = {}
    for bucket, some in rows.items():
        names = [f"{bucket:06d}_0", f"{bucket:06d}_0_copy_1"]
        if write_id == 0:
            names.append(f"{_UNION}/{bucket:06d}_0")
        file_of = [len(names) * number // max(len(some), 1) for number in range(len(some))]
        for number_of_file, name in enumerate(names):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            part = [row for row, own in zip(some, file_of, strict=True) if own == number_of_file]
            path.write_bytes(_flat_file(part, style).getvalue())
        property_ = encode_bucket(bucket, statement)
        keys |= {RowId(write_id, property_, number): row for number, row in enumerate(some)}
    return keys


def cut_off(folder: Path, directory: Delta, random: Random) -> None:
    """Leave the files of a streaming writer as if it had been killed over the next rows."""
    for path in sorted((folder / directory.name).glob("bucket_*")):
        length = path.stat().st_size
        with path.open("ab") as file:
            file.write(random.randbytes(random.randint(0, 50)))
        lengths = b"".join(offset.to_bytes(8, "big") for offset in (length // 2, length))
        note = lengths + bytes(random.randint(0, 7))
        path.with_name(f"{path.name}{FLUSH_LENGTH_SUFFIX}").write_bytes(note)


def write_deletes(folder: Path, directory: Delta, keys: Sequence[RowId], style: FileStyle) -> None:
    """Write the delete events of a write id, each bucket into a file of its own."""
    types = row_types(row_struct(list(style.columns.items())))
    buckets: dict[int, list[RowId]] = {}
    for key in sorted(keys):
        buckets.setdefault(decode_bucket(key.bucket).writer_id, []).append(key)
    for bucket, some in buckets.items():
        parts = np.array(some, dtype=np.int64).T
        with _bucket_file(folder, directory, bucket, style).open("xb") as sink:
            write_delete_file(
                sink,
                [Keys.deletes(*parts, write_id=directory.max_write_id)],
                row_types=types,
                codec=style.codec,
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
    schema = pa.schema({name: _ARROW[type_] for name, type_ in style.columns.items()})
    return _orc_file(pa.Table.from_pylist([dict(row) for row in rows], schema), style)


def _orc_file(table: pa.Table, style: FileStyle) -> io.BytesIO:
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
