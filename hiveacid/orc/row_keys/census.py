"""Count the rows of ACID files stripe by stripe, with digests that detect any lost row."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile
from hiveacid.orc.format.compression import Source, read_exactly
from hiveacid.orc.format.envelope import EnvelopeColumn, RowOperation
from hiveacid.orc.format.streams import Integers, PlacedStream, StreamKind, StripeFooter
from hiveacid.orc.format.tail import OrcTail, Stripe
from hiveacid.orc.row_keys.digests import Hashes, HashSet, hash_row_ids, tally, tally_consecutive
from hiveacid.orc.row_keys.key_stream import (
    LONGEST_STREAM,
    KeyProgressions,
    decode_keys,
    key_streams,
    progressions_of,
    read_keys,
)
from hiveacid.orc.row_keys.keys import KEY_COLUMNS, Keys, sorted_distinct
from hiveacid.rules.compaction import Tally
from hiveacid.rules.row_id import RowId, decode_bucket

# Row ids in delete events, looked up by their hashes: the proof's own way to find deleted rows


# So many consecutive row numbers share an entry in the coarse set.
_BLOCK_BITS = 12
# So many parts of that set are kept before their repetitions are dropped.
_MOST_PARTS = 64


class DeletedRows:
    """The row ids of delete events, in any order and with repetitions.

    A second, coarse set tells that most consecutive rows contain no deleted one.
    """

    def __init__(
        self, batches: Iterable[Keys], *, limit: int | None = None, number: int = 0, shares: int = 1
    ) -> None:
        """Collect the events, or a share of them, which bounds the memory.

        All events of a row are in the same share.

        Args:
            batches: The events.
            limit: The maximum number of events; of more, only those of a smaller share are kept.
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
            while limit is not None and sum(map(len, rows)) > limit:
                self.shares *= 2
                rows = [self._own(sorted_distinct(np.concatenate(rows)), number)]
            if len(blocks) > _MOST_PARTS:
                blocks = [sorted_distinct(np.concatenate(blocks))]
        self._rows, self._blocks = _joined_keys(rows), _joined_keys(blocks)

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
        for stripe, id_range in ranges
        if id_range is None or (id_range[0] < write_ids.stop and id_range[1] >= write_ids.start)
    ]


def _blocks(keys: Keys) -> Keys:
    return replace(keys, rows=keys.rows >> _BLOCK_BITS)


def _joined_keys(hashes: list[Hashes]) -> HashSet:
    joined_hashes = np.concatenate([np.empty(0, np.uint64), *hashes])
    hashes.clear()
    return HashSet(joined_hashes)


# Arrow decodes up to 32 batches ahead.
_BATCH_ROWS = 16_384
_FINGERPRINT_BYTES = 16
_END_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class RowConstraints:
    """Constraints on the rows of a file from its location.

    Attributes:
        is_delete: Whether the rows are delete events.
        write_ids: The write ids that its directory allows.
        buckets: The valid bucket numbers of row ids; unrestricted if missing.
    """

    is_delete: bool
    write_ids: range
    buckets: tuple[int, ...] | None

    def check(self, keys: Keys) -> None:
        """Hold rows against it.

        Raises:
            CorruptFile: They belong elsewhere.
        """
        low, high = int(keys.operations.min()), int(keys.operations.max())
        # Before Hive 3 an update was an event of its own, which files of rows may still contain.
        allowed = (
            (RowOperation.DELETE, RowOperation.DELETE)
            if self.is_delete
            else (RowOperation.INSERT, 1)
        )
        if low < allowed[0] or high > allowed[1]:
            raise CorruptFile(f"There are operations {low} to {high}, which are invalid here.")
        self._check_range("currentTransaction", keys.current_write_ids)
        if not self.is_delete:
            inserted = keys.original_write_ids
            if high != RowOperation.INSERT:
                inserted = inserted[keys.operations == RowOperation.INSERT]
            self._check_range("originalTransaction", inserted)
        if self.buckets is not None:
            for bucket in np.unique(keys.buckets).tolist():
                if decode_bucket(bucket).writer_id not in self.buckets:
                    raise CorruptFile(
                        f"The bucket property {bucket} is not of bucket {self.buckets[0]}."
                    )

    def _check_range(self, column: str, values: Integers) -> None:
        if not len(values):
            return
        low, high = int(values.min()), int(values.max())
        if low < self.write_ids.start or high >= self.write_ids.stop:
            raise CorruptFile(
                f"{column} goes from {low} to {high}, and the directory has"
                f" {self.write_ids.start} to {self.write_ids.stop - 1}."
            )


