"""The metastores on the page, as Airflow's configuration and connections name them."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

from airflow.providers.common.compat.sdk import conf

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from hiveacid.dataclass import dataclass
from hiveacid.erasure.certificate import Certificate
from hiveacid.errors import CorruptFile, InvalidJob, StorageUnreachable
from hiveacid.foreign.budget import foreign_bytes
from hiveacid.foreign.text import parse_json
from hiveacid.jobs import codec
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.records.erasures import ErasureFolder
from hiveacid.records.history_entries import HistoryDirectory, HistoryEntry
from hiveacid.records.known_erasures import KnownErasure, KnownErasures
from hiveacid.records.mirror_notes import KnownMirror, known_mirrors
from hiveacid.records.signatures import SigningKey
from hiveacid.records.staged_changes import KnownStagedChange, StagedChangeFolder
from hiveacid.records.stream_places import StreamState, stream_states
from hiveacid.records.table_history import (
    OldestVersion,
    oldest_version,
    table_history,
    version_directories,
)
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.location import AllowedLocations, Location
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.upkeep.health import HealthMeter
from hiveacid.upkeep.health_score import TableHealth

# Access to files on behalf of the page, which cannot block other routes of Airflow


T = TypeVar("T")

_REMEDY = (
    "Check whether the storage of the table answers. To exclude locations, set page_locations in the "
    "section hive_acid of Airflow's configuration."
)


class FileAccess:
    """Looks into tables in threads of its own: a few at a time, and each for a limited time.

    Clients of stores cannot be interrupted. A look whose time is over keeps its thread until the
    client gives up, and counts as one of the few until then; callers do not wait for it.
    """

    def __init__(
        self,
        seconds: float,
        *,
        most: int = 16,
        most_of_table: int = 4,
        most_bytes: int = 1 << 20,
    ) -> None:
        """Set the limits.

        Args:
            seconds: The time that a caller waits for a look.
            most_bytes: The bytes of notes and records that a look may parse: while a thread parses, the
                other routes of Airflow wait.
            most: The most looks at one time.
            most_of_table: The most of them at one table.
        """
        self._seconds = seconds
        self._most = most
        self._most_of_table = most_of_table
        self._most_bytes = most_bytes
        self._running: dict[tuple[str, Hashable], Future[Any]] = {}
        # Threads are used again: each has a connection of its own to a metastore.
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        self._lock = threading.Lock()

    async def answer(self, table: str, kind: Hashable, read: Callable[[], T]) -> T:
        """Look into a table for a route.

        Args:
            table: The table.
            kind: Distinguishes looks at the table: equal looks at the same time are one.
            read: Opens the files.

        Raises:
            StorageUnreachable: It takes too long, or too many others are looked into.
        """
        reading = asyncio.wrap_future(self._start(table, kind, read))
        try:
            return await asyncio.wait_for(reading, self._seconds)
        except TimeoutError as error:
            raise self._timed_out(table) from error

    def wait(self, table: str, read: Callable[[], T]) -> T:
        """Look into a table for a thread that may wait; see ``answer``."""
        reading = self._start(table, object(), read)
        try:
            return reading.result(self._seconds)
        except TimeoutError as error:
            raise self._timed_out(table) from error

    def _start(self, table: str, kind: Hashable, read: Callable[[], T]) -> "Future[T]":
        key = table, kind
        with self._lock:
            if key in self._running:
                return self._running[key]
            of_table = sum(busy_table == table for busy_table, _ in self._running)
            if len(self._running) >= self._most or of_table >= self._most_of_table:
                raise StorageUnreachable(
                    f"{table} is not read now, because {len(self._running)} earlier reads for the "
                    f"page have not ended, {of_table} of them of this table.",
                    remedy=f"Try again later. {_REMEDY}",
                )
            reading: Future[T] = Future()
            reading.set_running_or_notify_cancel()  # A caller that gives up ends it for no other.
            self._running[key] = reading
            tasks = self._idle.pop() if self._idle else _new_thread()
        tasks.put(partial(self._run, tasks, key, read, reading))
        return reading

    def _run(
        self,
        tasks: "SimpleQueue[Callable[[], None]]",
        key: tuple[str, Hashable],
        read: Callable[[], T],
        reading: "Future[T]",
    ) -> None:
        report_end: Callable[[], None]
        try:
            with foreign_bytes(self._most_bytes):
                report_end = partial(reading.set_result, read())
        except BaseException as error:  # noqa: BLE001
            report_end = partial(reading.set_exception, error)  # A panic in Rust is no Exception.
        with self._lock:
            del self._running[key]
            self._idle.append(tasks)
        report_end()

    def _timed_out(self, table: str) -> StorageUnreachable:
        return StorageUnreachable(
            f"{table} was not read within {self._seconds:g} seconds.", remedy=_REMEDY
        )


def _new_thread() -> "SimpleQueue[Callable[[], None]]":
    tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def work() -> None:
        while True:
            tasks.get()()

    # A daemon: a store that never answers must not keep the process from ending.
    threading.Thread(target=work, name="hiveacid-files", daemon=True).start()
    return tasks


# Background measurement of a metastore's tables, so that requests do not wait for it


log = logging.getLogger(__name__)
# However many users force it, so much time is between two measurements.
_FORCED_SECONDS = 10.0
# Interval between the partial results of a first measurement.
_PARTIAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The results at a moment.

    Attributes:
        tables: The tables; during the first measurement those that it has measured so far. None
            before any is measured.
        at: The time of the last complete measurement in seconds since 1970; None before the first.
        seconds: Its duration.
        running: Whether another measurement is running.
        done: The number of tables that it has measured so far.
        error: The reason why the latest attempt failed; the tables are then from an earlier one.
    """

    tables: tuple[TableHealth, ...] | None = None
    at: float | None = None
    seconds: float | None = None
    running: bool = False
    done: int = 0
    error: ErrorReport | None = None


