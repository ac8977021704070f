"""Check that a file of a full ACID table meets the expectations of Hive's readers.

The readers trust row order, key index and statistics without a check, and lose rows or restore
deleted ones if these are wrong.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Literal

import numpy as np

from hiveacid.errors import DataError, UnsupportedFile
from hiveacid.orc.format.compression import Source, read_exactly
from hiveacid.orc.format.envelope import (
    FIELDS,
    KEY_INDEX,
    STATS,
    VERSION,
    EnvelopeColumn,
    RowOperation,
    TypeField,
    kind_of,
    parse_key_index,
)
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import COUNT, HAS_NULL, integer_range
from hiveacid.orc.format.streams import Integers, StreamKind
from hiveacid.orc.format.tail import OrcTail, Stripe
from hiveacid.orc.row_keys.key_stream import read_keys
from hiveacid.orc.row_keys.keys import KEY_COLUMNS, Keys, row_groups
from hiveacid.rules.row_id import RowId, decode_bucket

Kind = Literal["insert", "delete"]
# The row ids of a stripe are looked at all at once, and take 40 bytes each.
_MOST_ROWS = 16_000_000
_OPERATIONS = {"insert": RowOperation.INSERT, "delete": RowOperation.DELETE}


def verify_file(
    source: Source, *, kind: Kind, bucket: int | None = None, write_ids: range | None = None
) -> list[str]:
    """Compare the metadata of a file with its contents.

    Args:
        source: A file of a base, delta or delete delta.
        kind: The expected kind of rows.
        bucket: The number in the file's name.
        write_ids: The write ids that the name of its directory allows.

    Returns:
        The problems as sentences; empty for a valid file.
    """
    try:
        return list(_Verification(source, kind, bucket, write_ids).problems())
    except DataError as error:
        return [str(error)]


class _Verification:
    def __init__(
        self, source: Source, kind: Kind, bucket: int | None, write_ids: range | None
    ) -> None:
        self._source = source
        self._tail = OrcTail.read(source)
        self._operation = _OPERATIONS[kind]
        self._bucket = bucket
        self._write_ids = write_ids
        self._last: RowId | None = None
        self._last_rows: list[RowId] = []
        self._file_ranges: dict[EnvelopeColumn, list[tuple[int, int]]] = {}

    def problems(self) -> Iterator[str]:
        """Yield all problems, serious ones first."""
        if not self._tail.is_acid:
            yield "The columns are not those of a full ACID table."
            return
        self._tail.check_movable()
        yield from self._schema()
        if self._tail.stripes:
            for number, stripe in enumerate(self._tail.stripes):
                keys = self._keys(number)
                if len(keys.rows) != stripe.rows:
                    yield f"Stripe {number} has {len(keys.rows)} rows instead of {stripe.rows}."
                    return
                for problem in self._stripe(number, stripe, keys):
                    yield f"Stripe {number}: {problem}"
        yield from self._file_statistics()
        yield from self._user_metadata()

    def _keys(self, stripe: int) -> Keys:
        rows = self._tail.stripes[stripe].rows
        if not 0 < rows <= _MOST_ROWS:
            raise UnsupportedFile(f"Stripe {stripe} has {rows} rows, which cannot be checked.")
        batches = read_keys(self._source, self._tail, [stripe])
        with closing(batches):
            return Keys.joined(list(batches))

    def _schema(self) -> Iterator[str]:
        root = Message.decode(self._tail.types[0])
        names = root.all_data(TypeField.FIELD_NAMES)
        if root.all_numbers(TypeField.SUBTYPES) != list(range(1, len(FIELDS) + 1)):
            yield "The columns of the envelope are not numbered 1 to 6."
        for column, ((name, kind), spelled) in enumerate(zip(FIELDS, names, strict=True), 1):
            if spelled != name:
                yield f"The column {name.decode()} is spelled {spelled.decode(errors='replace')}."
            if kind_of(self._tail.types[column]) != kind:
                yield f"The column {name.decode()} is not of ORC type {kind.name.lower()}."

    def _stripe(self, number: int, stripe: Stripe, keys: Keys) -> Iterator[str]:
        disorder = keys.first_disorder()
        if disorder is not None:
            first, second = keys.row_id(disorder - 1), keys.row_id(disorder)
            yield f"{second} does not come after {first}."
        if self._last is not None and keys.row_id(0) <= self._last:
            yield f"{keys.row_id(0)} does not come after {self._last} of the stripe before."
        self._last = keys.row_id(-1)
        self._last_rows.append(self._last)
        yield from self._values(keys)
        yield from self._stripe_statistics(number, keys)
        # Without row indexes writers keep no statistics of the user's columns either.
        if self._tail.stride:
            yield from self._row_statistics(number, stripe)
            yield from self._row_index(stripe, keys)

    def _values(self, keys: Keys) -> Iterator[str]:
        strange = set(np.unique(keys.operations).tolist()) - {self._operation}
        if strange:
            yield f"There are operations {sorted(strange)} instead of {self._operation:d}."
        for bucket in np.unique(keys.buckets).tolist():
            writer = decode_bucket(bucket).writer_id
            if self._bucket is not None and writer != self._bucket:
                yield f"A row belongs to bucket {writer}, not to {self._bucket}."
        if self._write_ids is None:
            return
        columns = {"currentTransaction": keys.current_write_ids}
        if self._operation is RowOperation.INSERT:
            columns["originalTransaction"] = keys.original_write_ids
        for name, values in columns.items():
            smallest, largest = _range(values)
            if smallest < self._write_ids.start or largest >= self._write_ids.stop:
                yield (
                    f"{name} goes from {smallest} to {largest}, the directory allows "
                    f"{self._write_ids.start} to {self._write_ids.stop - 1}."
                )

    def _stripe_statistics(self, number: int, keys: Keys) -> Iterator[str]:
        for column, values in keys.columns().items():
            actual, claimed = _range(values), self._tail.int_range(number, column)
            self._file_ranges.setdefault(column, []).append(actual)
            if claimed != actual:
                yield f"The statistics of {_name(column)} are {claimed}, the rows have {actual}."

    def _row_statistics(self, number: int, stripe: Stripe) -> Iterator[str]:
        """Check the null counts of row structs: always null for deletes, never for inserts."""
        row = Message.decode(self._tail.stripe_statistics[number][EnvelopeColumn.ROW])
        present = row.number(COUNT, -1)
        if present < 0:
            yield "The statistics of row are missing, or do not account for each row."
            return
        expected_count = 0 if self._operation is RowOperation.DELETE else stripe.rows
        if present != expected_count:
            yield f"{present} of {stripe.rows} rows are not null; it should be {expected_count}."
        if present < stripe.rows and not row.number(HAS_NULL, 1):
            yield "The statistics of row deny that there are nulls."

    def _row_index(self, stripe: Stripe, keys: Keys) -> Iterator[str]:
        sizes = row_groups(stripe.rows, self._tail.stride)
        offset = stripe.offset
        columns = keys.columns()
        indexed = set()
        for stream in self._tail.stripe_footer(self._source, stripe).all_messages(1):
            kind, column, length = (stream.number(field) for field in (1, 2, 3))
            if kind == StreamKind.ROW_INDEX and column in KEY_COLUMNS:
                indexed.add(column)
                data = self._tail.compression.decompress(read_exactly(self._source, offset, length))
                entries = Message.decode(data).all_messages(1)
                yield from _wrong_groups(
                    EnvelopeColumn(column), entries, sizes, columns[EnvelopeColumn(column)]
                )
            offset += length
        for column in KEY_COLUMNS:
            if column not in indexed:
                yield f"There is no row index for {_name(column)}."

    def _file_statistics(self) -> Iterator[str]:
        for column, ranges in self._file_ranges.items():
            actual = min(low for low, _ in ranges), max(high for _, high in ranges)
            claimed = integer_range(self._tail.file_statistics[column])
            if claimed != actual:
                yield f"The file's statistics of {_name(column)} are {claimed}, not {actual}."

    def _user_metadata(self) -> Iterator[str]:
        metadata = self._tail.user_metadata
        for key in (KEY_INDEX, STATS, VERSION):
            if key not in metadata:
                yield f"The user metadata lacks {key}."
        if metadata.get(VERSION, b"2") != b"2":
            yield f"{VERSION} is {metadata[VERSION].decode(errors='replace')}, not 2."
        counts = [0, 0, 0]
        counts[self._operation] = self._tail.rows
        expected_stats = ",".join(map(str, counts))
        claimed = metadata.get(STATS, expected_stats.encode()).decode(errors="replace")
        if claimed != expected_stats:
            yield f"{STATS} is {claimed}, the rows have {expected_stats}."
        if KEY_INDEX in metadata and parse_key_index(metadata[KEY_INDEX]) != self._last_rows:
            yield f"{KEY_INDEX} does not name the last row of each stripe."


def _wrong_groups(
    column: EnvelopeColumn, entries: list[Message], sizes: Sequence[int], values: Integers
) -> Iterator[str]:
    if len(entries) != len(sizes):
        yield f"The row index of {_name(column)} has {len(entries)} row groups, not {len(sizes)}."
        return
    start = 0
    for group, (entry, size) in enumerate(zip(entries, sizes, strict=True)):
        actual = _range(values[start : start + size])
        claimed = integer_range(entry.data(2) or b"")
        if claimed != actual:
            yield (
                f"The row index of {_name(column)} has {claimed} for row group {group}, "
                f"the rows have {actual}."
            )
        start += size


def _range(values: Integers) -> tuple[int, int]:
    return int(values.min()), int(values.max())


def _name(column: EnvelopeColumn) -> str:
    return FIELDS[column - 1][0].decode()
