"""The removable directories of a partition, and the reasons for keeping the others."""

from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.rules.cleaning import (
    Blocker,
    KeptPath,
    ReaderNote,
    is_stale_upload,
    plan_cleaning,
    stale_staging,
)
from hiveacid.rules.directory import FileStatus, acid_state
from hiveacid.rules.write_ids import NO_OPEN, ValidTxnList, ValidWriteIdList

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def reader(txn_id=None, lock_id=None, **more):
    return Blocker(txn_id=txn_id, lock_id=lock_id, user="ann", **more)


def plan(
    *names, open_=(), aborted=(), txns=None, notes=None, blockers=(), forbidden=None, retained=None
):
    """Plan for directories with one file each; a name with a dot is a file of its own."""
    listing = [FileStatus(name if "." in name else f"{name}/bucket_00000", 1) for name in names]
    write_ids = ValidWriteIdList("db.t", 100, min(open_, default=NO_OPEN), open_, aborted)
    txns = txns or ValidTxnList(1000)
    return plan_cleaning(
        acid_state(listing, write_ids, txns),
        [name for name in names if "." not in name],
        write_ids=write_ids,
        txns=txns,
        notes=notes or {},
        blockers=blockers,
        forbidden=forbidden or {},
        retained=retained or {},
        now=NOW,
    )


def removed(plan):
    return [removal.path for removal in plan.remove]


def kept(plan):
    return {stay.path: stay.reason for stay in plan.keep}


OLD = ("base_2", "delta_3_3_0000", "delete_delta_4_4_0000")


@pytest.mark.parametrize("newer", ["base_0000004_v0000020", "base_4"])
def test_directories_replaced_by_a_base_are_removed_without_readers(newer):
    marked = [FileStatus("base_4/_metadata_acid", 1)]
    listing = [FileStatus(f"{name}/bucket_00000", 1) for name in (*OLD, newer, "delta_5_5_0000")]
    marks = {"base_4": "compacted"}
    write_ids, txns = ValidWriteIdList("db.t", 5), ValidTxnList(1000)
    state = acid_state(
        [*listing, *(marked if newer == "base_4" else [])], write_ids, txns, metadata_acid=marks
    )
    planned = plan_cleaning(
        state,
        [*OLD, newer, "delta_5_5_0000"],
        write_ids=write_ids,
        txns=txns,
        notes={},
        blockers=[],
        forbidden={},
        retained={},
        now=NOW,
    )
    assert removed(planned) == sorted(OLD)
    assert {removal.cover for removal in planned.remove} == {newer}
    assert (planned.keep, planned.unmarked) == ((), ())


@pytest.mark.parametrize(
    ("blocker", "blocks"),
    [
        (reader(txn_id=30), True),
        (reader(txn_id=31), False),
        (reader(lock_id=7), True),
        (reader(lock_id=8), False),
        (reader(txn_id=31, lock_id=7), True),
    ],
)
def test_only_who_was_there_when_the_newer_one_appeared_is_waited_for(blocker, blocks):
    new = "base_0000004_v0000020"
    planned = plan(*OLD, new, notes={new: ReaderNote(30, (7,))}, blockers=[blocker])
    assert removed(planned) == ([] if blocks else sorted(OLD))
    assert list(kept(planned)) == (sorted(OLD) if blocks else [])
    assert planned.unmarked == ()


@pytest.mark.parametrize("blocker", [reader(txn_id=900), reader(lock_id=1)])
def test_without_a_note_all_transactions_may_read_old_directories(blocker):
    planned = plan(*OLD, "base_0000004_v0000020", blockers=[blocker])
    assert removed(planned) == []
    assert planned.unmarked == ("base_0000004_v0000020",)


def test_the_reason_names_who_blocks_since_when_and_from_where():
    run = "nightly/scheduled__2026-01-02/merge/-1"
    blockers = [
        reader(txn_id=12, run=run, since=NOW - timedelta(hours=3)),
        *(reader(txn_id=n) for n in range(13, 18)),
    ]
    reason = kept(plan("delta_3_3_0000", "base_0000004_v0000020", blockers=blockers))[
        "delta_3_3_0000"
    ]
    assert "base_0000004_v0000020 holds its content" in reason
    assert "transaction 12 of ann (Airflow task merge of DAG nightly" in reason
    assert "open for 3 h" in reason
    assert "3 more" in reason


def test_inputs_of_a_minor_compaction_are_removable():
    old = ["delta_3_3_0000", "delta_4_4_0000", "delete_delta_4_4_0001"]
    new = ["delta_0000003_0000004_v0000020", "delete_delta_0000003_0000004_v0000020"]
    assert sorted(removed(plan(*old, *new))) == sorted(old)


