"""Results of a script, by statement."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from hiveacid.jobs.reports.report import CompactReport, ErrorReport, Report, RunReport


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
