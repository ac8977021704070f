"""Observers that step in at a phase of a write, where a race has to happen for sure."""

from collections.abc import Callable
from typing import Any

from hiveacid.progress import Phase, PhaseObserver


class At(PhaseObserver):
    """An observer that does something when a phase is entered, for the first times."""

    def __init__(self, phase: Phase, action: Callable[[], Any], times: int = 1) -> None:
        self.phase, self.action, self.times = phase, action, times

    def enter(self, phase: Phase) -> None:
        if phase is self.phase and self.times > 0:
            self.times -= 1
            self.action()
