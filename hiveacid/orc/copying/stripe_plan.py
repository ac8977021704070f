"""Plan the compaction of a bucket: which stripes are copied as they are, and which are rewritten."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby

import numpy as np

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, OutOfOrder
from hiveacid.orc.format.compression import Codec, Source
from hiveacid.orc.format.envelope import EnvelopeColumn, RowOperation
from hiveacid.orc.format.layout import Layout, is_old, writer_of
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.key_stream import (
    DeleteCursor,
    RowIdRange,
    read_keys,
    read_row_id_range,
)
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.orc.values.evolution import check_lossless
from hiveacid.orc.values.timestamps import timestamp_clock
from hiveacid.rules.row_id import RowId

# A tiny stripe that is this many times as large as all stripes that it could be merged with is not
# rewritten for them.
_MUCH_LARGER = 4
# Fewer tiny stripes stay as they are: rewriting costs more than reading them several times.
_MANY = 4
_BLOCK_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of rows to compact.

    Attributes:
        source: The file.
        tail: Its tail.
        name: Its name in messages.
        exact: Whether rows of aborted write ids are impossible.
    """

    source: Source
    tail: OrcTail
    name: str
    exact: bool


@dataclass(frozen=True, slots=True)
class StripeGroup:
    """Stripes that follow each other and have the same fate.

    Attributes:
        copy: Whether they stay as they are.
        stripes: The numbers of their files and their own numbers in these.
        bytes: Their size.
        rows: Their rows, deleted ones included.
    """

    copy: bool
    stripes: tuple[tuple[int, int], ...]
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class StripePlan:
    """The plan for compacting a bucket.

    Attributes:
        groups: The stripes of all files in their order, without omitted ones.
        layout: The layout of the new file.
    """

    groups: tuple[StripeGroup, ...]
    layout: Layout


def plan_stripes(
    files: Sequence[PlannedFile],
    deletes: Iterable[Keys],
    aborted_ids: Sequence[int],
    *,
    types: tuple[bytes, ...],
    codec: Codec | None = None,
    tiny_bytes: int = 1 << 20,
    group_bytes: int = 16 << 20,
) -> StripePlan:
    """Select the stripes that can be copied.

    Stripes of only deleted rows are omitted, if their row ids are consecutive. All others are
    rewritten: stripes with a deleted or an aborted row, stripes of other types or of
    another layout than most, and adjacent tiny stripes. Stripes with timestamps in different time
    zones are in separate groups.

    Args:
        files: At least one file, in the order of the row ids.
        deletes: The delete events in the order of the row ids.
        aborted_ids: Write ids whose rows are removed.
        types: The types of the table, as in a full ACID file.
        codec: The compression of the new file; None takes the one that most bytes have.
        tiny_bytes: Adjacent stripes below this number of bytes are merged, since each stripe has a
            cost for readers; see ``_joined_by_size``.
        group_bytes: The approximate number of bytes that one task rewrites, so that many tasks
            share a bucket.

    Raises:
        CorruptFile: The rows include delete events.
        OutOfOrder: The row ids do not ascend over all files.
        UnsupportedFile: A file cannot be split, or has values that are invalid for the table.
    """
    for file in files:
        file.tail.check_movable()
        check_lossless(file.tail.types, types, file.name)
    layout = _layout(files, types, codec)
    candidates = list(_candidates(files, layout, DeleteCursor(deletes), aborted_ids))
    fated = _with_clocks(_with_tiny_ones(candidates, tiny_bytes), files)
    return StripePlan(tuple(_groups(fated, group_bytes)), layout)


@dataclass(frozen=True, slots=True)
class _Candidate:
    place: tuple[int, int]
    bytes: int
    rows: int
    copy: bool
    clock: str | None = None


def _layout(
    files: Sequence[PlannedFile], types: tuple[bytes, ...], requested_codec: Codec | None
) -> Layout:
    """The layout that most bytes have already, so that most need not be rewritten."""
    sizes: Counter[tuple[Codec, int]] = Counter()
    for file in files:
        sizes[file.tail.codec, file.tail.stride] += sum(
            stripe.length for stripe in file.tail.stripes
        )
    codec, stride = max(sizes, key=lambda key: (key[0] is requested_codec, sizes[key]))
    like = next(
        file.tail for file in files if (file.tail.codec, file.tail.stride) == (codec, stride)
    )
    layout = Layout.joint([(file.name, file.tail) for file in files], like, types)
    if requested_codec is None:
        return layout
    # Files without compression need not state the size of a block.
    return replace(layout, codec=requested_codec, block_size=layout.block_size or _BLOCK_BYTES)


