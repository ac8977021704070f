"""Progress bar of a command in a terminal."""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Self

from hiveacid.progress import Phase, PhaseObserver, watching
from hiveacid.rules.printable import print_lines, printable, raw_stream


class Bar(PhaseObserver):
    """A bar on stderr: a command's current step, its progress, and its elapsed time.

    Args:
        what: The description until the first step begins.
    """

    def __init__(self, what: str) -> None:
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
        self._task = self._progress.add_task(what, total=None)

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

    def work(self, done: int, total: int) -> None:
        """Show the progress."""
        self._progress.update(self._task, completed=done, total=total)

    def one_more(self) -> None:
        """Count one more object of an unknown total."""
        self._progress.advance(self._task)


@contextmanager
def progress_on_stderr(what: str) -> Iterator[Sequence[PhaseObserver]]:
    """Provide observers that show progress on stderr: a bar in a terminal, else a log.

    Args:
        what: The description until the first step begins.
    """
    if not Bar.fits():
        with redirect_stdout(sys.stderr):
            yield watching()
        return
    log = io.StringIO()
    try:
        with Bar(what) as bar, redirect_stdout(log):
            yield watching([bar])
    except BaseException:
        # The bar has shown the same in one line; after a failure each of them counts.
        print_lines(log.getvalue().splitlines(), sys.stderr)
        raise
