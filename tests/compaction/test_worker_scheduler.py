"""Tasks in processes of the worker: what they return, and what remains of them after a failure."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hiveacid.errors import JobFailed, UnsupportedFile
from hiveacid.upkeep.compaction.worker_scheduler import INLINE_BYTES, WorkerScheduler
from tests.compaction import task_functions as functions

SECONDS = 60


@pytest.fixture
def scheduler() -> Iterator[WorkerScheduler]:
    with WorkerScheduler(2) as scheduler:
        yield scheduler


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    for name in ("told", "told.never"):
        os.mkfifo(tmp_path / name)
    return tmp_path / "told"


def has_ended(pid: int) -> bool:
    """Whether a process ends soon."""
    try:
        ended = select.poll()
        ended.register(os.pidfd_open(pid), select.POLLIN)
    except ProcessLookupError:
        return True
    return bool(ended.poll(SECONDS * 1000))


def test_a_small_input_stays_in_this_process(scheduler: WorkerScheduler) -> None:
    with scheduler.tasks(1, "it", INLINE_BYTES - 1) as tasks:
        assert tasks.run(functions.process_of, [1, 2]) == [os.getpid()] * 2


def test_tasks_with_little_work_stay_in_this_process_for_any_input(
    scheduler: WorkerScheduler,
) -> None:
    with scheduler.tasks(1, "it", 1 << 40) as tasks:
        assert tasks.run(functions.process_of, [1], effort=INLINE_BYTES - 1) == [os.getpid()]
        assert os.getpid() not in tasks.run(functions.process_of, [1], effort=INLINE_BYTES)


def test_results_of_other_processes_keep_their_order_and_errors_are_results(
    scheduler: WorkerScheduler,
) -> None:
    with scheduler.tasks(1, "it", INLINE_BYTES) as tasks:
        assert os.getpid() not in tasks.run(functions.process_of, [1])
        assert tasks.run(functions.doubled, range(5)) == [0, 2, 4, 6, 8]
        good, bad = tasks.tried(functions.doubled, [1, -1])
        assert good == 2
        assert isinstance(bad, UnsupportedFile)
        assert (bad.what, bad.remedy) == ("-1 is negative.", "Take another one.")
        assert tasks.run(functions.doubled, []) == []


def test_arrow_shares_the_heap_of_a_process_that_only_runs_tasks(
    scheduler: WorkerScheduler,
) -> None:
    with scheduler.tasks(1, "it", INLINE_BYTES) as tasks:
        assert tasks.run(functions.arrow_allocator, [1]) == ["system"]


def test_a_bug_in_a_task_is_an_error_with_its_text(scheduler: WorkerScheduler) -> None:
    with (
        pytest.raises(JobFailed, match="ValueError: a bug"),
        scheduler.tasks(1, "it", INLINE_BYTES) as tasks,
    ):
        tasks.run(functions.broken, [1])


def test_after_a_lost_process_others_do_the_next_tasks(scheduler: WorkerScheduler) -> None:
    with (
        pytest.raises(JobFailed, match=r"It: a process .* status -9") as lost,
        scheduler.tasks(1, "It", INLINE_BYTES) as tasks,
    ):
        tasks.run(functions.killed, [1])
    assert lost.value.retryable
    assert "It was ended by SIGKILL: usually for lack of memory" in lost.value.what
    assert "memory" in lost.value.remedy
    with scheduler.tasks(2, "it", INLINE_BYTES) as tasks:
        assert tasks.run(functions.doubled, [1, 2, 3]) == [2, 4, 6]


def test_a_stop_ends_running_tasks_and_refuses_others(
    scheduler: WorkerScheduler, fifo: Path
) -> None:
    def work() -> None:
        with scheduler.tasks(1, "It", INLINE_BYTES) as tasks:
            tasks.run(functions.waiting, [str(fifo)])

    with ThreadPoolExecutor() as threads:
        running = threads.submit(work)
        pid = int(fifo.read_text())
        scheduler.stop()
        with pytest.raises(JobFailed, match=r"It was cancelled\."):
            running.result(SECONDS)
    assert has_ended(pid)
    for size in (0, INLINE_BYTES):
        with (
            pytest.raises(JobFailed, match="cancelled"),
            scheduler.tasks(2, "It", size) as tasks,
        ):
            tasks.run(functions.doubled, [1])


def test_an_error_ends_the_tasks_of_its_transaction_only(
    scheduler: WorkerScheduler, fifo: Path
) -> None:
    with scheduler.tasks(1, "it", INLINE_BYTES) as others, ThreadPoolExecutor() as threads:
        (pid,) = others.run(functions.process_of, [1])
        running = []

        def work() -> None:
            with scheduler.tasks(2, "it", INLINE_BYTES) as tasks:
                running.append(threads.submit(tasks.tried, functions.waiting, [str(fifo)]))
                assert int(fifo.read_text()) == pid
                raise KeyError

        with pytest.raises(KeyError):
            work()
        with pytest.raises(JobFailed, match="cancelled"):
            running[0].result(SECONDS)
        assert has_ended(pid)
        assert others.run(functions.doubled, [1]) == [2]


def test_the_processes_end_with_the_scheduler() -> None:
    with WorkerScheduler(2) as scheduler, scheduler.tasks(1, "it", INLINE_BYTES) as tasks:
        pids = set(tasks.run(functions.process_of, range(8)))
    assert all(map(has_ended, pids))


# As a notebook or a script may call it: there is no guard against a second run.
_PROGRAM = """
import sys
from hiveacid.upkeep.compaction.worker_scheduler import INLINE_BYTES, WorkerScheduler
from tests.compaction.task_functions import doubled, waiting

print("run", flush=True)
with WorkerScheduler(2) as scheduler, scheduler.tasks(1, "it", INLINE_BYTES) as tasks:
    print(tasks.run(doubled, [1, 2]), flush=True)
    if len(sys.argv) > 1:
        tasks.run(waiting, sys.argv[1:])
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(_PROGRAM)
    return [sys.executable, str(path)]


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def test_the_main_module_of_the_user_runs_once(
    program: list[str], environment: dict[str, str]
) -> None:
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "run\n[2, 4]\n"


def test_tasks_end_with_a_killed_parent(
    program: list[str], environment: dict[str, str], fifo: Path
) -> None:
    with subprocess.Popen([*program, str(fifo)], env=environment, stdout=subprocess.PIPE) as parent:
        pid = int(fifo.read_text())
        os.kill(parent.pid, signal.SIGKILL)
        assert has_ended(pid)
