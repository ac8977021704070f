"""How far a command has come, in a terminal."""

import sys
from types import TracebackType
from typing import Self

from airflow_hiveacid.progress import Phase, PhaseObserver
from airflow_hiveacid.text.printable import printable, raw_stream


class Bar(PhaseObserver):
    """A bar on stderr: what a command is doing, how much of it is done, and for how long.

    Args:
        what: What the command does, until a step begins.
    """

    def __init__(self, what: str) -> None:
        # It comes with Airflow, and only who looks at a bar waits until it is loaded.
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
        """Whether somebody looks, who can see a line change."""
        return sys.stderr.isatty()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def step(self, name: str, seconds: float | None = None) -> None:
        """Show what is being done."""
        if seconds is None:
            self._progress.update(self._task, description=printable(name))

    def leave(self, phase: Phase, seconds: float) -> None:
        """Count what a cleaning has removed."""
        if phase is Phase.CLEAN:
            self.one_more()

    def work(self, done: int, total: int) -> None:
        """Show how much is done."""
        self._progress.update(self._task, completed=done, total=total)

    def one_more(self) -> None:
        """Count one more, of nobody knows how many."""
        self._progress.advance(self._task)
