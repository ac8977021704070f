"""Execution of a StreamJob: a Structured Streaming query whose batches are transactions."""

import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import (
    CheckpointMismatch,
    ConflictError,
    InvalidJob,
    MetastoreError,
    StorageError,
    StreamOvertaken,
)
from hiveacid.jobs.accesses import paths_of, paths_written
from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.jobs.options.run_token import marked_token
from hiveacid.jobs.reports.report import RunReport
from hiveacid.jobs.reports.stream_report import StreamReport
from hiveacid.jobs.schema_text import header_options
from hiveacid.jobs.stream_job import (
    LOCATION_OPTIONS,
    SECRET_OPTION,
    StreamJob,
    stream_token,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.exclusive import ExclusiveTable
from hiveacid.progress import PROGRESS, FaultInjector, Phase, PhaseLog, PhaseObserver
from hiveacid.records.proofs import NoteName
from hiveacid.records.run_note_folder import NoteFile
from hiveacid.records.stream_place import (
    NO_BATCH,
    StreamPlace,
    require_same_batch,
    require_same_place,
)
from hiveacid.records.stream_places import StreamPlaces
from hiveacid.rules.names import TableRef
from hiveacid.spark.failures import translate, translated_spark_errors
from hiveacid.spark.session import scan_session
from hiveacid.spark.statements.from_job import statement_of
from hiveacid.spark.streaming.checkpoint import StreamCheckpoint, with_file_system
from hiveacid.spark.streaming.measures import StreamMeasures
from hiveacid.spark.streaming.state_report import StreamStateWriter
from hiveacid.spark.write.atomic_write import run_statements
from hiveacid.spark.write.statement import WriteOptions
from hiveacid.storage.folder import Storage
from hiveacid.tables.location_owners import require_free

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
            CheckpointMismatch: The table's state does not match the checkpoint.
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
            require_free(client, paths_written(job), f"The stream {job.name}")
            self._home = client.get_table(TableRef.parse(job.target))
            tables = (client.get_table(TableRef.parse(name)) for name in dict.fromkeys(job.tables))
            self._storages = [Storage.of(table.folder) for table in tables]
        self._storage = Storage.of(self._home.folder)
        self._places = StreamPlaces(self._storage, job.name)
        self._checkpoint = StreamCheckpoint(job.checkpoint)
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
            planned = self._checkpoint.offsets_digest(place.batch_id)
            require_same_batch(self._job, place.batch_id, place.offsets, planned)
        self._places.begin()
        try:
            with translated_spark_errors(f"The stream {self._job.name}"):
                query = self._start()
        except StorageError as error:
            error.remedy = f"Look at the checkpoint {state.location}, and at the source."
            raise
        with _stopped_by_signals(self._stopping):
            ended = self._wait(query, started)
        self._measures.follow(query, self._observers)
        if self._error is not None:
            raise self._error
        failure = None if self._stopping.is_set() else query.exception()
        if failure is not None:
            raise translate(failure, f"The stream {self._job.name}") from failure
        return self._measures.report(ended, time.monotonic() - started)

    def _start(self) -> Any:
        source = self._job.source
        options = _secret_options(self._spark) | dict(source.options)
        reader = self._spark.readStream.format(source.format).options(**options)
        if source.schema is not None:
            reader = reader.options(**header_options(source.format, options)).schema(source.schema)
        writer = (
            reader.load()
            .writeStream.queryName(self._job.name)
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
            again = self._job.reads_batch_again
            try:
                self._apply_patiently(rows.persist() if again else rows, batch_id)
            except _Stopped:
                raise
            except BaseException as error:
                self._error = error
                raise
            finally:
                if again:
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
                for change in transaction.statements
            ]
            observers: list[PhaseObserver] = [
                _BatchLog(batch_id),
                _Fence(self._places, self._query_id, batch_id),
                *([self._fault] if self._fault else []),
            ]
            report = run_statements(self._spark, client, options, observers, statements, batch=rows)
        require_same_batch(self._job, batch_id, report.offsets, offsets)
        self._measures.applied(self._query_id, batch_id, report)
        self._move_on(batch_id, offsets)
        self._forget_old_notes(token, report)

    def _claim(self, client: MetastoreClient, batch_id: int) -> None:
        """Register this query as the writer in the table; two queries cannot do so at once."""
        state = self._checkpoint.state()
        if state.query_id is None:
            raise CheckpointMismatch(f"The checkpoint {state.location} has vanished.")
        before = self._place
        if before is None or before.query_id != state.query_id:
            token = marked_token(f"stream/{self._job.name}", [self._job.target])
            wait = self._job.lock_wait_seconds
            with ExclusiveTable(client, self._home.ref, token, wait):
                self._place = place = self._places.read()
                mine = place is not None and place.query_id == state.query_id
                if place != before and not mine:
                    raise CheckpointMismatch(
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
        self._place = place = self._places.known()
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
            self._places.known().require_before(self._query_id, self._batch_id)


def _secret_options(spark: SparkSession) -> dict[str, str]:
    """Source options that were submitted as application properties, outside of the job."""
    secrets = {
        name.removeprefix(SECRET_OPTION): value
        for name, value in spark.sparkContext.getConf().getAll()
        if name.startswith(SECRET_OPTION)
    }
    if named := sorted(name for name in secrets if name.lower() in LOCATION_OPTIONS):
        raise InvalidJob(
            f"The property {SECRET_OPTION}{named[0]} sets a location, which nobody could check.",
            remedy=f"Set the option {named[0]} of the source.",
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

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
