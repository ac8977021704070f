"""TaskKill: the kill of a task, after which its operator starts nothing."""

import time
from typing import TypeVar

from hiveacid.errors import TaskKilled
from hiveacid.progress import PhaseObserver

ErrorT = TypeVar("ErrorT", bound=Exception)

_SLICE_SECONDS = 0.2


class TaskKill(PhaseObserver):
    """The kill of a task; as an observer, it ends work in the worker before its next step.

    Airflow calls ``on_kill`` in the handler of a signal. Then ``execute`` continues, for seconds or
    until its end; therefore every step that starts something checks first that the task is active.

    :param task_id: The task.
    """

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        # Not an Event: the handler could wait for a lock that the interrupted thread holds.
        self._happened = False

    def happen(self) -> None:
        """Note the kill, before the work ends: a process that starts meanwhile sees the note."""
        self._happened = True

    def require_active(self) -> None:
        """Check that the task was not killed.

        :raises TaskKilled: It was.
        """
        if self._happened:
            raise self._error()

    def cause_of(self, error: ErrorT) -> ErrorT | TaskKilled:
        """Return the cause of a failure: each failure after a kill is a consequence of it."""
        return self._error() if self._happened else error

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than until the task is killed."""
        end = time.monotonic() + seconds
        while not self._happened and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))

    def step(self, name: str, seconds: float | None = None) -> None:
        """Check before a step."""
        if seconds is None:
            self.require_active()

    def statement(self) -> None:
        """Check before a statement."""
        self.require_active()

    def _error(self) -> TaskKilled:
        return TaskKilled(
            f"Task {self._task_id!r} was killed.", remedy="Clear the task to run it again."
        )
