"""Attempts of one run in the worker and on Spark: rows are changed once, whoever begins."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from hiveacid.jobs import UpdateJob
from hiveacid.jobs.report import RunReport, ScriptReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import placed, to_script
from hiveacid.progress import FAULT_VARIABLE, InjectedFault, watching
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.worker.run import change_rows
from hiveacid.worker.script import joined_script, rest_of_script, run_script_in_worker
from tests.forks import died
from tests.rows import rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
TOKEN = "d/r/t/-1"


@pytest.fixture
def table(spark: SparkSession, client: MetastoreClient, database: str) -> str:
    script = to_script("CREATE TABLE t (id int, v int); INSERT INTO t VALUES (1, 10)", database)
    run(spark, replace(script, metastore=client.options))
    return f"{database}.t"


@pytest.fixture
def rows(client: MetastoreClient, table: str) -> Callable[[], list[tuple[int, int]]]:
    return lambda: [(row["id"], row["v"]) for row in rows_of(client.options.uris, table)]


def attempt(spark: SparkSession, client: MetastoreClient, job: UpdateJob, place: str) -> RunReport:
    if place == "worker":
        return change_rows(client, replace(job, run_in=place), watching())
    report = run(spark, job)
    assert isinstance(report, RunReport)
    return report


@pytest.mark.parametrize("phase", ["publish", "commit"])
@pytest.mark.parametrize("edge", ["before", "after"])
@pytest.mark.parametrize("places", [("worker", "spark"), ("spark", "worker")])
def test_another_engine_continues_a_run(
    spark, client, table, rows, monkeypatch, places: tuple[str, str], edge: str, phase: str
) -> None:
    job = UpdateJob(
        target=table,
        set={"v": "v + 1"},
        where="id = 1",
        metastore=client.options,
        run_token=TOKEN,
    )
    with monkeypatch.context() as patch:
        if places[0] == "worker":
            patch.setenv(FAULT_VARIABLE, f"{phase}:kill:{edge}")
            died(
                lambda: change_rows(
                    MetastoreClient(client.options), replace(job, run_in="worker"), watching()
                )
            )
        else:
            # Spark's Java is not forked.
            patch.setenv(FAULT_VARIABLE, f"{phase}:raise:{edge}")
            with suppress(InjectedFault):
                attempt(spark, client, job, "spark")
    second = attempt(spark, client, job, places[1])
    assert second.already_done is ((phase, edge) == ("commit", "after"))
    assert rows() == [(1, 11)]
    assert attempt(spark, client, job, places[0]).already_done
    assert rows() == [(1, 11)]
    assert client.show_locks(TableRef.parse(table)) == []


def test_equal_statements_before_and_after_the_change_of_engines_are_both_applied(
    spark, client, table, rows
) -> None:
    insert = f"INSERT INTO {table} VALUES (2, 20)"
    script = to_script(
        f"{insert}; UPDATE {table} SET v = v + length(soundex('x')); {insert}", all_rows=True
    )
    script = replace(
        script,
        statements=placed(script.statements, "auto"),
        metastore=client.options,
        run_token=TOKEN,
    )
    with WorkerScheduler() as scheduler:
        in_worker = run_script_in_worker(client, script, scheduler)
        found = rest_of_script(script, in_worker)
        assert found is not None
        on_spark = run(spark, found[0])
        assert isinstance(on_spark, ScriptReport)
        reports = [each.report for each in joined_script(in_worker, on_spark).statements]
        assert [each.job for each in reports] == ["insert", "update", "insert"]
        assert rows() == [(1, 14), (2, 20), (2, 24)]
        # Also what Spark has done is found by the worker.
        again = run_script_in_worker(client, script, scheduler)
    assert [each.run and each.run.already_done for each in again.statements] == [True] * 3
    assert rows() == [(1, 14), (2, 20), (2, 24)]
