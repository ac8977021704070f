"""Iterators side by side: in order, with their errors, and without threads that remain."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, pairwise

import pytest

from hiveacid.tables.scan.table_scan import side_by_side


@pytest.fixture(autouse=True)
def no_thread_remains() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    # Threads of other tests may begin no more, but may still end.
    assert set(threading.enumerate()) <= before


def test_items_come_in_the_order_of_the_iterators() -> None:
    ends = [0, 0, 1, 1000, 1001, 5000, 5000, 5003]
    sources = [partial(numbers, *both) for both in pairwise(ends)]
    assert [*side_by_side(sources)] == [*range(5003)]
    assert [*side_by_side([])] == []


def test_an_error_comes_after_the_items_before_it() -> None:
    def fails() -> Iterator[int]:
        yield 2
        raise LookupError("broken")

    sources: list[Callable[[], Iterator[int]]] = [partial(numbers, 0, 2), fails, count]
    found = side_by_side(sources)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(LookupError, match="broken"):
        next(found)


def test_iterators_end_with_the_one_that_uses_them() -> None:
    ended = threading.Semaphore(0)

    def endless() -> Iterator[int]:
        try:
            yield from count()
        finally:
            ended.release()

    found = side_by_side([endless] * 100)
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    assert ended.acquire(timeout=30)


def test_the_next_iterator_begins_while_the_first_one_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    begun = threading.Event()

    def first() -> Iterator[bool]:
        yield begun.wait(30)

    def second() -> Iterator[bool]:
        begun.set()
        yield True

    assert [*side_by_side([first, second])] == [True, True]


def numbers(start: int, stop: int) -> Iterator[int]:
    yield from range(start, stop)