@dataclass(frozen=True, slots=True)
class StripeCensus:
    """The rows of a stripe.

    Attributes:
        fingerprint: The fingerprint of the bytes with the row ids; equal fingerprints mean equal
            row ids.
        rows: All rows.
        deleted: The deleted rows.
        aborted: The rows of aborted write ids, deleted or not.
        first: The first row id.
        last: The last row id.
        ascends: Whether the row ids ascend without repetition.
    """

    fingerprint: bytes
    rows: Tally
    deleted: Tally
    aborted: Tally
    first: RowId
    last: RowId
    ascends: bool


@dataclass(frozen=True, slots=True)
class LostRows:
    """The rows that a compaction must drop.

    Attributes:
        deleted: The row ids of delete events, if any.
        aborted: The write ids whose rows are ignored.
    """

    deleted: DeletedRows | None = None
    aborted: Sequence[int] = ()


_NO_LOST_ROWS = LostRows()


def take_census(
    source: Source,
    tail: OrcTail,
    *,
    constraints: RowConstraints | None,
    lost_rows: LostRows = _NO_LOST_ROWS,
    earlier_censuses: Mapping[bytes, StripeCensus] | None = None,
) -> Iterator[StripeCensus]:
    """Read the row ids of a file.

    Args:
        source: The file.
        tail: Its tail.
        constraints: The constraints on its rows, if any.
        lost_rows: The rows that are dropped.
        earlier_censuses: Stripes from earlier reads, by their fingerprints: equal ones are not read again.

    Raises:
        CorruptFile: The rows do not decode, or violate the constraints of the file.
    """
    for number in range(len(tail.stripes)):
        stored_keys = _StoredKeys.read(source, tail, number)
        census = None if earlier_censuses is None else earlier_censuses.get(stored_keys.fingerprint)
        yield census or _count(stored_keys, constraints, lost_rows)


@dataclass(frozen=True, slots=True)
class _StoredKeys:
    """The key columns of a stripe as they are stored.

    Attributes:
        source: The file.
        tail: Its tail.
        number: The number of the stripe.
        fingerprint: A digest of the bytes that the row ids are decoded from, and of everything that
            determines how.
        footer: The footer of the stripe.
        streams: The stored streams, without those that are too long to be recognized.
    """

    source: Source
    tail: OrcTail
    number: int
    fingerprint: bytes
    footer: StripeFooter
    streams: Sequence[tuple[PlacedStream, bytes]]

    @classmethod
    def read(cls, source: Source, tail: OrcTail, number: int) -> Self:
        stripe = tail.stripes[number]
        footer = StripeFooter.read(source, tail, stripe)
        digest = blake2b(digest_size=_FINGERPRINT_BYTES)
        digest.update(f"{tail.codec.name} {stripe.rows}".encode())
        for encoding in footer.encodings[: len(KEY_COLUMNS) + 1]:
            digest.update(encoding)
        streams: list[tuple[PlacedStream, bytes]] = []
        for stream in key_streams(footer):
            digest.update(f";{stream.kind} {stream.column} {stream.length}:".encode())
            encoded_stream = read_exactly(source, stream.offset, stream.length)
            digest.update(encoded_stream)
            if stream.length <= LONGEST_STREAM:
                streams.append((stream, encoded_stream))
        return cls(source, tail, number, digest.digest(), footer, streams)

    @property
    def rows(self) -> int:
        return self.tail.stripes[self.number].rows

    def progressions(self) -> KeyProgressions | None:
        stripe = self.tail.stripes[self.number]
        return progressions_of(self.tail, stripe, self.footer, self.streams)

    def batches(self, key_progressions: KeyProgressions | None) -> Generator[Keys, None, None]:
        if key_progressions is not None:
            yield from key_progressions.batches(_BATCH_ROWS)
        else:
            yield from decode_keys(self.source, self.tail, [self.number], _BATCH_ROWS)