@pytest.mark.parametrize(
    ("missing", "there"),
    [("delete_delta_4_4_0001", "delta_0000003_0000004"),
     ("delta_3_3_0000", "delete_delta_0000003_0000004")],
)  # fmt: skip
def test_half_of_a_compaction_without_a_transaction_holds_only_its_own_half(missing, there):
    planned = plan("delta_3_3_0000", "delta_4_4_0000", "delete_delta_4_4_0001", there)
    assert missing not in removed(planned)
    assert "may be missing" in kept(planned)[missing]
    assert not planned.is_clean_up_to(None)


def test_statements_of_one_write_id_are_distinct():
    # The second spelling of a name is not read; the owner of its rows is unknown.
    planned = plan("delta_3_3_0000", "delta_0000003_0000003_0000")
    assert removed(planned) == []


def test_of_two_copies_of_a_compacted_delta_the_older_may_go():
    assert removed(plan("delta_1_5_v0000020", "delta_1_5_v0000010")) == ["delta_1_5_v0000010"]


def test_an_overwrite_makes_all_before_it_useless_even_the_younger_compaction():
    names = ["delta_1_1_0000", "delta_0000001_0000002_v0000030", "base_4"]
    assert sorted(removed(plan(*names))) == sorted(names[:-1])


def test_aborted_writes_are_removed_despite_any_reader():
    names = ["delta_3_3_0000", "delete_delta_3_3_0001", "base_4"]
    planned = plan(*names, "delta_5_5_0000", aborted=(3, 4), blockers=[reader(1, 1)])
    assert sorted(removed(planned)) == sorted(names)
    assert planned.keep == ()


def test_directories_with_committed_rows_are_not_aborted():
    planned = plan("delta_3_5", aborted=(4,))
    assert removed(planned) == []
    # To forget that 4 is aborted would bring its rows to life.
    assert not planned.is_clean_up_to(5)
    assert planned.is_clean_up_to(2)
    assert plan("delta_3_5_v0000020", aborted=(4,)).is_clean_up_to(5)


def test_the_output_of_an_aborted_compaction_waits_for_locks_on_the_table_only():
    names = ("delta_3_3_0000", "delta_4_4_0000", "delta_3_4_v0000020")
    txns = ValidTxnList(1000, aborted=(20,))
    assert removed(plan(*names, txns=txns, blockers=[reader(txn_id=1)])) == ["delta_3_4_v0000020"]
    planned = plan(*names, txns=txns, blockers=[reader(lock_id=1)])
    assert removed(planned) == []
    assert "transaction 20, is aborted" in kept(planned)["delta_3_4_v0000020"]
    assert not planned.is_clean_up_to(4)


def test_uncommitted_files_are_kept_for_their_writers():
    names = ["base_4", "delta_5_5_0000", "delta_0000001_0000002_v0000020"]
    txns = ValidTxnList(1000, 20, open=(20, 21))
    blockers = [reader(txn_id=20), reader(txn_id=21, lock_id=2)]
    planned = plan("delta_1_1_0000", *names, open_=(4, 5), txns=txns, blockers=blockers)
    assert removed(planned) == []
    assert list(kept(planned)) == sorted(names)
    assert "Active: transaction 20 " in kept(planned)["delta_0000001_0000002_v0000020"]
    assert "Active: transaction 21 " in kept(planned)["delta_5_5_0000"]
    # They were not replaced by a compaction.
    assert planned.is_clean_up_to(None)


def test_no_name_outside_the_grammar_is_touched():
    planned = plan("backup", "_hidden", ".staging", "000000_0.orc", "delta_1_1_0000", "base_2")
    assert removed(planned) == ["delta_1_1_0000"]
    assert list(kept(planned)) == ["000000_0.orc", "backup"]
    assert planned.is_clean_up_to(None)


def plan_originals(*directories, blockers=()):
    """Plan for original files below some directories."""
    files = ["000000_0", "000001_0_copy_2", "HIVE_UNION_SUBDIR_1/000000_0", "other/data.orc"]
    names = {"HIVE_UNION_SUBDIR_1", "other", *directories}
    listing = [FileStatus(path, 1) for path in files]
    listing += [FileStatus(f"{name}/bucket_00000", 1) for name in directories]
    write_ids, txns = ValidWriteIdList("db.t", 100), ValidTxnList(1000)
    return plan_cleaning(
        acid_state(listing, write_ids, txns),
        names,
        write_ids=write_ids,
        txns=txns,
        notes={},
        blockers=blockers,
        forbidden={},
        retained={},
        now=NOW,
    )


