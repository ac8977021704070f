"""The phases of a run, and their observers: a log, a progress bar, tests, injected faults."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import ClassVar, Self

from hiveacid.errors import DiskFull, InvalidJob

FAULT_VARIABLE = "HIVEACID_FAULT"
# Submission time of an application in seconds since 1970, for its report.
SUBMITTED_VARIABLE = "HIVEACID_SUBMITTED"
# Prefix of the lines of a PhaseLog, which distinguishes them from Spark's output.
PROGRESS = "hiveacid: "
# Interval between progress messages.
REPORT_SECONDS = 10.0


class Phase(StrEnum):
    """Steps of a write or of a compaction, in their order; cleaning has its own step."""

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
    """Base class of observers of a run; subclasses override the events that they need."""

    def step(self, name: str, seconds: float | None = None) -> None:
        """Report that a named step, like "read the source", begins or has ended successfully.

        Args:
            name: The phase and its object.
            seconds: The duration without inner phases; None if the step begins.
        """

    def enter(self, phase: Phase) -> None:
        """Report the beginning of a phase."""

    def leave(self, phase: Phase, seconds: float) -> None:
        """Report the successful end of a phase, and its duration without inner phases."""

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Report a new transaction and its write ids, before any work is done in it."""

    def statement(self) -> None:
        """Report that a statement of a script begins."""

    def note(self, text: str) -> None:
        """Report an event within a phase."""

    def work(self, completed_count: int, total: int) -> None:
        """Report how many of all partitions are done, successfully or not."""

    def batch(self, progress: object) -> None:
        """Report that a stream has applied one more batch."""


class PhaseClock:
    """Measures phases and notifies observers: `with clock(Phase.READ, "the source"): ...`.

    A phase may be repeated (a restart) and may be nested in another one: each second is counted
    once, for the innermost phase. One thread at a time uses a clock.
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
    def __call__(self, phase: Phase, subject: str = "") -> Iterator[None]:
        """Spend the body of a with statement in a phase.

        Args:
            phase: The phase.
            subject: The object that is read or written, as a run may repeat the phase for several.
        """
        name = f"{phase.value} {subject}".rstrip()
        started = self._now()
        self._seconds.setdefault(phase.value, 0.0)
        self._inner.append(0.0)
        own_seconds = 0.0
        try:
            for observer in self._observers:
                observer.step(name)
                observer.enter(phase)
            yield
        finally:
            whole = self._now() - started
            own_seconds = whole - self._inner.pop()
            self._seconds[phase.value] += own_seconds
            if self._inner:
                self._inner[-1] += whole
        for observer in self._observers:
            observer.step(name, own_seconds)
            observer.leave(phase, own_seconds)

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Notify the observers of a new transaction."""
        for observer in self._observers:
            observer.opened(txn_id, write_ids)

    def step(self, name: str) -> None:
        """Notify the observers of the next step."""
        for observer in self._observers:
            observer.step(name)

    def work(self, completed_count: int, total: int) -> None:
        """Notify the observers of the number of partitions that are done."""
        for observer in self._observers:
            observer.work(completed_count, total)

    def note(self, text: str) -> None:
        """Pass a message on to the observers."""
        for observer in self._observers:
            observer.note(text)


class PhaseLog(PhaseObserver):
    """Prints a line for every step to the task's log.

    Args:
        about: The subject of the lines, if several operations run concurrently.

    Attributes:
        last: The time of the last line of any log, by time.monotonic().
    """

    last: ClassVar[float] = 0.0

    def __init__(self, about: str = "") -> None:
        self._head = f"{PROGRESS}{about}: " if about else PROGRESS

    def step(self, name: str, seconds: float | None = None) -> None:
        """Print the beginning or the end of a step."""
        self.note(f"{name} ..." if seconds is None else f"{name} done in {seconds:.2f} s")

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Print a new transaction."""
        write_id_text = "".join(
            f", write id {number} of {table}" for table, number in write_ids.items()
        )
        self.note(f"transaction {txn_id}{write_id_text}")

    def work(self, completed_count: int, total: int) -> None:
        """Print the number of partitions that are done."""
        if completed_count and total > 1:
            self.note(f"{completed_count} of {total} partitions done")

    def note(self, text: str) -> None:
        """Print a message."""
        PhaseLog.last = time.monotonic()
        # A log that can no longer be written must not change the outcome of the run.
        with suppress(OSError):
            # One call, as the lines of concurrent compactions would be mixed otherwise.
            sys.stdout.write(f"{self._head}{text}\n")
            sys.stdout.flush()


class InjectedFault(RuntimeError):
    """Error requested by HIVEACID_FAULT."""


class FaultInjector(PhaseObserver):
    """Breaks a run on purpose at the edge of a phase, to prove that partial results stay invisible.

    The environment variable HIVEACID_FAULT=<phase>:<kind>[:before|after] enables it, where
    the kind is "kill" (SIGKILL to this process), "raise" or "disk_full".
    """

    def __init__(self, phase: Phase, kind: str, after_phase: bool = False) -> None:
        self._phase = phase
        self._strike = _FAULTS[kind]
        self._after = after_phase

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """Return the injector that the environment requests, or None.

        Raises:
            InvalidJob: The value of the variable is invalid.
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
        """Inject the fault before the phase if requested."""
        if phase is self._phase and not self._after:
            self._strike()

    def leave(self, phase: Phase, seconds: float) -> None:
        """Inject the fault after the phase if requested."""
        if phase is self._phase and self._after:
            self._strike()


def watching(observers: Sequence[PhaseObserver] = (), about: str = "") -> list[PhaseObserver]:
    """Add the log, and the fault that the environment requests, to the observers of a run.

    Args:
        observers: The others.
        about: The subject of the lines of the log, if several operations run concurrently.
    """
    fault = FaultInjector.from_environment()
    # The log is last, so that everything it reports can be looked up.
    return [*observers, PhaseLog(about), *([fault] if fault else [])]


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
