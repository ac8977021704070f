"""Rewrite stripes without the rows that are deleted or aborted, by decoding them."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.errors import UnsupportedFile
from hiveacid.orc.copying.assemble import Part
from hiveacid.orc.copying.row_writer import RowGroups, RowWriter
from hiveacid.orc.format.batches import read_batches
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.source_and_sink import Sink, Source
from hiveacid.orc.format.stripe_footer import UTC
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.digests import ValueDigest
from hiveacid.orc.row_keys.key_stream import DeleteCursor
from hiveacid.orc.row_keys.keys import Keys, check_ascending, key_names
from hiveacid.orc.values.evolution import check_clocks, evolved
from hiveacid.orc.values.nanoseconds import are_finer, checked_nanos, is_marked, mark
from hiveacid.orc.values.timestamps import split_timestamps, split_types, timestamp_clock
from hiveacid.rules.proof import Tally
from hiveacid.rules.row_id import RowId

# Rows that are kept in longer runs than this are joined faster than they are filtered.
_ROWS_OF_A_SLICE = 256


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

    The new file is a part to be assembled, not one to be published: it lacks Hive's metadata. See
    `reencoded_part`.

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
    groups = RowGroups(layout.stride)
    writer = RowWriter(sink, layout, clock)

    def write(complete: Iterable[Any]) -> None:
        for group in complete:
            digest.add(group)
            writer.write(group)

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
                    write(groups.add(*_parts_of(batch, stays)))
    write(groups.rest())
    writer.close()
    return Reencoded(rows_read, Tally(digest.rows, digest.value), clock, microseconds)


def reencoded_part(source: Source, done: Reencoded, types: tuple[bytes, ...]) -> Part:
    """Convert a file that `reencode` has written into a part of a file.

    Args:
        source: The file.
        done: The result of `reencode`.
        types: The types of its layout.
    """
    tail = OrcTail.read(source)
    metadata = mark(tail.rows) if done.microseconds else {}
    tail = replace(tail, types=types, user_metadata=metadata)
    return Part(source, tail, reencoded=True)


def values_of(part: Part) -> Tally:
    """Read the rows of a part again: their number, and a digest of all their values."""
    digest = ValueDigest()
    if part.tail.stripes:
        shown = split_timestamps(part.source, part.tail, part.chosen)
        with closing(read_batches(*shown)) as batches:
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
        kept = batch.filter(pa.array(stays))
        return [kept], kept.nbytes
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
