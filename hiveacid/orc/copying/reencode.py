"""Rewrite stripes without the rows that are deleted or aborted, by decoding them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedFile
from hiveacid.orc.copying.assemble import Part
from hiveacid.orc.format.batches import read_batches
from hiveacid.orc.format.compression import Chunks, Codec, Compression, Output, Sink, Source
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import (
    count_statistics,
    of_all_stripes,
    reliable_statistics,
)
from hiveacid.orc.format.streams import UTC, Stream, StreamKind, new_footer, row_index
from hiveacid.orc.format.tail import MAGIC, WRITER_JAVA, WRITER_VERSION_ORC_135, OrcTail, Stripe
from hiveacid.orc.row_keys.digests import ValueDigest
from hiveacid.orc.row_keys.key_stream import DeleteCursor
from hiveacid.orc.row_keys.keys import Keys, check_ascending, key_names
from hiveacid.orc.values.encoders import (
    FinishedColumn,
    TimestampEncoder,
    all_encoders,
    encoder_of,
)
from hiveacid.orc.values.evolution import check_clocks, evolved
from hiveacid.orc.values.timestamps import (
    check_nanos,
    mark,
    split_timestamps,
    split_types,
    timestamp_clock,
)
from hiveacid.rules.compaction import Tally
from hiveacid.rules.row_id import RowId

# Write rows into a new file, encoded by this package.
#
# Arrow's writer takes more time for the same streams, and its dictionaries, buffers and blocks of
# compression take memory of each column.


# Small blocks have a fixed cost each, and readers hold large ones of all columns.
_SMALLEST_BLOCK, _LARGEST_BLOCK = 4 << 10, 256 << 10
_USUAL_STRIDE = 10_000
# The size of a stripe before its compression, and the decoded rows that wait for their row group.
_STRIPE_SIZE = _GROUP_SIZE = 32 << 20


class RowGroups:
    """Cuts rows into row groups."""

    def __init__(self, stride: int) -> None:
        """Begin without rows.

        Args:
            stride: The rows of a row group; 0 for a file without row indexes.
        """
        self._stride = stride or _USUAL_STRIDE
        self._parts: list[Any] = []
        self._rows = self._bytes = 0

    def add(self, parts: Sequence[Any], size: int) -> Iterator[Any]:
        """Add batches of rows, and yield each row group that is complete.

        Args:
            parts: The batches.
            size: About the memory of them, which each of them may hold as a whole.
        """
        for part in parts:
            start = 0
            while start < part.num_rows:
                piece = part.slice(start, self._stride - self._rows)
                self._parts.append(piece)
                self._rows += piece.num_rows
                start += piece.num_rows
                if self._rows == self._stride:
                    yield from self.rest()
        if self._parts:
            self._bytes += size
        if self._bytes > _GROUP_SIZE:
            yield from self.rest()

    def rest(self) -> Iterator[Any]:
        """Yield the rows that are left, if any: a row group that ends its stripe."""
        import pyarrow as pa

        if self._parts:
            parts, self._parts = self._parts, []
            self._rows = self._bytes = 0
            yield parts[0] if len(parts) == 1 else pa.concat_batches(parts)


class RowWriter:
    """Writes row groups."""

    def __init__(
        self, sink: Sink, layout: Layout, clock: str, *, stripe_size: int = _STRIPE_SIZE
    ) -> None:
        """Begin a file.

        Args:
            sink: Receives the file.
            layout: The layout of the file.
            clock: The time zone of its timestamps, which are split.
            stripe_size: The number of bytes from which a stripe ends, before their compression.

        Raises:
            BeyondArrow: A column has a type that Arrow does not hold.
            UnsupportedFile: The codec is not supported, or the columns are in another order.
        """
        if layout.codec is Codec.LZO:
            raise UnsupportedFile(f"ORC files compressed with {layout.codec.name} are not written.")
        block_size = min(max(layout.block_size, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        self._compression = Compression(layout.codec, block_size)
        self._layout = layout
        self._clock = clock
        self._stripe_size = stripe_size
        self._stride = layout.stride or _USUAL_STRIDE
        self._root = encoder_of(layout.types, clock)
        self._encoders = tuple(all_encoders(self._root))
        if [encoder.column for encoder in self._encoders] != list(range(len(layout.types))):
            raise UnsupportedFile(
                "The columns of the ORC file are not in the order of their types."
            )
        self._output = Output(sink)
        self._output.write(MAGIC)
        self._rows = 0
        self._stripes: list[Stripe] = []
        self._statistics: list[tuple[bytes, ...]] = []

    def write(self, group: Any) -> None:
        """Write the rows of a row group; one with fewer rows than others ends its stripe."""
        self._root.add(group.to_struct_array())
        self._rows += group.num_rows
        if group.num_rows < self._stride or self._root.size >= self._stripe_size:
            self._end_stripe()

    def close(self) -> OrcTail:
        """Write the rest, and return the tail of the file."""
        if self._rows:
            self._end_stripe()
        nothing = (count_statistics(0).encode(),) * len(self._layout.types)
        times = [encoder for encoder in self._encoders if isinstance(encoder, TimestampEncoder)]
        rows = sum(stripe.rows for stripe in self._stripes)
        writer = (WRITER_JAVA, WRITER_VERSION_ORC_135)
        tail = replace(
            self._layout.tail(self._compression.block_size, writer),
            stripes=tuple(self._stripes),
            stripe_statistics=tuple(self._statistics),
            file_statistics=of_all_stripes(self._statistics) if self._statistics else nothing,
            user_metadata={} if any(time.is_finer for time in times) else mark(rows),
        )
        self._output.write(tail.encode(self._output.position))
        return tail

    def _end_stripe(self) -> None:
        index: list[Stream] = []
        data: list[Stream] = []
        encodings: list[bytes] = []
        statistics: list[bytes] = []
        for encoder in self._encoders:
            column = encoder.finish()
            encodings.append(column.encoding)
            statistics.append(column.statistics)
            compressed = [
                self._compression.chunks(b"".join(stream.parts)) for stream in column.streams
            ]
            data += [
                Stream(stream.kind, column.column, chunks.data)
                for stream, chunks in zip(column.streams, compressed, strict=True)
            ]
            if self._layout.stride:
                plain = self._index(column, compressed)
                encoded_index = self._compression.compress(plain)
                index.append(Stream(StreamKind.ROW_INDEX, column.column, encoded_index))
        streams = [*index, *data]
        descriptions = [stream.describe() for stream in streams]
        footer = self._compression.compress(new_footer(descriptions, encodings, self._clock))
        offset = self._output.position
        for stream in streams:
            self._output.write(stream.data)
        self._output.write(footer)
        index_length, data_length = (
            sum(len(stream.data) for stream in part) for part in (index, data)
        )
        self._stripes.append(
            Stripe(offset, index_length, data_length, len(footer), self._rows, Message())
        )
        self._statistics.append(tuple(statistics))
        self._rows = 0

    def _index(self, column: FinishedColumn, compressed: Sequence[Chunks]) -> bytes:
        """Return the row index of a column."""
        placed = [
            (chunks, stream.positions)
            for stream, chunks in zip(column.streams, compressed, strict=True)
            if stream.positions
        ]
        return row_index(
            (
                [
                    number
                    for chunks, positions in placed
                    for number in (
                        *self._compression.position(chunks, positions[group][0]),
                        *positions[group][1:],
                    )
                ],
                reliable_statistics(statistics.encode()),
            )
            for group, statistics in enumerate(column.groups)
        )


# Rows that are kept in longer runs than this are joined faster than they are filtered.
_ROWS_OF_A_SLICE = 256


@dataclass(frozen=True, slots=True)
class Reencoded:
    """The result of rewriting the rows of some stripes.

    Attributes:
        rows_read: The number of rows read.
        values: The number of remaining rows, and a digest of all their values.
        clock: The time zone of their timestamps.
    """

    rows_read: int
    values: Tally
    clock: str


def reencode(
    stripes: Sequence[tuple[Source, OrcTail, Sequence[int]]],
    sink: Sink,
    *,
    layout: Layout,
    deletes: Iterable[Keys],
    aborted_ids: Sequence[int],
) -> Reencoded:
    """Decode stripes and write the remaining rows.

    The new file is a part to be assembled, not one to be published: it lacks Hive's metadata. See
    `reencoded_part`.

    Args:
        stripes: Files, their tails and the numbers of the stripes, in the order of the row ids.
        sink: Receives the new file, which has no stripe if no row remains.
        layout: The layout that the new stripes must match; rows of other types are converted to its
            types.
        deletes: The delete events in the order of the row ids.
        aborted_ids: Write ids whose rows are removed.

    Raises:
        BeyondArrow: A value is not representable in Arrow.
        CorruptFile: A stripe does not decode.
        OutOfOrder: The row ids do not ascend.
        UnsupportedFile: The timestamps of the stripes are in different time zones.
    """
    cursor = DeleteCursor(deletes)
    last: RowId | None = None
    names = key_names(layout.types)
    rows_read, digest = 0, ValueDigest()
    types = split_types(layout.types)
    clock = _joint_clock(stripes)
    groups = RowGroups(layout.stride)
    writer = RowWriter(sink, layout, clock)

    def write(complete: Iterable[Any]) -> None:
        for group in complete:
            digest.add(group)
            writer.write(group)

    for source, tail, numbers in stripes:
        types_match = layout.stores_as(tail.types)
        # Like this, all files decode to the same Arrow types, names of columns included.
        uniform = replace(tail, types=layout.types) if types_match else tail
        if clock != UTC:
            check_clocks(tail.types, layout.types)
        split_view = split_timestamps(source, uniform, numbers)
        with closing(read_batches(*split_view)) as batches:
            for batch in batches if types_match else evolved(batches, split_view[1].types, types):
                check_nanos(batch)
                keys = Keys.of(batch, names)
                last = check_ascending(keys, last)
                stays = ~cursor.hits(keys)
                if aborted_ids:
                    stays &= ~np.isin(keys.current_write_ids, aborted_ids)
                rows_read += len(keys)
                if stays.any():
                    write(groups.add(*_parts_of(batch, stays)))
    write(groups.rest())
    writer.close()
    return Reencoded(rows_read, Tally(digest.rows, digest.value), clock)


def reencoded_part(source: Source, types: tuple[bytes, ...]) -> Part:
    """Convert a file that `reencode` has written into a part of a file.

    Args:
        source: The file.
        types: The types of its layout.
    """
    return Part(source, replace(OrcTail.read(source), types=types), reencoded=True)


def values_of(part: Part) -> Tally:
    """Read the rows of a part again: their number, and a digest of all their values."""
    digest = ValueDigest()
    if part.tail.stripes:
        split_view = split_timestamps(part.source, part.tail, part.chosen)
        with closing(read_batches(*split_view)) as batches:
            for batch in batches:
                digest.add(batch)
    return Tally(digest.rows, digest.value)


def _parts_of(batch: Any, stays: NDArray[np.bool_]) -> tuple[list[Any], int]:
    """Return the marked rows of a batch, at least one, in one part or several, and their memory."""
    import pyarrow as pa

    edges = np.flatnonzero(np.diff(stays, prepend=False, append=False))
    slices = len(edges) // 2
    # A slice holds the memory of its whole batch until its row group is complete.
    is_sparse = np.count_nonzero(stays) < len(stays) // 2
    if is_sparse or slices * _ROWS_OF_A_SLICE > len(stays):
        kept_rows = batch.filter(pa.array(stays))
        return [kept_rows], kept_rows.nbytes
    starts = edges.reshape(-1, 2).tolist()
    return [batch.slice(start, end - start) for start, end in starts], batch.nbytes


def _joint_clock(stripes: Sequence[tuple[Source, OrcTail, Sequence[int]]]) -> str:
    clocks = {
        clock
        for source, tail, numbers in stripes
        for number in numbers
        if (clock := timestamp_clock(source, tail, number)) is not None
    }
    if len(clocks) > 1:
        raise UnsupportedFile(f"There are timestamps by the clocks of {', '.join(sorted(clocks))}.")
    return clocks.pop() if clocks else UTC
