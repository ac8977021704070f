"""A NameNode that is killed in the middle of jobs by Spark: only to restart, or for longer.

If all clients wait for it, it delays a run. If they give up, the run fails, and its retry completes
it: no row is lost, nothing is applied twice, and a cleaning leaves nothing.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import StorageUnreachable
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.names import STAGING_PREFIX
from hiveacid.spark.run import run
from hiveacid.storage.folder import Storage
from tests.faults.operations import OPERATIONS, Tables
from tests.faults.outside import Outsider
from tests.faults.submitted_driver import run_driver
from tests.hadoop.hdfs import Hdfs
from tests.hdfs.conftest import Strike, impatient_conf
from tests.observers import At

pytestmark = pytest.mark.hdfs

RESTARTS = [
    *(("4.0.1", "merge", phase) for phase in (Phase.READ, Phase.WRITE, Phase.PUBLISH)),
    *(("3.1.3", "merge", phase) for phase in (Phase.WRITE, Phase.REGISTER, Phase.COMMIT)),
    *(("4.0.1", "major compaction", phase) for phase in (Phase.WRITE, Phase.PUBLISH)),
    ("3.1.3", "major compaction", Phase.WRITE),
    ("4.0.1", "minor compaction", Phase.COMMIT),
]
OUTAGES = [
    *(("4.0.1", "merge", phase) for phase in (Phase.READ, Phase.WRITE, Phase.REGISTER)),
    *(("3.1.3", "merge", phase) for phase in (Phase.WRITE, Phase.PUBLISH, Phase.COMMIT)),
    *(("4.0.1", "major compaction", phase) for phase in (Phase.WRITE, Phase.PUBLISH)),
    *(("3.1.3", "major compaction", phase) for phase in (Phase.READ, Phase.COMMIT)),
]
_NUMBERS = itertools.count(1)


class Judged:
    """A table, a job that changes it, and the view of others."""

    def __init__(self, tables: Tables, operation: str) -> None:
        self.tables = tables
        self.outsider = Outsider(tables.client, tables.main)
        self.job: Job = replace(
            OPERATIONS[operation].job(tables), metastore=tables.client.options, run_token="a run"
        )
        self.old = self.outsider.rows()
        self.new = OPERATIONS[operation].expected_in_main(self.job, self.old, tables)

    def require_whole(self) -> None:
        """All of the job is there once, and after a night's maintenance nothing else."""
        assert self.outsider.rows() == self.new
        target = str(self.tables.main)
        for job in (
            CleanJob(target=target, retention="0"),
            CompactJob(target=target, type="major", parallel=1),
            CleanJob(target=target, retention="0"),
            CleanJob(target=target, retention="0"),
        ):
            assert self.tables.run(job).error is None
        assert self.outsider.rows() == self.new
        assert self.outsider.left_over() == []


@pytest.fixture
def judged(client: MetastoreClient, tmp_path: Path) -> Iterator[Callable[[str], Judged]]:
    """Makes a table of three writes, on a real metastore, for an operation."""
    sources = tmp_path / "sources"
    sources.mkdir()
    tables = Tables(client, f"namenode_{next(_NUMBERS)}", sources)
    tables.create(tables.main)
    tables.fill(tables.main)
    yield lambda operation: Judged(tables, operation)
    client.drop_database(tables.main.database, cascade=True)


@pytest.mark.parametrize(("hms", "operation", "phase"), RESTARTS, indirect=["hms"])
def test_an_interruption_delays_a_job_by_spark_where_all_wait(
    spark: SparkSession,
    judged: Callable[[str], Judged],
    operation: str,
    phase: Phase,
    interrupt: Callable[[], None],
) -> None:
    interrupt_at(phase, interrupt, spark, judged(operation))