def _candidates(
    files: Sequence[PlannedFile], layout: Layout, deletes: DeleteCursor, aborted_ids: Sequence[int]
) -> Iterator[_Candidate]:
    last: RowId | None = None
    for number, file in enumerate(files):
        fits = not layout.differences(file.tail) and not is_old(writer_of(file.tail))
        for stripe, place in enumerate(file.tail.stripes):
            row_ids = read_row_id_range(file.source, file.tail, stripe)
            if row_ids.operations[1] == RowOperation.DELETE:
                raise CorruptFile(f"{file.name} holds delete events among rows.")
            if last is not None and row_ids.first <= last:
                raise OutOfOrder(
                    f"{row_ids.first} in {file.name} does not come after {last}, the row id before it."
                )
            last = row_ids.last
            if row_ids.is_dense(place.rows) and deletes.reaches(row_ids.first, last):
                if deletes.count(row_ids.first, last) == place.rows:
                    continue
                copy = False
            else:
                copy = fits and not _loses_rows(file, stripe, row_ids, deletes, aborted_ids)
            yield _Candidate((number, stripe), place.length, place.rows, copy)


def _loses_rows(
    file: PlannedFile,
    stripe: int,
    row_ids: RowIdRange,
    deletes: DeleteCursor,
    aborted_ids: Sequence[int],
) -> bool:
    has_deletes = deletes.reaches(row_ids.first, row_ids.last)
    suspects: list[int] = []
    if not file.exact:
        range_ = file.tail.int_range(stripe, EnvelopeColumn.CURRENT_TRANSACTION)
        suspects = [
            write_id
            for write_id in aborted_ids
            if range_ is None or range_[0] <= write_id <= range_[1]
        ]
    if not has_deletes and not suspects:
        return False
    with closing(read_keys(file.source, file.tail, [stripe])) as batches:
        for keys in batches:
            if np.isin(keys.current_write_ids, suspects).any() or deletes.hits(keys).any():
                return True
    return False


def _with_tiny_ones(candidates: Sequence[_Candidate], tiny: int) -> Iterator[_Candidate]:
    """Rewrite tiny stripes together with the tiny or rewritten ones beside them."""
    joinable = [not candidate.copy or candidate.bytes < tiny for candidate in candidates]
    for is_joinable, run in groupby(zip(candidates, joinable, strict=True), lambda pair: pair[1]):
        adjacent = [candidate for candidate, _ in run]
        yield from _joined_by_size(adjacent) if is_joinable else adjacent


def _joined_by_size(run: Sequence[_Candidate]) -> list[_Candidate]:
    """Rewrite adjacent stripes together unless they are few, without one that is much larger.

    Otherwise each compaction would rewrite a whole small partition for a few new rows. New rows come
    last, and each remaining stripe is several times as large as all that follow, except the last
    few: their number is logarithmic.
    """
    if len(run) < (_MANY if all(candidate.copy for candidate in run) else 2):
        return list(run)
    copy_numbers = [number for number, candidate in enumerate(run) if candidate.copy]
    if copy_numbers:
        largest = max(copy_numbers, key=lambda number: run[number].bytes)
        other_bytes = sum(candidate.bytes for candidate in run) - run[largest].bytes
        if other_bytes * _MUCH_LARGER < run[largest].bytes:
            earlier_stripes, later_stripes = run[:largest], run[largest + 1 :]
            return [
                *_joined_by_size(earlier_stripes),
                run[largest],
                *_joined_by_size(later_stripes),
            ]
    return [replace(candidate, copy=False) for candidate in run]


def _with_clocks(
    candidates: Iterable[_Candidate], files: Sequence[PlannedFile]
) -> Iterator[_Candidate]:
    """Determine the time zones of the timestamps of rewritten stripes.

    Stripes that are rewritten together share one time zone.
    """
    for candidate in candidates:
        number, stripe = candidate.place
        file = files[number]
        clock = None if candidate.copy else timestamp_clock(file.source, file.tail, stripe)
        yield replace(candidate, clock=clock)


def _groups(candidates: Iterable[_Candidate], largest: int) -> Iterator[StripeGroup]:
    group: list[_Candidate] = []
    size = 0
    for candidate in candidates:
        full = not candidate.copy and size + candidate.bytes > largest
        if group and (full or (candidate.copy, candidate.clock) != (group[0].copy, group[0].clock)):
            yield _joined(group)
            group, size = [], 0
        group.append(candidate)
        size += candidate.bytes
    if group:
        yield _joined(group)


def _joined(group: Sequence[_Candidate]) -> StripeGroup:
    return StripeGroup(
        group[0].copy,
        tuple(candidate.place for candidate in group),
        sum(candidate.bytes for candidate in group),
        sum(candidate.rows for candidate in group),
    )
