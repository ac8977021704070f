"""Changes that Spark stages, and a worker publishes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.cli.main import main
from hiveacid.errors import InvalidJob
from hiveacid.jobs.checks import NotNull, RowCount
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.stage_jobs import PublishJob, StageJob, StageReport
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from hiveacid.worker.run import ChangeJob
from hiveacid.worker.staged_changes import publish_change, staged_changes
from tests.rows import unordered_rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

LAYOUTS = {
    "plain": "CREATE TABLE t (id int, v string, k int)",
    "bucketed": "CREATE TABLE t (id int, v string) PARTITIONED BY (k int)"
    " CLUSTERED BY (id) INTO 3 BUCKETS",
    "parquet": "CREATE TABLE t (id int, v string) PARTITIONED BY (k int) STORED AS PARQUET"
    " TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
}
BEFORE = [(1, "a", 1), (2, "b", 1), (3, "c", 2)]
NEW = QuerySource("SELECT id, reverse(v) AS v, k FROM VALUES (2, 'B', 1), (4, 'DE', 3) s(id, v, k)")
ADDED = [(2, "B", 1), (4, "ED", 3)]


def changes(t: str) -> dict[str, tuple[ChangeJob, list[Any]]]:
    merge = MergeJob(
        target=t, source=NEW, on="t.id = s.id", when=(MatchedUpdate(), NotMatchedInsert())
    )
    return {
        "insert": (InsertJob(target=t, source=NEW), [*BEFORE, *ADDED]),
        "merge": (merge, [BEFORE[0], BEFORE[2], *ADDED]),
        "update": (
            UpdateJob(target=t, set={"v": "reverse(v)||'x'"}, where="id < 3"),
            [(1, "ax", 1), (2, "bx", 1), (3, "c", 2)],
        ),
        "overwrite": (InsertJob(target=t, source=NEW, overwrite=True), ADDED),
        "delete": (
            DeleteJob(
                target=t,
                where="id IN (SELECT id FROM s)",
                inputs={"s": TableSource(t)},
            ),
            [],
        ),
    }


@pytest.fixture
def stage(spark: SparkSession, client: MetastoreClient) -> Callable[..., StageReport]:
    def go(change: ChangeJob, token: str = "d/r/t/-1") -> StageReport:
        job = StageJob(change=change, metastore=client.options, run_token=token)
        read = from_json(to_json(job))
        assert read == job
        report = run(spark, read)
        assert isinstance(report, StageReport)
        return report

    return go


@pytest.mark.parametrize(
    ("layout", "kind"),
    [(each, kind) for each in ("plain", "bucketed") for kind in changes("")]
    + [("parquet", "insert")],
)
def test_a_worker_publishes_what_spark_has_staged(
    spark: SparkSession,
    stage: Callable[..., StageReport],
    client: MetastoreClient,
    database: str,
    layout: str,
    kind: str,
) -> None:
    def sql(script: str) -> None:
        arguments = ["sql", script, "--database", database, "--metastore", client.options.uris]
        assert main([*arguments, "--run-in", "worker" if layout != "parquet" else "auto"]) == 0

    def rows() -> list[Any]:
        return sorted(
            tuple(row.values()) for row in unordered_rows_of(client.options.uris, f"{database}.t")
        )

    sql(LAYOUTS[layout])
    before: list[Any] = []
    if layout != "parquet":
        sql(f"INSERT INTO t VALUES {', '.join(map(str, BEFORE))}")
        before = BEFORE
    change, after = changes(f"{database}.t")[kind]
    if (layout, kind) == ("bucketed", "overwrite"):
        after = [*after, BEFORE[2]]  # No row of its partition is given.
    staged = stage(change)
    assert rows() == before
    assert not client.show_locks(TableRef(database, "t"))
    (found,) = staged_changes(client, f"{database}.t")
    assert found.name == staged.staged
    shown = both_reads(spark, client, f"{database}.t", staged)
    changed = Counter(before)
    changed.update(tuple(row) for change, *row in shown if change == "insert")
    changed.subtract(tuple(row) for change, *row in shown if change == "delete")
    publication = PublishJob.of(staged.to_dict(), metastore=client.options)
    assert not publish_change(client, publication).already_done
    assert rows() == sorted(changed.elements()) == sorted(after if before else ADDED)
    assert publish_change(client, publication).already_done


def both_reads(
    spark: SparkSession, client: MetastoreClient, name: str, staged: StageReport
) -> list[tuple[Any, ...]]:
    """Return the rows of a staged change, which Spark and Arrow must read alike."""
    with AcidTable(name, client.options, spark=spark, run_in="spark") as table:
        shown = [tuple(row.values()) for row in table.staged(staged.staged).to_pylist()]
    with AcidTable(name, client.options, run_in="worker") as table:
        read = [tuple(row.values()) for row in table.staged(staged.staged).to_pylist()]
    assert sorted(read, key=str) == sorted(shown, key=str)
    return shown


@pytest.mark.parametrize("layout", ["plain", "parquet"])
def test_the_rows_of_a_staged_change_have_the_types_of_the_table(
    spark: SparkSession,
    stage: Callable[..., StageReport],
    client: MetastoreClient,
    database: str,
    layout: str,
) -> None:
    columns = "(ts timestamp, d date, n decimal(20,4), c char(5), v varchar(9), b binary,"
    columns += " a array<int>)"
    _, _, kind = LAYOUTS["parquet"].partition(" STORED")
    create = f"CREATE TABLE t {columns} PARTITIONED BY (k date)"
    arguments = ["sql", create + f" STORED{kind}" * (layout == "parquet"), "--database", database]
    assert main([*arguments, "--metastore", client.options.uris]) == 0
    values = QuerySource(
        "SELECT TIMESTAMP'1970-01-01 00:00:00.123456' ts, DATE'2026-01-31' d, 12.5 n, 'ab' c,"
        " 'x' v, X'00ff' b, array(1, null) a, DATE'2026-02-01' k"
    )
    staged = stage(InsertJob(target=f"{database}.t", source=values))
    ((_, *row),) = both_reads(spark, client, f"{database}.t", staged)
    publish_change(client, PublishJob.of(staged.to_dict(), metastore=client.options))
    (after,) = spark_rows(spark, client, f"{database}.t")
    assert row == after
    # An overwrite replaces the row of its partition, and no other one.
    overwrite = InsertJob(target=f"{database}.t", source=values, overwrite=True)
    staged = stage(overwrite, "d/2/t/-1")
    assert both_reads(spark, client, f"{database}.t", staged) == [
        ("insert", *after),
        ("delete", *after),
    ]


def spark_rows(spark: SparkSession, client: MetastoreClient, name: str) -> list[list[Any]]:
    with AcidTable(name, client.options, spark=spark, run_in="spark") as table:
        return [list(row) for row in table.to_df().collect()]


def test_checks_that_a_worker_cannot_evaluate_on_many_rows_are_refused(
    stage: Callable[..., StageReport], client: MetastoreClient, database: str
) -> None:
    arguments = ["sql", LAYOUTS["plain"], "--database", database, "--run-in", "worker"]
    assert main([*arguments, "--metastore", client.options.uris]) == 0
    change, _ = changes(f"{database}.t")["insert"]
    with pytest.raises(InvalidJob, match="evaluates only numbers"):
        stage(replace(change, checks=[NotNull(columns=["id"])]))
    assert stage(replace(change, checks=[RowCount(min=2)])).rows_inserted == 2
