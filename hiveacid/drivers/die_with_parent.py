"""A Spark driver that doesn't outlive the process that submitted it.

In client and local mode the driver survives a kill of the worker's process: it would keep running
while Airflow already runs the next attempt. The submitter therefore puts its own process id into
the driver's environment, and the driver ends when that process, or the JVM it was started by, is
gone. An ending in the middle of the work is safe: without heartbeats the metastore aborts the
transaction, and nothing that was not committed is visible.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Collection

DIE_WITH_PARENT = "HIVEACID_DIE_WITH_PARENT"


def die_with_parent() -> None:
    """End this process as soon as its submitter or its parent ends, when the submitter asked so."""
    submitter = os.environ.get(DIE_WITH_PARENT)
    if submitter is not None:
        watch({int(submitter), os.getppid()}, _exit)


def watch(pids: Collection[int], on_end: Callable[[], None]) -> threading.Thread:
    """Call ``on_end`` once, from a daemon thread, as soon as one of the processes has ended."""

    def wait() -> None:
        _wait_for_any(pids)
        on_end()

    thread = threading.Thread(target=wait, name="hiveacid-parent", daemon=True)
    thread.start()
    return thread


def _wait_for_any(pids: Collection[int]) -> None:
    try:
        ended = select.poll()
        for pid in pids:
            ended.register(os.pidfd_open(pid), select.POLLIN)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # Only Linux has it, and some containers refuse it.
        while all(map(_is_alive, pids)):
            time.sleep(1)
        return
    ended.poll()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _exit() -> None:
    # No clean-up on purpose: the next attempt may already be working on the same files.
    os.kill(os.getpid(), signal.SIGKILL)
