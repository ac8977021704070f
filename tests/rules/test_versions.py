"""The readable versions of a partition, and their directories."""

import pytest

from hiveacid.errors import VersionGone, VersionUnknown
from hiveacid.rules.directory import FileStatus, acid_state
from hiveacid.rules.versions import (
    PartitionVersions,
    Replaced,
    as_of_write_id,
    newest_version,
    precedes,
    without,
)
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList

NOW = ValidWriteIdList.parse("db.t:9:8:8:3")
TXNS = ValidTxnList(100, 99, (99,), (98,))
DELTA = "delta_000000{0}_000000{0}_0000"
INSERTS = [DELTA.format(write_id) for write_id in (1, 2, 4, 5, 6, 7)]


def versions(directories, replaced=None, *, flat=False, now=NOW):
    files = [FileStatus(f"{name}/bucket_00000", 1) for name in directories]
    return PartitionVersions("db.t", files, now, TXNS, flat, notes(replaced or {}).get)


def notes(replaced):
    return {name: Replaced(tuple(paths), ()) for name, paths in replaced.items()}


def read(directories, version, replaced=None, *, flat=False, then=None):
    then = then or as_of_write_id(NOW, version)
    files = versions(directories, replaced, flat=flat).files_of(then)
    state = acid_state(files, then, TXNS)
    return [*filter(None, [state.base]), *state.deltas]


def test_a_version_sees_what_is_committed_up_to_it():
    then = as_of_write_id(NOW, 9)
    assert then == NOW
    then = as_of_write_id(NOW, 7)
    assert [write_id for write_id in range(12) if then.is_valid(write_id)] == [0, 1, 2, 4, 5, 6, 7]
    assert then.min_open_write_id > 7


def test_there_is_no_version_beyond_the_newest():
    with pytest.raises(VersionUnknown, match="newest one is 9"):
        as_of_write_id(NOW, 10)
    with pytest.raises(VersionUnknown):
        as_of_write_id(NOW, -1)


def test_the_newest_version_is_committed():
    assert newest_version(NOW) == 9
    assert newest_version(ValidWriteIdList.parse("db.t:9:8:8:9")) == 7
    assert newest_version(ValidWriteIdList.parse("db.t:0")) == 0


def test_a_reader_of_the_past_may_have_seen_a_later_write_before_an_earlier_one():
    then = without(NOW, [5, 9])
    assert [write_id for write_id in range(12) if then.is_valid(write_id)] == [0, 1, 2, 4, 6, 7]
    assert (then.high_watermark, then.min_open_write_id) == (7, 5)
    assert without(NOW, []) == NOW
    assert without(NOW, range(1, 10)).high_watermark == 0


def test_a_version_is_read_from_a_base_that_takes_in_aborted_writes_behind_it():
    base, now = "base_0000008_v0000050", ValidWriteIdList.parse("db.t:9:9:9:7,8")
    for then in (as_of_write_id(now, 6), as_of_write_id(now, 7), without(now, [9])):
        files = versions([base], now=now).files_of(then)
        assert acid_state(files, then, TXNS).base == base
    assert versions([base], now=now).oldest == 6
    with pytest.raises(
        VersionGone, match=r"Version 5 of .* is not available.* version is 6, the newest 6\."
    ):
        versions([base], now=now).files_of(as_of_write_id(now, 5))


def test_a_version_precedes_those_that_show_all_of_it():
    past = without(NOW, [5, 9])  # 1, 2, 4, 6, 7
    for number, before, after in ((4, False, True), (6, False, False), (7, True, False)):
        version = as_of_write_id(NOW, number)
        assert (precedes(past, version), precedes(version, past)) == (before, after), number
    assert precedes(NOW, NOW)


def test_a_version_is_read_from_the_deltas_up_to_it():
    assert read(INSERTS, 5) == INSERTS[:4]
    assert read(INSERTS, 0) == []
    assert versions(INSERTS).oldest == 0


