"""Maintenance of many tables in one process, without Spark: survey, compaction, and cleaning.

One survey selects the compactions of all tables within one budget. Small ones run here, several tables
concurrently; those that require Spark are returned. The failure of a table does not stop the others,
but the loss of the metastore does.
"""

import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeVar

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    AuthenticationFailed,
    HiveAcidError,
    MetastoreUnreachable,
    TableNotFound,
    UnsupportedTable,
    WrongTableKind,
)
from hiveacid.foreign.budget import Threads
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import (
    CleanJob,
    CompactionNeed,
    CompactJob,
    Maintenance,
    MaintenanceReport,
    SkippedWork,
    TableMaintenance,
    partitions_of,
)
from hiveacid.jobs.report import CleanReport, CompactReport, ErrorReport, Report
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import Locations
from hiveacid.metastore.table_rules import tables_of
from hiveacid.progress import PhaseObserver
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.compaction.placement import needs_spark, why_spark
from hiveacid.upkeep.compaction.scheduling import Scheduler
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.survey import Survey
from hiveacid.upkeep.table_cleaning import cleaning

# Every other table would wait for the metastore, and fail in the same way.
# Each has a transaction and a connection of its own.
_CLEANED_TOGETHER = 16
_LOST = (MetastoreUnreachable, AuthenticationFailed)

JobT = TypeVar("JobT", bound=Job)
_Item = TypeVar("_Item")


class JobObserver:
    """Base class of observers of the single jobs; subclasses override the events that they need."""

    def admit(self, table: TableRef) -> None:
        """Report a table before its survey; an error refuses the table, which then fails."""

    def begin(self, job: Job) -> None:
        """Report the beginning of a job; an error refuses the job, and its table then fails."""

    def end(
        self, job: Job, report: Report | None, error: HiveAcidError | None, seconds: float
    ) -> None:
        """Report the end of a job that was begun, or refused.

        Args:
            job: The job.
            report: Its report; None if the job raised the error.
            error: The error; None after success.
            seconds: The duration.
        """


@dataclass(slots=True)
class _TableWork:
    """The work on one table, and its result, which one thread at a time changes.

    Attributes:
        table: The table.
        needs: The compactions within the budget, by their type.
        has_obsolete_files: Whether a directory of the table waits for its removal.
        result: The result of the finished jobs.
        on_spark: The compactions that require Spark.
        skipped: The compactions that were not necessary any more, or that another process runs.
    """

    table: TableRef
    needs: dict[CompactionType, list[CompactionNeed]]
    result: TableMaintenance
    has_obsolete_files: bool = False
    on_spark: list[tuple[CompactionNeed, ...]] = field(default_factory=list)
    skipped: list[SkippedWork] = field(default_factory=list)

    @property
    def had_effect(self) -> bool:
        """Whether the table was compacted or cleaned, or failed."""
        return bool(self.result.compacted or self.result.removed or self.result.error)

    def leave_for_spark(self, type_: CompactionType, partitions: set[str | None]) -> None:
        """Record compactions that require Spark."""
        needs = tuple(need for need in self.needs[type_] if need.partition in partitions)
        if needs:
            self.on_spark.append(needs)

    def add_compactions(self, report: CompactReport, spark_partitions: set[str | None]) -> None:
        """Add a report, without the failures of the partitions that are left for Spark."""
        compacted = [
            partition for partition in report.partitions if partition.outcome == "compacted"
        ]
        for partition in report.partitions:
            if partition.outcome == "skipped":
                self.skipped.append(
                    SkippedWork(
                        table=partition.table,
                        partition=partition.partition,
                        reason=partition.reason,
                    )
                )
            elif partition.error is not None and partition.partition not in spark_partitions:
                self.add_error(partition.error)
        self.result = replace(
            self.result,
            compacted=self.result.compacted + len(compacted),
            bytes_read=self.result.bytes_read
            + sum(partition.bytes_read for partition in compacted),
            bytes_written=self.result.bytes_written
            + sum(partition.bytes_written for partition in compacted),
            warnings=(*self.result.warnings, *report.warnings),
        )

    def add_cleaning(self, report: CleanReport) -> None:
        """Add the report of a cleaning."""
        self.result = replace(
            self.result,
            removed=len(report.removed),
            bytes_removed=report.bytes,
            bytes_retained=report.bytes_retained,
            oldest_version=report.oldest_version,
            oldest_version_at=report.oldest_version_at,
            warnings=(*self.result.warnings, *report.warnings),
        )

    def add_error(self, error: ErrorReport) -> None:
        """Record a failure; the first one remains in the report."""
        self.result = replace(self.result, error=self.result.error or error)

    def add_seconds(self, seconds: float) -> None:
        """Add the duration of a job."""
        self.result = replace(self.result, seconds=round(self.result.seconds + seconds, 3))


