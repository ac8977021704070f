"""Execution of a StreamJob: a Structured Streaming query whose batches are transactions."""

import hashlib
import json
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import (
    ConflictError,
    HiveAcidError,
    InvalidJob,
    MetastoreError,
    PositionMismatch,
    StorageError,
    StreamOvertaken,
)
from hiveacid.foreign.text import parse_json
from hiveacid.jobs.fields import header_options
from hiveacid.jobs.job import paths_of, paths_written
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import RunReport, TableReport
from hiveacid.jobs.sources import BatchSource
from hiveacid.jobs.stream_job import (
    LOCATION_OPTIONS,
    SECRET_OPTION,
    StreamJob,
    StreamProgress,
    StreamReport,
    stream_token,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.progress import PROGRESS, FaultInjector, Phase, PhaseLog, PhaseObserver
from hiveacid.records.proofs import NoteName
from hiveacid.records.run_notes import NoteFile
from hiveacid.records.stream_places import (
    NO_BATCH,
    CheckpointState,
    StreamPlace,
    StreamPlaces,
    StreamState,
    require_same_batch,
    require_same_place,
)
from hiveacid.rules.location import Location
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import marked_token
from hiveacid.spark.failures import translate, translated_spark_errors
from hiveacid.spark.java_objects import java_class, java_query, java_session
from hiveacid.spark.rows.json_bytes import load_json
from hiveacid.spark.session import scan_session
from hiveacid.spark.statements.engine import SparkEngine
from hiveacid.spark.statements.from_job import statement_of
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.tables.locations import require_free
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import WriteOptions

# Publication of a stream's state


_SECONDS_BETWEEN_SIGNS_OF_LIFE = 60.0


class StreamStateWriter(PhaseObserver):
    """Stores the state of a stream beside its position, for the page.

    A folder that cannot be written does not prevent batches from being applied.

    Args:
        places: The store of the state.
        job: The stream.
    """

    def __init__(self, places: StreamPlaces, job: StreamJob) -> None:
        self._places = places
        now = time.time()
        self._state = StreamState(
            name=job.name,
            run_token=job.run_token,
            trigger=job.trigger,
            tables=tuple(dict.fromkeys(job.tables)),
            started_at=now,
            told_at=now,
        )
        self._written_at = 0.0

    def begin(self) -> None:
        """Record the start of a run, with the last batch of the preceding run."""
        with suppress(StorageError):
            earlier_state = self._places.read_state()
            if earlier_state is not None:
                self._state = replace(self._state, last=earlier_state.last)
        self._write()

    def batch(self, progress: object) -> None:
        """Record one more applied batch."""
        assert isinstance(progress, StreamProgress)
        self._state = replace(
            self._state,
            batches=self._state.batches + 1,
            rows=self._state.rows + progress.rows,
            last=progress,
        )
        self._write()

    def alive(self) -> None:
        """Report that the driver is alive, without other events."""
        if time.monotonic() - self._written_at >= _SECONDS_BETWEEN_SIGNS_OF_LIFE:
            self._write()

    def end(self, reason: str) -> None:
        """Record the successful end of the run."""
        self._state = replace(self._state, ended=reason)
        self._write()

    def fail(self, error: BaseException) -> None:
        """Record a failure; only the error's name is visible to all users of the table."""
        name = error.id if isinstance(error, HiveAcidError) else type(error).__name__
        self._state = replace(self._state, ended="failed", error=name)
        self._write()

    def _write(self) -> None:
        self._written_at = time.monotonic()
        self._state = replace(self._state, told_at=time.time())
        with suppress(StorageError):
            self._places.write_state(self._state)


# Throughput and latency of a stream


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
            reported = [
                parse_json(progress.json()) for progress in java_query(query).recentProgress()
            ]
        for progress in reported:
            batch_id = progress["batchId"]
            if "addBatch" in progress["durationMs"] and batch_id in self._applied:
                self._report_batch(batch_id, progress, observers)
        if not query.isActive:
            for batch_id in sorted(self._applied):
                self._report_batch(batch_id, {}, observers)

    def report(self, reason: str, seconds: float) -> StreamReport:
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
            ended=reason,
            seconds={"stream": round(seconds, 3), **self._phases},
            already_done=self._report.batches > 0 and self._all_done,
        )

    def _report_batch(
        self, batch_id: int, progress: Mapping[str, Any], observers: Sequence[PhaseObserver]
    ) -> None:
        commit_time, report = self._applied.pop(batch_id)
        plan_time = _planned_at(progress) or commit_time
        latency = None
        if self._before is not None and (interval := self._job.interval) is not None:
            looked, idle_since = self._before
            # After the end of the preceding batch, Spark may have found no rows.
            if plan_time - interval.total_seconds() > idle_since:
                looked = plan_time - interval.total_seconds()
            latency = round(max(0.0, commit_time - looked), 3)
            self._latencies.append(latency)
            del self._latencies[:-_LATENCIES]
        self._before = plan_time, commit_time
        rows = int(progress.get("numInputRows") or 0)
        seconds = round(max(0.0, commit_time - plan_time), 3)
        now = StreamProgress(
            name=self._job.name,
            query_id=self._report.query_id or "",
            batch_id=batch_id,
            txn_id=report.txn_id,
            write_ids=report.write_ids,
            rows=rows,
            rows_per_second=round(rows / seconds, 1) if seconds else 0.0,
            seconds=seconds,
            latency=latency,
            backlog=_backlog(progress),
            committed_at=round(commit_time, 3),
        )
        self._add(now, report)
        self._log.note(f"{now} (applied before)" if report.already_done else str(now))
        for observer in observers:
            observer.batch(now)

    def _add(self, now: StreamProgress, report: RunReport) -> None:
        self._report = replace(
            self._report,
            batches=self._report.batches + 1,
            last_batch=now.batch_id,
            rows=self._report.rows + now.rows,
            backlog=now.backlog,
            warnings=tuple(dict.fromkeys((*self._report.warnings, *report.warnings)))[-100:],
        )
        self._all_done = self._all_done and report.already_done
        if report.already_done:
            return
        for table in report.tables:
            table_report = self._tables.get(table.table)
            self._tables[table.table] = table if table_report is None else table_report + table
        for phase, seconds in report.seconds.items():
            self._phases[phase] = round(self._phases.get(phase, 0.0) + seconds, 3)


