"""Reports of runs, also of analyses and scripts: results of jobs, and XCom values of operators."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, JobFailed, without_secrets
from hiveacid.jobs import codec
from hiveacid.rules.cleaning import RETAINED_FOR
from hiveacid.rules.formats import Evidence, Obligation
from hiveacid.rules.texts import printable_lines

# The address of the documentation site, as `make docs` builds it.
DOCS_VARIABLE = "HIVEACID_DOCS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport(Evidence):
    """Error of a run.

    Attributes:
        id: The stable name of the kind of error.
        message: The problem and its location.
        remedy: The suggested action; may be empty.
        retryable: Whether the same job may succeed when it is run again unchanged.
        exit_code: The exit status of an application that ends with this error.
    """

    id: str
    message: str
    remedy: str = ""
    retryable: bool = False
    exit_code: int = 1

    def __post_init__(self) -> None:
        for name in ("message", "remedy"):
            object.__setattr__(self, name, without_secrets(getattr(self, name)))

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Describe any exception."""
        if isinstance(error, HiveAcidError):
            return cls(
                id=error.id,
                message=error.what,
                remedy=error.remedy,
                retryable=error.retryable,
                exit_code=error.exit_code,
            )
        return cls(id=type(error).__name__, message=str(error) or repr(error))

    @classmethod
    def joint(cls, errors: Sequence[Self], failed: str) -> Self | None:
        """Combine the errors of independent parts of a run.

        The result is retryable if one of the errors is: a retry processes only the parts that are
        left, and fails for good once only permanent errors remain.

        Args:
            errors: The errors of the failed parts.
            failed: The failed parts, "2 of 3 failed (p=1, p=2)".

        Returns:
            None without errors.
        """
        if not errors:
            return None
        error = next((candidate for candidate in errors if candidate.retryable), errors[0])
        return replace(error, message=f"{failed}: {error.message}")

    def exception(self) -> HiveAcidError:
        """Return the error as an exception; one of an unknown kind as JobFailed."""
        kinds = [HiveAcidError]
        for kind in kinds:
            kinds += kind.__subclasses__()
        kinds_by_name = {kind.__name__: kind for kind in kinds}
        return kinds_by_name.get(self.id, JobFailed)(self.message, remedy=self.remedy)

    def __str__(self) -> str:
        text = f"{self.id}: {self.message} {self.remedy}".strip()
        return "\n".join(printable_lines(f"{text} See {self.link}"))

    @property
    def lines(self) -> str:
        """The problem, the remedy, and the documentation in lines, for the end of a task's log."""
        parts = (f"{self.id}: {self.message}", self.remedy, f"See {self.link}")
        return "\n".join(line for part in parts if part for line in printable_lines(part))

    @property
    def link(self) -> str:
        """The documentation of this kind of error: a command, or an address by HIVEACID_DOCS."""
        site = os.environ.get(DOCS_VARIABLE, "").rstrip("/")
        return (
            f"{site}/docs/errors.html#{self.id.lower()}" if site else f"hiveacid errors {self.id}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Evidence):
    """Result of one run of a job, which is passed on as plain values.

    Attributes:
        job: The kind of job, "merge".
        target: The table, "database.table"; the first of several.
        seconds: Time spent in each phase.
        warnings: Information for the reader, although the run succeeded.
        error: The error of a failed run; None after success.
    """

    job: str
    target: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: ErrorReport | None = None

    def table_names(self) -> Iterator[str]:
        """Yield the names of all tables that the report claims to be written."""
        yield self.target

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON and XCom."""
        return codec.to_record(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the output of to_dict, of this version or of another one.

        Raises:
            InvalidJob: The data is not a report.
        """
        return codec.read_evidence(cls, data, "report")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """Changes of one table by one run of a job.

    Attributes:
        table: "database.table".
        rows_inserted: New rows, without those of updates.
        rows_updated: Changed rows.
        rows_deleted: Deleted rows, without those of updates.
        files: Data files that were published.
        bytes: Their size.
        partitions: The names of the changed partitions.
        column_mapping: The mapping of the columns of rewritten rows in their files, "position" or
            "name"; None if both give the same values.
        columns_added: The columns that ``merge_schema`` has added.
    """

    table: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files: int = 0
    bytes: int = 0
    partitions: tuple[str, ...] = ()
    column_mapping: str | None = None
    columns_added: tuple[str, ...] = ()

    def __add__(self, other: Self) -> Self:
        """Combine the reports of two statements on one table."""
        return replace(
            self,
            rows_inserted=self.rows_inserted + other.rows_inserted,
            rows_updated=self.rows_updated + other.rows_updated,
            rows_deleted=self.rows_deleted + other.rows_deleted,
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            partitions=tuple(sorted({*self.partitions, *other.partitions})),
            column_mapping=self.column_mapping or other.column_mapping,
            columns_added=(*self.columns_added, *other.columns_added),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRange(Obligation):
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
    """Commit by a second transaction, because the first one was lost at its commit.

    Attributes:
        txn_id: The transaction that was lost.
        why: The reason for its loss.
        rows: Rows and delete events that were not computed again.
        bytes: The size of their files.
        seconds: The duration of the second commit.
        seconds_saved: The time that reading and writing them had taken.
    """

    txn_id: int
    why: str
    rows: int
    bytes: int
    seconds: float
    seconds_saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of a check of written rows.

    Attributes:
        check: The name of the check.
        table: "database.table".
        severity: "error" or "warn".
        passed: Whether the check is satisfied.
        found: What was counted, or why the check is violated.
        failed_rows: The number of rows that violate it.
    """

    check: str
    table: str
    severity: str
    passed: bool
    found: str = ""
    failed_rows: int = 0

    @property
    def fails(self) -> bool:
        """Whether the write must not become visible."""
        return not self.passed and self.severity != "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(Report):
    """Changes of all tables by one run of a job.

    Attributes:
        txn_id: The transaction; None if none was opened.
        write_ids: The write id of each written table.
        rows_inserted: New rows, without those of updates.
        rows_updated: Changed rows.
        rows_deleted: Deleted rows, without those of updates.
        files: Data files that were published.
        bytes: Their size.
        partitions: The names of the changed partitions of the target.
        column_mapping: The mapping of the columns of rewritten rows in the target's files,
            "position" or "name"; None if both give the same values.
        columns_added: The columns that ``merge_schema`` has added to the target.
        tables: The changes of each table.
        changes: The versions whose changes were read, if the job named them by write ids.
        offsets: A digest of the offsets of a stream's batch; None for other runs.
        restarts: The number of restarts of the run because the table changed.
        commit_retry: The commit by a second transaction; None if the first one succeeded.
        checks: The results of the checks.
        already_done: An earlier attempt had already committed; this run changed nothing.
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
    columns_added: tuple[str, ...] = ()
    tables: tuple[TableReport, ...] = ()
    changes: tuple[ChangesRange, ...] = ()
    offsets: str | None = None
    restarts: int = 0
    commit_retry: CommitRetry | None = None
    checks: tuple[CheckResult, ...] = ()
    already_done: bool = False

    def table_names(self) -> Iterator[str]:
        """Yield the target, and the tables of its changes, its checks, and its write ids."""
        yield self.target
        yield from (table.table for table in self.tables)
        yield from (check.table for check in self.checks)
        yield from self.write_ids

    def with_checks(self, results: Sequence[CheckResult]) -> Self:
        """Add the results of checks, and a warning for each that is violated."""
        warnings = [
            f"The check {result.check} of {result.table} fails: {result.found or 'it is violated'}."
            for result in results
            if not result.passed
        ]
        return replace(self, checks=tuple(results), warnings=(*self.warnings, *warnings))

    def short_record(self) -> dict[str, Any]:
        """Return the report as plain values with the numbers of partitions instead of their names.

        It is part of the note of each written directory, so that its size must not depend on the
        number of directories.
        """
        record = self.to_dict()
        for part in (record, *record["tables"]):
            part["partition_count"] = len(part.pop("partitions"))
        return record


def by_table(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Split a report in plain values into one for each written table.

    Args:
        report: The output of ``to_dict`` of any report.
    """
    tables = report.get("tables") or ()
    if len(tables) < 2:
        return [report]
    return [{**report, **table, "target": table["table"]} for table in tables]


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """Difference of a partition between two versions, in rows.

    Attributes:
        partition: The name of the partition; None for a table without partitions.
        inserted: Rows only in the second version.
        deleted: Rows only in the first version.
    """

    partition: str | None
    inserted: int
    deleted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionProof:
    """Counts and digests that a compaction compared before its files became visible.

    A digest is a sum of hashes, in hexadecimal, which does not depend on the order of the rows. The
    input without deleted, aborted and repeated parts had the digest of the output.

    Attributes:
        rows_read: Rows in the replaced files.
        rows_deleted: Deleted rows among them.
        rows_aborted: Rows of aborted write ids among them.
        rows_written: Rows in the new files.
        rows_digest: The digest of their row ids; of their values for an insert-only table.
        events_read: Delete events in the replaced files, if they are kept as events.
        events_aborted: Events of aborted write ids among them.
        events_repeated: Events among them that name the same row as another event.
        events_written: Delete events in the new files.
        events_digest: The digest of the row ids in them.
        rows_encoded: Rows that were decoded and written again.
        values_digest: The digest of all their values.
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
    """Result of a compaction for one partition.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None for a table without partitions.
        type: "minor" or "major"; None if neither was required.
        outcome: "compacted", "skipped" or "failed".
        reason: The reason for or against the compaction.
        txn_id: The transaction; None if none was opened.
        published: The written directories.
        replaced: The directories that these replace.
        rows: Rows that were written.
        deletes: Delete events that were written.
        bytes_read: The size of the replaced files.
        bytes_written: The size of the published files.
        stripes_copied: Stripes that were copied unchanged.
        stripes_encoded: Stripes that had to be decoded.
        proof: The proof; None if nothing was published.
        seconds: Time spent in each phase.
        warnings: Information for the reader, although it succeeded.
        error: The error; None after success.
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
    """Result of one run of a compaction.

    Attributes:
        partitions: Every examined partition.
        already_done: An earlier attempt had already finished; this run changed nothing.
    """

    job: str = "compact"
    partitions: tuple[PartitionReport, ...] = ()
    already_done: bool = False


@dataclass(frozen=True, slots=True)
class RemovedDirectory:
    """Removed directory or note; in a dry run one that would be removed.

    Attributes:
        path: Relative to the folder of the table, or absolute for another location.
        bytes: The size of its files.
        why: The reason for the removal.
    """

    path: str
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class KeptDirectory:
    """Directory that was kept although it might appear to be removable.

    Attributes:
        path: Relative to the folder of the table, or absolute for another location.
        reason: The reason, with the transactions, locks or consumers that still need it.
        bytes: The size of its files.
        waits_for: "reader", "writer", "retention", "consumer", or "staged change", whose end will
            make it removable; empty if someone must act.
    """

    path: str
    reason: str
    bytes: int = 0
    waits_for: str = ""

    @property
    def retained(self) -> bool:
        """Whether it was kept only for earlier versions, or for consumers of changes."""
        return self.waits_for in RETAINED_FOR


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanReport(Report):
    """Result of one run of a cleaning.

    Attributes:
        dry_run: Nothing was actually removed.
        removed: The removed directories and notes.
        kept: The kept directories, with reasons.
        bytes: The size of the removed files.
        bytes_retained: The size of directories kept only for readers of earlier versions.
        oldest_version: The oldest version such that it and all later ones can be read after the
            cleaning; 0 if none is gone, None after a cleaning of some partitions only.
        oldest_version_at: Its time, in seconds since 1970, if known.
        requests_cleaned: The requests of HMS 4's queue that were marked as cleaned.
        already_done: An earlier attempt had already finished; this run changed nothing.
        txn_id: The transaction of the cleaning; None for a dry run.
    """

    job: str = "clean"
    dry_run: bool = False
    removed: tuple[RemovedDirectory, ...] = ()
    kept: tuple[KeptDirectory, ...] = ()
    bytes: int = 0
    bytes_retained: int = 0
    oldest_version: int | None = None
    oldest_version_at: float | None = None
    requests_cleaned: tuple[int, ...] = ()
    already_done: bool = False
    txn_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedColumn:
    """Stored statistics of a column.

    Attributes:
        name: The column.
        nulls: The number of nulls.
        low: The smallest value; None if the metastore stores none for the type, or all are null.
        high: The largest value.
    """

    name: str
    nulls: int
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedPartition:
    """Statistics of a partition, or of a table without partitions.

    Attributes:
        partition: The name of the partition; None for a table without partitions.
        rows: The number of visible rows.
        files: The files that a reader opens.
        bytes: Their size.
        columns: The statistics of columns.
        omitted: Why other columns have no statistics.
        stripes: The stripes of its ORC files.
        stripes_decoded: The decoded stripes, because the tails of their files were insufficient.
        accurate: Whether the metastore marks these statistics as exact for readers.
    """

    partition: str | None
    rows: int
    files: int
    bytes: int
    columns: tuple[AnalyzedColumn, ...] = ()
    omitted: Mapping[str, str] = field(default_factory=dict)
    stripes: int = 0
    stripes_decoded: int = 0
    accurate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeReport(Report):
    """Results of one run of an AnalyzeJob.

    Attributes:
        txn_id: The transaction.
        write_id: The write id of the stored statistics.
        partitions: The results for each partition.
    """

    job: str = "analyze"
    txn_id: int | None = None
    write_id: int | None = None
    partitions: tuple[AnalyzedPartition, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows of all partitions."""
        return sum(partition.rows for partition in self.partitions)

    def as_run(self) -> RunReport:
        """Return a short form, as the report of a statement of a script."""
        return RunReport(
            job=self.job,
            target=self.target,
            txn_id=self.txn_id,
            write_ids={} if self.write_id is None else {self.target: self.write_id},
            partitions=tuple(
                partition.partition
                for partition in self.partitions
                if partition.partition is not None
            ),
            seconds=self.seconds,
            warnings=(*self.warnings, *self._omissions()),
        )

    def _omissions(self) -> list[str]:
        reasons: dict[str, str] = {}
        for partition in self.partitions:
            for column, reason in partition.omitted.items():
                reasons.setdefault(column, reason)
        return [
            f"No statistics of the column {name}: {reason}." for name, reason in reasons.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementReport:
    """Result of one statement.

    Attributes:
        run: The report of a statement that changed rows or defined a table.
        compaction: The report of a compaction.
    """

    run: RunReport | None = None
    compaction: CompactReport | None = None

    @classmethod
    def of(cls, report: RunReport | CompactReport) -> Self:
        """Wrap a report of either kind."""
        if isinstance(report, CompactReport):
            return cls(compaction=report)
        return cls(run=report)

    @property
    def report(self) -> RunReport | CompactReport:
        """The report of either kind."""
        report = self.compaction if self.run is None else self.run
        assert report is not None
        return report


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReport(Report):
    """Result of one run of a script.

    Attributes:
        statements: The results of the statements, up to one that failed.
        already_done: An earlier attempt had already finished; this run changed nothing.
    """

    job: str = "script"
    statements: tuple[StatementReport, ...] = ()
    already_done: bool = False

    def table_names(self) -> Iterator[str]:
        """Yield the target, and the tables of all statements."""
        yield self.target
        for statement in self.statements:
            report = statement.run or statement.compaction
            yield from ("",) if report is None else report.table_names()

    @classmethod
    def of(
        cls,
        target: str,
        reports: Sequence[RunReport | CompactReport],
        error: ErrorReport | None = None,
    ) -> Self:
        """Put the reports of statements together."""
        seconds: dict[str, float] = {}
        for report in reports:
            for phase, spent in report.seconds.items():
                seconds[phase] = seconds.get(phase, 0) + spent
        failed = [report.error for report in reports if report.error is not None]
        return cls(
            target=target,
            statements=tuple(map(StatementReport.of, reports)),
            seconds=seconds,
            warnings=tuple(warning for report in reports for warning in report.warnings),
            already_done=bool(reports) and all(report.already_done for report in reports),
            error=error or next(iter(failed), None),
        )
