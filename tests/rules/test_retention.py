"""The directories that a cleaning keeps for readers of earlier versions."""

from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.errors import InvalidJob
from hiveacid.rules.cleaning import Replacement, Retention, retained
from hiveacid.rules.texts import parse_duration
from hiveacid.rules.versions import Replaced
from hiveacid.rules.write_ids import ValidWriteIdList

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
VERSIONS = Retention(WEEK)
OLD = ("delta_1_1_0000", "delete_delta_2_2_0000")
NEW = "base_0000002_v0000020"


def replacement(*paths, days, by=NEW, aborted=()):
    since = None if days is None else NOW - timedelta(days=days)
    return Replacement(by, Replaced(paths, aborted), since)


def kept(*replacements, paths=None, aborted=(), retention=VERSIONS):
    told = [path for one in replacements for path in one.replaced.paths]
    write_ids = ValidWriteIdList("db.t", 100, aborted=aborted)
    return retained(
        replacements,
        told if paths is None else paths,
        write_ids=write_ids,
        retention=retention,
        now=NOW,
    )


def reasons(*replacements, **options):
    return [each.reason for each in kept(*replacements, **options).values()]


@pytest.mark.parametrize(("days", "stays"), [(0, True), (6.99, True), (7, False), (8, False)])
def test_replaced_directories_are_kept_until_the_end_of_the_retention(days, stays):
    assert sorted(kept(replacement(*OLD, days=days))) == (sorted(OLD) if stays else [])


def test_the_reason_contains_the_replacement_and_the_time_of_removal():
    (reason,) = reasons(replacement(OLD[0], days=1))
    assert NEW in reason
    assert "until 2026-01-08 12:00:00" in reason


@pytest.mark.parametrize("days", [None, -1, -365_000])
def test_directories_of_unknown_age_are_kept_with_a_reason(days):
    (reason,) = reasons(replacement(OLD[0], days=days))
    assert "unknown since when" in reason


def test_of_two_compactions_one_after_the_other_each_keeps_its_own_and_for_its_own_time():
    first = replacement(*OLD, days=8)
    second = replacement(NEW, "delta_3_3_0000", days=1, by="base_0000003_v0000030")
    assert sorted(kept(first, second)) == [NEW, "delta_3_3_0000"]


def test_directories_with_two_replacements_are_kept_for_the_younger_one():
    overwrite = replacement(*OLD, days=1, by="base_0000004")
    for order in ([replacement(*OLD, days=8), overwrite], [overwrite, replacement(*OLD, days=8)]):
        assert sorted(kept(*order)) == sorted(OLD)


def test_directories_useless_without_a_removed_part_are_not_kept():
    assert kept(replacement(*OLD, days=1), paths=OLD[:1]) == {}


@pytest.mark.parametrize("told", [(3,), None])
def test_a_stream_with_aborted_writes_is_not_kept_nor_what_is_of_no_use_without_it(told):
    assert kept(replacement(*OLD, "delta_3_5", days=1, aborted=told)) == {}


def test_a_stream_that_only_the_list_of_write_ids_knows_aborted_writes_of_is_not_kept():
    assert kept(replacement(*OLD, "delta_3_5", days=1), aborted=(4,)) == {}
    assert len(kept(replacement(*OLD, "delta_3_5", days=1), aborted=(7,))) == 3


def test_omitted_aborted_rows_never_become_visible():
    assert kept(replacement("delta_3_5_v0000010", days=1), aborted=(4,)) != {}
    # On Hive 3 only its note identifies it as a compaction's.
    ours = replacement("delta_3_3_0000", "delta_5_5_0000", days=9, by="delta_3_5")
    assert sorted(kept(replacement("delta_3_5", days=1), ours, aborted=(4,))) == ["delta_3_5"]


def test_a_copy_of_a_compacted_delta_is_not_kept_because_hive_reads_both():
    twin = replacement("delta_1_5_v0000010", days=1, by="delta_1_5_v0000020")
    assert kept(twin) == {}
    assert kept(replacement("delta_1_1_0000", days=1, by="delta_1_1_v0000020")) != {}


def test_original_files_are_kept_by_the_name_that_they_are_judged_by():
    old = replacement("000000_0", "HIVE_UNION_SUBDIR_1/000000_0", days=1)
    assert sorted(kept(old)) == ["000000_0", "HIVE_UNION_SUBDIR_1"]


CONSUMER = {"consumers": WEEK, "behind": {"log": 1}}


@pytest.mark.parametrize(
    ("more", "days", "stays"),
    [
        ({}, 6.99, True),
        ({}, 7, False),
        # It reads the base itself, or newer directories.
        ({"behind": {"log": 2}}, 0, False),
        ({"behind": {"log": 2, "mirror": 1}}, 0, True),
        ({"behind": {}}, 0, False),
        ({"consumers": timedelta(0)}, 0, False),
        ({"versions": timedelta(days=8)}, 7.5, True),
    ],
)
def test_unread_changes_of_a_consumer_are_kept_for_a_time(more, days, stays):
    found = kept(replacement(*OLD, days=days), retention=Retention(**CONSUMER | more))
    assert sorted(found) == (sorted(OLD) if stays else [])


def test_for_a_consumer_nothing_stays_that_a_minor_compaction_has_replaced():
    """The rows of its output keep their write ids."""
    minor = replacement(*OLD, days=0, by="delta_0000001_0000002_v0000020")
    assert kept(minor, retention=Retention(**CONSUMER)) == {}


def test_of_two_bases_a_consumer_needs_those_that_are_newer():
    first = replacement(*OLD, days=1, by="base_0000002_v0000020")
    second = replacement("base_0000002_v0000020", "delta_3_3_0000", days=0, by="base_0000003_v30")
    for at, stays in ((1, 4), (2, 2), (3, 0)):
        retention = Retention(consumers=WEEK, behind={"log": at})
        assert len(kept(first, second, retention=retention)) == stays


def test_the_reason_names_the_consumers_and_the_time():
    behind = {"log": 1, "mirror": 0, "done": 2, "a": 0, "b": 0}
    reason, *_ = reasons(
        replacement(*OLD, days=1), retention=Retention(consumers=WEEK, behind=behind)
    )
    assert "log (at version 1), mirror (at version 0), a (at version 0), 1 more" in reason
    assert "until 2026-01-08 12:00:00 UTC" in reason
    assert "done" not in reason
    assert "earlier versions" not in reason


@pytest.mark.parametrize(
    ("text", "hours"),
    [("0", 0), ("7 days", 168), ("1 day", 24), ("12 h", 12), ("12h", 12), ("90 min", 1.5)],
)
def test_a_length_of_time_is_read(text, hours):
    assert parse_duration(text, "it") == timedelta(hours=hours)


@pytest.mark.parametrize(
    "text",
    ["", "7", "-1 days", "1.5 days", "7 Days", "7  days", " 7 days", "7 days\n", "1 week", "7 d",
     "\u0667 days", "36501 days", "999999999 days", "1 day 2 h"],
)  # fmt: skip
def test_invalid_durations_are_refused(text):
    with pytest.raises(InvalidJob, match="retention"):
        parse_duration(text, "retention")