def test_an_intact_base_does_not_hide_what_it_replaced():
    base = "base_0000005_v0000050"
    replaced = {base: INSERTS[:4]}
    assert read([*INSERTS, base], 4, replaced) == INSERTS[:3]
    assert read([*INSERTS, base], 7, replaced) == [base, *INSERTS[4:]]
    assert versions([*INSERTS, base], replaced).oldest == 0


@pytest.mark.parametrize("gone", range(4))
def test_a_version_is_gone_with_the_first_directory_that_a_base_replaced(gone):
    base = "base_0000005_v0000050"
    replaced = {base: INSERTS[:4]}
    left = [*INSERTS[:gone], *INSERTS[gone + 1 :], base]
    with pytest.raises(VersionGone, match=base):
        read(left, 4, replaced)
    assert read(left, 5, replaced) == [base]
    assert versions(left, replaced).oldest == 5


def test_the_replaced_directories_of_a_foreign_base_are_unknown():
    for base in ("base_0000005_v0000050", "base_0000005"):
        with pytest.raises(VersionGone):
            read([*INSERTS, base], 4)
        assert versions([*INSERTS, base]).oldest == 5


def test_a_younger_base_does_not_matter_while_an_older_one_is_intact():
    older, younger = "base_0000004_v0000050", "base_0000007_v0000060"
    replaced = {older: INSERTS[:3], younger: [older, *INSERTS[3:]]}
    left = [*INSERTS[:3], older, younger]
    assert read(left, 2, replaced) == INSERTS[:2]
    with pytest.raises(VersionGone, match=younger):
        read(left, 5, replaced)
    assert versions(left, replaced).oldest == 7


def test_an_overwrite_that_is_not_committed_hides_nothing():
    assert read([*INSERTS, "base_0000008"], 7) == INSERTS
    assert read([*INSERTS, "base_0000003"], 7) == INSERTS
    assert read([*INSERTS, "base_0000005_v0000099"], 4) == INSERTS[:3]


def test_a_base_that_holds_what_was_open_then_is_passed_over():
    base = "base_0000005_v0000050"
    then = without(NOW, [4, 9])
    replaced = {base: INSERTS[:4]}
    assert read([*INSERTS, base], 7, replaced, then=then) == [
        *INSERTS[:2],
        *INSERTS[3:],
    ]
    with pytest.raises(VersionGone):
        read([*INSERTS[1:], base], 7, replaced, then=then)


def test_rows_of_a_merged_delta_contain_their_write_ids():
    merged = "delta_0000004_0000007_v0000050"
    assert read([*INSERTS[:2], merged], 5) == [*INSERTS[:2], merged]
    assert versions([*INSERTS[:2], merged]).oldest == 0


def test_plain_rows_of_a_merged_delta_do_not():
    merged = "delta_0000004_0000007_v0000050"
    replaced = {merged: INSERTS[2:]}
    assert read([*INSERTS, merged], 5, replaced, flat=True) == INSERTS[:4]
    assert read([*INSERTS[:2], merged], 2, replaced, flat=True) == INSERTS[:2]
    assert read([*INSERTS[:2], merged], 7, replaced, flat=True) == [*INSERTS[:2], merged]
    with pytest.raises(VersionGone, match=merged):
        read([*INSERTS[:3], merged], 5, replaced, flat=True)
    with pytest.raises(VersionGone):
        read([*INSERTS, merged], 5, flat=True)
    assert versions([*INSERTS[:2], merged], replaced, flat=True).oldest == 7


def test_original_files_are_among_what_a_base_replaced():
    base = "base_0000002_v0000050"
    files = [FileStatus(path, 1) for path in (f"{base}/bucket_00000", "000000_0", "sub/000001_0")]
    replaced = {base: ["000000_0", "sub/000001_0"]}
    then = as_of_write_id(NOW, 1)
    held = PartitionVersions("db.t", files, NOW, TXNS, False, notes(replaced).get)
    assert acid_state(held.files_of(then), then, TXNS).originals == ("000000_0", "sub/000001_0")
    held = PartitionVersions("db.t", files[:2], NOW, TXNS, False, notes(replaced).get)
    with pytest.raises(VersionGone):
        held.files_of(then)


