"""Throughput and latency of a stream."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from hiveacid.jobs.reports.report import RunReport, TableReport
from hiveacid.jobs.reports.stream_report import StreamProgress, StreamReport
from hiveacid.jobs.stream_job import StreamJob
from hiveacid.progress import PhaseLog, PhaseObserver

# For a stream that runs for months, the latencies of the last days suffice.
_LATENCIES = 100_000


class StreamMeasures:
    """Combines the commits of a stream with Spark's progress reports.

    Commits are recorded by the query's thread, before Spark registers their end; all other methods
    run in a single other thread.
    """

    def __init__(self, job: StreamJob) -> None:
        self._job = job
        self._log = PhaseLog()
        self._applied: dict[int, tuple[float, RunReport]] = {}
        self._report = StreamReport(target=job.target, name=job.name)
        self._tables: dict[str, TableReport] = {}
        self._phases: dict[str, float] = {}
        self._latencies: list[float] = []
        # The times when the preceding batch was planned and committed.
        self._before: tuple[float, float] | None = None
        self._all_done = True

    @property
    def has_unreported_batch(self) -> bool:
        """Whether Spark has not reported an applied batch yet."""
        return bool(self._applied)

    def applied(self, query_id: str, batch_id: int, report: RunReport) -> None:
        """Record a batch that was committed now or earlier."""
        if self._report.query_id is None:
            self._report = replace(self._report, query_id=query_id)
        self._applied[batch_id] = (time.time(), report)

    def follow(self, query: Any, observers: Sequence[PhaseObserver]) -> None:
        """Report the batches that Spark has reported since the last call."""
        if not self._applied:
            return
        reported = []
        with suppress(PySparkException, Py4JError):
            # Spark's own classes for progress reports need a hundred calls each.
            reported = [json.loads(progress.json()) for progress in query._jsq.recentProgress()]
        for progress in reported:
            batch_id = progress["batchId"]
            if "addBatch" in progress["durationMs"] and batch_id in self._applied:
                self._report_batch(batch_id, progress, observers)
        if not query.isActive:
            for batch_id in sorted(self._applied):
                self._report_batch(batch_id, {}, observers)

    def report(self, ended: str, seconds: float) -> StreamReport:
        """Return the report on the run."""
        ordered = sorted(self._latencies)
        latency = {
            name: ordered[min(len(ordered) - 1, int(len(ordered) * share))]
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
            if ordered
        }
        tables = tuple(self._tables.values())
        return replace(
            self._report,
            rows_inserted=sum(table.rows_inserted for table in tables),
            rows_updated=sum(table.rows_updated for table in tables),
            rows_deleted=sum(table.rows_deleted for table in tables),
            tables=tables,
            latency=latency,
            ended=ended,
            seconds={"stream": round(seconds, 3), **self._phases},
            already_done=self._report.batches > 0 and self._all_done,
        )

    def _report_batch(
        self, batch_id: int, progress: Mapping[str, Any], observers: Sequence[PhaseObserver]
    ) -> None:
        committed, done = self._applied.pop(batch_id)
        planned = _planned_at(progress) or committed
        latency = None
        if self._before is not None and (interval := self._job.interval) is not None:
            looked, idle_since = self._before
            # After the end of the preceding batch, Spark may have found no rows.
            if planned - interval.total_seconds() > idle_since:
                looked = planned - interval.total_seconds()
            latency = round(max(0.0, committed - looked), 3)
            self._latencies.append(latency)
            del self._latencies[:-_LATENCIES]
        self._before = planned, committed
        rows = int(progress.get("numInputRows") or 0)
        seconds = round(max(0.0, committed - planned), 3)
        now = StreamProgress(
            name=self._job.name,
            query_id=self._report.query_id or "",
            batch_id=batch_id,
            txn_id=done.txn_id,
            write_ids=done.write_ids,
            rows=rows,
            rows_per_second=round(rows / seconds, 1) if seconds else 0.0,
            seconds=seconds,
            latency=latency,
            backlog=_backlog(progress),
            committed_at=round(committed, 3),
        )
        self._add(now, done)
        self._log.note(f"{now} (applied before)" if done.already_done else str(now))
        for observer in observers:
            observer.batch(now)

    def _add(self, now: StreamProgress, done: RunReport) -> None:
        self._report = replace(
            self._report,
            batches=self._report.batches + 1,
            last_batch=now.batch_id,
            rows=self._report.rows + now.rows,
            backlog=now.backlog,
            warnings=tuple(dict.fromkeys((*self._report.warnings, *done.warnings)))[-100:],
        )
        self._all_done = self._all_done and done.already_done
        if done.already_done:
            return
        for table in done.tables:
            known = self._tables.get(table.table)
            self._tables[table.table] = table if known is None else known + table
        for phase, seconds in done.seconds.items():
            self._phases[phase] = round(self._phases.get(phase, 0.0) + seconds, 3)


def _planned_at(progress: Mapping[str, Any]) -> float | None:
    """The time when Spark began to look for the rows of a batch, in seconds since 1970."""
    reported = progress.get("timestamp")
    return None if reported is None else datetime.fromisoformat(reported).timestamp()


def _backlog(progress: Mapping[str, Any]) -> int | None:
    """Number of rows in the source that were not read; None if the source does not count rows."""
    behind = []
    for source in progress.get("sources", ()):
        read, there = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(read, dict) or not isinstance(there, dict):
            return None
        for topic, partitions in there.items():
            if not isinstance(partitions, dict):
                return None
            mine = read.get(topic, {})
            behind += [int(last) - int(mine.get(part, 0)) for part, last in partitions.items()]
    return max(0, sum(behind)) if behind else None