class WarehouseMaintainer:
    """Compacts and cleans all tables that match the patterns of a maintenance."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: MetastoreClient,
        maintenance: Maintenance,
        observers: Sequence[PhaseObserver] = (),
        jobs: JobObserver | None = None,
        run_token: str | None = None,
    ) -> None:
        """Prepare a maintenance.

        Args:
            scheduler: Runs the tasks of the compactions.
            client: The metastore.
            maintenance: The settings.
            observers: Observers of every compaction.
            jobs: Observer of the single jobs.
            run_token: The name of the run's transactions; None without a name.
        """
        self._scheduler = scheduler
        self._client = client
        self._maintenance = maintenance
        self._observers = observers
        self._jobs = jobs or JobObserver()
        self._run_token = run_token
        self._locations = Locations(client)
        self._lock = threading.Lock()
        self._at_work: dict[TableRef, tuple[str, ...]] = {}
        self._stopped = False
        self._lost: HiveAcidError | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of the transactions of the tables at work."""
        with self._lock:
            return tuple(token for tokens in self._at_work.values() for token in tokens)

    def stop(self) -> None:
        """End all tasks, and begin no other table."""
        self._stopped = True
        self._scheduler.stop()

    def run(self) -> MaintenanceReport:
        """Survey all tables, then compact and clean those that need it.

        Raises:
            AuthenticationFailed: The metastore rejects the caller.
            MetastoreUnreachable: The metastore does not answer any more.
            TableNotFound: A database or a table that is named without a wildcard does not exist.
        """
        patterns = self._maintenance.tables
        tables = sorted({ref for pattern in patterns for ref in tables_of(self._client, pattern)})
        decisions, skipped, failed = self._survey(tables)
        ordered = rank(decisions, self._maintenance.budget)
        skipped += [
            SkippedWork(
                table=decision.size.table, partition=decision.size.partition, reason=decision.reason
            )
            for decision in ordered
            if decision.deferred or decision.size.problem or decision.size.auto_off
        ]
        works = _works(ordered)
        self._each(self._compact_table, works)
        # To a cleaning, an open transaction of another compaction is a reader of any older file.
        self._clean_tables(works)
        if self._lost is not None:
            raise self._lost
        return MaintenanceReport(
            surveyed=len(tables),
            tables=(*failed, *(work.result for work in works if work.had_effect)),
            skipped=(*skipped, *(reason for work in works for reason in work.skipped)),
            on_spark=tuple(group for work in works for group in work.on_spark),
        )

    def _each(self, run: Callable[[_Item], None], items: Iterable[_Item]) -> None:
        """Run a step for several tables concurrently."""
        with Threads(self._maintenance.parallel) as pool:
            running = [pool.submit(self._scheduler.in_thread(run), item) for item in items]
            try:
                for future in running:
                    future.result()
            except BaseException:
                self.stop()
                raise

    def _survey(
        self, tables: Sequence[TableRef]
    ) -> tuple[list[Decision], list[SkippedWork], list[TableMaintenance]]:
        """Return the decisions, the tables that cannot be compacted, and those that failed."""
        survey = Survey(self._client, self._maintenance.policy)
        decisions: list[Decision] = []
        skipped: list[SkippedWork] = []
        failed: list[TableMaintenance] = []
        admitted: list[TableRef] = []
        for ref in tables:
            try:
                self._jobs.admit(ref)
            except HiveAcidError as error:
                failed.append(TableMaintenance(table=ref.full_name, error=ErrorReport.of(error)))
            else:
                admitted.append(ref)
        named_tables = {
            TableRef.parse(pattern) for pattern in self._maintenance.tables if "*" not in pattern
        }
        for ref, outcome in survey.survey_tables(admitted):
            if not isinstance(outcome, HiveAcidError):
                decisions += outcome
            elif isinstance(outcome, TableNotFound) and ref not in named_tables:
                # It was dropped since its name was listed.
                continue
            elif (
                isinstance(outcome, (WrongTableKind, UnsupportedTable)) and ref not in named_tables
            ):
                skipped.append(SkippedWork(table=ref.full_name, reason=outcome.what))
            else:
                report = ErrorReport.of(outcome)
                failed.append(TableMaintenance(table=ref.full_name, error=report))
        return decisions, skipped, failed

    def _compact_table(self, work: _TableWork) -> None:
        for type_, needs in work.needs.items():
            job = CompactJob(
                target=work.table.full_name,
                partitions=partitions_of(needs),
                type=type_.value,
                reason=" ".join(dict.fromkeys(need.reason for need in needs)),
                worker=self._maintenance.worker,
                **self._options(),
            )
            for _ in self._steps(work, job, partial(self._compact, work, type_)):
                raise AssertionError("A compaction has one step.")

    def _compact(
        self, work: _TableWork, type_: CompactionType, job: CompactJob
    ) -> CompactReport | None:
        """Run a compaction; None if all of it is left for Spark."""
        if why_spark(self._client, job) is not None:
            work.leave_for_spark(type_, {need.partition for need in work.needs[type_]})
            return None
        report = TableCompactor(self._scheduler, self._client, job, self._observers).run()
        partitions = {
            partition.partition for partition in report.partitions if needs_spark(partition)
        }
        work.add_compactions(report, partitions)
        work.leave_for_spark(type_, partitions)
        return report

    def _clean_tables(self, works: Sequence[_TableWork]) -> None:
        """Clean tables in groups, each of which lists the locations of all tables once."""
        dirty = [work for work in works if work.result.compacted or work.has_obsolete_files]
        for start in range(0, len(dirty), _CLEANED_TOGETHER):
            group = [
                self._steps(work, job, partial(self._clean, work))
                for work in dirty[start : start + _CLEANED_TOGETHER]
                for job in [CleanJob(target=work.table.full_name, **self._options())]
            ]
            self._each(_go_on, group)
            # Only now, because a list from before may lack a new table.
            self._locations = Locations(self._client)
            self._each(_go_on, group)

    def _clean(self, work: _TableWork, job: CleanJob) -> Generator[None, None, CleanReport]:
        report = yield from cleaning(self._client, job, lambda: self._locations)
        work.add_cleaning(report)
        return report

    def _options(self) -> dict[str, Any]:
        return {
            "metastore": self._client.options,
            "run_token": self._run_token,
            "lock_wait_seconds": self._maintenance.lock_wait_seconds,
        }

    def _steps(
        self,
        work: _TableWork,
        job: JobT,
        run: Callable[[JobT], Report | Generator[None, None, Report] | None],
    ) -> Iterator[None]:
        """Run one job of a table, unless the maintenance has ended; its failure ends no other.

        Yields:
            Between the steps of a job that has several.
        """
        with self._lock:
            if self._stopped or self._lost is not None:
                return
            self._at_work[work.table] = job.tokens
        started = time.monotonic()
        try:
            self._jobs.begin(job)
            outcome = run(job)
            report = (yield from outcome) if isinstance(outcome, Generator) else outcome
            if report is not None:
                failure = None if report.error is None else report.error.exception()
                self._jobs.end(job, report, failure, time.monotonic() - started)
        except Exception as raised:  # noqa: BLE001 - the other tables go on
            ours = self._as_own_error(raised)
            work.add_error(ErrorReport.of(ours))
            self._jobs.end(job, None, ours, time.monotonic() - started)
        finally:
            with self._lock:
                del self._at_work[work.table]
            work.add_seconds(time.monotonic() - started)
        if work.result.error is not None:
            error = work.result.error.exception()
            if isinstance(error, _LOST):
                self._lost = error

    def _as_own_error(self, error: Exception) -> HiveAcidError:
        if isinstance(error, HiveAcidError):
            return error
        traceback.print_exception(error)  # It may be a bug of this package: print its location.
        return self._scheduler.translated(error)


def _go_on(steps: Iterator[None]) -> None:
    """Run the next step of a job, if there is another one."""
    next(steps, None)


def _works(decisions: Iterable[Decision]) -> list[_TableWork]:
    """Group the work by table: first the most useful compactions, then cleanings alone."""
    works: dict[str, _TableWork] = {}
    for decision in decisions:
        need = CompactionNeed.of(decision)
        obsolete = bool(decision.size.awaiting_removal)
        if need is None and not obsolete:
            continue
        name = decision.size.table
        new = _TableWork(TableRef.parse(name), {}, TableMaintenance(table=name))
        work = works.setdefault(name, new)
        work.has_obsolete_files |= obsolete
        if need is not None:
            work.needs.setdefault(CompactionType(need.type), []).append(need)
    return list(works.values())
