from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hiveacid.errors import InvalidJob
from hiveacid.rules.cleaning import Blocker
from hiveacid.rules.compaction import CompactionType, PartitionSize
from hiveacid.rules.compaction_decision import decide
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, auto_compaction_off

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 1, 0, 0, tzinfo=UTC)
HIVE = CompactionPolicy()
WEEKLY = CompactionPolicy(major_after_hours=168, quiet_hours="22:00-05:00")
MINOR, MAJOR, _ = CompactionType


def deltas(count):
    return tuple(f"delta_{n:07d}_{n:07d}_0000" for n in range(1, count + 1))


def size(count=3, **facts):
    given = {"base": "base_0000000", "base_bytes": 1000, "delta_bytes": 10} | facts
    return PartitionSize(
        table="sales.orders", partition="d=1", **({"deltas": deltas(count)} | given)
    )


def no_base(count, **facts):
    return size(count, base=None, base_bytes=0, **facts)


OLD = {"base_age_hours": 200.0}
SAME_WRITE_ID = ("delta_0000007_0000007_0000", "delete_delta_0000007_0000007_0001")
DELETES = ("delete_delta_0000012_0000012_0000",)
ABORTS = {"aborted": ("delta_0000009_0000009_0000",), "aborted_write_ids": 5}


@pytest.mark.parametrize(
    ("measured", "policy", "type_", "reason"),
    [
        (size(10), HIVE, None, "10 deltas (limit 10) of 10 B, 1 % of the base's 1000 B"),
        (size(11), HIVE, MINOR, "11 deltas (limit 10)"),
        (size(1), replace(HIVE, max_deltas=0), None, "is the only delta"),
        (size(3, delta_bytes=100), HIVE, None, "10 % of the base's 1000 B (limit 10 %)"),
        (size(3, delta_bytes=101), HIVE, MAJOR, "10.1 % of the base's 1000 B (limit 10 %)"),
        (size(1, delta_bytes=5000), HIVE, MAJOR, "(limit 10 %), 1 delta (limit 10) of 4.9 KiB."),
        (
            size(11, delta_bytes=500),
            HIVE,
            MAJOR,
            "Deltas are 50 % of the base's 1000 B (limit 10 %), 11 deltas (limit 10) of 500 B.",
        ),
        (no_base(10), HIVE, None, "without a base"),
        (no_base(11), HIVE, MAJOR, "11 deltas (limit 10) of 10 B without a base"),
        (no_base(1), replace(HIVE, max_deltas=0), None, "is the only directory"),
        (no_base(10), replace(HIVE, max_deltas=None), None, "10 deltas (limit 10) of"),
        (no_base(11), replace(HIVE, max_deltas=None), MAJOR, "11 deltas (limit 10) of"),
        (
            no_base(2, delta_bytes=100, delete_bytes=31),
            HIVE,
            MAJOR,
            "31 % deletes (limit 20 %), 2 deltas (limit 10) of 100 B without a base.",
        ),
        (no_base(2, delta_bytes=100, delete_bytes=20), HIVE, None, "without a base."),
        (
            no_base(2, delta_bytes=100, delete_bytes=31),
            replace(HIVE, max_delta_ratio=None),
            None,
            "2 deltas (limit 10) of 100 B without a base.",
        ),
        # A threshold that a table raises for itself counts for deletes as well.
        (
            size(3, delta_bytes=900, delete_bytes=800),
            replace(HIVE, max_delta_ratio=1.0),
            None,
            "90 %",
        ),
        (no_base(0, delta_bytes=0), HIVE, None, "0 deltas"),
        # The original files of a converted table count as its base.
        (size(3, base=None, delta_bytes=101), HIVE, MAJOR, "10.1 % of the base's"),
        (size(2, deltas=SAME_WRITE_ID * 6), HIVE, MAJOR, "12 deltas"),
        (size(11, one_by_one=True), HIVE, MINOR, "11 deltas"),
        (
            size(2, deltas=deltas(11) + DELETES, one_by_one=True),
            HIVE,
            MAJOR,
            "12 deltas",
        ),
        (size(2, deltas=deltas(11) + DELETES), HIVE, MINOR, "12 deltas"),
        (size(11, auto_off=True), HIVE, None, "no_auto_compaction"),
        (size(11, problem="base_3 is gone."), HIVE, None, "cannot be read: base_3 is gone."),
        (size(3, aborted_write_ids=1001), HIVE, None, "3 deltas"),
        (size(3, **ABORTS), HIVE, None, "3 deltas"),
        (size(3, **ABORTS | {"aborted_write_ids": 1001}), HIVE, MAJOR, "1001 aborted write ids"),
        (size(3, **ABORTS, oldest_abort_hours=12.0), HIVE, None, "3 deltas"),
        (size(3, **ABORTS, oldest_abort_hours=13.0), HIVE, MINOR, "write id is 13 h old"),
        (size(1, **ABORTS, oldest_abort_hours=13.0), HIVE, None, "is the only delta"),
        (
            size(3, **ABORTS, oldest_abort_hours=13.0),
            replace(HIVE, max_aborted_age_hours=None),
            None,
            "3 deltas",
        ),
        (
            size(11, delta_bytes=500),
            replace(HIVE, max_delta_ratio=None),
            MINOR,
            "11 deltas (limit 10) of 500 B, 50 % of the base's 1000 B.",
        ),
        (
            size(11),
            replace(HIVE, max_deltas=None),
            None,
            "11 deltas of 10 B, 1 % of the base's 1000 B (limit 10 %).",
        ),
        (
            size(3, **ABORTS | {"aborted_write_ids": 1001}),
            replace(HIVE, max_aborted=None),
            None,
            "3 deltas",
        ),
        (size(3, **OLD), HIVE, None, "3 deltas"),
        (size(1, **OLD), WEEKLY, MAJOR, "The base is 8 days old (limit 7 days), 1 delta"),
        (size(11, **OLD), WEEKLY, MAJOR, "The base is 8 days old"),
        (size(0, delta_bytes=0, **OLD), WEEKLY, None, "0 deltas"),
        (size(3, base_age_hours=168.0), WEEKLY, None, "3 deltas"),
    ],
)
def test_compaction_types_and_reasons(measured, policy, type_, reason):
    decision = decide(measured, policy, now=MIDNIGHT)
    assert decision.type == type_
    assert reason in decision.reason
    assert decision.size is measured


