"""Output of commands: reports and times."""

import io
import json
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import datetime
from typing import Self

from hiveacid.jobs.report import CompactReport, Report
from hiveacid.progress import Phase, PhaseObserver, watching
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.texts import (
    aligned,
    duration_in_words,
    plural,
    print_lines,
    printable,
    printable_lines,
    raw_stream,
)

# Tables as wide as the terminal and in its colours; plain for programs, and by NO_COLOR


# Single words in a cell, and their styles.
_STYLES = {
    **dict.fromkeys(("ok", "compacted", "acquired", "current", "removed"), "green"),
    **dict.fromkeys(("waiting", "skipped", "kept", "obsolete"), "yellow"),
    **dict.fromkeys(("wrong", "failed", "aborted", "unreadable"), "red"),
}
_GAP = 2
# The column with the longest texts can be folded to this width.
_NARROWEST = 24


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    *,
    one_line: bool = False,
) -> None:
    """Print rows below the names of their columns.

    Where they are wider than the terminal, the column with the longest texts is folded; where that
    is not enough, each row is printed as a list of names and values.

    Args:
        head: The names.
        rows: The cells.
        right: The columns that are aligned to the right, by their numbers.
        one_line: End the last column at the edge of the terminal instead of folding a column.
    """
    head = [printable(name) for name in head]
    rows = [[printable(cell) for cell in row] for row in rows]
    if not (sys.stdout.isatty() and _print_rich(head, rows, right, one_line=one_line)):
        print_lines(aligned([head, *rows], right))


def _print_rich(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int],
    *,
    one_line: bool,
) -> bool:
    try:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    width = shutil.get_terminal_size().columns
    console = Console(file=raw_stream(sys.stdout), width=width, highlight=False, soft_wrap=False)
    widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
    last = len(head) - 1
    widest = last if one_line else max(range(len(head)), key=lambda number: widths[number])
    least = _GAP * len(head) + sum(widths) - widths[widest] + min(widths[widest], _NARROWEST)
    if least > width:
        names = Table(box=None, show_header=False, padding=(0, _GAP, 0, 0))
        names.add_column(style="bold", no_wrap=True)
        names.add_column(overflow="fold")
        for number, row in enumerate(rows):
            if number:
                names.add_row()
            for name, cell in zip(head, row, strict=True):
                if cell:
                    names.add_row(Text(name), Text(cell, _STYLES.get(cell, "")))
        console.print(names)
        return True
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for number, name in enumerate(head):
        table.add_column(
            Text(name),
            justify="right" if number in right else "left",
            no_wrap=one_line or number != widest,
            overflow="ellipsis" if one_line else "fold",
        )
    for row in rows:
        table.add_row(*[Text(cell, _STYLES.get(cell, "")) for cell in row])
    console.print(table)
    return True


# Progress bar of a command in a terminal


class Bar(PhaseObserver):
    """A bar on stderr: a command's current step, its progress, and its elapsed time.

    Args:
        what: The description until the first step begins.
    """

    def __init__(self, description: str) -> None:
        # It comes with Airflow, and is loaded only if a bar is shown.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(file=raw_stream(sys.stderr), stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(description, total=None)

    @staticmethod
    def fits() -> bool:
        """Whether stderr is a terminal that can update a line."""
        return sys.stderr.isatty()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, name: str, seconds: float | None = None) -> None:
        """Show the current step."""
        if seconds is None:
            self._progress.update(self._task, description=printable(name))

    def leave(self, phase: Phase, seconds: float) -> None:
        """Count the objects that a cleaning has removed."""
        if phase is Phase.CLEAN:
            self.one_more()

    def work(self, completed_count: int, total: int) -> None:
        """Show the progress."""
        self._progress.update(self._task, completed=completed_count, total=total)

    def one_more(self) -> None:
        """Count one more object of an unknown total."""
        self._progress.advance(self._task)


@contextmanager
def progress_on_stderr(description: str) -> Iterator[Sequence[PhaseObserver]]:
    """Provide observers that show progress on stderr: a bar in a terminal, else a log.

    Args:
        description: The description until the first step begins.
    """
    if not Bar.fits():
        with redirect_stdout(sys.stderr):
            yield watching()
        return
    log = io.StringIO()
    try:
        with Bar(description) as bar, redirect_stdout(log):
            yield watching([bar])
    except BaseException:
        # The bar has shown the same in one line; after a failure each of them counts.
        print_lines(log.getvalue().splitlines(), sys.stderr)
        raise


def print_report(report: Report, lines: Iterable[str], *, as_json: bool) -> int:
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


# The partitions of a plan that a command prints


def first_decisions(decisions: Sequence[Decision], limit: int) -> list[Decision]:
    """Select the first decisions, and those on unreadable partitions, which need attention."""
    unreadable = [decision for decision in decisions[limit:] if decision.size.problem is not None]
    return [*decisions[:limit], *unreadable]


def print_rest(number: int) -> None:
    """Print the number of partitions that are not shown, if there are any."""
    if number:
        print(f"{plural(number, 'more partition')}; --limit N shows more.")
