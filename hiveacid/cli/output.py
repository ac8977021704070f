"""Output of commands: reports and times."""

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime

from hiveacid.jobs.reports.iceberg_report import IcebergCompareReport, IcebergExportReport
from hiveacid.jobs.reports.report import CleanReport, CompactReport, RunReport
from hiveacid.jobs.reports.script_report import ScriptReport
from hiveacid.rules.printable import print_lines, printable_lines
from hiveacid.rules.quantities import duration_in_words


def print_report(
    report: CleanReport
    | CompactReport
    | IcebergCompareReport
    | IcebergExportReport
    | RunReport
    | ScriptReport,
    lines: Iterable[str],
    *,
    as_json: bool,
) -> int:
    """Print a job's report to stdout, and its problems to stderr.

    Args:
        report: The job's report.
        lines: The same as text for people.
        as_json: Print the report itself instead, for programs.

    Returns:
        The exit status of the command.
    """
    for warning in report.warnings:
        print(f"hiveacid: warning: {warning}", file=sys.stderr)
    for line in [json.dumps(report.to_dict(), ensure_ascii=False)] if as_json else lines:
        print(line)
    if report.error is None:
        return 0
    problem = f"hiveacid: {report.error.message} {report.error.remedy}".rstrip()
    print_lines(printable_lines(problem), sys.stderr)
    return report.error.exit_code


def outcome_counts(report: CompactReport) -> Iterator[str]:
    """Yield the numbers of compacted, skipped and failed partitions, omitting zeros."""
    outcomes = [partition.outcome for partition in report.partitions]
    for outcome in ("compacted", "skipped", "failed"):
        if outcome in outcomes:
            yield f"{outcomes.count(outcome)} {outcome}"


def age_in_words(now: datetime, start: datetime | None) -> str:
    """Return the time since a start; empty if the start is unknown."""
    return "" if start is None else duration_in_words((now - start).total_seconds())


def iso_time(time: datetime | None) -> str | None:
    """A time as JSON has it."""
    return None if time is None else time.isoformat()