@pytest.mark.parametrize("base", ["base_-9223372036854775808_v0000020", "base_0000004"])
def test_original_files_may_go_below_a_base(base):
    planned = plan_originals(base)
    assert removed(planned) == ["000000_0", "000001_0_copy_2", "HIVE_UNION_SUBDIR_1"]
    assert {removal.cover for removal in planned.remove} == {base}
    assert list(kept(planned)) == ["other"]
    assert planned.is_clean_up_to(None)


def test_original_files_wait_for_those_who_read_them():
    planned = plan_originals("base_4", blockers=[reader(txn_id=30)])
    assert removed(planned) == []
    assert len(kept(planned)) == 4
    assert planned.unmarked == ("base_4",)
    assert not planned.is_clean_up_to(4)


def test_original_files_without_a_base_are_the_table():
    planned = plan_originals("delta_1_1_0000")
    assert planned.remove == ()
    assert list(kept(planned)) == ["other"]


def test_forbidden_compactions_are_not_run():
    planned = plan(
        "delta_1_1_0000", "delta_2_2_0000", "base_3", aborted=(2,),
        forbidden={"delta_1_1_0000": "It is a link.", "delta_2_2_0000": "It is a link."},
    )  # fmt: skip
    assert removed(planned) == []
    assert set(kept(planned).values()) == {"It is a link."}
    assert not planned.is_clean_up_to(3)
    assert not planned.is_clean_up_to(1)
    assert planned.is_clean_up_to(0)


def test_directories_of_versions_are_kept_and_block_no_request():
    names = ("delta_1_1_0000", "delta_2_2_0000", "base_2_v0000020")
    why = "Versions need it."
    needed = {name: KeptPath(name, why, waits_for="retention") for name in names[:2]}
    planned = plan(*names, retained=needed)
    assert removed(planned) == []
    assert kept(planned) == dict.fromkeys(names[:2], why)
    assert all(stay.retained for stay in planned.keep)
    assert planned.is_clean_up_to(2)
    waiting = plan(*names, retained=needed, blockers=[reader(txn_id=1)])
    assert not any(stay.retained for stay in waiting.keep)
    assert not waiting.is_clean_up_to(2)
    aborted = plan(*names, retained=needed, aborted=(1,))
    assert removed(aborted) == ["delta_1_1_0000"]


def test_a_live_directory_is_neither_removed_nor_explained():
    planned = plan("base_2", "delta_3_3_0000", "delete_delta_4_4_0000")
    assert (planned.remove, planned.keep) == ((), ())


def test_staged_files_are_stale_when_their_transaction_has_ended():
    names = [f"_tmp_hiveacid_{txn}_ab12" for txn in (3, 5, 12)]
    others = ["_tmp_hiveacid_", "_tmp_hiveacid_x_1", "_tmp_3_1", "delta_3_3", ".hive-staging_3"]
    txns = ValidTxnList(10, 5, open=(5,))
    assert stale_staging([*names, *others], txns, 5) == names[:1]


def test_staged_files_of_possibly_active_transactions_are_kept():
    names = [f"_tmp_hiveacid_{txn}_ab12" for txn in (3, 4, 7, 8)]
    txns = ValidTxnList(10, aborted=(8,))
    assert stale_staging(names, txns, 4) == [names[0], names[3]]


@pytest.mark.parametrize(
    ("path", "stale"),
    [
        ("delta_0000003_0000003_0000/bucket_00000", True),  # committed
        ("p=1/delete_delta_0000004_0000004_0001/bucket_00000", True),  # aborted
        ("p=1/base_0000005/bucket_00000", False),  # open
        ("delta_0000101_0000101_0000/bucket_00000", False),  # not committed yet
        ("base_0000003_v0000002/bucket_00000", True),
        ("base_0000003_v0000005/bucket_00000", False),
        ("base_0000003_v0000012/bucket_00000", False),  # unknown
        ("_tmp_hiveacid_3_ab12/flat1/part-0", True),
        ("_tmp_hiveacid_5_ab12/flat1/part-0", False),
        ("delta_x/bucket_00000", False),
        ("landing/file", False),
        ("file", False),
    ],
)
def test_uploads_of_those_who_have_ended_are_taken_back(path, stale):
    txns = ValidTxnList(10, 5, open=(5,))
    write_ids = ValidWriteIdList("db.t", 100, 5, open=(5,), aborted=(4,))
    assert is_stale_upload(path, write_ids, txns, 5, timedelta(days=30 * stale)) is stale


def test_an_upload_for_an_unassigned_write_id_is_removed_eventually():
    path, write_ids = "delta_0000101_0000101_0000/bucket_00000", ValidWriteIdList("db.t", 100)
    assert not is_stale_upload(path, write_ids, ValidTxnList(10), NO_OPEN, timedelta(days=6))
    assert is_stale_upload(path, write_ids, ValidTxnList(10), NO_OPEN, timedelta(days=8))
