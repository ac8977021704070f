"""State of a stream, for display.

Nothing depends on it: the position and the notes determine the applied batches.
"""

from dataclasses import dataclass

from hiveacid.jobs.reports.stream_report import StreamProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """State of a stream, as stored in its first table.

    Attributes:
        name: The stream.
        run_token: "dag/run/task/map index" of the Airflow task; None without a task.
        trigger: The interval between batches, or "available_now".
        tables: The tables that it writes.
        started_at: The time when its last run began, in seconds since 1970.
        told_at: The time of its driver's last report; a running driver reports every minute.
        batches: The number of batches that the run has applied.
        rows: Rows that the source gave to it.
        last: Its last batch, which may belong to an earlier run.
        ended: Why the run ended: "no more rows", "asked to", "time" or "failed"; None while it runs.
        error: The id of the error that it failed with.
    """

    name: str
    run_token: str | None = None
    trigger: str = ""
    tables: tuple[str, ...] = ()
    started_at: float
    told_at: float
    batches: int = 0
    rows: int = 0
    last: StreamProgress | None = None
    ended: str | None = None
    error: str | None = None
