"""The benefit and the cost of a compaction, and the choice by them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.compaction_choice import choose, in_threshold_order, valued
from airflow_hiveacid.acid.compaction_decision import Decision, decide
from airflow_hiveacid.acid.compaction_forecast import Forecast
from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
from airflow_hiveacid.acid.compaction_value import (
    CompactionValue,
    CostRates,
    ReadCosts,
    estimated_work,
    hours_until_due,
    hours_waited,
    hours_worth,
    seconds_saved,
    value_of,
)
from airflow_hiveacid.acid.partition_size import PartitionSize
from airflow_hiveacid.acid.read_rates import ASSUMED, ReadRate
from airflow_hiveacid.acid.trino import Misread

MINOR, MAJOR, _ = CompactionType
HIVE = CompactionPolicy()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MB = 10**6
READ_OFTEN = ReadRate(100.0, "property", "2400 a day")
NEVER_READ = ReadRate(0.0, "property", "0 a day")


def size(inserts=12, deletes=0, name="d=1", **facts):
    deltas = [f"delta_{n:07d}_{n:07d}_0000" for n in range(1, inserts + 1)]
    deltas += [f"delete_delta_{n:07d}_{n:07d}_0000" for n in range(100, 100 + deletes)]
    given_ = {
        "base": "base_0000000",
        "base_bytes": 1000 * MB,
        "delta_bytes": 12 * MB,
        "oldest_delta_hours": 24.0,
        "newest_delta_hours": 2.0,
    }
    return PartitionSize(
        table="db.t", partition=name, **(given_ | {"deltas": tuple(deltas)} | facts)
    )


def called(*sizes, policy=HIVE):
    return [decide(each, policy, now=NOON) for each in sizes]


def test_a_minor_compaction_saves_the_opening_of_directories_only():
    costs = ReadCosts(directory=1.0, row=1.0, byte=1.0)
    assert seconds_saved(size(12), MINOR, costs) == 11
    assert seconds_saved(size(12, 3, delete_bytes=3000), MINOR, costs) == 13
    assert seconds_saved(size(1), MINOR, costs) == 0


def test_a_major_compaction_also_saves_the_lookup_of_deleted_rows():
    without, with_ = size(12), size(12, 3, delete_bytes=3000)
    costs = ReadCosts(directory=1.0, row=0.0, byte=0.0)
    assert seconds_saved(without, MAJOR, costs) == 12
    assert seconds_saved(with_, MAJOR, costs) == 15
    rows = ReadCosts(directory=0.0, row=1.0, byte=0.0)
    assert seconds_saved(without, MAJOR, rows) == 0
    assert seconds_saved(replace(with_, base_rows=500), MAJOR, rows) == 500
    assert seconds_saved(with_, MAJOR, rows) == pytest.approx(1012 * MB / 35, rel=0.01)


def test_a_read_saves_nothing_where_nothing_changes():
    assert seconds_saved(size(0, delta_bytes=0), MAJOR, ReadCosts()) == 0


def test_a_major_compaction_without_deletes_copies_and_one_with_many_encodes_everything():
    assert estimated_work(size(12, delta_bytes=120 * MB), MAJOR) == Forecast(
        copied_bytes=1120 * MB, encoded_bytes=0
    )
    many = estimated_work(size(12, 1, delta_bytes=120 * MB, delete_bytes=MB), MAJOR)
    assert many.encoded_bytes > 0.99 * (many.copied_bytes + many.encoded_bytes)
    assert many.delete_events == pytest.approx(MB / 1.3, rel=0.01)
    one = estimated_work(size(12, 1, delta_bytes=120 * MB, delete_bytes=1001), MAJOR)
    assert one.delete_events == 1
    assert 0 < one.encoded_bytes < 10 * MB
    minor = estimated_work(size(12, 1, delta_bytes=120 * MB, delete_bytes=MB), MINOR)
    assert (minor.copied_bytes, minor.encoded_bytes) == (119 * MB, 0)


def test_small_deltas_are_joined_and_hence_encoded():
    assert estimated_work(size(12, delta_bytes=MB), MINOR).encoded_bytes == MB


@given(
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 10**13),
    st.integers(0, 10**13),
    st.integers(0, 10**13),
    st.sampled_from([MINOR, MAJOR]),
)
def test_any_sizes_have_a_finite_value(inserts, deletes, base, delta, delete, type_):
    odd = size(inserts, deletes, base_bytes=base, delta_bytes=delta, delete_bytes=delete)
    work = estimated_work(odd, type_)
    assert min(work.copied_bytes, work.encoded_bytes, work.delete_events) >= 0
    value = value_of(odd, type_, READ_OFTEN, 24.0)
    assert value.cost > 0
    assert 0 <= value.benefit < float("inf")


def test_the_footers_have_precedence_over_the_sizes():
    work = Forecast(copied_bytes=0, encoded_bytes=11 * MB)
    value = value_of(size(12), MINOR, READ_OFTEN, 24.0, work, CostRates(start=0, directory=0))
    assert value.cost == pytest.approx(1.0)


def test_work_on_spark_costs_its_start_and_the_encoding_of_all_rows():
    spark = Forecast(spark_reason="The rows of db.t are stored as parquet.")
    value = value_of(size(12), MAJOR, READ_OFTEN, 24.0, spark)
    assert value.cost > 20 + 1012 * MB / 11e6


def test_benefit_grows_with_reads_and_with_the_time_until_the_next_compaction():
    one = value_of(size(12), MINOR, ReadRate(1, "runs", ""), 10.0)
    thrice = value_of(size(12), MINOR, ReadRate(3, "runs", ""), 10.0)
    assert thrice.benefit == pytest.approx(3 * one.benefit)
    longer = value_of(size(12), MINOR, ReadRate(1, "runs", ""), 20.0)
    assert longer.benefit == pytest.approx(2 * one.benefit)
    assert one.ratio == one.benefit / one.cost


@pytest.mark.parametrize(
    ("measured", "hours"),
    [
        (size(12, oldest_delta_hours=12.0), 11.0),  # One delta in an hour, eleven are too many.
        (size(12, oldest_delta_hours=1200.0), 720.0),  # Not written any more: at most a month.
        (size(12, oldest_delta_hours=0.001), 1.0),
        (size(12, oldest_delta_hours=None), 24.0),
        (size(0, oldest_delta_hours=5.0), 24.0),
        # 506 MB in ten hours; a tenth of the new base are 150 MB.
        (size(3, delta_bytes=506 * MB, oldest_delta_hours=10.0), 10 * 150.6 / 506),
    ],
)
def test_the_next_compaction_is_due_after_as_many_writes_as_the_thresholds_allow(measured, hours):
    assert hours_until_due(measured, 10, 0.1) == pytest.approx(hours, rel=0.01)


def test_without_thresholds_the_next_compaction_is_due_after_the_longest_time():
    assert hours_until_due(size(12), None, None) == 720


@pytest.mark.parametrize(
    ("measured", "hours"),
    [
        # The eleventh of 22 deltas between 24 and 2 hours ago.
        (size(22), 24 - 10 / 22 * 22),
        (size(12, oldest_delta_hours=5.0, newest_delta_hours=5.0), 5.0),
        # Half of the deltas exceed a tenth of the base.
        (size(4, delta_bytes=200 * MB), 24 - 0.5 * 22),
        (size(3), 2.0),
        (size(12, newest_delta_hours=None), 0.0),
        (size(0), 0.0),
    ],
)
def test_the_wait_begins_with_the_delta_that_exceeded_a_threshold(measured, hours):
    assert hours_waited(measured, 10, 0.1) == pytest.approx(hours)


@pytest.mark.parametrize(
    ("measured", "benefit", "fixed", "hours"),
    [
        # With half of the deltas, it saved as much as it costs.
        (size(22), 20, 10, 24 - 0.5 * 22),
        # Half of the deltas saved 6.25, and cost 2.5 and half of 7.5.
        (size(22), 12.5, 2.5, 24 - 0.5 * 22),
        (size(22), 10, 10, 2.0),
        (size(22), 9, 10, 0.0),
        (size(12, newest_delta_hours=None), 20, 10, 0.0),
    ],
)
def test_a_compaction_is_worth_its_cost_since_its_deltas_were_enough(
    measured, benefit, fixed, hours
):
    value = CompactionValue(
        benefit=benefit, cost=10, seconds_per_read=1, reads=READ_OFTEN, hours=24
    )
    assert hours_worth(measured, value, fixed) == pytest.approx(hours)


def test_a_compaction_is_not_urgent_before_it_is_worth_its_cost_for_long():
    """Both have exceeded the threshold for eleven hours."""
    rate = ReadRate(100.0, "property", "")
    barely = size(22, name="barely", newest_delta_hours=0.0, reads=rate)
    ratio = valued(called(barely)[0]).ratio
    barely = replace(barely, reads=replace(rate, per_hour=1.02 * 100 / ratio))
    clearly = replace(barely, partition="clearly", reads=replace(rate, per_hour=2 * 100 / ratio))
    fresh = {"oldest_delta_hours": 1.0, "newest_delta_hours": 0.0, "reads": READ_OFTEN}
    often = [size(12, name=f"often{number}", **fresh) for number in range(40)]
    budget = Budget(max_core_seconds=2 * valued(called(often[0])[0]).cost, max_wait_hours=3.0)
    taken = [each for each in choose(called(barely, clearly, *often), budget) if each.type]
    assert taken[0].size.partition == "clearly"
    assert "barely" not in [each.size.partition for each in taken]


def test_compactions_of_tables_that_are_read_come_first_within_a_budget():
    often = size(12, name="often", reads=READ_OFTEN)
    never = size(30, name="never", reads=NEVER_READ)
    unknown = size(12, name="unknown")
    decisions = called(never, unknown, often)
    by_thresholds = choose(decisions, Budget())
    assert [each.size.partition for each in by_thresholds] == ["never", "unknown", "often"]
    assert all(each.value is None for each in by_thresholds)
    by_value = choose(decisions, Budget(max_core_seconds=600))
    assert [each.size.partition for each in by_value] == ["often", "unknown", "never"]
    assert by_value[1].value.reads == ASSUMED


def test_deferred_compactions_keep_their_value_and_get_a_reason():
    often, never = (
        size(12, name="often", reads=READ_OFTEN),
        size(30, name="never", reads=NEVER_READ),
    )
    quiet = size(3, name="quiet")
    cost = valued(called(often)[0]).cost
    first, second, third = choose(called(quiet, never, often), Budget(max_core_seconds=1.5 * cost))
    assert (first.size.partition, first.type) == ("often", MINOR)
    assert (second.size.partition, second.type) == ("never", None)
    assert second.reason.startswith("30 delta directories (limit 10)")
    assert second.reason.endswith("saves readers only 0 s until the next one is due.")
    assert second.value.benefit == 0
    assert (third.size.partition, third.value) == ("quiet", None)


def test_corrections_come_first_and_outside_of_the_budget():
    policy = replace(HIVE, right_for="trino")
    wrong = size(2, name="wrong", reads=NEVER_READ, misread=Misread(deletes=("delete_delta_1",)))
    aborted = size(
        2,
        name="aborted",
        reads=NEVER_READ,
        aborted=("delta_0000009_0000009_0000",),
        aborted_write_ids=5,
        oldest_abort_hours=100.0,
    )
    often = size(12, name="often", reads=READ_OFTEN)
    decisions = called(often, aborted, wrong, policy=policy)
    chosen = choose(decisions, Budget(max_core_seconds=0.001))
    taken = [each.size.partition for each in chosen if each.type is not None]
    assert sorted(taken) == ["aborted", "wrong"]
    assert chosen[2].size.partition == "often"


def test_the_order_of_the_thresholds_takes_what_fits_and_always_the_first():
    decisions = [
        replace(each, value=valued(each))
        for each in called(size(11, name="least"), size(13, name="most"), size(12, name="middle"))
    ]
    assert [each.size.partition for each in in_threshold_order(decisions, 600)] == [
        "most",
        "middle",
        "least",
    ]
    assert [each.size.partition for each in in_threshold_order(decisions, 0.001)] == ["most"]


def test_a_decision_without_a_compaction_has_no_value():
    assert valued(Decision(size=size(1), type=None, reason="One delta.")) is None
