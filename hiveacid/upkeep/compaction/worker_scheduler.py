"""Tasks on this machine without Spark: in this process, or for large inputs in others.

The other processes are new interpreters. A fork would copy locks of threads, and connections of
storage clients; a spawned process of ``multiprocessing`` would run the main module again, which may
be a program of the user.
"""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from hiveacid.errors import HiveAcidError, JobFailed
from hiveacid.foreign.budget import Threads
from hiveacid.rules.exit_status import Memory, explained
from hiveacid.upkeep.compaction import task_process
from hiveacid.upkeep.compaction.scheduling import Caught, Scheduler, Tasks

# The start of a process takes as much CPU time as copying hundreds of MB, or encoding 4 MB.
INLINE_BYTES = 32 << 20
# The largest number of processes, which bounds the memory.
MOST_PROCESSES = 4

T = TypeVar("T")
R = TypeVar("R")


class WorkerScheduler(Scheduler):
    """Runs tasks without Spark, while it is entered."""

    def __init__(self, processes: int | None = None, inline_bytes: int = INLINE_BYTES) -> None:
        """Start no process yet.

        Args:
            processes: The number of processes for large inputs; by default one for each core that
                this process may use, and at most ``MOST_PROCESSES``.
            inline_bytes: Tasks with less work, in bytes to encode, run in this process.
        """
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self._count = processes or min(cores, MOST_PROCESSES)
        self._inline_bytes = inline_bytes
        # A started process is taken before another one starts.
        self._slots: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(self._count):
            self._slots.put(None)
        self._active: set[_WorkerTasks] = set()
        self._stopped = False

    def __enter__(self) -> "WorkerScheduler":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        for process in [self._slots.get() for _ in range(self._count)]:
            if process is not None:
                process.end()

    @contextmanager
    def tasks(self, name: str, subject: str, size: int) -> Iterator[Tasks]:
        """See the base class."""
        inline_effort = self._inline_bytes if self._count > 1 else None
        tasks = _WorkerTasks(subject, self._slots, self._count, size, inline_effort)
        self._active.add(tasks)
        try:
            if self._stopped:
                tasks.cancel()
            yield tasks
        except BaseException:
            tasks.cancel()
            raise
        finally:
            self._active.discard(tasks)

    def translated(self, error: Exception) -> HiveAcidError:
        """See the base class."""
        return JobFailed(f"The compaction failed in the worker: {type(error).__name__}: {error}")

    def stop(self) -> None:
        """See the base class."""
        self._stopped = True
        for tasks in list(self._active):
            tasks.cancel()


class _WorkerTasks(Tasks):
    """Tasks of one compaction.

    Args:
        what: The operation, for messages.
        slots: The processes, or None for each that is not started.
        count: The number of processes.
        size: The size of the input in bytes.
        inline_effort: Tasks with less work run in this process; None: all tasks.
    """

    def __init__(
        self,
        subject: str,
        slots: "queue.LifoQueue[_Process | None]",
        count: int,
        size: int,
        inline_effort: int | None,
    ) -> None:
        self._what = subject
        self._slots = slots
        self._count = count
        self._size = size
        self._inline_effort = inline_effort
        self._lock = threading.Lock()
        self._running: set[_Process] = set()
        self._cancelled = False

    def tried(
        self, work: Callable[[T], R], items: Sequence[T], *, effort: int | None = None
    ) -> list[R | HiveAcidError]:
        """See the base class."""
        catching_work = Caught(work)
        effort = self._size if effort is None else effort
        if self._inline_effort is None or effort < self._inline_effort:
            return [self._inline(catching_work, item) for item in items]
        with Threads(self._count) as threads:
            try:
                return list(threads.map(partial(self._in_process, catching_work), items))
            except BaseException:
                self.cancel()
                raise

    def cancel(self) -> None:
        """End the running tasks, and refuse others."""
        with self._lock:
            self._cancelled = True
            for process in self._running:
                process.kill()

    def _inline(self, work: Callable[[T], R], item: T) -> R:
        self._require_active()
        return work(item)

    def _in_process(self, work: Callable[[T], R], item: T) -> R:
        process = self._slots.get()
        try:
            if process is None:
                process = _Process()
            with self._lock:
                self._require_active()
                self._running.add(process)
            try:
                result: R = process.call(work, item)
                return result
            except (EOFError, OSError) as error:
                status = process.end()
                self._require_active()
                raise JobFailed(
                    f"{self._what}: a process of the worker ended in the middle of a task, with"
                    f" status {status}. {explained(status, process.memory)}".rstrip(),
                    remedy="It may have exceeded the memory of the worker: give the worker more"
                    " memory, or run a compaction with run_in='spark'.",
                ) from error
            finally:
                with self._lock:
                    self._running.discard(process)
        finally:
            self._slots.put(process if process is not None and process.is_alive else None)

    def _require_active(self) -> None:
        if self._cancelled:
            raise JobFailed(f"{self._what} was cancelled.")


class _Process:
    """A process that runs one task at a time."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._popen = subprocess.Popen(
            [sys.executable, "-m", task_process.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self.memory = Memory.now()
        # A killed process needs a moment to end.
        self._is_killed = False

    @property
    def is_alive(self) -> bool:
        """Whether it can run another task."""
        return not self._is_killed and self._popen.poll() is None

    def call(self, work: Callable[[T], R], item: T) -> Any:
        """Run one task.

        Raises:
            EOFError: The process has ended.
            JobFailed: The task failed with an error that is none of this package.
        """
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        task_process.send(self._popen.stdin, (work, item))
        is_result, answer = task_process.receive(self._popen.stdout)
        if not is_result:
            raise JobFailed(f"A task failed: {answer}")
        return answer

    def kill(self) -> None:
        """End the process, also in the middle of a task."""
        self._is_killed = True
        self._popen.kill()

    def end(self) -> int:
        """End the process, and return its exit status."""
        with suppress(OSError):
            self._popen.communicate()
        return self._popen.wait()
