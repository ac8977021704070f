"""The constraints of a file's location on its rows."""

import numpy as np
import pytest

from airflow_hiveacid.acid.names import CONVERTED_BASE, Base, Delta
from airflow_hiveacid.acid.row_id import encode_bucket
from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.orc.row_keys.census import RowConstraints
from airflow_hiveacid.orc.row_keys.digests import HashSet, hash_row_ids, tally
from airflow_hiveacid.orc.row_keys.keys import Keys

DELTA, DELETES = Delta(3, 5), Delta(3, 5, is_delete=True)


def keys(operation=0, original=4, bucket=1, current=4, rows=(0, 1)):
    values = (operation, original, encode_bucket(bucket))
    parts = [np.full(len(rows), value, dtype=np.int64) for value in values]
    return Keys(*parts, np.array(rows, dtype=np.int64), np.full(len(rows), current))


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
    assert tally(some[order], hashes[order]) == tally(some, hashes)
    others = [keys(rows=(0, 2)), keys(current=5), keys(original=3), keys(bucket=0), keys()]
    digests = {tally(each, hash_row_ids(each)) for each in others}
    assert len(digests) == len(others)
