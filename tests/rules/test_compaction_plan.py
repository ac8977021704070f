import json
from pathlib import Path
from typing import get_args

import pytest

from hiveacid.errors import CorruptFile, NothingToCompact, SnapshotMoved, UnsupportedFile
from hiveacid.rules.compaction import CompactionType, CompactionTypeName, plan_compaction
from hiveacid.rules.directory import FileStatus, Rules, acid_state
from hiveacid.rules.names import Base
from hiveacid.rules.write_ids import CompactorWriteIdList

DATA = Path(__file__).parents[1] / "data"
CASES = json.loads((DATA / "acid_state_cases.json").read_text())["cases"]
MINOR, MAJOR, REBALANCE = CompactionType


def plan(type_, *directories, write_ids="t:100:::", rules=Rules.HIVE4):
    """Plan for directories, which get one bucket file each; a name like a file's is a file."""
    paths = [
        name if "/" in name or name[0].isdigit() else f"{name}/bucket_00000" for name in directories
    ]
    files = [FileStatus(path, 1) for path in paths]
    state = acid_state(files, CompactorWriteIdList.parse(write_ids), rules=rules)
    return plan_compaction(state, type_, files)


@pytest.mark.parametrize(
    ("directories", "inserts", "deletes"),
    [
        (["delta_1_1_0", "delta_2_2_0"], "delta_0000001_0000002", None),
        (["base_4", "delta_5_5_0", "delta_9_9_0"], "delta_0000005_0000009", None),
        (["delta_7_7_0", "delta_7_7_1"], "delta_0000007_0000007", None),
        (
            ["delta_1_1_0", "delta_2_2_0", "delete_delta_2_2_1"],
            "delta_0000001_0000002",
            "delete_delta_0000001_0000002",
        ),
        (
            ["delete_delta_2_2_0", "delete_delta_2_2_1"],
            "delta_0000002_0000002",
            "delete_delta_0000002_0000002",
        ),
        (
            ["delete_delta_1_5_v9", "delta_1_5_v9", "delta_6_6_0"],
            "delta_0000001_0000006",
            "delete_delta_0000001_0000006",
        ),
    ],
)
def test_a_minor_compaction_spans_all_deltas_and_keeps_all_deletes(directories, inserts, deletes):
    planned = plan(MINOR, *directories)
    assert planned.inputs == tuple(name for name in directories if not name.startswith("base_"))
    assert planned.named(0) == (inserts, deletes)
    suffixed = (f"{inserts}_v0000031", deletes and f"{deletes}_v0000031")
    assert planned.named(31) == suffixed


@pytest.mark.parametrize(
    ("directories", "base"),
    [
        (["base_4", "delta_5_5_0"], "base_0000005"),
        (["base_4_v8", "delta_5_5_0", "delete_delta_7_7_0"], "base_0000007"),
        (["delta_2_2_0", "delta_3_3_0"], "base_0000003"),
        (["delete_delta_7_7_0", "delta_7_7_0"], "base_0000007"),
        (["base_-9223372036854775808", "delta_1_1_0"], "base_0000001"),
    ],
)
def test_a_major_compaction_ends_at_the_last_delta(directories, base):
    planned = plan(MAJOR, *directories)
    assert planned.inputs == tuple(directories)
    assert planned.named(0) == (base, None)
    assert planned.named(12) == (f"{base}_v0000012", None)


@pytest.mark.parametrize(
    ("type_", "directories", "reason"),
    [
        (MINOR, ["base_4"], "no delta"),
        (MAJOR, ["base_4"], "no delta"),
        (MAJOR, ["delta_1_1_0"], "the only directory"),
        (MINOR, ["base_4", "delta_5_5_0"], "the only delta"),
        (MINOR, ["delete_delta_1_5_v9", "delta_1_5_v9"], "become the same again"),
        (MINOR, ["delta_1_1_0", "delete_delta_2_2_0"], "become the same again"),
        (MINOR, ["delta_7_7_0", "delete_delta_7_7_1", "delta_7_7_2"], "major"),
    ],
)
def test_compactions_without_an_effect_are_skipped(type_, directories, reason):
    with pytest.raises(NothingToCompact, match=reason):
        plan(type_, *directories)


def test_aborted_and_obsolete_directories_are_no_input():
    planned = plan(
        MINOR, "delta_1_3_v9", "delta_2_2_0", "delta_4_4_0", "delta_5_5_0", write_ids="t:5:::4"
    )
    assert planned.inputs == ("delta_1_3_v9", "delta_5_5_0")


def test_hive_3_takes_aborted_directories_too_and_drops_their_rows():
    names = ("delta_1_1_0", "delta_2_2_0", "delta_3_3_0")
    planned = plan(MAJOR, *names, write_ids="t:3:::3", rules=Rules.HIVE3)
    assert (planned.inputs, planned.inserts) == (names, Base(3))


def test_nothing_above_the_smallest_open_write_id_is_touched():
    planned = plan(MAJOR, "delta_1_1_0", "delta_2_2_0", "delta_4_4_0", write_ids="t:4:3:3:")
    assert (planned.inputs, planned.inserts) == (("delta_1_1_0", "delta_2_2_0"), Base(2))


def test_an_output_never_ends_within_the_range_of_a_streaming_writer():
    # delta_3_9 holds rows of write id 3, below the watermark, and of 9, above it.
    names = ("delta_1_1_0", "delta_2_2_0", "delete_delta_4_4_0", "delta_3_9")
    planned = plan(MAJOR, *names, write_ids="t:5:6:6:")
    assert (planned.inputs, planned.inserts) == (("delta_1_1_0", "delta_2_2_0"), Base(2))


