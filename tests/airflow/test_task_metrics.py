"""Metrics of tasks and of surveys, as Airflow's Stats receives them."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import pytest
from airflow.providers.common.compat.sdk import AirflowTaskTimeout

from airflow_hiveacid import HiveAcidCleanOperator, HiveAcidCompactOperator, HiveAcidDeleteOperator
from airflow_hiveacid.hooks import tasks as task_metrics
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure
from airflow_hiveacid.sensors import HiveAcidDeltaCountSensor
from airflow_hiveacid.sensors.compaction import CompactionNeeded
from airflow_hiveacid.triggers import HiveAcidCompactionEventTrigger
from airflow_hiveacid.triggers.condition import HiveAcidConditionTrigger
from hiveacid.errors import TableNotFound
from hiveacid.jobs import CleanJob, CompactJob, DeleteJob
from hiveacid.jobs.report import (
    CheckResult,
    CompactReport,
    PartitionReport,
    RunReport,
    ScriptReport,
    TableReport,
)
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy
from hiveacid.upkeep import metrics


@dataclass
class Stats:
    """The part of Airflow's Stats that is used."""

    seen: list[tuple[str, str, float, dict[str, str]]] = field(default_factory=list)

    def gauge(self, stat, value, rate=1, delta=False, *, tags=None):
        self.seen.append(("gauge", stat, value, tags))

    def incr(self, stat, count=1, rate=1, *, tags=None):
        assert isinstance(count, int)
        self.seen.append(("counter", stat, count, tags))

    def timing(self, stat, dt, *, tags=None):
        self.seen.append(("timer", stat, dt, tags))

    def of(self, metric):
        """The values of a metric by its tags, without those of other metrics."""
        found = [
            (tags, value)
            for kind, name, value, tags in self.seen
            if (kind, name) == (metric.kind, metric.name)
        ]
        assert all(tags.keys() == {*metric.labels} for tags, _ in found)
        return found


@pytest.fixture
def stats(monkeypatch):
    stats = Stats()
    monkeypatch.setattr("airflow.providers.common.compat.sdk.Stats", stats, raising=False)
    return stats


def delete_from(table="db.t"):
    job = DeleteJob(target=table, where="id = 7", run_in="spark")
    return HiveAcidDeleteOperator(task_id="t", job=job)


def test_a_task_emits_its_duration_rows_and_bytes(stats, spark_submit, context):
    spark_submit.will(
        report={"job": "delete", "target": "db.t", "rows_deleted": 3, "bytes": 100, "txn_id": 1}
    )
    delete_from().execute(context)
    labels = {"operation": "delete", "table": "db.t"}
    assert stats.of(metrics.RUNS) == [(labels, 1)]
    assert stats.of(metrics.RUN_ROWS) == [(labels, 3)]
    assert stats.of(metrics.RUN_BYTES) == [(labels, 100)]
    ((_, milliseconds),) = stats.of(metrics.RUN_DURATION)
    assert milliseconds > 0
    assert stats.of(metrics.RUN_FAILURES) == []


def test_a_failed_task_emits_the_kind_of_error(stats, spark_submit, context):
    with pytest.raises(HiveAcidTaskFailure):
        delete_from("db.missing").execute(context)
    labels = {"operation": "delete", "table": "db.missing"}
    assert stats.of(metrics.RUN_FAILURES) == [({**labels, "error": TableNotFound.__name__}, 1)]
    assert stats.of(metrics.RUNS) == [(labels, 1)]
    assert stats.of(metrics.RUN_ROWS) == []


def test_a_task_that_fails_in_spark_emits_the_error_of_its_report(stats, spark_submit, context):
    error = {"id": "LockTimeout", "message": "It waited.", "retryable": True, "exit_code": 10}
    spark_submit.will(report={"job": "delete", "target": "db.t", "error": error}, exit_code=10)
    with pytest.raises(HiveAcidTaskFailure):
        delete_from().execute(context)
    assert [tags["error"] for tags, _ in stats.of(metrics.RUN_FAILURES)] == ["LockTimeout"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, AirflowTaskTimeout])
def test_a_killed_task_emits_a_failure(stats, spark_submit, context, monkeypatch, interruption):
    def interrupt(*_):
        raise interruption

    operator = delete_from()
    monkeypatch.setattr(operator, "_run", interrupt)
    with pytest.raises(interruption):
        operator.execute(context)
    errors = [tags["error"] for tags, _ in stats.of(metrics.RUN_FAILURES)]
    assert errors == [interruption.__name__]


@pytest.mark.parametrize("method", ["incr", "timing"])
def test_a_failed_emission_fails_no_task(stats, spark_submit, context, monkeypatch, method, caplog):
    def fail(*_, **__):
        raise RuntimeError("The network is away.")

    monkeypatch.setattr(stats, method, fail)
    assert delete_from().execute(context)["target"] == "db.t"
    assert "Metrics could not be emitted." in caplog.text


