"""Progress of a stream after each batch, and its results at the end."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hiveacid.jobs.reports.report import Report, TableReport


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """Progress of a stream after a batch.

    Attributes:
        name: The stream.
        query_id: Spark's id of its query.
        batch_id: The batch.
        txn_id: The transaction; None if an earlier attempt had applied the batch.
        write_ids: The write id of each written table.
        rows: Rows of the batch, as returned by the source.
        rows_per_second: The rate of their processing.
        seconds: From the planning of the batch to its commit.
        latency: The maximum time, in seconds, that a row which was not left behind can have waited
            until it could be read: from Spark's last check for rows before this batch to the
            commit. None for the first batch.
        backlog: Rows of the source that the batch did not process, if the source reports them.
        committed_at: The time of its commit, in seconds since 1970.
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
    """Result of one run of a stream.

    Attributes:
        name: The stream.
        query_id: Spark's id of its query.
        batches: The number of applied batches.
        last_batch: The last of them; None without a batch.
        rows: Rows returned by the source.
        rows_inserted: New rows, without those of updates.
        rows_updated: Changed rows.
        rows_deleted: Deleted rows, without those of updates.
        tables: The changes of each table.
        latency: The maximum wait of a row, see StreamProgress, at "p50", "p99" and "max" of the
            batches.
        backlog: Rows of the source that were not processed, if the source reports them.
        ended: Why the stream ended: "no more rows", "asked to" or "time".
        already_done: No batch was new: earlier attempts had applied them.
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

    def table_names(self) -> Iterator[str]:
        """Yield the target, and the tables of its changes."""
        yield self.target
        yield from (each.table for each in self.tables)