def interrupt_at(
    phase: Phase, interrupt: Callable[[], None], spark: SparkSession, judge: Judged
) -> None:
    """Let it happen before a phase of a job, which is only delayed by it."""
    interruption = At(phase, interrupt)
    report = run(spark, judge.job, [interruption])
    assert interruption.times == 0
    assert report.error is None
    judge.require_whole()


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
@pytest.mark.parametrize("operation", ["merge", "major compaction"])
def test_an_interruption_between_two_renames_delays_a_job_by_spark(
    spark: SparkSession,
    judged: Callable[[str], Judged],
    operation: str,
    interrupt: Callable[[], None],
    strike: Strike,
) -> None:
    judge, old_shown = judged(operation), []

    def happens() -> None:
        old_shown.append(judge.outsider.rows() == judge.old)
        interrupt()

    publishing = At(Phase.PUBLISH, lambda: strike("rename", 1, happens))
    assert run(spark, judge.job, [publishing]).error is None
    assert old_shown == [True]
    judge.require_whole()


class AtFiles(PhaseObserver):
    """Lets something happen as soon as so many files are staged."""

    def __init__(self, location: str, files: int, action: Callable[[], None]) -> None:
        self._storage, self._files, self._action = Storage.of(location), files, action
        self._watcher = Thread(target=self._watch, daemon=True)
        self._over = False

    def enter(self, phase: Phase) -> None:
        if phase is Phase.WRITE and self._watcher.ident is None:
            self._watcher.start()

    def happened(self) -> bool:
        """Return whether it happened before the end of the job."""
        was = not self._watcher.is_alive()
        self._over = True
        self._watcher.join()
        return was

    def _watch(self) -> None:
        while not self._over:
            found = self._storage.list_files(recursive=True)
            if len([file for file in found if STAGING_PREFIX in file.path]) >= self._files:
                self._action()
                return


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
@pytest.mark.parametrize("operation", ["merge", "major compaction"])
@pytest.mark.parametrize("files", [1, 2])
def test_an_interruption_while_files_are_written_costs_a_job_by_spark_one_try_at_most(
    spark: SparkSession,
    judged: Callable[[str], Judged],
    operation: str,
    files: int,
    interrupt: Callable[[], None],
) -> None:
    judge = judged(operation)
    location = judge.tables.client.get_table(judge.tables.main).folder
    interruption = AtFiles(location, files, interrupt)
    error: ErrorReport | None
    try:
        error = run(spark, judge.job, [interruption]).error
    except StorageUnreachable as unreachable:
        error = ErrorReport.of(unreachable)
    assert interruption.happened()
    if error is not None:
        # The owner of a file is unknown if the answer to its creation was lost.
        assert (error.id, error.retryable) == ("StorageUnreachable", True)
        assert judge.outsider.rows() == judge.old
        assert run(spark, judge.job).error is None
    judge.require_whole()


@pytest.mark.parametrize(("hms", "operation", "phase"), OUTAGES, indirect=["hms"])
def test_a_job_by_spark_that_gives_up_changes_nothing_and_its_retry_completes_it(
    hdfs: Hdfs,
    spark: SparkSession,
    judged: Callable[[str], Judged],
    operation: str,
    phase: Phase,
    tmp_path: Path,
) -> None:
    give_up_and_try_again(hdfs, spark, judged(operation), phase, tmp_path)


def give_up_and_try_again(
    hdfs: Hdfs, spark: SparkSession, judge: Judged, phase: Phase, tmp_path: Path
) -> None:
    """Kill the NameNode at a phase of a driver that does not wait for long, then run its job again."""
    status, errors = run_driver(
        judge.job,
        "",
        tmp_path,
        program=str(Path(__file__).with_name("application_without_namenode.py")),
        environment={
            "HADOOP_CONF_DIR": str(impatient_conf(hdfs, tmp_path / "conf")),
            "NAMENODE": str(hdfs.pid(hdfs.active)),
            "PHASE": phase,
        },
    )
    assert hdfs.has_ended(hdfs.active)
    hdfs.revive()
    report = json.loads((tmp_path / "report.json").read_text())
    if phase is Phase.COMMIT:
        # That is a matter of the metastore alone.
        assert judge.outsider.rows() == judge.new
    else:
        assert (status, report["error"]["id"]) == (
            StorageUnreachable.exit_code,
            "StorageUnreachable",
        ), errors
        assert report["error"]["retryable"]
        assert judge.outsider.rows() == judge.old
    assert run(spark, judge.job).error is None
    judge.require_whole()
