"""Tasks of compactions in the executors of Spark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError
from hiveacid.spark.failures import translate, translated_spark_errors
from hiveacid.spark.parallel import SparkTasks
from hiveacid.spark.session import cancelling_jobs
from hiveacid.spark.spark_versions import inheriting_target
from hiveacid.upkeep.compaction.scheduling import Scheduler, Tasks

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class SparkScheduler(Scheduler):
    """Runs the tasks of each transaction as a group of Spark jobs.

    Attributes:
        spark: The session.
    """

    spark: SparkSession

    @contextmanager
    def tasks(self, txn_id: int, what: str, size: int) -> Iterator[Tasks]:
        """See the base class."""
        with (
            cancelling_jobs(self.spark, f"hiveacid-{txn_id}", what),
            translated_spark_errors(what),
        ):
            yield SparkTasks(self.spark)

    def translated(self, error: Exception) -> HiveAcidError:
        """See the base class."""
        return translate(error, "The compaction")

    def in_thread(self, work: Callable[[T], R]) -> Callable[[T], R]:
        """See the base class."""
        # Each thread needs its own wrapper: threads that share one also share a job group, and are
        # cancelled together.
        return inheriting_target(self.spark, work)

    def stop(self) -> None:
        """See the base class."""
        # The jobs of each transaction are cancelled when it ends.


def spark_of(scheduler: Scheduler) -> SparkSession:
    """The session of a scheduler of Spark tasks."""
    assert isinstance(scheduler, SparkScheduler)
    return scheduler.spark
