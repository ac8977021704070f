"""The cost of the rules depends on the number of directories: twice as many, twice the work."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from hiveacid.rules.cleaning import plan_cleaning
from hiveacid.rules.compaction import CompactionType, plan_compaction
from hiveacid.rules.directory import FileStatus, Rules, acid_state
from hiveacid.rules.names import Base, BucketFile, Delta
from hiveacid.rules.trino import Misread
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from hiveacid.upkeep.inspection import _sizes
from hiveacid.upkeep.survey import PartitionSizes

HIGH = 1_000_000
NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of function calls, including those of the interpreter."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def deltas(count: int) -> list[str]:
    ids = range(HIGH - count + 1, HIGH + 1)
    return [Delta(id_, id_, 0, is_delete=id_ % 3 == 0).name for id_ in ids]


def listed(*names: str) -> list[FileStatus]:
    return [FileStatus(f"{name}/{BucketFile(0).name}", 100) for name in names]


def live(count: int) -> list[FileStatus]:
    return listed(*deltas(count))


def aborted(count: int) -> list[FileStatus]:
    return listed(*(Delta(id_, id_, 0).name for id_ in range(1, 10 * count, 10)))


def behind_a_base(count: int) -> list[FileStatus]:
    return listed(Base(HIGH, visibility_txn=7).name, *deltas(count))


def behind_a_delta(count: int) -> list[FileStatus]:
    first = HIGH - count + 1
    return listed(Delta(first, HIGH, visibility_txn=7).name, *deltas(count))


def half_compacted(count: int) -> list[FileStatus]:
    """A compaction that has taken some, and deltas that others have written since."""
    first, last = HIGH - count + 1, HIGH - count // 2
    return listed(Delta(first, last, visibility_txn=7).name, *deltas(count))


def not_committed(count: int) -> list[FileStatus]:
    """Return an uncommitted output of a compaction, beside its inputs."""
    return listed(Delta(HIGH - count + 1, HIGH, visibility_txn=5000).name, *deltas(count))


def originals(count: int) -> list[FileStatus]:
    files = [FileStatus(f"{number:06}_0", 100) for number in range(count)]
    return [*listed(Base(HIGH, visibility_txn=7).name), *files]


@pytest.mark.parametrize(
    "partition",
    [
        live,
        aborted,
        behind_a_base,
        behind_a_delta,
        half_compacted,
        not_committed,
        originals,
    ],
)
def test_twice_as_many_directories_are_twice_the_work(partition):
    def calls(count: int) -> int:
        files = partition(count)
        ids = tuple(range(1, 10 * count, 10))
        write_ids = ValidWriteIdList("db.t", HIGH, aborted=ids)
        txns = ValidTxnList(1000, aborted=tuple(range(100, 100 + count)))
        return calls_of(lambda: judge(files, write_ids, txns))

    fewer, more = calls(300), calls(600)
    assert more < 2.3 * fewer


def judge(files: list[FileStatus], write_ids: ValidWriteIdList, txns: ValidTxnList) -> None:
    """Make the decisions of a reader, a sensor, a compaction and a cleaning on a partition."""
    state = acid_state(files, write_ids, txns)
    names = {file.path.partition("/")[0] for file in files if "/" in file.path}
    _ = [state.files(name) for name in ("", *state.deltas)]
    sizes = PartitionSizes(
        "db.t", CompactorWriteIdList.of(write_ids), txns, Rules.HIVE4, owner=None
    )
    sizes._choose(tuple(sorted(names)), (), False, lambda directory: "compacted")
    misread = Misread.of(state, write_ids)
    if len(state.deltas) > 1:
        plan_compaction(state, CompactionType.MAJOR, files, misread=misread)
    sizes_of = _sizes(files)
    plan = plan_cleaning(
        state,
        names,
        write_ids=write_ids,
        txns=txns,
        notes={},
        blockers=(),
        forbidden={},
        retained={},
        now=NOW,
    )
    assert all(sizes_of[removal.path] == 100 for removal in plan.remove)
