"""What a run did: the answer of the Spark application, and the operator's XCom value."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.jobs import codec

# The address of the site of the docs, as `make docs` builds it.
DOCS_VARIABLE = "HIVEACID_DOCS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """Why a run failed.

    Attributes:
        id: The stable name of the kind of error.
        message: What happened, and where.
        remedy: What to do about it; may be empty.
        retryable: Whether the same job may succeed when it is simply run again.
        exit_code: The exit status of an application that ends with it.
    """

    id: str
    message: str
    remedy: str = ""
    retryable: bool = False
    exit_code: int = 1

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Describe any error."""
        if isinstance(error, HiveAcidError):
            return cls(
                id=error.id,
                message=error.what,
                remedy=error.remedy,
                retryable=error.retryable,
                exit_code=error.exit_code,
            )
        return cls(id=type(error).__name__, message=str(error) or repr(error))

    def __str__(self) -> str:
        told = f"{self.id}: {self.message} {self.remedy}".strip()
        return f"{told} See {self.link}"

    @property
    def link(self) -> str:
        """What says more about this kind of error: by its address, if HIVEACID_DOCS has that of the site."""
        site = os.environ.get(DOCS_VARIABLE, "").rstrip("/")
        page = f"{site}/docs/errors.html" if site else "docs/errors.md"
        return f"{page}#{self.id.lower()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one run of a job, which travels as plain values.

    Attributes:
        job: The kind of job, "merge".
        target: The table, "database.table"; of several the first.
        seconds: Time spent in each phase.
        warnings: What a reader should know although the run succeeded.
        error: Why the run failed; None when it succeeded.
    """

    job: str
    target: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: ErrorReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, fit for JSON and XCom."""
        return codec.to_record(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what to_dict made, in this version or in another one.

        Raises:
            InvalidJob: It is no report.
        """
        return codec.from_record(cls, data, "report")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What one run of a job did to one table.

    Attributes:
        table: "database.table".
        rows_inserted: New rows, without those of updates.
        rows_updated: Changed rows.
        rows_deleted: Deleted rows, without those of updates.
        files: Data files that were published.
        bytes: Their size.
        partitions: The names of the partitions that were touched.
        column_mapping: How the columns of rewritten rows were found in their files, "position" or
            "name"; None where both give the same values.
    """

    table: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files: int = 0
    bytes: int = 0
    partitions: tuple[str, ...] = ()
    column_mapping: str | None = None

    def __add__(self, other: Self) -> Self:
        """What two statements did to the same table."""
        return replace(
            self,
            rows_inserted=self.rows_inserted + other.rows_inserted,
            rows_updated=self.rows_updated + other.rows_updated,
            rows_deleted=self.rows_deleted + other.rows_deleted,
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            partitions=tuple(sorted({*self.partitions, *other.partitions})),
            column_mapping=self.column_mapping or other.column_mapping,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRange:
    """Versions of a table whose changes a run has read.

    Attributes:
        table: "database.table".
        after: The version before the changes.
        up_to: The version with the last of them.
    """

    table: str
    after: int
    up_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRetry:
    """What was committed by a second transaction, because the first one was lost at its commit.

    Attributes:
        txn_id: The transaction that was lost.
        why: What became of it.
        rows: Rows, and delete events, that did not have to be found again.
        bytes: The size of their files.
        seconds: How long it took to commit them once more.
        seconds_saved: How long it had taken to read and write them.
    """

    txn_id: int
    why: str
    rows: int
    bytes: int
    seconds: float
    seconds_saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(Report):
    """What one run of a job did, to all its tables together.

    Attributes:
        txn_id: The transaction; None when none was opened.
        write_ids: The write id of each written table.
        rows_inserted: New rows, without those of updates.
        rows_updated: Changed rows.
        rows_deleted: Deleted rows, without those of updates.
        files: Data files that were published.
        bytes: Their size.
        partitions: The names of the partitions of the target that were touched.
        column_mapping: How the columns of rewritten rows were found in the target's files, "position"
            or "name"; None where both give the same values.
        tables: What was done to each table.
        changes: The versions whose changes were read, where the job named them by write ids.
        offsets: A digest of the offsets of a stream's batch; None of other runs.
        restarts: How often the run began again because the table moved.
        commit_retry: What was committed by a second transaction; None when the first one did it.
        already_done: An earlier try had already committed; this run changed nothing.
    """

    txn_id: int | None = None
    write_ids: Mapping[str, int] = field(default_factory=dict)
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files: int = 0
    bytes: int = 0
    partitions: tuple[str, ...] = ()
    column_mapping: str | None = None
    tables: tuple[TableReport, ...] = ()
    changes: tuple[ChangesRange, ...] = ()
    offsets: str | None = None
    restarts: int = 0
    commit_retry: CommitRetry | None = None
    already_done: bool = False


def by_table(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A report as plain values, taken apart into one for each table that was written.

    Args:
        report: What ``to_dict`` of any report made.
    """
    tables = report.get("tables") or ()
    if len(tables) < 2:
        return [report]
    return [{**report, **table, "target": table["table"]} for table in tables]


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """How many rows of a partition differ between two versions.

    Attributes:
        partition: The name of the partition; None when the table has none.
        inserted: Rows that only the second version has.
        deleted: Rows that only the first one has.
    """

    partition: str | None
    inserted: int
    deleted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionProof:
    """What a compaction counted, and compared, before anybody could see its files.

    A digest is a sum of hashes, in hexadecimal: the same in whatever order the rows come. What was
    read, less what is deleted, aborted and repeated, had the digest of what was written.

    Attributes:
        rows_read: Rows in the files that were replaced.
        rows_deleted: Those of them that are deleted.
        rows_aborted: Those of aborted write ids.
        rows_written: Rows in the new files.
        rows_digest: Their row ids; of an insert-only table their values.
        events_read: Delete events in the files that were replaced, if they stay such.
        events_aborted: Those of aborted write ids.
        events_repeated: Those that name a row that another one names, too.
        events_written: Delete events in the new files.
        events_digest: The row ids that they name.
        rows_encoded: Rows that were decoded and written again.
        values_digest: All their values.
    """

    rows_read: int = 0
    rows_deleted: int = 0
    rows_aborted: int = 0
    rows_written: int = 0
    rows_digest: str = ""
    events_read: int = 0
    events_aborted: int = 0
    events_repeated: int = 0
    events_written: int = 0
    events_digest: str = ""
    rows_encoded: int = 0
    values_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """What became of one partition.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None when the table has none.
        type: "minor" or "major"; None when neither was called for.
        outcome: "compacted", "skipped" or "failed".
        reason: Why it was compacted, or why not.
        txn_id: The transaction; None when none was opened.
        published: The directories that were written.
        replaced: The directories that they stand for.
        rows: Rows that were written.
        deletes: Delete events that were written.
        bytes_read: The size of the files that were replaced.
        bytes_written: The size of the files that were published.
        stripes_copied: Stripes that were copied as they are.
        stripes_encoded: Stripes that had to be decoded.
        proof: What was counted; None when nothing was published.
        seconds: Time spent in each phase.
        warnings: What a reader should know although it went well.
        error: Why it failed; None when it did not.
    """

    table: str
    outcome: str
    reason: str
    partition: str | None = None
    type: str | None = None
    txn_id: int | None = None
    published: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    rows: int = 0
    deletes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    stripes_copied: int = 0
    stripes_encoded: int = 0
    proof: CompactionProof | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: ErrorReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport(Report):
    """What one run of a compaction did.

    Attributes:
        partitions: Every partition that was looked at.
        already_done: An earlier try had already done it; this run changed nothing.
    """

    job: str = "compact"
    partitions: tuple[PartitionReport, ...] = ()
    already_done: bool = False


@dataclass(frozen=True, slots=True)
class RemovedDirectory:
    """A directory, or a note, that is gone; in a dry run one that would go.

    Attributes:
        path: Relative to the folder of the table, or absolute when it lies elsewhere.
        bytes: The size of its files.
        why: What made it useless.
    """

    path: str
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class KeptDirectory:
    """A directory that stayed although it looks as if it might go.

    Attributes:
        path: Relative to the folder of the table, or absolute when it lies elsewhere.
        reason: Why it stayed, with whoever still needs it.
        bytes: The size of its files.
        retained: It stayed only for those who read earlier versions.
    """

    path: str
    reason: str
    bytes: int = 0
    retained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanReport(Report):
    """What one run of a cleaning did.

    Attributes:
        dry_run: Nothing was really removed.
        removed: What was removed.
        kept: What stayed, and why.
        bytes: The size of what was removed.
        bytes_retained: The size of what stayed only for those who read earlier versions.
        requests_cleaned: The requests of HMS 4's queue that were marked as cleaned.
        already_done: An earlier try had already done it; this run changed nothing.
    """

    job: str = "clean"
    dry_run: bool = False
    removed: tuple[RemovedDirectory, ...] = ()
    kept: tuple[KeptDirectory, ...] = ()
    bytes: int = 0
    bytes_retained: int = 0
    requests_cleaned: tuple[int, ...] = ()
    already_done: bool = False
