"""Publication of a stream's state."""

import time
from contextlib import suppress
from dataclasses import replace

from hiveacid.errors import HiveAcidError, StorageError
from hiveacid.jobs.reports.stream_report import StreamProgress
from hiveacid.jobs.stream_job import StreamJob
from hiveacid.progress import PhaseObserver
from hiveacid.records.stream_places import StreamPlaces
from hiveacid.records.stream_state import StreamState

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
            before = self._places.read_state()
            if before is not None:
                self._state = replace(self._state, last=before.last)
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

    def end(self, why: str) -> None:
        """Record the successful end of the run."""
        self._state = replace(self._state, ended=why)
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
