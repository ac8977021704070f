"""Row ids in delete events, looked up by their hashes: the proof's own way to find deleted rows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hiveacid.orc.format.envelope import EnvelopeColumn
from hiveacid.orc.format.source_and_sink import Source
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.digests import Hashes, HashSet, hash_row_ids
from hiveacid.orc.row_keys.key_stream import read_keys
from hiveacid.orc.row_keys.keys import Keys, sorted_distinct

# So many consecutive row numbers share an entry in the coarse set.
_BLOCK_BITS = 12
# So many parts of that set are kept before their repetitions are dropped.
_MOST_PARTS = 64


class DeletedRows:
    """The row ids of delete events, in any order and with repetitions.

    A second, coarse set tells that most consecutive rows contain no deleted one.
    """

    def __init__(
        self, batches: Iterable[Keys], *, most: int | None = None, number: int = 0, shares: int = 1
    ) -> None:
        """Collect the events, or a share of them, which bounds the memory.

        All events of a row are in the same share.

        Args:
            batches: The events.
            most: The maximum number of events; of more, only those of a smaller share are kept.
                None: no maximum.
            number: The number of the share.
            shares: The number of equal shares.
        """
        self.shares = shares
        rows: list[Hashes] = []
        blocks: list[Hashes] = []
        for keys in batches:
            rows.append(self._own(hash_row_ids(keys), number))
            blocks.append(sorted_distinct(hash_row_ids(_blocks(keys))))
            while most is not None and sum(map(len, rows)) > most:
                self.shares *= 2
                rows = [self._own(sorted_distinct(np.concatenate(rows)), number)]
            if len(blocks) > _MOST_PARTS:
                blocks = [sorted_distinct(np.concatenate(blocks))]
        self._rows, self._blocks = _joined(rows), _joined(blocks)

    def _own(self, hashes: Hashes, number: int) -> Hashes:
        return hashes if self.shares == 1 else hashes[hashes % np.uint64(self.shares) == number]

    def hits(self, keys: Keys) -> NDArray[np.bool_]:
        """Return for each row whether it is deleted."""
        return self._rows.contains(hash_row_ids(keys))

    def may_hit(self, ends: Keys) -> bool:
        """Return whether a row may be deleted, of consecutive ones of one write id and bucket.

        Args:
            ends: The first and the last row.
        """
        first, last = (int(row) for row in ends.rows >> _BLOCK_BITS)
        numbers = np.arange(first, last + 1, dtype=np.int64)
        blocks = replace(ends[np.zeros(len(numbers), dtype=np.intp)], rows=numbers)
        return bool(self._blocks.contains(hash_row_ids(blocks)).any())


def read_events(
    source: Source, tail: OrcTail, write_ids: range, *, every_stripe: bool = True
) -> Iterator[Keys]:
    """Read a file of delete events.

    Args:
        source: The file.
        tail: Its tail.
        write_ids: The write ids of the relevant rows.
        every_stripe: Whether stripes are read whose statistics exclude these write ids. Wrong
            statistics make events be missed; then more rows are expected than a compaction writes.
    """
    stripes = range(len(tail.stripes)) if every_stripe else _relevant_stripes(tail, write_ids)
    with closing(read_keys(source, tail, stripes)) as batches:
        yield from batches


def _relevant_stripes(tail: OrcTail, write_ids: range) -> Sequence[int]:
    """Return the stripes of delete events whose statistics do not exclude rows of some write ids."""
    ranges = (
        (stripe, tail.int_range(stripe, EnvelopeColumn.ORIGINAL_TRANSACTION))
        for stripe in range(len(tail.stripes))
    )
    return [
        stripe
        for stripe, known in ranges
        if known is None or (known[0] < write_ids.stop and known[1] >= write_ids.start)
    ]


def _blocks(keys: Keys) -> Keys:
    return replace(keys, rows=keys.rows >> _BLOCK_BITS)


def _joined(hashes: list[Hashes]) -> HashSet:
    joined = np.concatenate([np.empty(0, np.uint64), *hashes])
    hashes.clear()
    return HashSet(joined)
