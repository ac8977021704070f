"""How a stream is doing, for whoever looks at its table.

Nothing depends on it: what is applied, the place and the notes tell.
"""

import json
from dataclasses import dataclass
from typing import Self

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.stream_report import StreamProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """How a stream is doing, as its first table tells everybody who looks.

    Attributes:
        name: The stream.
        run_token: "dag/run/task/map index" of the Airflow task; None is somebody else's work.
        trigger: How often a batch begins, or "available_now".
        tables: The tables that it writes.
        started_at: When its last run began, in seconds since 1970.
        told_at: When its driver has last said something; while it runs it does so every minute.
        batches: How many batches the run has applied.
        rows: Rows that the source gave to it.
        last: Its last batch, which may be of an earlier run.
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

    def to_bytes(self) -> bytes:
        """The content of the state's file."""
        return json.dumps(codec.to_record(self)).encode()

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """Read a state; None when it is none."""
        try:
            return codec.from_record(cls, json.loads(content), "state")
        except (ValueError, RecursionError, InvalidJob):
            return None