def test_directories_replaced_by_a_second_base_are_missed_beyond_the_first():
    first, second = "base_0000004_v0000050", "base_0000007_v0000060"
    replaced = {first: INSERTS[:3], second: [first, *INSERTS[3:]]}
    then = without(NOW, [2, 9])
    everything = [*INSERTS, first, second]
    assert read(everything, 7, replaced, then=then) == [INSERTS[0], *INSERTS[2:]]
    with pytest.raises(VersionGone, match=second):
        read([*INSERTS[:4], INSERTS[5], first, second], 7, replaced, then=then)


def test_forgotten_aborted_directories_are_not_replaced_ones():
    forgotten, base = DELTA.format(2), "base_0000005_v0000050"
    replaced = {base: [name for name in INSERTS[:4] if name != forgotten]}
    assert read([*INSERTS, base], 4, replaced) == [INSERTS[0], INSERTS[2]]
    merged = "delta_0000001_0000005_v0000050"
    flat = {merged: replaced[base]}
    assert read([*INSERTS, merged], 4, flat, flat=True) == [INSERTS[0], INSERTS[2]]


@pytest.mark.parametrize(("aborted", "is_there"), [((3,), True), ((4,), False), (None, False)])
def test_aborted_rows_inside_of_a_file_must_be_known(aborted, is_there):
    stream, base = "delta_0000003_0000005", "base_0000005_v0000050"
    replaced = {base: Replaced((*INSERTS[:2], stream), aborted)}
    files = [FileStatus(f"{name}/bucket_00000", 1) for name in (*INSERTS[:2], stream, base)]
    held = PartitionVersions("db.t", files, NOW, TXNS, False, replaced.get)
    assert (held.oldest == 0) is is_there
    if is_there:
        assert len(held.files_of(as_of_write_id(NOW, 4))) == 3


def test_changes_need_what_every_base_in_between_has_replaced():
    first, second = "base_0000004_v0000050", "base_0000007_v0000060"
    replaced = {first: INSERTS[:3], second: [first, *INSERTS[3:]]}
    then, later = as_of_write_id(NOW, 1), as_of_write_id(NOW, 7)
    everything = [*INSERTS, first, second]
    files = versions(everything, replaced).files_between(then, later)
    assert [file.path.partition("/")[0] for file in files] == INSERTS
    for gone in INSERTS:
        left = [name for name in everything if name != gone]
        with pytest.raises(VersionGone):
            versions(left, replaced).files_between(then, later)
    # Directories after the later version are not requested.
    left = [name for name in everything if name != INSERTS[-1]]
    files = versions(left, replaced).files_between(then, as_of_write_id(NOW, 4))
    assert {file.path.partition("/")[0] for file in files} >= set(INSERTS[:3])


def test_late_commits_are_distinguished_after_their_compaction():
    merged = "delta_0000004_0000005_v0000050"
    then = without(NOW, [4, 5])
    all_ = versions([*INSERTS, merged], {merged: INSERTS[2:4]}, flat=True)
    files = all_.files_between(then, NOW)
    assert [file.path.partition("/")[0] for file in files] == INSERTS
    with pytest.raises(VersionGone, match=merged):
        versions([*INSERTS[:2], merged], flat=True).files_between(then, NOW)


def test_deletes_above_a_rebalance_name_rows_that_an_earlier_version_does_not_know():
    base, delete = "base_0000005_v0000050", "delete_delta_0000007_0000007_0001"
    told = {base: Replaced(tuple(INSERTS[:4]), (), renumbered=True)}

    def between(then, later, *directories):
        files = [FileStatus(f"{name}/bucket_00000", 1) for name in (*INSERTS, base, *directories)]
        known = PartitionVersions("db.t", files, NOW, TXNS, False, told.get)
        found = known.files_between(as_of_write_id(NOW, then), as_of_write_id(NOW, later))
        return [file.path.partition("/")[0] for file in found]

    assert between(1, 7) == INSERTS
    assert between(1, 6, delete) == [*INSERTS, delete]
    with pytest.raises(VersionGone, match="Begin again with version 5"):
        between(1, 7, delete)
    assert {base, delete} <= {*between(5, 7, delete)}
