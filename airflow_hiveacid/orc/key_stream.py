"""Row ids of more rows than fit into memory: read, merged and looked up piece by piece."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.orc.batches import read_batches
from airflow_hiveacid.orc.envelope import RowOperation
from airflow_hiveacid.orc.keys import Keys, key_names
from airflow_hiveacid.orc.source_and_sink import Source
from airflow_hiveacid.orc.streams import Integers
from airflow_hiveacid.orc.tail import OrcTail

_Mask = NDArray[np.bool_]
_BATCH_ROWS = 16_384
# So many files may be read with batches of that size, some 20 MB each.
_WIDE_FILES = 8
_FEWEST_ROWS = 1024


def read_keys(
    source: Source,
    tail: OrcTail,
    stripes: Sequence[int] | None = None,
    *,
    rows: int = _BATCH_ROWS,
) -> Generator[Keys, None, None]:
    """Read the row ids of an ACID file, at most `rows` at a time, however large its stripes are.

    Args:
        source: The file; see `read_batches` for who else may read it.
        tail: Its tail.
        stripes: The stripes to read; None reads all.
        rows: The most rows to read at a time.

    Raises:
        CorruptFile: They do not decode, or some are null.
    """
    names = key_names(tail.types)
    with closing(read_batches(source, tail, stripes, names, rows)) as batches:
        for batch in batches:
            yield Keys.of(batch, names)


def read_deletes(
    files: Sequence[tuple[Source, OrcTail]], aborted: Sequence[int] = ()
) -> Generator[Keys, None, None]:
    """Read the files of deletes of one bucket as one stream; see `merge_keys`.

    The files must stay open until it has come to its end or was closed.

    Raises:
        CorruptFile: A file does not decode, is out of order, or holds other rows than deletes.
    """
    # Many open files share the memory.
    rows = _BATCH_ROWS * min(_WIDE_FILES / max(len(files), 1), 1)
    return merge_keys(
        [read_keys(source, tail, rows=max(int(rows), _FEWEST_ROWS)) for source, tail in files],
        aborted,
    )


def merge_keys(
    streams: Sequence[Iterator[Keys]], aborted: Sequence[int] = ()
) -> Generator[Keys, None, None]:
    """Merge ascending delete events into one stream that ascends without repetition.

    Engines that delete a row twice, or copy a delete event into a second directory, make Hive's
    readers lose other deletes. Of such events the one with the smallest write id stays: it is what
    made the row disappear.

    Args:
        streams: The events of one file each.
        aborted: Write ids whose events do not count.

    Raises:
        CorruptFile: A stream does not ascend, or holds other rows than deletes.
    """
    waiting = [_distinct(stream, aborted) for stream in streams]
    heads: list[tuple[Keys, Iterator[Keys]]] = [
        (keys, stream) for stream in waiting if (keys := next(stream, None)) is not None
    ]
    while heads:
        # All that may still come lies behind the nearest of the last ones.
        limit = min(keys.row_id(-1) for keys, _ in heads)
        ready: list[Keys] = []
        rest: list[tuple[Keys, Iterator[Keys]]] = []
        for keys, stream in heads:
            end = position_behind(keys, limit)
            if end:
                ready.append(keys[:end])
            following = keys[end:] if end < len(keys) else next(stream, None)
            if following is not None:
                rest.append((following, stream))
        heads = rest
        yield ready[0] if len(ready) == 1 else _first_of_each(_sorted(Keys.joined(ready)))


class KeySet:
    """Row ids in any order, to look others up in."""

    def __init__(self, keys: Keys) -> None:
        # Numbering the distinct values of one part after the other keeps every step a search
        # in plain integers, which works for a single write id as well as for thousands.
        codes = np.zeros(len(keys), dtype=np.int64)
        self._levels: list[tuple[Integers, Integers]] = []
        for part in keys.row_ids():
            values = np.unique(part)
            codes = codes * len(values) + np.searchsorted(values, part)
            distinct = np.unique(codes)
            codes = np.searchsorted(distinct, codes)
            self._levels.append((values, distinct))

    def contains(self, keys: Keys) -> _Mask:
        """For each row id whether it is in the set."""
        codes = np.zeros(len(keys), dtype=np.int64)
        found = np.ones(len(keys), dtype=np.bool_)
        for part, (values, distinct) in zip(keys.row_ids(), self._levels, strict=True):
            if len(values) == 0:
                return np.zeros(len(keys), dtype=np.bool_)
            place = _search(values, part, found)
            codes = _search(distinct, codes * len(values) + place, found)
        return found


def _search(sorted_values: Integers, wanted: Integers, found: _Mask) -> Integers:
    """Where the values are; those that are nowhere lose their mark in `found`."""
    place = np.minimum(np.searchsorted(sorted_values, wanted), len(sorted_values) - 1)
    found &= sorted_values[place] == wanted
    return place


def _distinct(stream: Iterator[Keys], aborted: Sequence[int]) -> Iterator[Keys]:
    """Drop repetitions and aborted events; no row id is in two of the batches that come out."""
    held: Keys | None = None
    for batch in stream:
        if (batch.operations != RowOperation.DELETE).any():
            raise CorruptFile("There are other rows than deletes.")
        keys = batch[~np.isin(batch.current_write_ids, aborted)] if aborted else batch
        if held is not None:
            keys = Keys.joined([held, keys])
        if len(keys) == 0:
            continue
        _check_ascending(keys)
        keys = _first_of_each(keys)
        # The next batch may begin with the same row id.
        held = keys[-1:]
        if len(keys) > 1:
            yield keys[:-1]
    if held is not None:
        yield held


def _check_ascending(keys: Keys) -> None:
    descends = np.zeros(len(keys) - 1, dtype=np.bool_)
    for part in reversed(keys.row_ids()):
        descends = (part[1:] < part[:-1]) | ((part[1:] == part[:-1]) & descends)
    if descends.any():
        at = int(np.argmax(descends)) + 1
        raise CorruptFile(f"{keys.row_id(at)} stands behind {keys.row_id(at - 1)}.")


def _first_of_each(keys: Keys) -> Keys:
    """Of neighbours that name the same row, keep the event with the smallest write id."""
    differs = np.ones(len(keys), dtype=np.bool_)
    differs[1:] = False
    for part in keys.row_ids():
        differs[1:] |= part[1:] != part[:-1]
    if differs.all():
        return keys
    starts = np.flatnonzero(differs)
    return replace(
        keys[starts], current_write_ids=np.minimum.reduceat(keys.current_write_ids, starts)
    )


def _sorted(keys: Keys) -> Keys:
    return keys[np.lexsort(tuple(reversed(keys.row_ids())))]


def position_behind(keys: Keys, limit: RowId) -> int:
    """How many of the ascending row ids do not come after `limit`."""
    start, end = 0, len(keys)
    for part, value in zip(keys.row_ids(), limit, strict=True):
        place = part[start:end]
        below, upto = np.searchsorted(place, value), np.searchsorted(place, value, "right")
        start, end = start + int(below), start + int(upto)
    return end
