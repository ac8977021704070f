"""Progress of Spark, logged after every ten seconds of silence."""

import threading
import time
from typing import Self

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from hiveacid.progress import REPORT_SECONDS, PhaseLog


class SparkProgressLog:
    """Logs the finished Spark tasks and rows, while it is entered."""

    def __init__(self, spark: SparkSession) -> None:
        """Prepare the log; it starts when it is entered.

        Args:
            spark: The session of the application.
        """
        self._spark = spark
        self._log = PhaseLog()
        self._over = threading.Event()
        # A daemon thread, since the job must be able to end even if Java does not respond any more.
        self._thread = threading.Thread(
            target=self._log_progress, name="spark-progress", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=1)

    def describe(self) -> str | None:
        """Return a description of Spark's current work; None without active stages."""
        active = self._spark._jsparkSession.sparkContext().statusStore().activeStages()
        stages = [active.apply(number) for number in range(active.size())]
        if not stages:
            return None
        tasks = sum(stage.numTasks() for stage in stages)
        done = sum(stage.numCompleteTasks() for stage in stages)
        message = f"Spark has done {done} of {tasks} tasks"
        for count, verb in (
            (sum(stage.outputRecords() for stage in stages), "written"),
            (sum(stage.inputRecords() for stage in stages), "read"),
        ):
            if count:
                return f"{message}, {count} rows {verb} so far"
        return message

    def _log_progress(self) -> None:
        rest = REPORT_SECONDS
        while not self._over.wait(rest):
            rest = PhaseLog.last + REPORT_SECONDS - time.monotonic()
            if rest > 0:
                continue
            rest = REPORT_SECONDS
            try:
                message = self.describe()
            except (Py4JError, OSError):
                return  # Spark has stopped, which is reported elsewhere.
            if message is not None and not self._over.is_set():
                self._log.note(message)