@pytest.mark.parametrize(
    ("rows", "type_", "reason"),
    [
        (
            {"base_rows": 100, "delta_rows": 11},
            MAJOR,
            "Deltas are 11 % of the base's 100 rows (limit 10 %), 3 deltas (limit 10) of 11 rows.",
        ),
        ({"base_rows": 100, "delta_rows": 10}, None, "10 % of the base's 100 rows"),
        ({}, MAJOR, "of the base's 1000 B"),
    ],
)
def test_the_share_can_be_counted_in_rows_once_they_are_counted(rows, type_, reason):
    decision = decide(size(delta_bytes=900, **rows), CompactionPolicy(measure="rows"), now=NOON)
    assert decision.type == type_
    assert reason in decision.reason


def test_a_minor_compaction_reads_the_deltas_and_a_major_one_the_base_too():
    assert decide(size(11), HIVE, now=NOON).bytes == 10
    assert decide(size(3, delta_bytes=500), HIVE, now=NOON).bytes == 1500


def test_outside_of_the_quiet_hours_an_old_base_waits():
    by_day = decide(size(3, **OLD), WEEKLY, now=NOON)
    assert by_day.type is None
    assert by_day.reason.endswith("waits for the quiet hours 22:00-05:00.")
    assert decide(size(3, **OLD), replace(WEEKLY, quiet_hours=None), now=NOON).type is MAJOR
    # Hive's own triggers do not wait.
    assert decide(size(11, **OLD), WEEKLY, now=NOON).type is MINOR


