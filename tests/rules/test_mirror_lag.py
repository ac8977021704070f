"""The lag of a mirror counts committed versions, and has the age of the oldest missing one as a limit."""

import pytest

from hiveacid.rules.lag import LagLimits, MirrorLag, missing_versions
from hiveacid.rules.write_ids import ValidWriteIdList

NAME = "d.t"


def ids(high: int, open_: tuple[int, ...] = (), aborted: tuple[int, ...] = ()) -> ValidWriteIdList:
    return ValidWriteIdList(NAME, high, min(open_, default=2**63 - 1), open_, aborted)


@pytest.mark.parametrize(
    ("mirrored", "now", "missing"),
    [
        (ids(3), ids(3), 0),
        (ids(3), ids(5), 2),
        (ids(0), ids(4, aborted=(2,)), 3),
        # Open and aborted write ids are not versions.
        (ids(3), ids(6, open_=(5,), aborted=(4,)), 1),
        (ids(3), ids(4, open_=(4,)), 0),
        (ids(3, aborted=(2,)), ids(3, aborted=(2,)), 0),
        # The metastore forgets aborted write ids.
        (ids(3, aborted=(2,)), ids(3), 0),
        # A write that was open commits below the newest version of the mirror.
        (ids(5, open_=(2, 4)), ids(5, open_=(4,)), 1),
        (ids(5, open_=(2, 4)), ids(6, aborted=(2,)), 2),
        (ids(5, open_=(2,)), ids(5, open_=(2,)), 0),
    ],
)
def test_committed_versions_are_counted(
    mirrored: ValidWriteIdList, now: ValidWriteIdList, missing: int
) -> None:
    assert missing_versions(mirrored, now) == missing


def test_versions_above_the_requested_one_do_not_count() -> None:
    mirrored, now = ids(5, open_=(2,)), ids(9)
    assert [missing_versions(mirrored, now, up_to) for up_to in (1, 2, 5, 7, 9, 99)] == [
        *(0, 1, 1, 3, 5, 5)
    ]
    lag = MirrorLag.of(mirrored, now, complete_at=70.0, moment=100.0, up_to=7)
    assert lag == MirrorLag(version=5, newest=7, versions=3, seconds=30.0)


def test_the_age_is_zero_unless_a_version_is_missing() -> None:
    fresh = MirrorLag.of(ids(3), ids(4, aborted=(4,)), complete_at=70.0, moment=100.0)
    assert fresh == MirrorLag(version=3, newest=3, versions=0, seconds=0.0)
    late = MirrorLag.of(ids(3), ids(4), complete_at=70.0, moment=100.0)
    assert late == MirrorLag(version=3, newest=4, versions=1, seconds=30.0)
    # The clock of the mirror is ahead.
    assert MirrorLag.of(ids(3), ids(4), complete_at=170.0, moment=100.0).seconds == 0.0


def test_a_lag_is_text() -> None:
    fresh = MirrorLag(version=7, newest=7, versions=0, seconds=0.0)
    assert str(fresh) == "at version 7, up to date"
    for versions, text in ((1, "1 version"), (3, "3 versions")):
        late = MirrorLag(version=7, newest=9, versions=versions, seconds=720.0)
        assert str(late) == f"at version 7, {text} behind for at most 12 min"


@pytest.mark.parametrize(
    ("limits", "fresh"),
    [
        (LagLimits(), [True, False, False]),
        (LagLimits(versions=2), [True, True, False]),
        (LagLimits(seconds=60.0), [True, True, False]),
        (LagLimits(seconds=0.0), [True, False, False]),
        (LagLimits(versions=2, seconds=600.0), [True, True, True]),
    ],
)
def test_either_limit_makes_a_mirror_fresh(limits: LagLimits, fresh: list[bool]) -> None:
    lags = [
        MirrorLag(version=7, newest=7, versions=0, seconds=0.0),
        MirrorLag(version=7, newest=9, versions=2, seconds=60.0),
        MirrorLag(version=7, newest=12, versions=5, seconds=600.0),
    ]
    assert [limits.tolerate(lag) for lag in lags] == fresh
