"""Rewrite stripes without the rows that are deleted or aborted, by decoding them."""

from collections.abc import Iterable, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from airflow_hiveacid.acid.proof import Tally
from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.errors import BeyondArrow, UnsupportedFile
from airflow_hiveacid.orc.copying.assemble import Part, assemble
from airflow_hiveacid.orc.copying.recompress import recompress
from airflow_hiveacid.orc.format.arrow_memory import return_memory
from airflow_hiveacid.orc.format.batches import read_batches
from airflow_hiveacid.orc.format.compression import Codec, Compression
from airflow_hiveacid.orc.format.layout import Layout
from airflow_hiveacid.orc.format.source_and_sink import Output, Sink, Source
from airflow_hiveacid.orc.format.stripe_footer import UTC
from airflow_hiveacid.orc.format.tail import OrcTail
from airflow_hiveacid.orc.row_keys.digests import ValueDigest
from airflow_hiveacid.orc.row_keys.key_stream import DeleteCursor
from airflow_hiveacid.orc.row_keys.keys import Keys, check_ascending, key_names
from airflow_hiveacid.orc.values.decimals import DecimalColumns
from airflow_hiveacid.orc.values.evolution import check_clocks, evolved
from airflow_hiveacid.orc.values.nanoseconds import are_finer, checked_nanos, is_marked, mark
from airflow_hiveacid.orc.values.timestamps import (
    join_timestamps,
    split_timestamps,
    split_types,
    timestamp_clock,
)

_CODECS = {
    Codec.NONE: "uncompressed",
    Codec.ZLIB: "zlib",
    Codec.SNAPPY: "snappy",
    Codec.LZ4: "lz4",
    Codec.ZSTD: "zstd",
}
# The library requires multiples of the first value. It allocates four times the second one for each
# column, regardless of the rows, so this is no more than the default of ORC's writers.
_BLOCK_STEP, _LARGEST_BLOCK = 64 << 10, 256 << 10
# This package compresses block by block, with a fixed cost for each block.
_SMALLEST_BLOCK = 4 << 10
# The library always writes row indexes; readers skip them if the file declares that it lacks them.
_USUAL_STRIDE = 10_000
# The library holds dictionaries at up to eight times their part of this.
_STRIPE_SIZE = 32 << 20
# Limit for data that is compressed afterwards; the rest goes to a temporary file.
_HELD_IN_MEMORY = 4 << 20
# Rows that are kept in longer runs than this are joined faster than they are filtered.
_ROWS_OF_A_SLICE = 256
# Texts with fewer distinct values than this share of them are worth a dictionary.
_DICTIONARY_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Reencoded:
    """The result of rewriting the rows of some stripes.

    Attributes:
        rows_read: The number of rows read.
        values: The number of remaining rows, and a digest of all their values.
        clock: The time zone of their timestamps.
        microseconds: Whether all timestamps are whole microseconds.
    """

    rows_read: int
    values: Tally
    clock: str
    microseconds: bool