def _planned_at(progress: Mapping[str, Any]) -> float | None:
    """The time when Spark began to look for the rows of a batch, in seconds since 1970."""
    reported = progress.get("timestamp")
    return None if reported is None else datetime.fromisoformat(reported).timestamp()


def _backlog(progress: Mapping[str, Any]) -> int | None:
    """Number of rows in the source that were not read; None if the source does not count rows."""
    behind = []
    for source in progress.get("sources", ()):
        read, latest = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(read, dict) or not isinstance(latest, dict):
            return None
        for topic, partitions in latest.items():
            if not isinstance(partitions, dict):
                return None
            mine = read.get(topic, {})
            behind += [int(last) - int(mine.get(part, 0)) for part, last in partitions.items()]
    return max(0, sum(behind)) if behind else None


# The checkpoint of a Structured Streaming query, as far as a stream needs it


_COMPACTED = ".compact"
_CHUNK_BYTES = 1 << 20


def with_file_system(spark: SparkSession, location: str) -> str:
    """Return a location with its scheme; a path without one is in Spark's default file system."""
    if not location.startswith("/"):
        return location
    with translated_spark_errors(f"Looking up the file system of {location}"):
        path = java_class(spark, "org.apache.hadoop.fs.Path")(location)
        configuration = java_session(spark).sessionState().newHadoopConf()
        return str(path.getFileSystem(configuration).makeQualified(path).toString())