class Measuring:
    """Measures on request; a request returns the available results at once.

    A request for results older than the refresh interval starts a new measurement, and the old
    results are shown until it ends. Without requests, nothing is measured.
    """

    def __init__(
        self,
        measure: Callable[[], Iterable[TableHealth]],
        refresh_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            measure: Yields the health of every table; runs in one thread at a time.
            refresh_seconds: The maximum age of the figures.
            clock: Returns the time in seconds since 1970.
        """
        self._measure = measure
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._known = Measured()
        self._tried_at: float | None = None
        self._lock = threading.Lock()

    def latest(self, *, refresh: bool = False) -> Measured:
        """Return the available results; measure in the background if they are too old.

        Args:
            refresh: Measure again regardless of age. All users together are limited: between two
                measurements are 10 seconds, or as many as the last one took.
        """
        with self._lock:
            now = self._clock()
            forced = max(self._known.seconds or 0, _FORCED_SECONDS)
            age = min(forced, self._refresh_seconds) if refresh else self._refresh_seconds
            # Also where the clock was set back.
            due = self._tried_at is None or not 0 <= now - self._tried_at < age
            if due and not self._known.running:
                self._known = replace(self._known, running=True, done=0)
                threading.Thread(target=self._run, name="hiveacid-health", daemon=True).start()
            return self._known

    def _run(self) -> None:
        start, tables, error = self._clock(), [], None
        next_partial = start
        try:
            for health in self._measure():
                tables.append(health)
                # Assigned whole, by this thread alone while it runs.
                self._known = replace(self._known, done=len(tables))
                if self._known.at is None and self._clock() >= next_partial:
                    self._known = replace(self._known, tables=tuple(tables))
                    next_partial = self._clock() + _PARTIAL_SECONDS
        except BaseException as failure:  # noqa: BLE001
            # Any error is shown; it must not stop later measurements. A panic of a client that is
            # written in Rust is no Exception.
            log.warning("The Hive ACID tables could not be measured: %s", failure)
            error = ErrorReport.of(failure)
        with self._lock:
            now = self._tried_at = self._clock()
            if error is None:
                self._known = Measured(tuple(tables), now, now - start)
            else:
                complete = None if self._known.at is None else self._known.tables
                self._known = replace(
                    self._known, tables=complete, running=False, done=0, error=error
                )


_SECTION = "hive_acid"
# A user waits for an answer on one table.
PATIENCE_SECONDS = 20
# In the background a table has more time: listing hundreds of thousands of files takes some minutes.
_MEASURING = FileAccess(600, most_of_table=1, most_bytes=64 << 20)
# A limit for browsers: a write may have thousands of partitions.
_MOST_DIRECTORIES, _MOST_NAMES = 1000, 5


class Metastore:
    """A metastore whose tables are on the page.

    Attributes:
        measuring: The health of its tables.
    """

    def __init__(self, conn_id: str, refresh_seconds: float) -> None:
        """Prepare; nothing is connected yet.

        Args:
            conn_id: The Airflow connection.
            refresh_seconds: How old the figures may be.
        """
        self.measuring = Measuring(self._measure, refresh_seconds)
        self._conn_id = conn_id
        self._meter: HealthMeter | None = None
        self._client: MetastoreClient | None = None
        self._measured_with: tuple[MetastoreOptions, CompactionPolicy] | None = None
        self._erasures: dict[str, KnownErasures] = {}

    def history(self, table: str) -> list[HistoryEntry]:
        """The newest writes and compactions of a table, looked up now.

        Args:
            table: "database.table".

        Raises:
            HiveAcidError: They cannot be read, or not soon enough.
        """
        ref = TableRef.parse(table)
        with self._connect() as client:
            entries = table_history(client, ref, seconds=client.options.read_timeout_seconds)
        entries_with_limits, remaining = [], _MOST_DIRECTORIES
        for entry in entries:
            directories = entry.directories[:remaining]
            remaining -= len(directories)
            names = entry.partitions[:_MOST_NAMES]
            entries_with_limits.append(replace(entry, directories=directories, partitions=names))
        return entries_with_limits

    def directories(self, table: str, write_id: int) -> list[HistoryDirectory]:
        """The directories of one write, with their rows, looked up now.

        Args:
            table: "database.table".
            write_id: The write.

        Raises:
            HiveAcidError: They cannot be read, or not soon enough.
        """
        ref = TableRef.parse(table)
        with self._connect() as client:
            seconds = client.options.read_timeout_seconds
            return version_directories(client, ref, write_id, seconds=seconds)

    def oldest(self, table: str) -> OldestVersion:
        """The oldest version of a table that can be read, looked up now.

        Args:
            table: "database.table".

        Raises:
            HiveAcidError: It cannot be determined, or not soon enough.
        """
        with self._connect() as client:
            return oldest_version(client, TableRef.parse(table))

    def streams(self, table: str) -> list[StreamState]:
        """Return the current progress of the streams into a table, the last to report first.

        Args:
            table: "database.table".

        Raises:
            HiveAcidError: The progress cannot be read.
        """
        with self._connect() as client:
            folder = client.get_table(TableRef.parse(table)).folder
        states = stream_states(ReadOnlyStorage.of(folder))
        return sorted(states, key=lambda state: state.told_at, reverse=True)

    def mirrors(self, table: str) -> tuple[KnownMirror, ...]:
        """Return the mirrors of a table in Iceberg with their current lag.

        Args:
            table: "database.table".

        Raises:
            HiveAcidError: The notes of their runs cannot be read.
        """
        ref = TableRef.parse(table)
        with self._connect() as client:
            described = client.get_table(ref)
            now = Snapshot.take(client, [ref]).write_ids[ref.full_name]
        return known_mirrors(described, now, time.time(), SigningKey.readable())

    def staged(self, table: str) -> list[KnownStagedChange]:
        """Return the staged changes of a table, which wait for an approval.

        Args:
            table: "database.table".

        Raises:
            HiveAcidError: They cannot be read.
        """
        with self._connect() as client:
            description = client.get_table(TableRef.parse(table))
        return StagedChangeFolder(description, only_shows=True).known()

    def erasures(self, folder: str) -> list[KnownErasure]:
        """Return the requests to erase keys.

        Args:
            folder: The folder of requests.

        Raises:
            HiveAcidError: They cannot be read.
        """
        location = self._allowed(folder)
        return self._erasures.setdefault(folder, KnownErasures(location)).read()

    def certificate(self, folder: str, request: str) -> Certificate | None:
        """Return the certificate of a request; None before it is issued.

        Args:
            folder: The folder of requests.
            request: The name of the request.

        Raises:
            HiveAcidError: It cannot be read, or is that of another request.
        """
        content = ErasureFolder(self._allowed(folder), None).open(request).certificate()
        certificate = None if content is None else Certificate.parse(content, request)
        if certificate is not None and certificate.request != request:
            raise CorruptFile(f"The certificate of the request {request} is of another request.")
        return certificate

    def _allowed(self, location: str) -> Location:
        return AllowedLocations.parse(self._options().allowed_locations or "").require(location)

    def _connect(self) -> MetastoreClient:
        options = self._options()
        patience = min(options.read_timeout_seconds, PATIENCE_SECONDS)
        return MetastoreClient(replace(options, read_timeout_seconds=patience))

    def _options(self) -> MetastoreOptions:
        """The metastore, with the locations that the page may open: no client leads to others."""
        options = HiveAcidMetastoreHook(self._conn_id).options()
        allowed: str = conf.get(_SECTION, "page_locations", fallback="").strip()
        options = replace(options, allowed_locations=allowed or options.allowed_locations)
        options.validate()
        return options

    def _measure(self) -> Iterator[TableHealth]:
        # A connection may be edited while this runs; its cached tables are then discarded.
        settings = self._options(), page_policy()
        if self._meter is None or self._client is None or settings != self._measured_with:
            self._client = MetastoreClient(settings[0])
            self._meter = HealthMeter(self._client, settings[1], self._within_time)
            self._measured_with = settings
        with self._client:
            yield from self._meter.measure()

    def _within_time(self, table: str, read: Callable[[], Any]) -> Any:
        return _MEASURING.wait(f"{self._conn_id} {table}", read)


@cache
def metastore_of(conn_id: str) -> Metastore:
    """Return the metastore of a connection, shared by all requests.

    Args:
        conn_id: One of ``page_connections``.
    """
    return Metastore(conn_id, conf.getfloat(_SECTION, "page_refresh_seconds", fallback=60.0))


def page_dag() -> str | None:
    """The DAG that the page's buttons start."""
    configured: str = conf.get(_SECTION, "page_dag", fallback="")
    return configured.strip() or None


def erasure_folder() -> str | None:
    """The folder of requests to erase keys."""
    configured: str = conf.get(_SECTION, "erasures", fallback="")
    return configured.strip() or None


def instance_id() -> str:
    """Return the prefix of this Airflow's run tokens, where several share one metastore."""
    configured: str = conf.get(_SECTION, "instance_id", fallback="")
    return configured.strip()


def page_policy() -> CompactionPolicy:
    """Return the page's thresholds for compactions.

    Raises:
        InvalidJob: The configuration is not a valid policy.
    """
    where = f"[{_SECTION}] page_policy"
    text: str = conf.get(_SECTION, "page_policy", fallback="{}")
    try:
        data = parse_json(text)
    except ValueError as error:
        raise InvalidJob(f"{where} is not JSON: {error}.") from error
    policy: CompactionPolicy = codec.decode(CompactionPolicy, data, where)
    policy.validate()
    return policy
