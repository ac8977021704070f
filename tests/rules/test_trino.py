"""Directories that Trino misreads, by names alone, and the compaction that repairs them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hiveacid.errors import InvalidJob, NothingToCompact
from hiveacid.rules.compaction import CompactionType, PartitionSize, plan_compaction
from hiveacid.rules.compaction_decision import decide
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.directory import FileStatus, acid_state
from hiveacid.rules.trino import RIGHT, Misread
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidTxnList

MINOR, MAJOR, _ = CompactionType
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NEVER = CompactionPolicy(
    max_deltas=None, max_delta_ratio=None, max_aborted=None, max_aborted_age_hours=None
)
FOR_TRINO = replace(NEVER, right_for="trino")
ROWS = "base_0000001/bucket_00000_0"
INSERT = "delta_0000001_0000001_0000/bucket_00000_0"
DELETE = "delete_delta_0000002_0000002_0000/bucket_00000_0"
DELETE_OF_OURS = "delete_delta_0000002_0000002_0000/bucket_00000"
UPDATE = "delta_0000002_0000002_0001/bucket_00000_0"
EMPTY = "base_0000002_v0000009/_orc_acid_version"
TRUNCATED = "base_0000002/_metadata_acid"
STREAMED = "delta_0000001_0000005/bucket_00000"
SECOND = "delta_0000002_0000002_0000/bucket_00000_0"
# Of compactions: transaction 9 is committed, 8 and 7 are aborted, and 6 is open.
TXNS = ValidTxnList.parse("100:6:6:7,8")


def compacted(txn):
    return [f"{kind}_0000001_0000002_v{txn}/bucket_00000" for kind in ("delta", "delete_delta")]


def looked_at(*paths, aborted="", write_ids=None):
    files = [FileStatus(path, 1) for path in paths]
    ids = CompactorWriteIdList.parse(write_ids or f"t:100:::{aborted}")
    markers = {path.partition("/")[0]: "truncated" for path in paths if "_metadata" in path}
    state = acid_state(files, ids, TXNS, metadata_acid=markers)
    return state, files, Misread.of(state, ids)


def called_for(*paths, aborted="", policy=FOR_TRINO, **facts):
    state, _, misread = looked_at(*paths, aborted=aborted)
    size = PartitionSize(
        table="sales.orders",
        base=state.base,
        base_bytes=1 if state.base or state.originals else 0,
        deltas=state.deltas,
        misread=misread,
        **facts,
    )
    return decide(size, policy, now=NOON)


def planned(type_, *paths, aborted="", one_by_one=False):
    state, files, misread = looked_at(*paths, aborted=aborted)
    return plan_compaction(state, type_, files, misread=misread, one_by_one=one_by_one)


@pytest.mark.parametrize(
    ("paths", "aborted", "type_", "becomes"),
    [
        ([ROWS, DELETE], "", MINOR, "delete_delta_0000002_0000002"),
        ([INSERT, DELETE], "", MINOR, "delete_delta_0000001_0000002"),
        (["000000_0", DELETE], "", MINOR, "delete_delta_0000002_0000002"),
        # Rows and their deletes of one write id need the statements' numbers.
        ([ROWS, DELETE, UPDATE], "", MAJOR, "base_0000002"),
        # One more directory of its own range would be read beside it.
        ([ROWS, "delete_delta_2_5/bucket_00000_0"], "", MAJOR, "base_0000005"),
        ([INSERT, EMPTY], "", MAJOR, "base_0000002"),
        ([ROWS, TRUNCATED], "", MAJOR, "base_0000002"),
        (["000000_0", EMPTY], "", MAJOR, "base_0000002"),
        ([INSERT, EMPTY, "delta_3_3_0/bucket_00000_0"], "", MAJOR, "base_0000003"),
        ([STREAMED], "2", MAJOR, "base_0000005"),
        ([ROWS, "delta_2_5/bucket_00000"], "3", MAJOR, "base_0000005"),
        # Two compactions of one range, committed or not.
        ([INSERT, SECOND, *compacted(8), *compacted(9)], "", MAJOR, "base_0000002"),
        ([INSERT, SECOND, *compacted(6), *compacted(9)], "", MAJOR, "base_0000002"),
        ([INSERT, SECOND, *compacted(7), *compacted(8)], "", MAJOR, "base_0000002"),
        ([STREAMED, "delta_1_5_v9/bucket_00000"], "", MAJOR, "base_0000005"),
        # Neither holds the other.
        ([INSERT, SECOND, "base_1_v8/bucket_00000", compacted(9)[0]], "", MAJOR, "base_0000002"),
        ([INSERT, SECOND, "base_1_v8/bucket_00000", compacted(7)[0]], "", MAJOR, "base_0000002"),
        # One that ended between its rows and its deletes.
        ([INSERT, DELETE_OF_OURS, compacted(8)[0]], "", MAJOR, "base_0000002"),
        ([INSERT, DELETE_OF_OURS, compacted(8)[1]], "", MAJOR, "base_0000002"),
        ([INSERT, DELETE_OF_OURS, compacted(6)[0]], "", MAJOR, "base_0000002"),
    ],
)
def test_directories_that_trino_misreads_need_the_smallest_compaction(
    paths, aborted, type_, becomes
):
    decision = called_for(*paths, aborted=aborted)
    assert decision.type is type_
    assert decision.reason.startswith("Trino shows ")
    assert becomes in planned(type_, *paths, aborted=aborted).named(0)
    assert called_for(*paths, aborted=aborted, policy=NEVER).type is None


@pytest.mark.parametrize(
    ("paths", "aborted"),
    [
        ([INSERT, UPDATE], ""),
        ([ROWS, DELETE_OF_OURS], ""),
        # There is no row to be deleted.
        ([DELETE], ""),
        ([TRUNCATED, DELETE_OF_OURS.replace("2", "3")], ""),
        # There is nothing below the base that could be seen.
        ([EMPTY], ""),
        ([EMPTY, "delete_delta_1_1_0/bucket_00000"], ""),
        # Replaced directories have no effect any more.
        ([INSERT, DELETE, "base_0000002_v0000009/bucket_00000"], ""),
        ([INSERT, DELETE, "delta_1_2_v9/bucket_00000", "delete_delta_1_2_v9/bucket_00000"], ""),
        # A compaction has omitted the aborted rows; no reader reads a directory without other rows.
        (["delta_1_5_v9/bucket_00000"], "2"),
        ([STREAMED, "delta_0000001_0000005/_hiveacid.json"], "2"),
        ([STREAMED], "6"),
        ([STREAMED], "1-5"),
        # Leftovers of uncommitted compactions: of all directories, or of deletes only.
        ([INSERT, DELETE_OF_OURS, *compacted(8)], ""),
        ([INSERT, SECOND, compacted(8)[0]], ""),
        ([INSERT, DELETE_OF_OURS, compacted(7)[1], *compacted(9)], ""),
        ([INSERT, SECOND, "base_2_v8/bucket_00000"], ""),
        # A newer directory holds all of that.
        ([*compacted(8), *compacted(9), "base_2_v9/bucket_00000"], ""),
        ([*compacted(8), *compacted(9), "base_2_v8/bucket_00000"], ""),
        ([*compacted(7), *compacted(8), "delta_1_3_v9/bucket_00000", INSERT, SECOND], ""),
        # Without a file it is not there.
        ([INSERT, SECOND, "delta_1_2_v8/_orc_acid_version", compacted(9)[0]], ""),
    ],
)
def test_directories_that_trino_reads_correctly_are_left_alone(paths, aborted):
    write_ids = "t:100:::1,2,3,4,5" if aborted == "1-5" else f"t:100:::{aborted}"
    assert looked_at(*paths, write_ids=write_ids)[2] == RIGHT


def test_the_reason_names_directories():
    deletes = [f"delete_delta_{n}_{n}_0/bucket_00000_0" for n in (6, 7, 8)]
    assert called_for(STREAMED, *deletes, aborted="2").reason == (
        "Trino shows rows that delete_delta_6_6_0 and 2 more deletes, because it does not find the"
        " deletes, and shows rows of aborted writes in delta_0000001_0000005."
    )
    assert "Trino shows the rows that base_0000002 replaces" in called_for(ROWS, TRUNCATED).reason
    assert called_for(INSERT, SECOND, *compacted(8), *compacted(9)).reason == (
        "Trino shows rows twice that are in delta_0000001_0000002_v8 and 1 more (a cleaning"
        " repairs this, too)."
    )
    assert called_for(INSERT, DELETE_OF_OURS, compacted(8)[0]).reason == (
        "Trino shows other rows because of delta_0000001_0000002_v8, half of a compaction that was"
        " not committed (a cleaning repairs this, too)."
    )


def test_without_suffixes_an_empty_base_alone_is_for_the_cleaner():
    decision = called_for(ROWS, "base_0000002/_orc_acid_version", one_by_one=True)
    assert decision.type is None
    assert decision.reason.endswith("Clean the table, which removes what the base replaces.")
    with pytest.raises(NothingToCompact, match="base_0000002 is there already"):
        planned(MAJOR, ROWS, "base_0000002/_orc_acid_version", one_by_one=True)
    # With a delta the new base has a name of its own.
    more = [ROWS, "base_0000002/_orc_acid_version", "delta_3_3_0/bucket_00000"]
    assert called_for(*more, one_by_one=True).type is MAJOR


def test_without_suffixes_deletes_need_a_major_compaction():
    assert called_for(ROWS, DELETE, one_by_one=True).type is MAJOR


def test_no_second_copy_of_a_range_is_made_for_trino():
    twins = ["delta_1_5_v9/bucket_00000", "delete_delta_1_5_v9/bucket_00000_0"]
    assert called_for(*twins).type is MAJOR
    with pytest.raises(NothingToCompact, match="would become the same again"):
        planned(MINOR, *twins)


@pytest.mark.parametrize("txn", [6, 8])
def test_no_copy_is_made_of_what_was_not_committed(txn):
    three = [INSERT, SECOND, "delete_delta_2_2_1/bucket_00000"]
    for left in (compacted(txn)[0], f"base_1_v{txn}/bucket_00000"):
        assert planned(MINOR, *three, left).copies == (left.partition("/")[0],)
    assert planned(MAJOR, *three, *compacted(txn)).copies == ()
    # A base holds all below it, and who reads a range reads none within it.
    assert planned(MINOR, *three, f"base_2_v{txn}/bucket_00000").copies == ()
    third = "delta_3_3_0/bucket_00000"
    assert planned(MINOR, INSERT, SECOND, third, *compacted(txn)).copies == ()


def test_disabled_compactions_are_respected():
    decision = called_for(ROWS, DELETE, auto_off=True)
    assert (decision.type, "no_auto_compaction" in decision.reason) == (None, True)


def test_wrong_answers_come_before_slow_ones():
    policy = CompactionPolicy(right_for="trino", max_deltas=10)
    wrong = called_for(ROWS, DELETE, policy=policy)
    slow = decide(
        PartitionSize(
            table="sales.orders",
            partition="slow",
            base="base_0000001",
            deltas=tuple(f"delta_{n:07d}_{n:07d}_0000" for n in range(2, 900)),
        ),
        policy,
        now=NOON,
    )
    first, _ = rank([slow, wrong], Budget(max_partitions=1))
    assert first is wrong


def test_no_other_engine_is_known():
    with pytest.raises(InvalidJob, match="'presto' is not one of trino"):
        CompactionPolicy(right_for="presto").validate()
