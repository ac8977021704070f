"""Balances of compactions."""

import pytest

from hiveacid.errors import ProofFailed
from hiveacid.rules.compaction import Balance, Tally

LARGE = Tally(3, 2**64 - 1)


def test_sums_of_hashes_wrap_around():
    assert LARGE + Tally(2, 5) == Tally(5, 4)
    assert Tally(5, 4) - Tally(2, 5) == LARGE


def test_a_balance_is_right_when_all_that_stays_came_out():
    right = Balance(
        read=Tally(10, 100), deleted=Tally(2, 20), aborted=Tally(1, 7), written=Tally(7, 73)
    )
    right.check("t")
    (right + Balance(read=LARGE, repeated=Tally(1, 1), written=Tally(2, 2**64 - 2))).check("t")


@pytest.mark.parametrize("written", [Tally(), Tally(9, 100), Tally(10, 99), Tally(11, 110)])
def test_a_balance_is_wrong_when_anything_else_did(written):
    with pytest.raises(ProofFailed, match=r"t: 10 .* were read"):
        Balance(read=Tally(10, 100), written=written).check("t")
