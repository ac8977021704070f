"""Tasks of Spark, one for each item of a list."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from zipimport import zipimporter

from pyspark.sql import SparkSession

from airflow_hiveacid.compaction.scheduling import Caught, Tasks
from airflow_hiveacid.errors import HiveAcidError
from airflow_hiveacid.orc.format.process_memory import use_one_heap

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class SparkTasks(Tasks):
    """Runs Spark tasks, one for each item.

    Attributes:
        spark: The session.
    """

    spark: SparkSession

    def tried(
        self, work: Callable[[T], R], items: Sequence[T], *, effort: int | None = None
    ) -> list[R | HiveAcidError]:
        """See the base class."""
        if not items:
            return []
        tasks = self.spark.sparkContext.parallelize(items, len(items))
        return tasks.map(in_spark_task(work)).collect()


def in_spark_task(work: Callable[[T], R]) -> Callable[[T], R | HiveAcidError]:
    """Return errors of a task as results, since Spark would convert them to a page of text."""
    caught = Caught(work)

    def run(item: T) -> R | HiveAcidError:
        use_one_heap()
        try:
            return caught(item)
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
