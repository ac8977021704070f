"""Work on many items: at the same time if it waits, else without the cost of threads."""

import threading

import pytest

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
