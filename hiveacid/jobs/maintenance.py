"""Maintenance of many tables in one task: its settings, and its report."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.compaction_need import CompactionNeed
from hiveacid.jobs.field_checks import freeze, require_list, require_text
from hiveacid.jobs.reports.report import ErrorReport
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, WorkerLimits
from hiveacid.rules.names import TableRef
from hiveacid.rules.quantities import bytes_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Settings of the maintenance of all tables that match patterns.

    Attributes:
        tables: Names or patterns: "sales.orders", "sales.*".
        policy: The rules for partitions that are worth compacting.
        budget: The limits of this run for all tables together.
        worker: The limits of one compaction in the worker; a larger one is left for Spark.
        parallel: The number of tables that are maintained concurrently.
        lock_wait_seconds: The maximum waiting time for each lock.
    """

    tables: Sequence[str]
    policy: CompactionPolicy = field(default_factory=CompactionPolicy)
    budget: Budget = field(default_factory=Budget)
    worker: WorkerLimits = field(default_factory=WorkerLimits)
    parallel: int = 2
    lock_wait_seconds: float = 300

    def __post_init__(self) -> None:
        freeze(self, "tables")

    def validate(self) -> None:
        """Raise InvalidJob if a setting is invalid; contacts no server."""
        require_list(self.tables, "tables", 'tables=["sales.*"]')
        if not self.tables:
            raise InvalidJob(
                "tables is empty.", remedy='Pass names or patterns, for example ["sales.*"].'
            )
        for pattern in self.tables:
            require_text(pattern, "tables")
            TableRef.parse(pattern)
        self.policy.validate()
        self.budget.validate()
        self.worker.validate()
        if self.parallel < 1:
            raise InvalidJob("parallel must be at least 1.")
        if self.lock_wait_seconds < 0:
            raise InvalidJob("lock_wait_seconds must not be negative.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedWork:
    """A compaction that is useful, or could be, and was not run.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None for a table, or for all of its partitions.
        reason: The reason.
    """

    table: str
    partition: str | None = None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMaintenance:
    """Result of the maintenance of one table.

    Attributes:
        table: "database.table".
        compacted: The number of compacted partitions; 1 for a table without partitions.
        bytes_read: The size of the replaced files.
        bytes_written: The size of the published files.
        removed: The number of removed directories and notes.
        bytes_removed: Their size.
        seconds: The duration.
        warnings: Information for the reader.
        error: The error; None after success.
    """

    table: str
    compacted: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    removed: int = 0
    bytes_removed: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    error: ErrorReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """Result of the maintenance of many tables.

    Attributes:
        surveyed: The number of tables that match the patterns.
        tables: The tables that were compacted or cleaned, or that failed.
        skipped: The work that was not run, with the reasons.
        on_spark: The compactions that require Spark, in one group for each table and type, for
            ``.expand(need=...)`` of HiveAcidCompactOperator.
    """

    surveyed: int
    tables: tuple[TableMaintenance, ...] = ()
    skipped: tuple[SkippedWork, ...] = ()
    on_spark: tuple[tuple[CompactionNeed, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON and XCom."""
        return codec.to_record(self)

    @property
    def summary(self) -> str:
        """The result in a line."""
        compacted = sum(each.compacted for each in self.tables)
        removed = sum(each.bytes_removed for each in self.tables)
        waiting = sum(map(len, self.on_spark))
        parts = (
            f"tables: {self.surveyed} surveyed",
            f"partitions: {compacted} compacted",
            waiting and f"{waiting} left for Spark",
            self.skipped and f"{len(self.skipped)} skipped",
            f"{bytes_in_words(removed)} removed",
        )
        return ", ".join(part for part in parts if part)

    @property
    def error(self) -> ErrorReport | None:
        """The failures of all tables as one error; None if no table failed."""
        failed = [each for each in self.tables if each.error is not None]
        names = ", ".join(each.table for each in failed)
        return ErrorReport.joint(
            [each.error for each in failed if each.error is not None],
            f"{len(failed)} of {self.surveyed} tables failed ({names})",
        )
