"""The intervals of the runs of a backfill, as docs/backfill.md describes them for each timetable."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.timetables import trigger
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable

try:
    from airflow.serialization.serialized_objects import DagSerialization as Serialization
except ImportError:  # Before Airflow 3.2.
    from airflow.serialization.serialized_objects import SerializedDAG as Serialization


def runs(schedule: Any) -> list[tuple[datetime, datetime]]:
    """The intervals of a backfill from 2 to 3 January."""
    dag = DAG("d", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC))
    read = Serialization.from_dict(Serialization.to_dict(dag))
    found = read.iter_dagrun_infos_between(day(2), day(3))
    return [(each.data_interval.start, each.data_interval.end) for each in found]


def day(number: int) -> Any:
    return pendulum.datetime(2026, 1, number)


@pytest.mark.parametrize(
    ("schedule", "days"),
    [
        (CronDataIntervalTimetable("@daily", timezone="UTC"), [(2, 3), (3, 4)]),
        (CronTriggerTimetable("@daily", timezone="UTC"), [(2, 2), (3, 3)]),
        (DeltaTriggerTimetable(timedelta(days=1)), [(2, 2), (3, 3)]),
        (
            CronTriggerTimetable("@daily", timezone="UTC", interval=timedelta(days=1)),
            [(1, 2), (2, 3)],
        ),
    ],
    ids=["data intervals", "trigger", "delta", "trigger with an interval"],
)
def test_the_timetable_determines_the_intervals(schedule: Any, days: list[tuple[int, int]]) -> None:
    assert runs(schedule) == [(day(start), day(end)) for start, end in days]


@pytest.mark.parametrize(("intervals", "end"), [("True", 3), ("False", 2)])
def test_a_plain_schedule_has_intervals_if_configured(
    intervals: str, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS", intervals)
    assert runs("@daily")[0] == (day(2), day(end))


def test_an_interval_that_begins_after_the_last_midnight_is_not_part_of_a_range() -> None:
    (only,) = runs(CronDataIntervalTimetable("0 6 * * *", timezone="UTC"))
    assert only == (day(2).add(hours=6), day(3).add(hours=6))


def test_runs_of_partitions_have_no_interval() -> None:
    if not hasattr(trigger, "CronPartitionTimetable"):
        pytest.skip("needs Airflow 3.3")
    schedule = trigger.CronPartitionTimetable("@daily", timezone="UTC")
    dag = DAG("d", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC))
    read = Serialization.from_dict(Serialization.to_dict(dag))
    found = list(read.iter_dagrun_infos_between(day(2), day(3)))
    assert [(each.partition_key, each.data_interval) for each in found] == [
        ("2026-01-02T00:00:00", None),
        ("2026-01-03T00:00:00", None),
    ]
