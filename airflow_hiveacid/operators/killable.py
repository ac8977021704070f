"""KillableOperator: an operator that starts nothing after its task was killed."""

import time
from collections.abc import Callable
from typing import TypeVar

from airflow_hiveacid.hooks.template_fields import NamedTemplateFields
from hiveacid.errors import TaskKilled
from hiveacid.progress import PhaseObserver

ErrorT = TypeVar("ErrorT", bound=Exception)

_SLICE_SECONDS = 0.2


class KillableOperator(NamedTemplateFields):
    """Base of operators whose work ends with the task.

    Airflow calls ``on_kill`` in the handler of a signal. Then ``execute`` continues, for seconds or
    until its end; therefore every step that starts something checks first that the task is active.
    """

    # Not an Event: the handler could wait for a lock that the interrupted thread holds.
    _killed = False

    def on_kill(self) -> None:
        """End the work of the task, and let the task start no other."""
        # The mark comes first: what starts meanwhile either sees the mark, or is seen and ended.
        self._killed = True
        self._end_work()

    def _end_work(self) -> None:
        """End the work that the task has started."""
        raise NotImplementedError

    def _require_active(self) -> None:
        """Check that the task was not killed.

        :raises TaskKilled: It was.
        """
        if self._killed:
            raise self._kill_error()

    def _cause_of(self, error: ErrorT) -> ErrorT | TaskKilled:
        """Return the cause of a failure: each failure after a kill is a consequence of it."""
        return self._kill_error() if self._killed else error

    def _kill_error(self) -> TaskKilled:
        return TaskKilled(
            f"Task {self.task_id!r} was killed.", remedy="Clear the task to run it again."
        )

    def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the task is killed."""
        end = time.monotonic() + seconds
        while not self._killed and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))


class KillObserver(PhaseObserver):
    """Ends work in the worker before its next step, once the task was killed.

    :param require_active: Raises an error once the task was killed.
    """

    def __init__(self, require_active: Callable[[], None]) -> None:
        self._require_active = require_active

    def step(self, name: str, seconds: float | None = None) -> None:
        """Check before a step."""
        if seconds is None:
            self._require_active()

    def statement(self) -> None:
        """Check before a statement."""
        self._require_active()
