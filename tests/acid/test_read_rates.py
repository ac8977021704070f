"""Rates of reads from a property, own runs, and samples of locks."""

import random
from dataclasses import replace

import pytest

from airflow_hiveacid.acid.read_rates import (
    ASSUMED,
    FEWEST_SAMPLES,
    READS_PROPERTY,
    Readers,
    ReadLock,
    ReadRate,
    ReadSamples,
    TableReads,
    joint_rate,
    rate_of_property,
    rate_of_runs,
)
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.jobs import codec

TABLE = "db.t"
CREATED = TableIdentity(created=1000, id=7)
TABLES = {TABLE: CREATED}
BEGIN = 1_000_000.0


def sampled(locks_at, count, every=600.0, tables=TABLES, samples=None):
    """Take samples; locks_at returns the locks at a time."""
    samples = samples or ReadSamples()
    for number in range(count):
        now = BEGIN + number * every
        samples = samples.sampled(locks_at(now), tables, now)
    return samples


def rate(samples, partition=None, identity=CREATED):
    known = samples.of(TABLE, identity)
    return None if known is None else known.rate(partition)


def reads(per_hour, seconds, hours, partition=None, exponential=True):
    """Simulate reads, and return the locks that are held at a time."""
    source = random.Random(per_hour)
    all_, now = [], BEGIN
    while now < BEGIN + 3600 * hours:
        now += source.expovariate(per_hour / 3600)
        took = source.expovariate(1 / seconds) if exponential else seconds
        all_.append((now, now + took, len(all_)))

    def at(time):
        return [
            ReadLock(TABLE, partition, number, begun)
            for begun, end, number in all_
            if begun <= time < end
        ]

    return at


@pytest.mark.parametrize(
    ("per_hour", "seconds"), [(60, 30), (60, 300), (2, 1800), (600, 60), (6, 3600)]
)
def test_samples_show_the_rate_of_reads_of_any_duration(per_hour, seconds):
    found = rate(sampled(reads(per_hour, seconds, 168), 1008))
    assert found.source == "locks"
    assert found.per_hour == pytest.approx(per_hour, rel=0.35)


@pytest.mark.parametrize("seconds", [60, 6000])
def test_reads_of_equal_duration_are_at_most_counted_twice(seconds):
    found = rate(sampled(reads(60, seconds, 168, exponential=False), 1008))
    assert 0.8 * 60 <= found.per_hour <= 2.2 * 60


def test_few_samples_are_no_evidence():
    busy = [ReadLock(TABLE, None, number, BEGIN) for number in range(50)]
    assert rate(sampled(lambda now: busy, FEWEST_SAMPLES - 1)) is None
    assert rate(sampled(lambda now: busy, FEWEST_SAMPLES + 1)) is not None
    assert rate(ReadSamples()) is None


def test_many_samples_without_readers_lower_the_rate_but_never_to_zero():
    few, many = (rate(sampled(lambda now: [], count)) for count in (20, 1008))
    assert 0 < many.per_hour < few.per_hour <= ASSUMED.per_hour
    assert many.per_hour < 0.2


def test_samples_in_quick_succession_count_once():
    busy = [ReadLock(TABLE, None, 1, BEGIN)]
    assert rate(sampled(lambda now: busy, 1000, every=0.5)) == rate(
        sampled(lambda now: busy, 50, every=10.0)
    )


def test_a_lock_on_the_table_counts_for_every_partition_and_one_on_a_partition_for_it_alone():
    at = reads(60, 60, 24, partition="day=1")
    samples = sampled(at, 144)
    assert rate(samples, "day=1").per_hour > 20
    assert rate(samples, "day=2").per_hour < 1
    whole = sampled(reads(60, 60, 24), 144)
    assert rate(whole, "day=1") == rate(whole, "day=2")
    assert rate(whole, "day=1").per_hour > 20


def test_a_recreated_table_inherits_no_rate():
    samples = sampled(reads(60, 60, 24), 144)
    again = TableIdentity(created=2000, id=8)
    assert rate(samples, identity=again) is None
    fresh = samples.sampled([], {TABLE: again}, BEGIN + 10**6)
    assert fresh.of(TABLE, again).samples == 1
    assert rate(fresh, identity=CREATED) is None