@pytest.mark.parametrize(
    ("report", "rows", "sizes"),
    [
        (
            RunReport(
                job="transaction",
                target="db.t",
                tables=(
                    TableReport(table="db.t", rows_inserted=1, rows_updated=2, bytes=10),
                    TableReport(table="db.u", rows_deleted=4, bytes=20),
                ),
            ),
            {"db.t": 3, "db.u": 4},
            {"db.t": 10, "db.u": 20},
        ),
        # The earlier attempt may have emitted the same.
        (
            RunReport(job="merge", target="db.t", rows_inserted=9, bytes=9, already_done=True),
            {},
            {},
        ),
        (
            CompactReport(
                target="db.t",
                partitions=(
                    PartitionReport(
                        table="db.t", outcome="compacted", reason="", rows=5, bytes_written=50
                    ),
                    PartitionReport(
                        table="db.t", outcome="compacted", reason="", rows=6, bytes_written=60
                    ),
                    PartitionReport(table="db.t", outcome="failed", reason="", bytes_written=99),
                ),
            ),
            {"db.t": 11},
            {"db.t": 110},
        ),
        (
            ScriptReport.of(
                "db.t",
                [
                    RunReport(job="insert", target="db.t", rows_inserted=1, bytes=10),
                    RunReport(job="insert", target="db.u", rows_inserted=2, bytes=20),
                    RunReport(job="delete", target="db.t", rows_deleted=4, already_done=True),
                    RunReport(job="delete", target="db.t", rows_deleted=8, bytes=40),
                ],
            ),
            {"db.t": 9, "db.u": 2},
            {"db.t": 50, "db.u": 20},
        ),
    ],
)
def test_reports_of_every_kind_have_rows_and_bytes_by_table(stats, report, rows, sizes):
    task_metrics.emit_success(report.to_dict(), 1.5)
    assert {tags["table"]: value for tags, value in stats.of(metrics.RUN_ROWS)} == rows
    assert {tags["table"]: value for tags, value in stats.of(metrics.RUN_BYTES)} == sizes
    labels = {"operation": report.job, "table": "db.t"}
    assert stats.of(metrics.RUN_DURATION) == [(labels, 1500)]


def test_a_cleaning_is_a_run(stats, spark_submit, context):
    HiveAcidCleanOperator(task_id="t", job=CleanJob(target="db.t")).execute(context)
    assert stats.of(metrics.RUNS) == [({"operation": "clean", "table": "db.t"}, 1)]
    report = {"job": "clean", "target": "db.t", "bytes": 70, "dry_run": False}
    task_metrics.emit_success(report, 1)
    task_metrics.emit_success({**report, "dry_run": True}, 1)
    assert [value for _, value in stats.of(metrics.RUN_BYTES)] == [70]


def test_a_compaction_in_the_worker_that_has_nothing_to_do_is_a_run(stats, spark_submit, context):
    job = CompactJob(target="db.t", run_in="worker")
    HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    assert stats.of(metrics.RUNS) == [({"operation": "compact", "table": "db.t"}, 1)]
    assert stats.of(metrics.RUN_BYTES) == []


def deltas(stats):
    return [(tags["table"], value) for tags, value in stats.of(metrics.DELTAS)]


def test_a_sensor_emits_the_figures_of_its_survey(stats, spark_submit):
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="db.orders", max_deltas=9)
    assert not sensor.poke({})
    assert deltas(stats) == [("db.orders", 2)]
    emitted = {name for _, name, _, _ in stats.seen}
    assert emitted == {metric.name for metric in metrics.SURVEYED}
    sensor.poke({})
    assert deltas(stats) == [("db.orders", 2)] * 2


def test_triggers_emit_the_figures_of_their_surveys(stats, spark_submit):
    async def first_event(trigger):
        async with aclosing(trigger.run()) as events:
            return await anext(events)

    needed = CompactionNeeded(
        table="db.orders",
        partitions=None,
        policy=CompactionPolicy(max_deltas=1),
        budget=Budget(),
    )
    waiting = HiveAcidConditionTrigger(
        condition=needed, metastore_conn_id="hive_acid_default", poke_interval=60
    )
    assert asyncio.run(first_event(waiting)).payload["found"]
    assert deltas(stats) == [("db.orders", 2)]
    watching = HiveAcidCompactionEventTrigger(table="db.orders", policy={"max_deltas": 1})
    assert asyncio.run(first_event(watching)).payload["needs"]
    assert deltas(stats) == [("db.orders", 2)] * 2


def test_the_stats_of_this_airflow_accept_every_kind(caplog):
    from hiveacid.upkeep.metrics import Sample

    samples = [
        Sample(metric, 1, dict.fromkeys(metric.labels, "db.t")) for metric in metrics.EMITTED
    ]
    task_metrics.emit(lambda: samples)
    assert "Metrics could not be emitted." not in caplog.text


def test_violated_checks_are_counted_by_table(stats):
    checks = tuple(
        CheckResult(check=name, table=table, severity="warn", passed=passed)
        for name, table, passed in (("a", "db.t", False), ("b", "db.t", True), ("a", "db.u", False))
    )
    run = RunReport(job="transaction", target="db.t", checks=checks)
    script = ScriptReport.of("db.t", [run, replace(run, already_done=True)])
    task_metrics.emit_success(script.to_dict(), 1)
    found = {tags["table"]: value for tags, value in stats.of(metrics.VIOLATED_CHECKS)}
    assert found == {"db.t": 1, "db.u": 1}
