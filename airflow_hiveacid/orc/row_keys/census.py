"""Count the rows of ACID files stripe by stripe, with digests that detect any lost row."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from airflow_hiveacid.acid.proof import Tally
from airflow_hiveacid.acid.row_id import RowId, decode_bucket
from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.orc.format.envelope import EnvelopeColumn, RowOperation
from airflow_hiveacid.orc.format.source_and_sink import Source, read_exactly
from airflow_hiveacid.orc.format.streams import Integers, StreamKind
from airflow_hiveacid.orc.format.tail import OrcTail, Stripe
from airflow_hiveacid.orc.row_keys.digests import Hashes, HashSet, hash_row_ids, tally
from airflow_hiveacid.orc.row_keys.key_columns import KEY_COLUMNS
from airflow_hiveacid.orc.row_keys.key_stream import read_keys
from airflow_hiveacid.orc.row_keys.keys import Keys

_BATCH_ROWS = 65_536
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


def take_census(
    source: Source,
    tail: OrcTail,
    *,
    constraints: RowConstraints | None,
    deleted: HashSet | None = None,
    aborted: Sequence[int] = (),
    known: dict[bytes, StripeCensus] | None = None,
) -> Iterator[StripeCensus]:
    """Read the row ids of a file.

    Args:
        source: The file.
        tail: Its tail.
        constraints: The constraints on its rows, if any.
        deleted: The hashes of the deleted row ids.
        aborted: The write ids whose rows are ignored.
        known: Stripes from earlier reads, by their fingerprints: equal ones are not read again.

    Raises:
        CorruptFile: The rows do not decode, or violate the constraints of the file.
    """
    for number, stripe in enumerate(tail.stripes):
        fingerprint = _fingerprint(source, tail, stripe)
        if known is not None and fingerprint in known:
            yield known[fingerprint]
        else:
            yield _count(source, tail, number, fingerprint, constraints, deleted, aborted)


def hashes_of(
    source: Source,
    tail: OrcTail,
    constraints: RowConstraints,
    aborted: Sequence[int],
    write_ids: range,
) -> Iterator[Hashes]:
    """Yield the row ids in a file of delete events, restricted to some write ids.

    Args:
        source: The file.
        tail: Its tail.
        constraints: The constraints on its events.
        aborted: The write ids whose events are ignored.
        write_ids: The write ids of the relevant rows.
    """
    with closing(read_keys(source, tail, rows=_BATCH_ROWS)) as batches:
        for keys in batches:
            constraints.check(keys)
            of_interest = keys.original_write_ids >= write_ids.start
            of_interest &= keys.original_write_ids < write_ids.stop
            if aborted:
                of_interest &= ~np.isin(keys.current_write_ids, aborted)
            if of_interest.any():
                yield hash_row_ids(keys[of_interest])


def _count(
    source: Source,
    tail: OrcTail,
    number: int,
    fingerprint: bytes,
    constraints: RowConstraints | None,
    deleted: HashSet | None,
    aborted: Sequence[int],
) -> StripeCensus:
    census: StripeCensus | None = None
    with closing(read_keys(source, tail, [number], rows=_BATCH_ROWS)) as batches:
        for keys in batches:
            if constraints is not None:
                constraints.check(keys)
            part = _count_batch(keys, fingerprint, deleted, aborted)
            census = part if census is None else _joined(census, part)
    if census is None or census.rows.rows != tail.stripes[number].rows:
        raise CorruptFile(f"Stripe {number} has not as many row ids as rows.")
    return census


def _count_batch(
    keys: Keys, fingerprint: bytes, deleted: HashSet | None, aborted: Sequence[int]
) -> StripeCensus:
    hashes = hash_row_ids(keys)
    gone = missing = Tally()
    lives = np.ones(len(keys), dtype=np.bool_)
    if aborted:
        lives = ~np.isin(keys.current_write_ids, aborted)
        if not lives.all():
            missing = tally(keys[~lives], hashes[~lives])
    if deleted is not None:
        hit = deleted.contains(hashes) & lives
        if hit.any():
            gone = tally(keys[hit], hashes[hit])
    return StripeCensus(
        fingerprint,
        tally(keys, hashes),
        gone,
        missing,
        keys.row_id(0),
        keys.row_id(-1),
        keys.first_disorder() is None,
    )


def _joined(before: StripeCensus, after: StripeCensus) -> StripeCensus:
    return replace(
        before,
        rows=before.rows + after.rows,
        deleted=before.deleted + after.deleted,
        aborted=before.aborted + after.aborted,
        last=after.last,
        ascends=before.ascends and after.ascends and before.last < after.first,
    )


def _fingerprint(source: Source, tail: OrcTail, stripe: Stripe) -> bytes:
    """A digest of the bytes that the row ids are decoded from, and of all that decides how."""
    footer = tail.stripe_footer(source, stripe)
    digest = blake2b(digest_size=_FINGERPRINT_BYTES)
    digest.update(f"{tail.codec.name} {stripe.rows}".encode())
    for encoding in footer.all_data(2)[: len(KEY_COLUMNS) + 1]:
        digest.update(encoding)
    offset = stripe.offset
    for stream in footer.all_messages(1):
        kind, column, length = (stream.number(field) for field in (1, 2, 3))
        if column <= EnvelopeColumn.CURRENT_TRANSACTION and not StreamKind.is_index(kind):
            digest.update(f";{kind} {column} {length}:".encode())
            digest.update(read_exactly(source, offset, length))
        offset += length
    return digest.digest()


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
