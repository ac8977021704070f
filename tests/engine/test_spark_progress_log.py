"""The log of Spark's work during a silence."""

import threading
import time
from types import SimpleNamespace

import pytest

from hiveacid.spark import run as spark_progress_log
from hiveacid.spark.run import SparkProgressLog


class Stages(list):
    """Stages as Scala hands them over."""

    def size(self):
        return len(self)

    def apply(self, number):
        return self[number]


def stage(tasks, done, read=0, written=0):
    return SimpleNamespace(
        numTasks=lambda: tasks,
        numCompleteTasks=lambda: done,
        inputRecords=lambda: read,
        outputRecords=lambda: written,
    )


def told_of(*stages):
    store = SimpleNamespace(activeStages=lambda: Stages(stages))
    context = SimpleNamespace(statusStore=lambda: store)
    spark = SimpleNamespace(_jsparkSession=SimpleNamespace(sparkContext=lambda: context))
    return SparkProgressLog(spark).describe()


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ([], None),
        ([stage(4, 1)], "Spark has done 1 of 4 tasks"),
        ([stage(4, 1, read=70), stage(6, 2, read=5)], "Spark has done 3 of 10 tasks, 75 rows read"),
        ([stage(4, 1, read=70, written=30)], "Spark has done 1 of 4 tasks, 30 rows written"),
    ],
)
def test_all_active_stages_are_reported_together(stages, told):
    assert told_of(*stages) in (told, f"{told} so far")


def require_idle(spark, seconds=60):
    """Wait for the events of finished stages, which Spark delivers late."""
    ends = time.monotonic() + seconds
    while (active := SparkProgressLog(spark).describe()) is not None:
        assert time.monotonic() < ends, active
        spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
        time.sleep(0.01)


def test_a_long_task_is_reported_until_it_ends(spark, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(spark_progress_log, "REPORT_SECONDS", 0.01)
    require_idle(spark)
    go = tmp_path / "go"
    told = threading.Event()

    def wait(_):
        while not go.exists():
            time.sleep(0.01)
        return 1

    class Watched(SparkProgressLog):
        def describe(self):
            line = super().describe()
            if line is not None:
                told.set()
            return line

    def release():
        told.wait(60)
        go.touch()

    releasing = threading.Thread(target=release)
    releasing.start()
    with Watched(spark):
        counted = spark.sparkContext.parallelize(range(2), 2).map(wait).sum()
    releasing.join()
    said = [line for line in capsys.readouterr().out.splitlines() if "Spark has done" in line]
    assert counted == 2
    assert said[0].startswith("hiveacid: Spark has done 0 of 2 tasks")
    require_idle(spark)