@pytest.mark.parametrize(
    "directories",
    [
        ["delta_1_5", "delta_4_8"],
        ["delta_1_9", "delta_2_2_0", "delta_9_10"],
        ["base_5", "delta_5_6_v3", "delta_7_7_0"],
    ],
)
@pytest.mark.parametrize("type_", CompactionType)
def test_ranges_that_overlap_are_refused_by_name(type_, directories):
    with pytest.raises(CorruptFile, match=f"{directories[0]} and .* overlap") as caught:
        plan(type_, *directories)
    assert directories[-1] in str(caught.value) or directories[-2] in str(caught.value)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("delta_1_1/part-00000.orc", UnsupportedFile),
        ("delta_1_1/more/bucket_00000", CorruptFile),
        ("delta_1_1/more/", CorruptFile),
    ],
)
@pytest.mark.parametrize("type_", CompactionType)
def test_files_that_cannot_be_taken_over_are_refused_by_name(type_, path, error):
    with pytest.raises(error, match=path):
        plan(type_, "delta_1_1", "delta_2_2", path)


def test_strange_files_outside_of_the_inputs_do_not_matter():
    planned = plan(
        MINOR,
        "base_1/strange",
        "delta_1_1/strange",
        "delta_2_2",
        "delta_2_2/_orc_acid_version",
        "delta_2_2/.hidden/file",
        "delta_3_3",
        "_tmp_job/delta_4_4/bucket_00000",
    )
    assert planned.inputs == ("delta_2_2", "delta_3_3")


def test_streamed_and_loaded_files_are_taken_over():
    files = ["delta_1_3/bucket_00000", "delta_1_3/bucket_00000_flush_length", "delta_4_4/000000_0"]
    for type_ in CompactionType:
        assert plan(type_, *files).inputs == ("delta_1_3", "delta_4_4")


def test_only_a_major_compaction_takes_original_files():
    files = ["sub/000000_0", "000000_0", "delta_1_1_0", "delete_delta_2_2_0", "delta_3_3_0"]
    major, minor = plan(MAJOR, *files), plan(MINOR, *files)
    assert major.inputs == ("000000_0", "sub/000000_0", *files[2:])
    assert major.inserts == Base(3)
    assert minor.inputs == tuple(files[2:])


def test_original_files_alone_make_a_base_that_is_older_than_every_write_id():
    planned = plan(MAJOR, "000000_0")
    assert planned.inputs == ("000000_0",)
    assert planned.named(7) == ("base_-9223372036854775808_v0000007", None)
    with pytest.raises(NothingToCompact, match="no delta"):
        plan(MINOR, "000000_0")


def test_original_files_below_a_base_do_not_count():
    planned = plan(MAJOR, "000000_0", "base_1/bucket_00000", "delta_2_2_0")
    assert planned.inputs == ("base_1", "delta_2_2_0")
    with pytest.raises(NothingToCompact, match="no delta"):
        plan(MAJOR, "000000_0", "base_1/bucket_00000")


def test_the_name_of_a_directory_that_is_still_there_is_never_used_again():
    # Write id 9 overwrote the table, was aborted, and a streaming writer's batch ends with it.
    with pytest.raises(NothingToCompact, match="base_0000009 is there already"):
        plan(MAJOR, "base_0000009", "delta_1_9", "delta_1_9_v5", "base_0", write_ids="t:9:::9")


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("open_not_in_compact", None),
        ("open_not_in_compact2", None),
        ("delete_not_in_compact", None),
        (
            "compactor_stops_below_open",
            ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000"),
        ),
    ],
)
@pytest.mark.parametrize("rules", Rules)
def test_hives_own_compactor_cases(name, inputs, rules):
    case = next(case for case in CASES if case["name"] == name)
    assert case["writeIdListKind"] == "compactor"
    arguments = (MINOR, *case["files"])
    if inputs is None:
        with pytest.raises(NothingToCompact, match="delta_1_1 is the only delta"):
            plan(*arguments, write_ids=case["validWriteIds"], rules=rules)
    else:
        planned = plan(*arguments, write_ids=case["validWriteIds"], rules=rules)
        assert planned.inputs == inputs


@pytest.mark.parametrize(
    ("directories", "base"),
    [
        (["delta_1_1_0"], "base_0000001"),
        (["base_4_v8", "delta_5_5_0", "delete_delta_7_7_0"], "base_0000007"),
        (["000000_0"], "base_-9223372036854775808"),
        # The leftovers of an uncommitted compaction contain no rows of their own.
        (["delta_1_1_0", "delta_2_2_0", "delete_delta_1_1_v7", "delta_1_1_v7"], "base_0000002"),
    ],
)
def test_a_rebalance_takes_everything(directories, base):
    planned = plan(REBALANCE, *directories)
    assert planned.named(0) == (base, None)


def test_a_rebalance_makes_no_second_base_of_a_write_id():
    with pytest.raises(NothingToCompact, match="no other base"):
        plan(REBALANCE, "base_4_v8")


@pytest.mark.parametrize("delete", ["delete_delta_6_6_0", "delete_delta_3_6"])
def test_a_rebalance_takes_no_row_ids_that_deletes_above_it_name(delete):
    directories = ["delta_1_1_0", "delta_2_2_0", delete]
    # Write id 5 is open: a compaction ends below it.
    with pytest.raises(SnapshotMoved, match=delete):
        plan(REBALANCE, *directories, write_ids="t:6:5:5:")
    assert plan(MAJOR, *directories, write_ids="t:6:5:5:").named(0) == ("base_0000002", None)
    appended = [*directories[:2], "delta_6_6_0"]
    assert plan(REBALANCE, *appended, write_ids="t:6:5:5:").named(0) == ("base_0000002", None)


def test_editors_complete_the_names_of_all_types():
    assert get_args(CompactionTypeName) == tuple(CompactionType)
