"""What a stream has done: batch by batch while it runs, and altogether at its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hiveacid.jobs.report import Report, TableReport


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """How a stream is doing after a batch.

    Attributes:
        name: The stream.
        query_id: Spark's id of its query.
        batch_id: The batch.
        txn_id: The transaction; None when an earlier try had applied it.
        write_ids: The write id of each written table.
        rows: Rows of the batch, as the source gave them.
        rows_per_second: How fast they were worked off.
        seconds: From the planning of the batch to its commit.
        latency: The longest, in seconds, that a row which was not left behind can have waited until
            it could be read: from the last time that Spark had looked for rows before this batch
            to the commit. None of the first batch.
        backlog: Rows that the source had and that the batch left, where the source tells.
        committed_at: When it was committed, in seconds since 1970.
    """

    name: str
    query_id: str
    batch_id: int
    txn_id: int | None = None
    write_ids: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    rows_per_second: float = 0.0
    seconds: float = 0.0
    latency: float | None = None
    backlog: int | None = None
    committed_at: float | None = None

    def __str__(self) -> str:
        parts = [f"{self.rows} rows in {self.seconds:.1f} s, {self.rows_per_second:.0f} rows/s"]
        if self.latency is not None:
            parts.append(f"readable after at most {self.latency:.1f} s")
        if self.backlog is not None:
            parts.append(f"{self.backlog} rows behind")
        return f"batch {self.batch_id}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReport(Report):
    """What one run of a stream did.

    Attributes:
        name: The stream.
        query_id: Spark's id of its query.
        batches: How many batches were applied.
        last_batch: The last one of them; None when there was none.
        rows: Rows that the source gave.
        rows_inserted: New rows, without those of updates.
        rows_updated: Changed rows.
        rows_deleted: Deleted rows, without those of updates.
        tables: What was done to each table.
        latency: The longest wait of a row, see StreamProgress, at "p50", "p99" and "max" of the
            batches.
        backlog: Rows that the source had and that were left, where it tells.
        ended: Why the stream ended: "no more rows", "asked to" or "time".
        already_done: No batch was new: earlier tries had applied them.
    """

    job: str = "stream"
    name: str = ""
    query_id: str | None = None
    batches: int = 0
    last_batch: int | None = None
    rows: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    tables: tuple[TableReport, ...] = ()
    latency: Mapping[str, float] = field(default_factory=dict)
    backlog: int | None = None
    ended: str = ""
    already_done: bool = False
