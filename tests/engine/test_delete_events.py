"""Deleted rows as bits that Spark looks up."""

from random import Random

import numpy as np
import pytest

from airflow_hiveacid.acid.row_id import first_rebalanced_row
from airflow_hiveacid.engine.read import delete_events
from airflow_hiveacid.engine.read.acid_snapshot import KEY
from airflow_hiveacid.engine.read.delete_events import DeletedBits

FIRST = 536870912
REBALANCED = first_rebalanced_row(7)
NEAR = [
    (1, 2, 3, 9),
    (FIRST, FIRST + 1, FIRST + (1 << 16)),
    [*range(200), *range(REBALANCED, REBALANCED + 200)],
    (0, 3),
]
FAR = (2**63 - 1, -(2**63), -1)
TYPES = ", ".join(map("{} {}".format, KEY, ("bigint", "int", "bigint", "int")))


def events(ids):
    return tuple(np.array(ids, np.int64).T)


@pytest.mark.parametrize("fixed", [(), (0,), (0, 1, 3), (2, 3)])
def test_only_the_very_row_id_counts(spark, fixed):
    random = Random(len(fixed))
    parts = [tuple(part)[-1:] if number in fixed else part for number, part in enumerate(NEAR)]
    gone = {tuple(random.choice(part) for part in parts) for _ in range(300)}
    given = [tuple(random.choice(part) for part in NEAR) for _ in range(600)]
    given += [(*FAR[:1], *row[1:]) for row in gone]
    given += [(row[0], row[1], far, row[3]) for row in gone for far in (*FAR, row[2] + (1 << 40))]
    given += [(row[0], None, row[2], row[3]) for row in gone]
    bits = DeletedBits.of(events(list(gone)), KEY)
    left = bits.without(spark.createDataFrame([*given, *gone], TYPES)).collect()
    by_parts = lambda row: [(part is None, part or 0) for part in row]  # noqa: E731
    expected = sorted((row for row in given if row not in gone), key=by_parts)
    assert sorted(map(tuple, left), key=by_parts) == expected


@pytest.mark.parametrize(
    "far", [(2**40, FIRST, 1, 0), (1, FIRST, 2**62, 0), (1, FIRST, -(2**63), 0)]
)
def test_row_ids_that_lie_far_apart_are_not_made_bits_of(far):
    assert DeletedBits.of(events([(1, FIRST, 1, 0), far]), KEY) is None


def test_rows_of_a_rebalance_share_the_bits_of_others():
    rebalanced = [(1, FIRST, first_rebalanced_row(1000) + row, 0) for row in range(200)]
    assert DeletedBits.of(events([(1, FIRST, 1, 0), *rebalanced]), KEY) is not None


def test_bits_have_to_be_few(monkeypatch):
    monkeypatch.setattr(delete_events, "_MOST_PLACES", 100)
    one = [(1, FIRST, row, 0) for row in (0, 64 * 60)]
    assert DeletedBits.of(events(one), KEY) is not None
    assert DeletedBits.of(events([*one, *[(2, *row[1:]) for row in one]]), KEY) is None
