"""A stream's reports on its batches, with any progress of Spark and any clock."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import BatchSource
from hiveacid.jobs.stream_job import StreamJob, StreamProgress, StreamSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.progress import PhaseObserver
from hiveacid.spark.streaming import StreamMeasures

JOB = StreamJob(
    name="s",
    source=StreamSource("rate"),
    statements=[InsertJob(target="d.t", source=BatchSource())],
    checkpoint="file:/c",
    trigger="10 s",
)


class Told(PhaseObserver):
    """Records the reports."""

    def __init__(self) -> None:
        self.batches: list[StreamProgress] = []

    def batch(self, progress: object) -> None:
        assert isinstance(progress, StreamProgress)
        self.batches.append(progress)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1_700_000_000.0)
    monkeypatch.setattr("time.time", lambda: clock.now)
    return clock


def query(*batches: dict[str, Any], active: bool = True) -> Any:
    """Return a query that reports some batches."""
    told = [SimpleNamespace(json=lambda each=each: json.dumps(each)) for each in batches]
    return SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: told), isActive=active)


def batch(batch_id: int, planned: float, **more: Any) -> dict[str, Any]:
    at = datetime.fromtimestamp(planned, UTC).isoformat().replace("+00:00", "Z")
    progress = {"batchId": batch_id, "timestamp": at, "numInputRows": 100}
    return {**progress, "durationMs": {"addBatch": 1}, **more}


def test_a_row_waits_at_most_from_the_look_before_until_the_commit(clock: SimpleNamespace) -> None:
    measures, told, start = StreamMeasures(JOB), Told(), clock.now
    # Spark looks every ten seconds, and not while it works. A row that it finds after a minute is
    # new.
    for batch_id, (planned, took) in enumerate(((0, 4), (10, 12), (22, 4), (90, 4))):
        clock.now = start + planned + took
        measures.applied("q", batch_id, RunReport(job="insert", target="d.t", txn_id=batch_id))
        measures.follow(query(batch(batch_id, start + planned)), [told])
    assert [each.latency for each in told.batches] == [None, 22, 16, 14]
    assert [each.seconds for each in told.batches] == [4, 12, 4, 4]
    assert told.batches[0].rows_per_second == 25
    assert told.batches[-1].committed_at == start + 94
    assert measures.report("time", 94).latency == {"p50": 16, "p99": 22, "max": 22}


@pytest.mark.parametrize("jump", [-86_400, 86_400])
def test_a_clock_that_jumps_makes_no_figure_negative_nor_breaks_the_stream(
    clock: SimpleNamespace, jump: float
) -> None:
    measures, told = StreamMeasures(JOB), Told()
    for batch_id in range(3):
        planned = clock.now
        clock.now += jump + 1
        measures.applied("q", batch_id, RunReport(job="insert", target="d.t"))
        measures.follow(query(batch(batch_id, planned)), [told])
    report = measures.report("time", 3)
    assert report.batches == len(told.batches) == 3
    for each in told.batches:
        assert each.seconds >= 0
        assert each.rows_per_second >= 0
        assert each.latency is None or each.latency >= 0


def test_a_batch_without_progress_from_spark_is_reported_at_the_end(clock: SimpleNamespace) -> None:
    measures, told = StreamMeasures(JOB), Told()
    measures.applied("q", 7, RunReport(job="insert", target="d.t", txn_id=3))
    planned_only = batch(7, clock.now, durationMs={"triggerExecution": 1})
    measures.follow(query(planned_only), [told])
    assert (told.batches, measures.has_unreported_batch) == ([], True)
    measures.follow(query(active=False), [told])
    assert [(each.batch_id, each.txn_id, each.rows) for each in told.batches] == [(7, 3, 0)]
    assert not measures.has_unreported_batch


@pytest.mark.parametrize(
    ("sources", "behind"),
    [
        ([{"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7}}}], 4),
        # A partition that is new, and one that was made again with fewer rows.
        ([{"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 5, "1": 3}}}], 3),
        ([{"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 1}}}], 0),
        ([{"endOffset": {"logOffset": 3}, "latestOffset": {"logOffset": 4}}], None),
        ([{"endOffset": 3, "latestOffset": 9}], None),
        ([], None),
    ],
)
def test_only_some_sources_report_their_backlog(
    clock: SimpleNamespace, sources: list[Any], behind: int | None
) -> None:
    measures, told = StreamMeasures(JOB), Told()
    measures.applied("q", 0, RunReport(job="insert", target="d.t"))
    measures.follow(query(batch(0, clock.now, sources=sources)), [told])
    assert told.batches[0].backlog == behind