def test_a_lock_that_is_older_than_the_table_belongs_to_an_earlier_one():
    created = TableIdentity(created=int(BEGIN) + 100, id=9)
    old = [ReadLock(TABLE, None, number, BEGIN) for number in range(9)]
    samples = sampled(lambda now: old, 20, tables={TABLE: created})
    assert rate(samples, identity=created).per_hour <= ASSUMED.per_hour
    assert samples.of(TABLE, created).readers == {}


def test_samples_of_other_tables_are_kept():
    samples = sampled(lambda now: [], 20)
    later = samples.sampled([], {"db.other": CREATED}, BEGIN + 10**6)
    assert later.of(TABLE, CREATED) == samples.of(TABLE, CREATED)


def test_old_samples_weigh_less_than_new_ones():
    busy = sampled(reads(600, 60, 24), 144)
    at_first = rate(busy).per_hour
    weeks = busy
    for number in range(600):
        weeks = weeks.sampled([], TABLES, BEGIN + 86_400 + 4000 * number)
    assert rate(weeks).per_hour < at_first / 10


def test_a_clock_that_was_ahead_does_not_stop_the_samples():
    ahead = ReadSamples().sampled([], TABLES, BEGIN + 10**9)
    assert sampled(lambda now: [], 3, samples=ahead).of(TABLE, CREATED).samples > 2


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), -5.0, 1e300])
@pytest.mark.parametrize("field", ["held", "ended", "seconds"])
def test_impossible_numbers_in_a_stored_sample_yield_a_possible_rate(field, number):
    hostile = replace(Readers(held=3, ended=3, seconds=90), **{field: number})
    table = TableReads(identity=CREATED.text, samples=100, at=BEGIN, readers={"": hostile})
    for known in (table, table.sampled({"": {"1": number}}, BEGIN + 600)):
        assert 0 <= known.rate(None).per_hour <= 1e6
    for name in ("samples", "at"):
        changed = replace(table, **{name: number}).sampled({}, BEGIN + 600)
        found = changed.rate(None)
        assert found is None or 0 <= found.per_hour <= 1e6


def test_stored_samples_continue():
    samples = sampled(reads(60, 60, 24, partition="day=1"), 144)
    assert codec.from_record(ReadSamples, codec.to_record(samples), "samples") == samples
    broken = replace(samples, tables={TABLE: replace(samples.tables[TABLE], identity="x")})
    assert broken.of(TABLE, CREATED) is None


@pytest.mark.parametrize(
    ("text", "per_hour", "source"),
    [
        ("240", 10, "property"),
        ("0", 0, "property"),
        ("0.5", 0.5 / 24, "property"),
        ("many", ASSUMED.per_hour, "assumed"),
        ("-1", ASSUMED.per_hour, "assumed"),
        ("nan", ASSUMED.per_hour, "assumed"),
        ("inf", ASSUMED.per_hour, "assumed"),
    ],
)
def test_a_table_property_sets_the_rate(text, per_hour, source):
    found = rate_of_property({READS_PROPERTY: text})
    assert (found.per_hour, found.source) == (pytest.approx(per_hour), source)
    if source == "assumed":
        assert text in found.evidence


def test_the_property_has_precedence_and_an_invalid_one_has_not():
    by_runs, by_locks = rate_of_runs(14, 168), ReadRate(2.0, "locks", "4 locks in 100 samples")
    set_ = rate_of_property({READS_PROPERTY: "24"})
    assert joint_rate(set_, by_runs, by_locks) == set_
    invalid = rate_of_property({READS_PROPERTY: "x"})
    both = joint_rate(invalid, by_runs, by_locks)
    assert both.per_hour == pytest.approx(2.0 + 14 / 168)
    assert both.source == "locks"
    assert both.evidence == "14 own runs in 7.0 days, 4 locks in 100 samples"
    assert joint_rate(invalid, None, None) == invalid
    assert joint_rate(None, None, None) == ASSUMED
    assert joint_rate(None, by_runs, None) == by_runs
    assert rate_of_property({}) is None


def test_no_runs_are_no_evidence_and_a_short_period_is_no_high_rate():
    assert rate_of_runs(0, 168) is None
    assert rate_of_runs(1, 0.001).per_hour == 1
