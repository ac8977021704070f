"""Sources without files, bytes, or rows, in the worker and on Spark."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import EmptySource
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import PathSource, QuerySource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RowJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_script
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.merge import MatchedUpdate, NotMatchedBySourceDelete, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from hiveacid.worker.run import change_rows
from tests.rows import rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
TOKEN = "d/r/t/-1"
BEFORE = [(1, 10), (2, 20)]


@pytest.fixture
def table(spark: SparkSession, client: MetastoreClient, database: str) -> str:
    script = to_script("CREATE TABLE t (id int, v int)", database)
    run(spark, replace(script, metastore=client.options))
    rows = QuerySource("VALUES (1, 10), (2, 20)")
    job = InsertJob(target=f"{database}.t", source=rows, by_position=True, run_in="worker")
    change_rows(client, replace(job, metastore=client.options))
    return f"{database}.t"


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    return tmp_path / "feed.csv"


@pytest.fixture
def source(feed: Path) -> PathSource:
    return PathSource(f"file:{feed}", "csv", {"header": "true"}, "id int, v int")


@pytest.fixture
def merge(table: str, source: PathSource) -> MergeJob:
    return MergeJob(
        target=table,
        source=source,
        on="t.id = s.id",
        when=(MatchedUpdate(), NotMatchedInsert()),
        run_token=TOKEN,
    )


@pytest.fixture(params=["worker", "spark"])
def attempt(
    request: pytest.FixtureRequest, spark: SparkSession, client: MetastoreClient
) -> Callable[[RowJob], RunReport]:
    def attempt(job: RowJob) -> RunReport:
        job = replace(job, metastore=client.options, run_in=request.param)
        report = change_rows(client, job) if request.param == "worker" else run(spark, job)
        assert isinstance(report, RunReport)
        return report

    return attempt


@pytest.fixture
def rows(client: MetastoreClient, table: str) -> Callable[[], list[tuple[int, int]]]:
    return lambda: sorted((row["id"], row["v"]) for row in rows_of(client.options.uris, table))


def test_a_feed_without_bytes_fails_and_its_repair_is_applied_by_the_same_run(
    client, attempt, rows, merge: MergeJob, feed: Path
) -> None:
    feed.touch()
    for _ in range(2):
        with pytest.raises(
            EmptySource, match=rf"merge into .* has no bytes: file:{feed}"
        ) as failed:
            attempt(merge)
        assert failed.value.retryable
    assert client.show_locks(TableRef.parse(merge.target)) == []
    feed.write_text("id,v\n2,21\n3,30\n")
    report = attempt(merge)
    assert (report.rows_updated, report.rows_inserted, report.already_done) == (1, 1, False)
    assert rows() == [(1, 10), (2, 21), (3, 30)]
    assert attempt(merge).already_done


def test_a_feed_without_rows_is_a_warning_and_does_not_use_up_the_run(
    attempt, rows, merge: MergeJob, feed: Path
) -> None:
    feed.write_text("id,v\n")
    for _ in range(2):
        report = attempt(merge)
        assert report.warnings == (f"The source of the merge into {merge.target} has no rows.",)
        assert not report.already_done
    feed.write_text("id,v\n3,30\n")
    assert attempt(merge).rows_inserted == 1
    assert rows() == [*BEFORE, (3, 30)]


@pytest.mark.parametrize("text", [None, "", "id,v\n"])
@pytest.mark.parametrize("on_empty", ["fail", "skip"])
def test_an_empty_source_changes_nothing(
    attempt, rows, merge: MergeJob, feed: Path, text: str | None, on_empty: str
) -> None:
    if text is not None:
        feed.write_text(text)
    job = replace(merge, when=(NotMatchedBySourceDelete(),), on_empty=on_empty)
    with pytest.raises(EmptySource) as ended:
        attempt(job)
    assert ended.value.retryable is (on_empty != "skip")
    assert rows() == BEFORE


def test_rows_without_a_source_are_deleted_if_an_empty_source_is_accepted(
    attempt, rows, merge: MergeJob, feed: Path
) -> None:
    feed.touch()
    job = replace(merge, when=(NotMatchedBySourceDelete(),), on_empty="ok")
    report = attempt(job)
    assert (report.rows_deleted, report.warnings) == (2, ())
    assert rows() == []
    assert attempt(job).already_done


def test_a_source_with_rows_that_change_nothing_is_not_empty(
    attempt, rows, merge: MergeJob, feed: Path
) -> None:
    feed.write_text("id,v\n9,90\n")
    job = replace(merge, when=(MatchedUpdate(),), on_empty="fail")
    assert attempt(job).warnings == ()
    assert rows() == BEFORE
    feed.write_text("id,v\n1,11\n")
    assert attempt(job).rows_updated == 1


@pytest.mark.parametrize("policy", ["strict", "rows"])
def test_the_warning_reaches_the_report_under_every_policy(
    spark, client, merge: MergeJob, feed: Path, policy: str
) -> None:
    feed.write_text("id,v\n")
    job = replace(merge, when=(MatchedUpdate(),), conflict_policy=policy, metastore=client.options)
    assert run(spark, job).warnings == (
        f"The source of the merge into {merge.target} has no rows.",
    )


def test_rows_that_arrive_after_the_evaluation_do_not_make_a_source_less_empty(
    spark, client, rows, merge: MergeJob, feed: Path
) -> None:
    class Arrival(PhaseObserver):
        def enter(self, phase: Phase) -> None:
            if phase is Phase.WRITE:
                feed.write_text("id,v\n1,10\n")

    feed.write_text("id,v\n")
    for when in [(NotMatchedBySourceDelete(),), (MatchedUpdate(), NotMatchedBySourceDelete())]:
        job = replace(merge, when=when, on_empty="fail", metastore=client.options)
        with pytest.raises(EmptySource, match="has no rows"):
            run(spark, job, [Arrival()])
        assert rows() == BEFORE
        feed.write_text("id,v\n")


def test_an_overwrite_without_rows_is_applied_once(
    attempt, rows, table: str, source: PathSource, feed: Path
) -> None:
    feed.write_text("id,v\n")
    job = InsertJob(target=table, source=source, overwrite=True, run_token=TOKEN)
    assert attempt(job).warnings != ()
    assert rows() == []
    feed.write_text("id,v\n3,30\n")
    assert attempt(job).already_done
    assert rows() == []


def test_a_list_of_keys_without_bytes_is_no_condition_without_matches(
    spark, client, rows, table: str, source: PathSource, feed: Path
) -> None:
    feed.touch()
    where, inputs = "id IN (SELECT id FROM gone)", {"gone": source}
    job = DeleteJob(target=table, where=where, inputs=inputs, metastore=client.options)
    with pytest.raises(EmptySource, match=r"delete .* has no bytes"):
        run(spark, job)
    run(spark, replace(job, on_empty="ok"))
    assert rows() == BEFORE
    feed.write_text("id,v\n1,0\n")
    run(spark, job)
    assert rows() == [(2, 20)]
