"""Work on many items: at the same time if it waits, else without the cost of threads."""

import threading

import pytest

from hiveacid.storage import filesystems
from hiveacid.storage.filesystems import THREADS, in_threads


def test_results_are_in_the_order_of_their_items() -> None:
    for count in (0, 1, 2, THREADS, THREADS + 1, 500):
        assert in_threads(lambda number: number * 2, range(count)) == [2 * n for n in range(count)]


def test_a_few_items_are_worked_on_at_the_same_time() -> None:
    together = threading.Barrier(THREADS, timeout=60)
    assert sorted(in_threads(lambda _: together.wait(), range(THREADS))) == [*range(THREADS)]


def test_many_items_are_worked_on_at_the_same_time_once_one_has_waited() -> None:
    """The first of many items is alone; it waits as long as a request to a store."""
    together, alone = threading.Barrier(THREADS, timeout=60), threading.Event()

    def work(number: int) -> int:
        if number == 0:
            return int(alone.wait(timeout=0.02))
        return int(together.wait() >= 0)

    assert in_threads(work, range(THREADS + 1)) == [0] + THREADS * [1]


def test_short_items_need_no_threads() -> None:
    seen = in_threads(lambda _: threading.current_thread(), range(THREADS + 1))
    assert seen[0] == threading.current_thread()


@pytest.mark.parametrize("count", [1, 3, 100])
def test_an_error_ends_the_work(count: int) -> None:
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda number: 1 // (number - count + 1), range(count))


@pytest.mark.parametrize(("computed", "threads"), [(0.004, 1), (0.001, 2)])
def test_items_that_compute_need_no_threads(
    computed: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python computes in one thread at a time."""
    clock = {"passed": 0.0, "computed": 0.0}
    monkeypatch.setattr(filesystems, "perf_counter", lambda: clock["passed"])
    monkeypatch.setattr(filesystems, "thread_time", lambda: clock["computed"])

    def work(_: int) -> bool:
        clock["passed"] += 0.006
        clock["computed"] += computed
        return threading.current_thread() is threading.main_thread()

    assert len(set(in_threads(work, range(10 * THREADS)))) == threads
