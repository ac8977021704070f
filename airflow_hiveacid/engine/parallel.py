"""Parallel work: waiting work in threads of the driver, computing work in tasks of Spark."""

import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from zipimport import zipimporter

from pyspark.sql import SparkSession

from airflow_hiveacid.errors import HiveAcidError

# Listing mostly waits for the file system: more threads than cores help.
THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to many items in threads, since it mostly waits."""
    listed = list(items)
    if len(listed) < 2:
        return [work(item) for item in listed]
    with ThreadPoolExecutor(min(THREADS, len(listed))) as pool:
        return list(pool.map(work, listed))


@dataclass(frozen=True)
class SparkTasks:
    """Runs Spark tasks, one for each item.

    Attributes:
        spark: The session.
    """

    spark: SparkSession

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the results.

        Raises:
            HiveAcidError: The error of the first task that failed.
        """
        return [result_of(tried) for tried in self.tried(work, items)]

    def tried(self, work: Callable[[T], R], items: Sequence[T]) -> list[R | HiveAcidError]:
        """Return the results; an error of this package becomes a result."""
        if not items:
            return []
        tasks = self.spark.sparkContext.parallelize(items, len(items))
        return tasks.map(caught(work)).collect()


def result_of(tried: R | HiveAcidError) -> R:
    """Return the result of a task, or raise its error."""
    if isinstance(tried, HiveAcidError):
        raise tried
    return tried


def caught(work: Callable[[T], R]) -> Callable[[T], R | HiveAcidError]:
    """Return errors of a task as results, since Spark would convert them to a page of text."""

    def run(item: T) -> R | HiveAcidError:
        try:
            return work(item)
        except HiveAcidError as error:
            return error
        finally:
            _forget_archives()

    return run


def _forget_archives() -> None:
    """Save this worker's next task a tenth of a second.

    Spark's own code is in archives. Before every task, Spark makes Python re-read the directories
    of all known archives, although all imports are already done.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
