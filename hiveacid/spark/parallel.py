"""Tasks of Spark, which share the items of a list."""

import sys
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeVar
from zipimport import zipimporter

from pyspark.sql import SparkSession

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError
from hiveacid.orc.format.process_memory import use_one_heap
from hiveacid.upkeep.compaction.scheduling import Caught, Tasks

T = TypeVar("T")
R = TypeVar("R")


# Starting a task of Python takes a tenth of a second. More tasks than cores let those continue that
# got small items; and a cluster that starts executors on demand has few cores at first.
_TASKS_PER_CORE, _FEWEST_TASKS = 8, 32
# Tasks that encode fewer bytes take less time in this process than their Spark job needs to start.
DRIVER_BYTES = 2 << 20


@dataclass(frozen=True)
class SparkTasks(Tasks):
    """Runs Spark tasks, a few for each core, or little work in this process.

    Attributes:
        spark: The session.
        size: The size of the input in bytes; None if it is not known to be small.
    """

    spark: SparkSession
    size: int | None = None

    def tried(
        self, work: Callable[[T], R], items: Sequence[T], *, effort: int | None = None
    ) -> list[R | HiveAcidError]:
        """See the base class."""
        if not items:
            return []
        effort = self.size if effort is None else effort
        if effort is not None and effort < DRIVER_BYTES:
            return [Caught(work)(item) for item in items]
        return in_groups(self.spark, in_spark_task(work), items)


def in_groups(spark: SparkSession, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Apply a function to at least one item in Spark tasks, a few for each core.

    An error ends its task, which Spark then repeats with all items of the task.
    """
    context = spark.sparkContext
    task_limit = max(_TASKS_PER_CORE * context.defaultParallelism, _FEWEST_TASKS)
    count = min(len(items), task_limit)
    numbered = [*enumerate(items)]
    groups = [numbered[first::count] for first in range(count)]

    def run(group: Sequence[tuple[int, T]]) -> list[tuple[int, R]]:
        return [(number, work(item)) for number, item in group]

    results = chain.from_iterable(context.parallelize(groups, count).map(run).collect())
    return [result for _, result in sorted(results, key=itemgetter(0))]


def in_spark_task(work: Callable[[T], R]) -> Callable[[T], R | HiveAcidError]:
    """Return errors of a task as results, since Spark would convert them to a page of text."""
    catching_work = Caught(work)

    def run(item: T) -> R | HiveAcidError:
        use_one_heap()
        try:
            return catching_work(item)
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
