"""Doing many things at once: in threads of the driver what waits, in tasks of Spark what works."""

import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from zipimport import zipimporter

from pyspark.sql import SparkSession

from airflow_hiveacid.errors import HiveAcidError

# Listing is waiting for a file system: more threads than cores help.
THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Do the same with many files at once, since most of it is waiting."""
    listed = list(items)
    if len(listed) < 2:
        return [work(item) for item in listed]
    with ThreadPoolExecutor(min(THREADS, len(listed))) as pool:
        return list(pool.map(work, listed))


@dataclass(frozen=True)
class SparkTasks:
    """Tasks of Spark, one for each of some items.

    Attributes:
        spark: The session.
    """

    spark: SparkSession

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results.

        Raises:
            HiveAcidError: What the first failed task said.
        """
        return [result_of(tried) for tried in self.tried(work, items)]

    def tried(self, work: Callable[[T], R], items: Sequence[T]) -> list[R | HiveAcidError]:
        """The results; errors of ours are results, too."""
        if not items:
            return []
        tasks = self.spark.sparkContext.parallelize(items, len(items))
        return tasks.map(caught(work)).collect()


def result_of(tried: R | HiveAcidError) -> R:
    """The result of a task, or its error raised."""
    if isinstance(tried, HiveAcidError):
        raise tried
    return tried


def caught(work: Callable[[T], R]) -> Callable[[T], R | HiveAcidError]:
    """Make a task's error its result, since Spark would hand it on as a page of text."""

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

    Spark's own code comes in archives. Before every task it has Python read the directories of all
    archives again that it remembers, though everything has long been imported.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
