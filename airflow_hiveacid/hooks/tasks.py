"""Metrics of tasks and surveys in Airflow's Stats, which sends them to StatsD or OpenTelemetry."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from hiveacid.errors import ConflictError, EmptySource, HiveAcidError
from hiveacid.jobs.report import ErrorReport, by_table
from hiveacid.upkeep import metrics
from hiveacid.upkeep.metrics import Kind, Metric, Sample

# Exceptions that end a task after a failure of ours, with its kind and the remedy


class HiveAcidTaskFailure(Exception):
    """A task of ours has failed; a callback or a notifier finds it as ``context["exception"]``.

    It isn't an AirflowException, which sensors with ``soft_fail`` take for the end of the waiting:
    a failure must not skip the task like a task without work. ``never_fail`` skips it.

    :param error: The error, with its ``id``, ``message``, ``remedy`` and ``retryable``.
    """

    def __init__(self, error: ErrorReport) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return self.error.lines


class HiveAcidTaskConflict(HiveAcidTaskFailure):
    """A concurrent writer committed first; the next attempt may succeed."""


class HiveAcidTaskTrouble(HiveAcidTaskFailure):
    """The metastore, the cluster or the file system did not answer; a later attempt may succeed."""


class HiveAcidTaskRefused(HiveAcidTaskFailure, AirflowFailException):
    """The same job will fail again, so that Airflow doesn't retry it.

    Our sensors fail with it also with ``soft_fail``.
    """


def task_failure(
    error: HiveAcidError | ErrorReport,
) -> HiveAcidTaskFailure | AirflowSkipException:
    """Return the exception to raise: permanent failures must not consume the remaining retries.

    :param error: The error, here or in the Spark application.
    """
    report = error if isinstance(error, ErrorReport) else ErrorReport.of(error)
    if report.id == EmptySource.__name__ and not report.retryable:
        return AirflowSkipException(report.lines)
    if not report.retryable:
        return HiveAcidTaskRefused(report)
    conflict = report.exit_code == ConflictError.exit_code
    return HiveAcidTaskConflict(report) if conflict else HiveAcidTaskTrouble(report)


log = logging.getLogger(__name__)

_ROWS = ("rows_inserted", "rows_updated", "rows_deleted")


def emit_success(report: Mapping[str, Any], seconds: float) -> None:
    """Emit the metrics of a task that succeeded.

    :param report: The result of ``to_dict`` of any report.
    :param seconds: The duration of the task.
    """
    emit(lambda: _of_success(report, seconds))


def emit_failure(operation: str, table: str, error: str, seconds: float) -> None:
    """Emit the metrics of a task that failed.

    :param operation: The kind of job.
    :param table: The table.
    :param error: The kind of error.
    :param seconds: The duration of the task.
    """
    labels = {"operation": operation, "table": table}
    emit(
        lambda: [
            Sample(metrics.RUN_DURATION, 1000 * seconds, labels),
            Sample(metrics.RUNS, 1, labels),
            Sample(metrics.RUN_FAILURES, 1, {**labels, "error": error}),
        ]
    )


def emit(samples: Callable[[], Iterable[Sample]]) -> None:
    """Emit samples; a problem is logged, and never fails the task, whose work may be committed.

    :param samples: Returns the samples.
    """
    try:
        # Many DAG files import this module without ever emitting a metric.
        from airflow.providers.common.compat.sdk import Stats

        for sample in samples():
            name, tags = sample.metric.name, dict(sample.labels)
            match sample.metric.kind:
                case Kind.GAUGE:
                    Stats.gauge(name, sample.value, tags=tags)
                case Kind.COUNTER:
                    Stats.incr(name, int(sample.value), tags=tags)
                case Kind.TIMER:
                    Stats.timing(name, sample.value, tags=tags)
    except Exception:
        log.warning("Metrics could not be emitted.", exc_info=True)


def _of_success(report: Mapping[str, Any], seconds: float) -> Iterator[Sample]:
    labels = {"operation": report["job"], "table": report["target"]}
    yield Sample(metrics.RUN_DURATION, 1000 * seconds, labels)
    yield Sample(metrics.RUNS, 1, labels)
    totals: dict[tuple[str, Metric], int] = {}
    for table, rows, size in _work(report):
        for metric, number in ((metrics.RUN_ROWS, rows), (metrics.RUN_BYTES, size)):
            totals[table, metric] = totals.get((table, metric), 0) + number
    for table in _violations(report):
        totals[table, metrics.VIOLATED_CHECKS] = totals.get((table, metrics.VIOLATED_CHECKS), 0) + 1
    for (table, metric), number in totals.items():
        if number:
            yield Sample(metric, number, {**labels, "table": table})


def _violations(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of each check that rows violate, which a run itself has committed."""
    if report["job"] == "script":
        for statement in report["statements"]:
            yield from _violations(statement["run"] or statement["compaction"])
    elif not report.get("already_done"):
        yield from (check["table"] for check in report.get("checks") or () if not check["passed"])


def _work(report: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Yield tables with the rows and bytes that a run itself has written, or removed."""
    if report.get("already_done") or report.get("dry_run"):
        return
    match report["job"]:
        case "script":
            for statement in report["statements"]:
                yield from _work(statement["run"] or statement["compaction"])
        case "compact":
            for partition in report["partitions"]:
                if partition["outcome"] == "compacted":
                    yield partition["table"], partition["rows"], partition["bytes_written"]
        case _:
            for table in by_table(report):
                rows = sum(table.get(name) or 0 for name in _ROWS)
                yield table["target"], rows, table.get("bytes") or 0
