"""The phases of a run, and their observers: a log, a progress bar, tests, injected faults."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import ClassVar, Self

from airflow_hiveacid.errors import DiskFull, InvalidJob

FAULT_VARIABLE = "HIVEACID_FAULT"
# When an application was submitted, in seconds since 1970: for its report.
SUBMITTED_VARIABLE = "HIVEACID_SUBMITTED"
# How the lines of a PhaseLog begin, which tells them from all that Spark says.
PROGRESS = "hiveacid: "
# How often those who wait are told what goes on.
TELL_SECONDS = 10.0


class Phase(StrEnum):
    """The steps of a write or of a compaction, in their order; cleaning has one of its own."""

    OPEN = "open"
    LOCK = "lock"
    SNAPSHOT = "snapshot"
    READ = "read"
    WRITE = "write"
    REGISTER = "register"
    PUBLISH = "publish"
    COMMIT = "commit"
    CLEAN = "clean"


class PhaseObserver:
    """Is told what a run is doing; whoever inherits from it takes what it wants to know."""

    def step(self, name: str, seconds: float | None = None) -> None:
        """The same as the phases, for people: "read the source" begins, or has ended well.

        Args:
            name: The phase, and what it does here.
            seconds: How long it has taken, inner phases not counted; None is not ended yet.
        """

    def enter(self, phase: Phase) -> None:
        """A phase begins."""

    def leave(self, phase: Phase, seconds: float) -> None:
        """A phase ended well after so many seconds, inner phases not counted."""

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """A transaction was opened and got its write ids; nothing is done in it yet."""

    def note(self, text: str) -> None:
        """Something worth a line happened within a phase."""

    def work(self, done: int, total: int) -> None:
        """So many of all partitions are done, well or not."""

    def batch(self, progress: object) -> None:
        """A stream has applied one more batch."""


class PhaseClock:
    """Measures phases and tells observers: `with clock(Phase.READ, "the source"): ...`.

    A phase may come again (a restart) and may lie within another one: each second is counted once,
    for the innermost phase. One thread at a time uses a clock.
    """

    def __init__(
        self,
        observers: Sequence[PhaseObserver] = (),
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observers = tuple(observers)
        self._now = now
        self._seconds: dict[str, float] = {}
        self._inner: list[float] = []

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds spent in each phase so far, in the order of first entry."""
        return {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}

    @contextmanager
    def __call__(self, phase: Phase, what: str = "") -> Iterator[None]:
        """Spend the body of a with statement in a phase.

        Args:
            phase: The phase.
            what: What is read or written in it, since a run does that more than once.
        """
        name = f"{phase.value} {what}".rstrip()
        started = self._now()
        self._seconds.setdefault(phase.value, 0.0)
        self._inner.append(0.0)
        own = 0.0
        try:
            for observer in self._observers:
                observer.step(name)
                observer.enter(phase)
            yield
        finally:
            whole = self._now() - started
            own = whole - self._inner.pop()
            self._seconds[phase.value] += own
            if self._inner:
                self._inner[-1] += whole
        for observer in self._observers:
            observer.step(name, own)
            observer.leave(phase, own)

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Tell the observers of a transaction that was opened."""
        for observer in self._observers:
            observer.opened(txn_id, write_ids)

    def step(self, name: str) -> None:
        """Tell the observers of people what comes next."""
        for observer in self._observers:
            observer.step(name)

    def work(self, done: int, total: int) -> None:
        """Tell the observers how many of all partitions are done."""
        for observer in self._observers:
            observer.work(done, total)

    def note(self, text: str) -> None:
        """Pass a line on to the observers."""
        for observer in self._observers:
            observer.note(text)


class PhaseLog(PhaseObserver):
    """Prints a line for every step, for whoever watches the task's log.

    Args:
        about: What the lines are about, where several things are done side by side.

    Attributes:
        last: When a line was printed last, of whatever log, by time.monotonic().
    """

    last: ClassVar[float] = 0.0

    def __init__(self, about: str = "") -> None:
        self._head = f"{PROGRESS}{about}: " if about else PROGRESS

    def step(self, name: str, seconds: float | None = None) -> None:
        """A step begins, or is over."""
        self.note(f"{name} ..." if seconds is None else f"{name} done in {seconds:.2f} s")

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """A transaction was opened."""
        written = "".join(f", write id {number} of {table}" for table, number in write_ids.items())
        self.note(f"transaction {txn_id}{written}")

    def work(self, done: int, total: int) -> None:
        """Partitions are done."""
        if done and total > 1:
            self.note(f"{done} of {total} partitions done")

    def note(self, text: str) -> None:
        """Something worth a line."""
        PhaseLog.last = time.monotonic()
        # A log that nobody can write or read any more must not change what is done.
        with suppress(OSError):
            # In one piece, or lines of compactions that run side by side get mixed up.
            sys.stdout.write(f"{self._head}{text}\n")
            sys.stdout.flush()


class InjectedFault(RuntimeError):
    """The error that HIVEACID_FAULT asked for."""


class FaultInjector(PhaseObserver):
    """Breaks a run on purpose at the edge of a phase, to prove that nothing half-done shows.

    It is asked for by the environment variable HIVEACID_FAULT=<phase>:<kind>[:before|after], where
    the kind is "kill" (SIGKILL to this process), "raise" or "disk_full".
    """

    def __init__(self, phase: Phase, kind: str, after: bool = False) -> None:
        self._phase = phase
        self._strike = _FAULTS[kind]
        self._after = after

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """The injector that the environment asks for, or None.

        Raises:
            InvalidJob: The variable is set to something else.
        """
        if not (text := environment.get(FAULT_VARIABLE)):
            return None
        phase, kind, edge = [*text.split(":"), "", "before"][:3]
        edge = edge or "before"
        valid = phase in list(Phase) and kind in _FAULTS and edge in ("before", "after")
        if not valid or text.count(":") > 2:
            raise InvalidJob(
                f"{FAULT_VARIABLE}={text!r} cannot be read.",
                remedy=f"Write <phase>:<{'|'.join(_FAULTS)}>[:before|after].",
            )
        return cls(Phase(phase), kind, edge == "after")

    def enter(self, phase: Phase) -> None:
        """Strike before the phase when asked to."""
        if phase is self._phase and not self._after:
            self._strike()

    def leave(self, phase: Phase, seconds: float) -> None:
        """Strike after the phase when asked to."""
        if phase is self._phase and self._after:
            self._strike()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise InjectedFault(f"{FAULT_VARIABLE} asked for this error.")


def _disk_full() -> None:
    raise DiskFull(f"{FAULT_VARIABLE} asked for a full disk.")


_FAULTS: dict[str, Callable[[], None]] = {
    "kill": _kill,
    "raise": _raise,
    "disk_full": _disk_full,
}
