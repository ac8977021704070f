import json
from pathlib import Path

import pytest

from hiveacid.errors import CorruptFile, MalformedName, VersionGone
from hiveacid.rules.directory import FileStatus, Rules, acid_state, parse_metadata_file
from hiveacid.rules.write_ids import (
    CompactorWriteIdList,
    ValidTxnList,
    ValidWriteIdList,
)

DATA = Path(__file__).parents[1] / "data"
CASES = json.loads((DATA / "acid_state_cases.json").read_text())["cases"]
ERRORS = {
    "not_enough_history": VersionGone,
    "number_format": MalformedName,
    "bad_metadata_acid": CorruptFile,
}
ANY_ORDER = ("obsolete", "aborted")


def state_of(paths, write_ids, txns=None, **options):
    files = [FileStatus(path, 1) for path in paths]
    return acid_state(files, ValidWriteIdList.parse(write_ids), txns, **options)


def check(case, expected, **options):
    kind = CompactorWriteIdList if case["writeIdListKind"] == "compactor" else ValidWriteIdList
    arguments = (
        [FileStatus(path, 1) for path in case["files"]],
        kind.parse(case["validWriteIds"]),
        ValidTxnList.parse(case["validTxns"]) if case["validTxns"] else None,
    )
    options["metadata_acid"] = case.get("metadataAcid")
    if "error" in expected:
        with pytest.raises(ERRORS[expected["error"]]):
            acid_state(*arguments, **options)
        return
    state = acid_state(*arguments, **options)
    for key in expected.keys() - {"note"}:
        actual, wanted = getattr(state, key), expected[key]
        if key == "base":
            assert actual == wanted
        else:
            sort = sorted if key in ANY_ORDER else list
            assert sort(actual) == sort(wanted), key


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_hives_own_answers(case):
    for rules in Rules:
        check(case, case["expect"][rules], rules=rules, strict=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_default_reading_is_hive_4_without_its_wrong_rows(case):
    check(case, case.get("recommended", case["expect"]["hive4"]))


@pytest.mark.parametrize("rules", list(Rules))
@pytest.mark.parametrize("write_ids", ["t:3:3:3:", "t:3:9223372036854775807::3"])
def test_an_overwrite_that_was_not_committed_hides_nothing(rules, write_ids):
    paths = [
        "000000_0",
        "delta_0000001_0000001_0000/bucket_00000",
        "delete_delta_0000002_0000002_0000/bucket_00000",
        "base_0000003/bucket_00000",
    ]
    state = state_of(paths, write_ids, rules=rules)
    assert state.base is None
    assert state.originals == ("000000_0",)
    assert state.deltas == ("delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000")


@pytest.mark.parametrize("rules", list(Rules))
def test_an_overwrite_that_was_aborted_does_not_hide_that_a_compaction_replaced_the_rest(rules):
    paths = ["base_0000002/bucket_00000", "base_0000004/_metadata_acid"]
    metadata = {"base_0000004": "compacted"}
    with pytest.raises(VersionGone, match="base_0000004"):
        state_of(paths, "t:4:3:3:2", rules=rules, metadata_acid=metadata)


@pytest.mark.parametrize("writer", ["hive3", "hive4"])
@pytest.mark.parametrize(
    ("write_ids", "base", "deltas"),
    [
        ("db.t:1:9223372036854775807::", None, ["delta_0000001_0000001_0000"]),
        (
            "db.t:2:9223372036854775807::",
            None,
            [
                "delta_0000001_0000001_0000",
                "delete_delta_0000002_0000002_0000",
                "delta_0000002_0000002_0000",
            ],
        ),
        ("db.t:3:9223372036854775807::", "base_0000003", []),
        ("db.t:2:2:2:", None, ["delta_0000001_0000001_0000"]),
    ],
)
def test_directories_that_hive_wrote(writer, write_ids, base, deltas):
    root = DATA / "hive-written" / writer
    paths = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    state = state_of(paths, write_ids)
    assert (state.base, list(state.deltas)) == (base, deltas)
    for directory in filter(None, [state.base, *state.deltas]):
        assert [file.path for file in state.files(directory)] == [f"{directory}/bucket_00001"]


def test_originals_are_obsolete_under_a_base_and_counted_by_path_without_one():
    paths = ["000001_0", "000000_0", "sub/000000_0", "_done", "sub/.crc"]
    open_ = state_of(paths, "t:0:9223372036854775807::")
    assert open_.originals == ("000000_0", "000001_0", "sub/000000_0")
    assert [file.path for file in open_.files("")] == list(open_.originals)
    covered = state_of([*paths, "base_0000001/bucket_00000"], "t:1:9223372036854775807::")
    assert covered.originals == ()
    assert covered.obsolete == ("000000_0", "000001_0", "sub", "sub/000000_0")


def test_empty_files_are_no_originals():
    write_ids = ValidWriteIdList.parse("t:0:9223372036854775807::")
    assert acid_state([FileStatus("000000_0", 0)], write_ids).originals == ()


def test_an_empty_base_hides_what_came_before():
    paths = ["delta_0000001_0000001_0000/bucket_00000", "base_0000002/"]
    state = state_of(paths, "t:2:9223372036854775807::")
    assert (state.base, state.deltas) == ("base_0000002", ())
    assert state.files("base_0000002") == ()


def test_data_files_leave_out_hidden_and_side_files():
    directory = "delta_0000001_0000005"
    names = ["bucket_00001", "bucket_00000", "bucket_00000_flush_length", "_orc_acid_version"]
    state = state_of([f"{directory}/{name}" for name in names], "t:5:9223372036854775807::")
    assert [file.path for file in state.files(directory)] == [
        f"{directory}/bucket_00000",
        f"{directory}/bucket_00001",
    ]


def test_marker_files_are_asked_for_only_where_there_is_one():
    asked = []

    def read(directory):
        asked.append(directory)
        return "compacted"

    paths = ["base_0000001/bucket_00000", "base_0000002/_metadata_acid"]
    state = state_of(paths, "t:2:9223372036854775807::", metadata_acid=read)
    assert state.base == "base_0000002"
    assert set(asked) == {"base_0000002"}


def removed(directory):
    """The marker file, which a cleaner has removed since the listing."""
    return {"base_0000001": None}.get(directory, "compacted")


@pytest.mark.parametrize("rules", list(Rules))
@pytest.mark.parametrize("write_ids", ["t:2:9223372036854775807::", "t:2:9223372036854775807::1"])
def test_a_base_that_is_removed_after_the_listing_is_not_needed(rules, write_ids):
    paths = ["base_0000001/_metadata_acid", "base_0000002/_metadata_acid"]
    state = state_of(paths, write_ids, rules=rules, metadata_acid=removed)
    assert state.base == "base_0000002"
    assert (state.obsolete, state.aborted) == ((), ())


@pytest.mark.parametrize("rules", list(Rules))
@pytest.mark.parametrize(
    "paths",
    [
        ["base_0000001/_metadata_acid"],
        ["base_0000001/_metadata_acid", "delta_0000001_0000001_0000/bucket_00000"],
        ["base_-9223372036854775808/bucket_00000", "base_0000001/_metadata_acid"],
    ],
)
def test_a_base_without_a_newer_one_is_not_lost_silently(rules, paths):
    with pytest.raises(CorruptFile, match="base_0000001/_metadata_acid was removed after"):
        state_of(paths, "t:1:9223372036854775807::", rules=rules, metadata_acid=removed)


@pytest.mark.parametrize("rules", list(Rules))
def test_the_removal_of_a_later_base_does_not_matter_to_an_older_snapshot(rules):
    paths = ["base_-9223372036854775808/bucket_00000", "base_0000001/_metadata_acid"]
    state = state_of(paths, "t:0:9223372036854775807::", rules=rules, metadata_acid=removed)
    assert state.base == "base_-9223372036854775808"


def test_an_unread_marker_file_is_an_error():
    with pytest.raises(CorruptFile, match="was not read"):
        state_of(["base_0000002/_metadata_acid"], "t:2:9223372036854775807::")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "compacted",
        "[]",
        '{"dataFormat":"compacted"}',
        '{"thisFileVersion":"1","dataFormat":"compacted"}',
        '{"thisFileVersion":"0","dataFormat":null}',
    ],
)
def test_broken_marker_files_are_errors(text):
    with pytest.raises(CorruptFile):
        parse_metadata_file(text)


def test_a_marker_file_names_its_data_format():
    assert parse_metadata_file('{"dataFormat":"truncated","thisFileVersion":"0"}') == "truncated"


@pytest.mark.parametrize(
    "outer", ["delta_0000001_0000001_0000", "delta_0000001_0000001", "base_0000001"]
)
@pytest.mark.parametrize("rules", list(Rules))
def test_a_directory_inside_of_one_of_the_same_name_is_not_read(outer, rules):
    paths = [
        f"{outer}/bucket_00000",
        f"{outer}/{outer}/bucket_00000",
        f"{outer}/{outer}/x/000000_0",
    ]
    union = f"{outer}/HIVE_UNION_SUBDIR_1/000000_0"
    state = state_of([*paths, union], "db.t:1:9223372036854775807::", rules=rules)
    assert {file.path for file in state.files(outer)} == {paths[0], union}
