"""Rebalances and others in the cells of the matrix, and side by side, without Spark."""

import pytest

from hiveacid.errors import LockTimeout, OverlapRefused
from hiveacid.rules.locks import WriteKind, succeeds
from tests.contract.txn.overlapping_writers import (
    APPEND,
    CHANGE,
    COMPACTIONS,
    MAJOR,
    TWO,
    meet_at_the_locks,
    settle,
)
from tests.versions import NEWER

HMS4S = pytest.mark.parametrize(
    "hms",
    ["fake 4.0.1", pytest.param("4.0.1", marks=pytest.mark.conflicts), *NEWER],
    indirect=True,
)
POLICIES = pytest.mark.parametrize("strict", [True, False], ids=["strict", "hive"])


@HMS4S
@POLICIES
@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(first, later, id=f"{first}_before_{later}".replace("major", "rebalance"))
        for first in WriteKind
        for later in WriteKind
        if MAJOR in (first, later)
    ],
)
def test_a_cell_with_a_rebalance(client, table, writer, first, later, strict):
    job = writer(later, strict=strict, rebalances=later is MAJOR)
    other = writer(first, strict=strict, rebalances=first is MAJOR)
    if meet_at_the_locks(first, later) or CHANGE in (first, later):
        other.run()
        if {first, later} <= COMPACTIONS:
            settle(client, table)
        job.begin()
    else:
        job.begin()
        other.run()
    if not strict or succeeds(first, later):
        job.commit()
    else:
        with pytest.raises(OverlapRefused, match=f"{first} before {later}"):
            job.commit()
    assert client.show_locks() == []


@HMS4S
@POLICIES
def test_beside_a_rebalance_appends_succeed_and_changes_wait(client, writer, strict):
    rebalance = writer(MAJOR, strict=strict, rebalances=True).begin()
    with pytest.raises(LockTimeout):
        writer(CHANGE, strict=strict).run()
    writer(CHANGE, TWO, strict=strict).run()
    writer(APPEND, strict=strict).run()
    if strict:
        with pytest.raises(OverlapRefused, match="append before major"):
            rebalance.commit()
    else:
        rebalance.commit()
    writer(CHANGE, strict=strict).run()
    assert client.show_locks() == []


@HMS4S
@POLICIES
def test_a_rebalance_waits_for_changes_and_for_no_append(client, writer, strict):
    append = writer(APPEND, strict=strict).begin()
    change = writer(CHANGE, strict=strict).begin()
    with pytest.raises(LockTimeout):
        writer(MAJOR, strict=strict, rebalances=True).run()
    writer(MAJOR, TWO, strict=strict, rebalances=True).run()
    change.commit()
    rebalance = writer(MAJOR, strict=strict, rebalances=True)
    if strict:
        append.abort()
    rebalance.run()
    if not strict:
        append.commit()
    assert client.show_locks() == []