def _count(
    stored_keys: _StoredKeys, constraints: RowConstraints | None, lost_rows: LostRows
) -> StripeCensus:
    key_progressions = stored_keys.progressions()
    if key_progressions is not None and key_progressions.is_consecutive:
        return _count_consecutive(key_progressions, stored_keys, constraints, lost_rows)
    census: StripeCensus | None = None
    with closing(stored_keys.batches(key_progressions)) as batches:
        for keys in batches:
            if constraints is not None:
                constraints.check(keys)
            part = _count_batch(keys, stored_keys.fingerprint, lost_rows)
            census = part if census is None else _joined(census, part)
    if census is None or census.rows.rows != stored_keys.rows:
        raise CorruptFile(f"Stripe {stored_keys.number} has not as many row ids as rows.")
    return census


def _count_consecutive(
    key_progressions: KeyProgressions,
    stored_keys: _StoredKeys,
    constraints: RowConstraints | None,
    lost_rows: LostRows,
) -> StripeCensus:
    """Count rows that differ only in their numbers, without a look at each of them."""
    count = stored_keys.rows
    ends = key_progressions.ends(0, count)
    if constraints is not None:
        constraints.check(ends)
    rows = tally_consecutive(ends, count)
    is_aborted = int(ends.current_write_ids[0]) in lost_rows.aborted
    deleted_tally = Tally()
    if lost_rows.deleted is not None and not is_aborted:
        for start in range(0, count, _BATCH_ROWS):
            end = min(start + _BATCH_ROWS, count)
            if lost_rows.deleted.may_hit(key_progressions.ends(start, end)):
                keys = key_progressions.rows(start, end)
                deleted_tally += tally(keys[lost_rows.deleted.hits(keys)])
    return StripeCensus(
        stored_keys.fingerprint,
        rows,
        deleted_tally,
        rows if is_aborted else Tally(),
        ends.row_id(0),
        ends.row_id(1),
        ascends=True,
    )


def _count_batch(keys: Keys, fingerprint: bytes, lost_rows: LostRows) -> StripeCensus:
    deleted_tally = missing = Tally()
    lives = np.ones(len(keys), dtype=np.bool_)
    if lost_rows.aborted:
        lives = ~np.isin(keys.current_write_ids, lost_rows.aborted)
        missing = tally(keys[~lives])
    if lost_rows.deleted is not None:
        deleted_tally = tally(keys[lost_rows.deleted.hits(keys) & lives])
    return StripeCensus(
        fingerprint,
        tally(keys),
        deleted_tally,
        missing,
        keys.row_id(0),
        keys.row_id(-1),
        keys.first_disorder() is None,
    )


def _joined(earlier_census: StripeCensus, later_census: StripeCensus) -> StripeCensus:
    return replace(
        earlier_census,
        rows=earlier_census.rows + later_census.rows,
        deleted=earlier_census.deleted + later_census.deleted,
        aborted=earlier_census.aborted + later_census.aborted,
        last=later_census.last,
        ascends=earlier_census.ascends
        and later_census.ascends
        and earlier_census.last < later_census.first,
    )


def digest_of_stripe(source: Source, tail: OrcTail, stripe: Stripe) -> int:
    """Return a digest of a stripe without row ids, from a part of its data.

    It distinguishes stripes by their streams and by the ends of their data. Their indexes are
    ignored: a copy may have other indexes.
    """
    footer = tail.stripe_footer(source, stripe)
    digest = blake2b(f"{stripe.rows} {stripe.data_length}".encode(), digest_size=8)
    for encoding in footer.all_data(2):
        digest.update(encoding)
    for stream in footer.all_messages(1):
        kind, column, length = (stream.number(field) for field in (1, 2, 3))
        if not StreamKind.is_index(kind):
            digest.update(f";{kind} {column} {length}".encode())
    start, size = stripe.offset + stripe.index_length, min(stripe.data_length, _END_BYTES)
    digest.update(read_exactly(source, start, size))
    digest.update(read_exactly(source, start + stripe.data_length - size, size))
    return int.from_bytes(digest.digest(), "little")
