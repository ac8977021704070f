"""Counts of the rows of files, and the constraints of a file's location on them."""

from dataclasses import replace

import numpy as np
import pytest

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys import census
from hiveacid.orc.row_keys.census import (
    DeletedRows,
    LostRows,
    RowConstraints,
    StripeCensus,
    take_census,
)
from hiveacid.orc.row_keys.digests import HashSet, hash_row_ids, tally, tally_consecutive
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.compaction import Tally
from hiveacid.rules.names import CONVERTED_BASE, Base, Delta
from hiveacid.rules.row_id import encode_bucket
from tests.orc.bucket_files import BUCKET, events, inserts, table

DELTA, DELETES = Delta(3, 5), Delta(3, 5, is_delete=True)


def keys(operation=0, original=4, bucket=1, current=4, rows=(0, 1)):
    values = (operation, original, encode_bucket(bucket))
    parts = [np.full(len(rows), value, dtype=np.int64) for value in values]
    return Keys(*parts, np.array(rows, dtype=np.int64), np.full(len(rows), current))  # type: ignore[call-arg]


def check(directory, found, bucket=1):
    is_delete = isinstance(directory, Delta) and directory.is_delete
    buckets = None if bucket is None else (bucket,)
    RowConstraints(is_delete, directory.write_ids, buckets).check(found)


@pytest.mark.parametrize(
    ("directory", "found"),
    [
        (DELTA, keys()),
        (Base(5), keys()),
        (Base(5), keys(original=0, current=0)),
        (Base(CONVERTED_BASE), keys(original=0, current=0)),
        (DELTA, keys(operation=1, original=1)),
        (DELETES, keys(operation=2, original=1)),
    ],
)
def test_rows_that_a_directory_may_contain(directory, found):
    check(directory, found)


@pytest.mark.parametrize(
    ("directory", "found"),
    [
        (DELTA, keys(operation=2)),
        (DELETES, keys()),
        (DELTA, keys(current=6)),
        (DELTA, keys(original=2)),
        (DELETES, keys(operation=2, current=2)),
        (Base(3), keys()),
        (Base(CONVERTED_BASE), keys(original=1, current=1)),
        (DELTA, keys(bucket=2)),
    ],
)
def test_rows_that_belong_elsewhere(directory, found):
    with pytest.raises(CorruptFile):
        check(directory, found)


def test_without_buckets_the_number_of_a_file_has_no_meaning():
    check(DELTA, keys(bucket=2), bucket=None)


def test_hashes_find_rows_and_tallies_distinguish_them():
    some = keys(rows=range(1000))
    hashes = hash_row_ids(some)
    assert len(set(hashes.tolist())) == 1000
    found = HashSet(hashes[::7]).contains(hashes)
    assert found.tolist() == [row % 7 == 0 for row in range(1000)]
    order = np.random.default_rng(1).permutation(1000)
    assert tally(some[order]) == tally(some)
    others = [keys(rows=(0, 2)), keys(current=5), keys(original=3), keys(bucket=0), keys()]
    digests = set(map(tally, others))
    assert len(digests) == len(others)


def test_a_tally_is_the_sum_over_its_rows_however_they_are_grouped():
    rows = np.random.default_rng(2).choice(5000, 3000, replace=False)
    mixed = Keys.joined([keys(rows=np.sort(rows)), keys(rows=rows), keys(original=3, rows=(7, 8))])
    one_by_one = sum((tally(mixed[row : row + 1]) for row in range(len(mixed))), Tally())
    assert tally(mixed) == one_by_one
    run = keys(rows=range(100, 4100))
    assert tally_consecutive(run[[0, -1]], 4000) == tally(run)
    assert tally_consecutive(run[[5, 5]], 1) == tally(run[5:6])
    assert tally(run[:0]) == Tally()


@pytest.mark.parametrize("lost", [[1500], [0, 3999], [10, 11, 12], list(range(0, 4000, 2))])
@pytest.mark.parametrize("instead", [1, -1, 5000])
def test_rows_instead_of_others_change_the_sum(lost, instead):
    run = keys(rows=range(4000))
    others = run.rows.copy()
    others[lost] += instead
    assert tally(replace(run, rows=others)).digest != tally(run).digest


DELETED = [(1, BUCKET, row) for row in (0, 5, 120, 249)] + [(2, BUCKET, 3), (1, BUCKET + 8, 7)]


@pytest.mark.parametrize("aborted", [(), (1,), (2,)])
@pytest.mark.parametrize("batch", [16_384, 64])
def test_recognized_stripes_have_the_counts_of_decoded_ones(aborted, batch, monkeypatch):
    file = inserts(table(250, 1), [1], codec="none", stripe_size=64 << 10)
    lost = LostRows(DeletedRows(events(DELETED)), aborted)
    monkeypatch.setattr(census, "_BATCH_ROWS", batch)

    def counted() -> list[StripeCensus]:
        return list(take_census(file, OrcTail.read(file), constraints=None, lost_rows=lost))

    recognized = counted()
    monkeypatch.setattr(census, "progressions_of", lambda *_: None)
    decoded = counted()
    assert recognized == decoded
    gone = sum((stripe.deleted for stripe in recognized), Tally())
    missing = sum((stripe.aborted for stripe in recognized), Tally())
    assert (gone.rows, missing.rows) == ((0, 250) if aborted == (1,) else (4, 0))


def test_shares_of_the_delete_events_find_each_deleted_row_once():
    deleted = [(1, BUCKET, row) for row in range(0, 60_000, 3)]
    first = DeletedRows(events(deleted), limit=1500)
    assert first.shares >= 16
    shares = [first]
    for number in range(1, first.shares):
        shares.append(DeletedRows(events(deleted), number=number, shares=first.shares))
    rows = keys(original=1, bucket=0, rows=range(60_000))
    hits = sum(share.hits(rows).astype(int) for share in shares)
    assert hits.tolist() == [int(row % 3 == 0) for row in range(60_000)]


def test_rows_without_a_delete_event_nearby_are_not_looked_at():
    deleted = DeletedRows(events([(1, BUCKET, row) for row in (70_000, 70_001)]))

    def may_hit(first: int, last: int, **other: int) -> bool:
        return deleted.may_hit(keys(**{"original": 1, "bucket": 0} | other, rows=(first, last)))

    assert may_hit(0, 100_000)
    assert may_hit(70_001, 70_001)
    assert not may_hit(0, 60_000)
    assert not may_hit(80_000, 200_000)
    assert not may_hit(0, 100_000, original=2)
    assert not may_hit(0, 100_000, bucket=1)
    assert not DeletedRows([]).may_hit(keys())