class StreamCheckpoint:
    """A read-only checkpoint; only Spark writes it.

    Args:
        location: The folder, with its scheme.
    """

    def __init__(self, location: Location) -> None:
        self._storage = ReadOnlyStorage.of(location)

    def state(self) -> CheckpointState:
        """Return the state of the checkpoint, empty if it does not exist.

        Raises:
            PositionMismatch: The checkpoint exists, but does not identify its query.
        """
        content = self._storage.read_small("metadata")
        last_plan, last_commit = self._last("offsets"), self._last("commits")
        if content is None:
            if last_plan == NO_BATCH:
                return CheckpointState(self._storage.location)
            raise PositionMismatch(
                f"The checkpoint {self._storage.location} has batches, but no file metadata."
            )
        try:
            query_id = parse_json(content)["id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            query_id = None
        if not isinstance(query_id, str) or not query_id:
            raise PositionMismatch(
                f"{self._storage.location}/metadata does not contain the id of a query."
            )
        return CheckpointState(self._storage.location, query_id, last_plan, last_commit)

    def offsets_digest(self, batch_id: int) -> str:
        """A digest of the rows of a batch: of its offsets, and of the preceding ones.

        The offsets of a source of files only count the entries of a log, so the entries are
        included. Times and settings are excluded: a batch is the same when it is planned again.

        Raises:
            PositionMismatch: The checkpoint does not have the offsets.
        """
        until, starts = self._offsets(batch_id), self._offsets(batch_id - 1)
        starts += [None] * (len(until) - len(starts))
        files = [
            self._logged(source, _log_offset(start), _log_offset(end))
            for source, (start, end) in enumerate(zip(starts, until, strict=False))
        ]
        text = json.dumps([starts, until, files], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def _offsets(self, batch_id: int) -> list[Any]:
        """The offset of each source at the end of a batch; empty before the first batch."""
        if batch_id == NO_BATCH:
            return []
        path = f"offsets/{batch_id}"
        # The lines are a version, settings, and an offset for each source.
        if len(lines := [*self._lines(path)]) < 3:
            raise self._unreadable(path)
        return [_offset(line) for line in lines[2:]]

    def _logged(self, source: int, start: int, until: int) -> list[Any]:
        """The files that a source has logged between two offsets.

        Every tenth file of the log repeats all entries before it, and the others are deleted.
        """
        wanted = set(range(start + 1, until + 1))
        if not wanted:
            return []
        folder = f"sources/{source}"
        names = {file.path for file in self._storage.list_files(folder, missing_ok=True)}
        compacted = (int(stem) for name in names if (stem := _compacted(name)) is not None)
        whole = min((number for number in compacted if number > start), default=None)
        numbers = sorted(wanted if whole is None else wanted - set(range(whole + 1)))
        paths = [f"{folder}/{number}" for number in numbers]
        if whole is not None:
            paths.append(f"{folder}/{whole}{_COMPACTED}")
        entries = []
        for path in paths:
            try:
                for entry in map(parse_json, islice(self._lines(path), 1, None)):
                    if entry["batchId"] in wanted:
                        entries.append([entry["batchId"], entry["path"], entry["timestamp"]])
            except (ValueError, KeyError, TypeError, RecursionError):
                raise self._unreadable(path) from None
        return sorted(entries)

    def _lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of a file, which may have millions."""
        if not self._storage.exists(path):
            raise self._unreadable(path)
        tail = b""
        with self._storage.open_input(path) as source:
            while chunk := source.read(_CHUNK_BYTES):
                *lines, tail = (tail + chunk).split(b"\n")
                yield from lines
        if tail:
            yield tail

    def _unreadable(self, path: str) -> PositionMismatch:
        return PositionMismatch(
            f"{self._storage.location}/{path} is missing or cannot be read, so the rows of a batch "
            "cannot be compared with those that were applied.",
            remedy="Put the newest checkpoint of the stream there.",
        )

    def _last(self, folder: str) -> int:
        names = (file.path for file in self._storage.list_files(folder, missing_ok=True))
        return max((int(name) for name in names if name.isdecimal()), default=NO_BATCH)


def _offset(line: bytes) -> Any:
    """Parse an offset, so that the order of keys is irrelevant; an invalid one remains text."""
    try:
        return parse_json(line)
    except (ValueError, RecursionError):
        return line.decode(errors="replace")


def _log_offset(offset: Any) -> int:
    """The number of a source's last log entry; -1 if its offsets do not count entries."""
    number = offset.get("logOffset") if isinstance(offset, dict) else None
    return number if type(number) is int else -1


def _compacted(name: str) -> str | None:
    stem = name.removesuffix(_COMPACTED)
    return stem if stem != name and stem.isdecimal() else None


# Seconds for retries of a batch after conflicts or while the metastore is unreachable.
PATIENCE = 600.0
_LONGEST_PAUSE = 30.0
_POLL_SECONDS = 0.5
_SECONDS_TO_NOTE = 10.0
_SECONDS_BETWEEN_LOOKS_FOR_STOP = 2.0
# Every attempt searches the notes of its table: notes that are not needed any more are removed.
_NOTES_KEPT = 500
# The number of batches whose progress is looked up at a time.
_PROGRESS_KEPT = 20
_OFFSETS_KEPT = "spark.sql.streaming.minBatchesToRetain"
_LEAST_OFFSETS_KEPT = 3


class StreamRun:
    """One run of a stream, starting at its checkpoint.

    Spark calls it for every batch, which becomes one transaction under a run token of the query and
    the batch. A batch that Spark repeats after a kill finds the note on that run, as any retry
    does.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: StreamJob,
        metastore: MetastoreOptions,
        observers: Sequence[PhaseObserver] = (),
    ) -> None:
        """Look up the first table and its state of the stream.

        Raises:
            AccessRefused: A location is not allowed.
            PositionMismatch: The table's state does not match the checkpoint.
            SharedLocation: A table is registered where the stream writes or removes files.
        """
        self._spark = scan_session(spark)
        self._spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", _PROGRESS_KEPT)
        # The digest of the last batch is computed again by the next run.
        if int(self._spark.conf.get(_OFFSETS_KEPT) or 0) < _LEAST_OFFSETS_KEPT:
            self._spark.conf.set(_OFFSETS_KEPT, _LEAST_OFFSETS_KEPT)
        job = replace(job, checkpoint=with_file_system(spark, job.checkpoint))
        self._job = job
        self._metastore = metastore
        self._fault = FaultInjector.from_environment()
        with MetastoreClient(metastore) as client:
            for path in paths_of(job):
                client.allowed_locations.require(path)
            checkpoint = client.allowed_locations.require(job.checkpoint)
            require_free(client, paths_written(job), f"The stream {job.name}")
            self._home = client.get_table(TableRef.parse(job.target))
            tables = (client.get_table(TableRef.parse(name)) for name in dict.fromkeys(job.tables))
            self._storages = [Storage.of(table.folder) for table in tables]
        self._storage = Storage.of(self._home.folder)
        self._places = StreamPlaces(self._storage, job.name)
        self._checkpoint = StreamCheckpoint(checkpoint)
        self._measures = StreamMeasures(job)
        self._state_writer = StreamStateWriter(self._places, job)
        self._observers = (self._state_writer, *observers)
        self._place: StreamPlace | None = None
        self._query_id: str | None = None
        self._notes: deque[NoteFile] = deque()
        self._working = threading.Lock()
        self._stopping = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> StreamReport:
        """Run until the source is exhausted, a stop is requested, or the time limit is reached."""
        self._state_writer.begin()
        try:
            report = self._run(time.monotonic())
        except BaseException as error:
            self._state_writer.fail(error)
            raise
        self._state_writer.end(report.ended)
        return report

    def _run(self, started: float) -> StreamReport:
        self._place = self._places.read()
        state = self._checkpoint.state()
        require_same_place(
            self._job.name, self._job.target, self._place, state, self._job.reset_query
        )
        place = self._place
        if place is not None and place.query_id == state.query_id and place.offsets is not None:
            digest = self._checkpoint.offsets_digest(place.batch_id)
            require_same_batch(self._job, place.batch_id, place.offsets, digest)
        self._places.begin()
        try:
            with translated_spark_errors(f"The stream {self._job.name}"):
                query = self._start()
        except StorageError as error:
            error.remedy = f"Look at the checkpoint {state.location}, and at the source."
            raise
        with _stopped_by_signals(self._stopping):
            reason = self._wait(query, started)
        self._measures.follow(query, self._observers)
        if self._error is not None:
            raise self._error
        failure = None if self._stopping.is_set() else query.exception()
        if failure is not None:
            raise translate(failure, f"The stream {self._job.name}") from failure
        return self._measures.report(reason, time.monotonic() - started)

    def _start(self) -> Any:
        source = self._job.source
        options = _secret_options(self._spark) | dict(source.options)
        reader = self._spark.readStream.format(source.format).options(**options)
        if source.schema is not None:
            reader = reader.options(**header_options(source.format, options)).schema(source.schema)
        rows = reader.load()
        if source.format.lower() == "json":
            options_in_lower_case = {name.lower(): value for name, value in options.items()}
            line = options_in_lower_case.get("columnnameofcorruptrecord", "_corrupt_record")
            rows = load_json(reader, None, line, options_in_lower_case.get("mode", ""))
        writer = (
            rows.writeStream.queryName(self._job.name)
            .option("checkpointLocation", self._job.checkpoint)
            .foreachBatch(self._called)
        )
        interval = self._job.interval
        if interval is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{interval.total_seconds():.0f} seconds")
        return writer.start()

    def _wait(self, query: Any, started: float) -> str:
        """Wait for the end of the query, or end it on request; return the reason."""
        limit, looked = self._job.limit, started
        while query.isActive:
            now = time.monotonic()
            over = limit is not None and now - started >= limit.total_seconds()
            if now - looked >= _SECONDS_BETWEEN_LOOKS_FOR_STOP:
                looked = now
                with suppress(StorageError):
                    if self._places.is_asked_to_stop():
                        self._stopping.set()
            if over or self._stopping.is_set():
                self._stop(query)
                return "time" if over else "asked to"
            with suppress(PySparkException, Py4JError):
                query.awaitTermination(_POLL_SECONDS)
            self._measures.follow(query, self._observers)
            self._state_writer.alive()
        return "no more rows"

    def _stop(self, query: Any) -> None:
        """End the query after the current batch, and after Spark has recorded its end."""
        self._stopping.set()
        with self._working:
            deadline = time.monotonic() + _SECONDS_TO_NOTE
        while (
            query.isActive and self._measures.has_unreported_batch and time.monotonic() < deadline
        ):
            time.sleep(_POLL_SECONDS / 5)
            self._measures.follow(query, self._observers)
        query.stop()

    def _called(self, rows: DataFrame, batch_id: int) -> None:
        """Apply a batch, on the thread of the query; Spark continues when this method returns."""
        with self._working:
            if self._stopping.is_set():
                # Returning would make Spark record the batch as applied.
                raise _Stopped("The stream ends; this batch will be the first of the next run.")
            reads_again = self._job.reads_batch_again
            try:
                self._apply_patiently(rows.persist() if reads_again else rows, batch_id)
            except _Stopped:
                raise
            except BaseException as error:
                self._error = error
                raise
            finally:
                if reads_again:
                    rows.unpersist()

    def _apply_patiently(self, rows: DataFrame, batch_id: int) -> None:
        """Apply a batch, with retries after conflicts or while the metastore is unreachable."""
        deadline, pause = time.monotonic() + PATIENCE, 1.0
        while True:
            try:
                self._apply(rows, batch_id)
                return
            except (ConflictError, MetastoreError) as error:
                patient = time.monotonic() + pause < deadline
                if not error.retryable or not patient:
                    raise
                PhaseLog(f"batch {batch_id}").note(f"Trying again: {error}")
                if self._stopping.wait(pause):
                    raise _Stopped("The next run will try the batch again.") from error
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _apply(self, rows: DataFrame, batch_id: int) -> None:
        with MetastoreClient(self._metastore) as client:
            if self._query_id is None:
                self._claim(client, batch_id)
            assert self._query_id is not None
            token = stream_token(self._job.name, self._query_id, batch_id)
            offsets = self._checkpoint.offsets_digest(batch_id)
            transaction = self._job.transaction
            options = replace(WriteOptions.of(transaction, token), offsets=offsets)
            statements = [
                statement_of(change, self._spark, transaction.orc_codec)
                for change in transaction.parts
            ]
            observers: list[PhaseObserver] = [
                _BatchLog(batch_id),
                _Fence(self._places, self._query_id, batch_id),
                *([self._fault] if self._fault else []),
            ]
            engine = SparkEngine(self._spark, {BatchSource().name: rows})
            report = run_statements(engine, client, options, observers, statements)
        require_same_batch(self._job, batch_id, report.offsets, offsets)
        self._measures.applied(self._query_id, batch_id, report)
        self._move_on(batch_id, offsets)
        self._forget_old_notes(token, report)

    def _claim(self, client: MetastoreClient, batch_id: int) -> None:
        """Register this query as the writer in the table; two queries cannot do so at once."""
        state = self._checkpoint.state()
        if state.query_id is None:
            raise PositionMismatch(f"The checkpoint {state.location} has vanished.")
        earlier_place = self._place
        if earlier_place is None or earlier_place.query_id != state.query_id:
            token = marked_token(f"stream/{self._job.name}", [self._job.target])
            wait = self._job.lock_wait_seconds
            with ExclusiveTable(client, self._home.ref, token, wait):
                self._place = place = self._places.read()
                mine = place is not None and place.query_id == state.query_id
                if place != earlier_place and not mine:
                    raise PositionMismatch(
                        f"Another query has just begun to write the stream {self._job.name} into "
                        f"{self._job.target}.",
                        remedy="Let only one driver run the stream.",
                    )
                if not mine:
                    self._write_place(state.query_id, batch_id - 1, None)
        self._query_id = state.query_id

    def _move_on(self, batch_id: int, offsets: str) -> None:
        """Record the progress of the stream in the table."""
        assert self._query_id is not None
        if self._is_last_recorded(batch_id, offsets):
            return
        assert self._place is not None
        self._place.require_before(self._query_id, batch_id)
        try:
            self._write_place(self._query_id, batch_id, offsets)
        except StreamOvertaken:
            # Another driver of the query may have found the note on the same batch.
            if not self._is_last_recorded(batch_id, offsets):
                raise

    def _is_last_recorded(self, batch_id: int, offsets: str) -> bool:
        """Whether a batch is the last one that is recorded in the table."""
        self._place = place = self._places.required()
        if (place.query_id, place.batch_id) != (self._query_id, batch_id):
            return False
        require_same_batch(self._job, batch_id, place.offsets, offsets)
        return True

    def _write_place(self, query_id: str, batch_id: int, offsets: str | None) -> None:
        place = StreamPlace(
            name=self._job.name,
            query_id=query_id,
            batch_id=max(batch_id, NO_BATCH),
            number=0 if self._place is None else self._place.number + 1,
            checkpoint=self._job.checkpoint,
            offsets=offsets,
        )
        self._places.write(place)
        self._place = place

    def _forget_old_notes(self, token: str, report: RunReport) -> None:
        """Remove the notes on batches far before the recorded position.

        A driver that was suspended in the meantime finds no note on its batch any more, but the
        position.
        """
        if report.txn_id is None:
            return
        name = replace(NoteName.of(token, report.txn_id), marked=True)
        self._notes.append(NoteFile(name, None))
        while len(self._notes) > _NOTES_KEPT:
            path = self._notes.popleft().path
            for storage in self._storages:
                with suppress(StorageError):
                    storage.delete_file(path)


class _Stopped(Exception):
    """The query is being ended."""


class _BatchLog(PhaseLog):
    """Logs unusual events of a batch; the phases of each batch would be too many lines."""

    def __init__(self, batch_id: int) -> None:
        super().__init__(f"batch {batch_id}")

    def step(self, name: str, seconds: float | None = None) -> None:
        """Ignore the event."""

    def opened(self, txn_id: int, write_ids: Any) -> None:
        """Ignore the event."""


class _Fence(PhaseObserver):
    """Ends the transaction of a batch that was applied already, or whose stream has a new owner.

    The locks are held at that time, so that a new owner of the stream has either claimed it, or
    waits. The notes were searched before, so that a missing note belongs to a batch before the
    recorded position.
    """

    def __init__(self, places: StreamPlaces, query_id: str, batch_id: int) -> None:
        self._places = places
        self._query_id = query_id
        self._batch_id = batch_id

    def enter(self, phase: Phase) -> None:
        """Check the recorded position after all locks are acquired."""
        if phase is Phase.SNAPSHOT:
            self._places.required().require_before(self._query_id, self._batch_id)


def _secret_options(spark: SparkSession) -> dict[str, str]:
    """Source options that were submitted as application properties, outside of the job."""
    secrets = {
        name.removeprefix(SECRET_OPTION): value
        for name, value in spark.sparkContext.getConf().getAll()
        if name.startswith(SECRET_OPTION)
    }
    if location_options := sorted(name for name in secrets if name.lower() in LOCATION_OPTIONS):
        raise InvalidJob(
            f"The property {SECRET_OPTION}{location_options[0]} sets a location, which nobody could check.",
            remedy=f"Set the option {location_options[0]} of the source.",
        )
    return secrets


@contextmanager
def _stopped_by_signals(stopping: threading.Event) -> Iterator[None]:
    """Let SIGTERM end the stream between two batches, if this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        print(f"{PROGRESS}Ending the stream after this batch.", flush=True)
        stopping.set()

    handler = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
