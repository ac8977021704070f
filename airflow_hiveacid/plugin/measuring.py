"""Background measurement of a metastore's tables, so that requests do not wait for it."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hiveacid.jobs.reports.report import ErrorReport
from hiveacid.upkeep.health_score import TableHealth

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
            due = self._tried_at is None or now - self._tried_at >= age
            if due and not self._known.running:
                self._known = replace(self._known, running=True, done=0)
                threading.Thread(target=self._run, name="hiveacid-health", daemon=True).start()
            return self._known

    def _run(self) -> None:
        begun, tables, error = self._clock(), [], None
        next_partial = begun
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
                self._known = Measured(tuple(tables), now, now - begun)
            else:
                complete = None if self._known.at is None else self._known.tables
                self._known = replace(
                    self._known, tables=complete, running=False, done=0, error=error
                )
