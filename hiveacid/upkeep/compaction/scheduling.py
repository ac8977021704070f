"""The interface between compactions and the processes that run their tasks.

A task is a function of a module with values that can be pickled. It may run in this process, in
another process of this machine, or in an executor of Spark, and yields the same files everywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError

# A core copies so many times as many bytes of local files as it encodes.
COPIED_WHILE_ENCODED = 20

T = TypeVar("T")
R = TypeVar("R")


class Tasks(ABC):
    """Runs the tasks of one compaction."""

    def run(
        self, work: Callable[[T], R], items: Sequence[T], *, effort: int | None = None
    ) -> list[R]:
        """Run a task for each item, and return the results.

        Args:
            work: The task.
            items: The items.
            effort: The work of all tasks, as a number of bytes to encode; by default the size of
                the input of the compaction.

        Raises:
            HiveAcidError: The error of the first task that failed.
        """
        return [result_of(outcome) for outcome in self.tried(work, items, effort=effort)]

    @abstractmethod
    def tried(
        self, work: Callable[[T], R], items: Sequence[T], *, effort: int | None = None
    ) -> list[R | HiveAcidError]:
        """Run a task for each item; an error of this package becomes a result."""


class Scheduler(ABC):
    """Runs the tasks of several compactions, which may be concurrent."""

    @abstractmethod
    def tasks(self, name: str, subject: str, size: int) -> AbstractContextManager[Tasks]:
        """Provide a compaction with tasks; after an error in the body, no task continues.

        Args:
            name: The name of the compaction, which no other one has.
            subject: The operation, for messages.
            size: The size of the input in bytes.
        """

    @abstractmethod
    def translated(self, error: Exception) -> HiveAcidError:
        """Convert an error that is none of this package."""

    def in_thread(self, work: Callable[[T], R]) -> Callable[[T], R]:
        """Prepare a function that runs in a thread of its own and schedules tasks there."""
        return work

    @abstractmethod
    def stop(self) -> None:
        """End all tasks of all compactions."""


def result_of(outcome: R | HiveAcidError) -> R:
    """Return the result of a task, or raise its error."""
    if isinstance(outcome, HiveAcidError):
        raise outcome
    return outcome


@dataclass(frozen=True, slots=True)
class Caught(Generic[T, R]):
    """A task function whose errors of this package are results.

    Attributes:
        work: The function.
    """

    work: Callable[[T], R]

    def __call__(self, item: T) -> R | HiveAcidError:
        """Run the task."""
        try:
            return self.work(item)
        except HiveAcidError as error:
            return error


class Inline(Tasks):
    """Runs tasks in this process, one after the other."""

    def tried(
        self, work: Callable[[T], R], items: Sequence[T], *, effort: int | None = None
    ) -> list[R | HiveAcidError]:
        """See the base class."""
        return [Caught(work)(item) for item in items]