@pytest.mark.parametrize(
    ("hours", "time", "quiet"),
    [
        ("22:00-05:00", "21:59", False),
        ("22:00-05:00", "22:00", True),
        ("22:00-05:00", "04:59", True),
        ("22:00-05:00", "05:00", False),
        ("01:30-05:00", "01:29", False),
        ("01:30-05:00", "01:30", True),
        ("01:30-05:00", "05:00", False),
        ("", "12:00", True),
        (None, "12:00", True),
    ],
)
def test_quiet_hours_are_in_utc_and_may_span_midnight(hours, time, quiet):
    hour, minute = map(int, time.split(":"))
    policy = CompactionPolicy(quiet_hours=hours)
    now = datetime(2026, 3, 1, hour, minute, tzinfo=UTC)
    assert policy.is_quiet(now) is quiet
    assert policy.is_quiet(now.astimezone(timezone(timedelta(hours=-7)))) is quiet


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (CompactionPolicy(measure="files"), "'files' is not one of bytes, rows"),
        (CompactionPolicy(max_deltas=-1), "max_deltas"),
        (CompactionPolicy(max_delta_ratio=-0.1), "max_delta_ratio"),
        (CompactionPolicy(max_aborted=-1), "max_aborted"),
        (CompactionPolicy(max_aborted_age_hours=0), "max_aborted_age_hours"),
        (CompactionPolicy(major_after_hours=-1), "major_after_hours"),
        (CompactionPolicy(quiet_hours="22-5"), "quiet_hours: '22-5' cannot be read"),
        (CompactionPolicy(quiet_hours="24:00-05:00"), "quiet_hours"),
        (Budget(max_bytes=0), "max_bytes"),
        (Budget(max_partitions=0), "max_partitions"),
        (Budget(max_wait_hours=0), "max_wait_hours"),
        (Budget(max_wait_hours=float("nan")), "max_wait_hours"),
        (Budget(max_wait_hours=float("inf")), "max_wait_hours"),
    ],
)
def test_thresholds_without_sense(policy, message):
    with pytest.raises(InvalidJob, match=message):
        policy.validate()


def test_a_table_may_have_its_own_thresholds():
    prefix = "compactorthreshold.hive.compactor.delta"
    own = {f"{prefix}.num.threshold": "4", f"{prefix}.pct.threshold": "0.5", "other": "x"}
    policy = replace(WEEKLY, max_deltas=7)
    assert policy.for_table(own) == replace(policy, max_deltas=4, max_delta_ratio=0.5)
    count_only = replace(policy, max_delta_ratio=None)
    assert count_only.for_table(own) == replace(count_only, max_deltas=4)
    assert policy.for_table({}) == policy


@pytest.mark.parametrize("name", ["num.threshold", "pct.threshold"])
def test_a_table_threshold_that_is_no_number_is_an_error_that_names_it(name):
    key = f"compactorthreshold.hive.compactor.delta.{name}"
    with pytest.raises(InvalidJob, match=f"{key} is '1,5', which is not a number"):
        HIVE.for_table({key: "1,5"})


@pytest.mark.parametrize(
    ("table", "database", "off"),
    [
        ({}, {}, False),
        ({"no_auto_compaction": "true"}, {}, True),
        ({"NO_AUTO_COMPACTION": "TRUE"}, {}, True),
        ({"No_Auto_Compaction": "true"}, {}, False),
        ({"no_auto_compaction": "yes"}, {}, False),
        ({"no_auto_compaction": "true"}, {"no_auto_compaction": "false"}, False),
        ({"no_auto_compaction": "false"}, {"NO_AUTO_COMPACTION": "true"}, True),
    ],
)
def test_automatic_compaction_is_switched_off_as_hive_does(table, database, off):
    assert auto_compaction_off(table, database) is off


def test_a_reason_names_the_blockers_of_a_compaction():
    waiting = size(11, invisible=("delta_0000012_0000012_0000", "delta_0000014_0000014_0000"))
    began = NOON - timedelta(hours=3)
    ours = "hourly/run 1/merge/-1"
    blockers = [
        Blocker(txn_id=12, user="alice", run=ours, since=began),
        Blocker(lock_id=9, user="bob"),
    ]
    decision = decide(waiting, HIVE, now=NOON, blockers=blockers)
    assert decision.type is MINOR
    assert decision.reason.endswith(
        "2 deltas more cannot be taken yet because of transaction 12 of alice (Airflow "
        "task merge of DAG hourly, run run 1), open for 3 h and lock 9 of bob."
    )
    many = decide(waiting, HIVE, now=NOON, blockers=[blockers[1]] * 5)
    assert many.reason.endswith("and lock 9 of bob and 2 others.")
    nobody = decide(replace(waiting, deltas=deltas(2)), HIVE, now=NOON)
    assert nobody.type is None
    assert nobody.reason.endswith("cannot be taken yet: a write id is still open.")
