"""Write the columns 0 to 5 of a stripe: the root of the envelope and the five key columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hiveacid.orc.format.compression import Compression
from hiveacid.orc.format.envelope import EnvelopeColumn
from hiveacid.orc.format.statistics import (
    BYTES_ON_DISK,
    count_statistics,
    integer_statistics,
)
from hiveacid.orc.format.streams import (
    Integers,
    Stream,
    StreamKind,
    arithmetic_runs,
    integer_runs,
    row_index,
)

KEY_COLUMNS = (
    EnvelopeColumn.OPERATION,
    EnvelopeColumn.ORIGINAL_TRANSACTION,
    EnvelopeColumn.BUCKET,
    EnvelopeColumn.ROW_ID,
    EnvelopeColumn.CURRENT_TRANSACTION,
)
_HALF = 1 << 32


@dataclass(slots=True)
class NewColumns:
    """Encoded columns of one stripe.

    Attributes:
        index: Their row indexes, in column order; empty for a file without them.
        data: Their data streams.
        statistics: For each column its statistics over the stripe.
    """

    index: list[Stream] = field(default_factory=list)
    data: list[Stream] = field(default_factory=list)
    statistics: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class _Range:
    """Statistics of a row group, or of all of them."""

    count: int = 0
    smallest: int = 0
    largest: int = 0
    total: int = 0

    def add(self, count: int, smallest: int, largest: int, total: int) -> None:
        if self.count == 0:
            self.smallest, self.largest = smallest, largest
        else:
            self.smallest = min(self.smallest, smallest)
            self.largest = max(self.largest, largest)
        self.count += count
        self.total += total


class IntegerColumn:
    """An integer column of one stripe, built row group by row group.

    Every row group starts a new run, so that a row index never points into a run.
    """

    def __init__(self) -> None:
        self._plain = bytearray()
        self._groups: list[tuple[int, _Range]] = []

    def begin_group(self) -> None:
        """Start the next row group."""
        self._groups.append((len(self._plain), _Range()))

    def add_sequence(self, first: int, count: int, step: int) -> None:
        """Append `count` values that start at `first` and rise by `step`, 0 or more."""
        self._plain += arithmetic_runs(first, count, step)
        last = first + step * (count - 1)
        self._groups[-1][1].add(count, first, last, (first + last) * count // 2)

    def add_values(self, values: Integers) -> None:
        """Append any values."""
        smallest, largest = int(values.min()), int(values.max())
        if smallest == largest:
            self.add_sequence(smallest, len(values), 0)
            return
        self._plain += integer_runs(values)
        # Summed in halves, because the sum of 64-bit numbers need not fit 64 bits.
        high, low = values >> 32, values & (_HALF - 1)
        total = int(high.sum()) * _HALF + int(low.sum())
        self._groups[-1][1].add(len(values), smallest, largest, total)

    def finish(self, column: int, compression: Compression, new: NewColumns, stride: int) -> None:
        """Compress the column and append it to the new columns of its stripe."""
        chunks = compression.chunks(bytes(self._plain))
        new.data.append(Stream(StreamKind.DATA, column, chunks.data))
        if stride:
            index = row_index(
                ([*compression.position(chunks, start), 0], _encode(group))
                for start, group in self._groups
            )
            new.index.append(Stream(StreamKind.ROW_INDEX, column, compression.compress(index)))
        stripe = _Range()
        for _, group in self._groups:
            stripe.add(group.count, group.smallest, group.largest, group.total)
        message = integer_statistics(stripe.count, stripe.smallest, stripe.largest, stripe.total)
        message.add_number(BYTES_ON_DISK, len(chunks.data))
        new.statistics.append(message.encode())


def _encode(group: _Range) -> bytes:
    return integer_statistics(group.count, group.smallest, group.largest, group.total).encode()


class KeyColumns:
    """Builds the root and the five key columns of one stripe."""

    def __init__(self) -> None:
        self._columns = {column: IntegerColumn() for column in KEY_COLUMNS}
        self._group_rows: list[int] = []

    def begin_group(self, rows: int) -> None:
        """Start a row group of so many rows."""
        self._group_rows.append(rows)
        for column in self._columns.values():
            column.begin_group()

    def add_sequence(self, column: EnvelopeColumn, first: int, count: int, step: int = 0) -> None:
        """Append equal or evenly rising values to one column."""
        self._columns[column].add_sequence(first, count, step)

    def add_values(self, column: EnvelopeColumn, values: Integers) -> None:
        """Append any values to one column."""
        self._columns[column].add_values(values)

    def finish(self, compression: Compression, stride: int) -> NewColumns:
        """Compress everything."""
        new = NewColumns()
        new.statistics.append(count_statistics(sum(self._group_rows)).encode())
        if stride:
            index = row_index(((), count_statistics(rows).encode()) for rows in self._group_rows)
            new.index.append(
                Stream(StreamKind.ROW_INDEX, EnvelopeColumn.ROOT, compression.compress(index))
            )
        for number, column in self._columns.items():
            column.finish(number, compression, new, stride)
        return new


def row_groups(rows: int, stride: int) -> Sequence[int]:
    """The sizes of the row groups of a stripe."""
    if stride == 0:
        return [rows] if rows else []
    full, rest = divmod(rows, stride)
    return [stride] * full + ([rest] if rest else [])