def reencode(
    stripes: Sequence[tuple[Source, OrcTail, Sequence[int]]],
    sink: Sink,
    *,
    layout: Layout,
    deletes: Iterable[Keys],
    aborted: Sequence[int],
) -> Reencoded:
    """Decode stripes and write the remaining rows.

    The new file is a part to be assembled, not one to be published: it lacks Hive's metadata, and
    its timestamps are split. `reencoded_part` converts it.

    Args:
        stripes: Files, their tails and the numbers of the stripes, in the order of the row ids.
        sink: Receives the new file, which has no stripe if no row remains.
        layout: The layout that the new stripes must match; rows of other types are converted to its
            types.
        deletes: The delete events in the order of the row ids.
        aborted: Write ids whose rows are removed.

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
    microseconds = True
    types = split_types(layout.types)
    clock = _joint_clock(stripes)
    most_rows = sum(tail.stripes[number].rows for _, tail, numbers in stripes for number in numbers)
    with _Writer(sink, layout, DecimalColumns(types, most_rows)) as writer:
        for source, tail, numbers in stripes:
            same, marked = layout.stores_as(tail.types), is_marked(tail)
            # Like this, all files decode to the same Arrow types, names of columns included.
            uniform = replace(tail, types=layout.types) if same else tail
            if clock != UTC:
                check_clocks(tail.types, layout.types)
            shown = split_timestamps(source, uniform, numbers)
            with closing(read_batches(*shown)) as batches:
                for batch in batches if same else evolved(batches, shown[1].types, types):
                    nanos = checked_nanos(batch)
                    if microseconds and not marked:
                        microseconds = not any(map(are_finer, nanos))
                    keys = Keys.of(batch, names)
                    last = check_ascending(keys, last)
                    stays = ~cursor.hits(keys)
                    if aborted:
                        stays &= ~np.isin(keys.current_write_ids, aborted)
                    rows_read += len(keys)
                    if stays.any():
                        kept = _only(batch, stays)
                        digest.add(kept)
                        writer.write(kept)
    if not digest.rows:
        assemble([], sink, layout=layout)
    return Reencoded(rows_read, Tally(digest.rows, digest.value), clock, microseconds)


def reencoded_part(source: Source, done: Reencoded, types: tuple[bytes, ...]) -> Part:
    """Convert a file that `reencode` has written into a part of a file.

    Args:
        source: The file.
        done: The result of `reencode`.
        types: The types of its layout.
    """
    tail = OrcTail.read(source)
    if tail.stripes:
        source, tail = join_timestamps(source, tail, types, done.clock)
    metadata = mark(tail.rows) if done.microseconds else {}
    return Part(source, replace(tail, types=types, user_metadata=metadata), reencoded=True)


def values_of(part: Part) -> Tally:
    """Read the rows of a part again: their number, and a digest of all their values."""
    digest = ValueDigest()
    if part.tail.stripes:
        shown = split_timestamps(part.source, part.tail, part.chosen)
        with closing(read_batches(*shown)) as batches:
            for batch in batches:
                digest.add(batch)
    return Tally(digest.rows, digest.value)


def _only(batch: Any, stays: NDArray[np.bool_]) -> Any:
    """Return the marked rows of a batch, at least one."""
    import pyarrow as pa

    edges = np.flatnonzero(np.diff(stays, prepend=False, append=False))
    if len(edges) // 2 * _ROWS_OF_A_SLICE > len(stays):
        return batch.filter(pa.array(stays))
    slices = [batch.slice(start, end - start) for start, end in edges.reshape(-1, 2).tolist()]
    return slices[0] if len(slices) == 1 else pa.concat_batches(slices)


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


class _Writer:
    """The library's writer, which writes nothing without rows."""

    def __init__(self, sink: Sink, layout: Layout, decimals: DecimalColumns) -> None:
        self._target = sink
        self._layout = layout
        self._decimals = decimals
        block_size = min(max(layout.block_size, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        self._compression = Compression(layout.codec, block_size)
        # Receives its output if another compressor follows.
        self._plain: IO[bytes] | None = None
        if self._compression.is_fast:
            self._plain = SpooledTemporaryFile(_HELD_IN_MEMORY)  # noqa: SIM115
        self._sink = _WatchedSink(sink if self._plain is None else self._plain)
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._plain or nullcontext():
            if self._writer is None:
                return
            try:
                if kind is None:
                    self._call(self._writer.close)
            finally:
                self._abandon()
                return_memory()
            if kind is None and self._plain is not None:
                recompress(self._plain, self._target, self._compression, self._decimals)

    def write(self, batch: Any) -> None:
        import pyarrow as pa

        if self._plain is not None:
            batch = self._decimals.as_integers(batch)
        if self._writer is None:
            self._writer = self._open()
        self._call(self._writer.write, pa.Table.from_batches([batch]))

    def _open(self) -> Any:
        from pyarrow import orc

        layout = self._layout
        if layout.codec not in _CODECS:
            raise UnsupportedFile(f"ORC files compressed with {layout.codec.name} are not written.")
        block_size = -(-layout.block_size // _BLOCK_STEP) * _BLOCK_STEP
        return orc.ORCWriter(
            self._sink,
            compression=_CODECS[layout.codec if self._plain is None else Codec.NONE],
            compression_block_size=min(block_size, _LARGEST_BLOCK),
            row_index_stride=layout.stride or _USUAL_STRIDE,
            stripe_size=_STRIPE_SIZE,
            dictionary_key_size_threshold=_DICTIONARY_SHARE,
        )

    def _abandon(self) -> None:
        """Stop all further writes; this has no effect after the last write.

        The library closes a failed file when its writer is garbage-collected. That is after the
        sink is closed, and it ends the process because it cannot write there.
        """
        from pyarrow import ArrowException

        self._sink.abandoned = True
        with suppress(ArrowException, OSError):
            self._writer.close()
        # Its buffers are large.
        self._writer = None

    def _call(self, function: Any, *arguments: Any) -> None:
        from pyarrow import ArrowException

        try:
            function(*arguments)
        except (ArrowException, OSError) as error:
            if self._sink.error is not None:
                raise self._sink.error from None
            raise BeyondArrow(f"Arrow cannot write the rows: {error}") from error


class _WatchedSink:
    """Keeps the error of a sink, because the library passes on only its text."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._output = Output(sink)
        self.error: OSError | None = None
        self.abandoned = False

    def write(self, data: Any) -> int:
        if self.abandoned:
            return len(data)
        try:
            self._output.write(bytes(data))
        except OSError as error:
            self.error = error
            raise
        return len(data)

    def flush(self) -> None:
        """Do nothing, because the sink does not buffer."""
