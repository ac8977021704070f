"""Compacting and cleaning as tasks, up to the application; other tests cover the application."""

import json

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG

from airflow_hiveacid import (
    Budget,
    CompactionPolicy,
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidDeleteOperator,
)
from hiveacid.errors import InvalidJob
from hiveacid.jobs import CleanJob, CompactJob, DeleteJob
from hiveacid.jobs.report import CompactReport
from hiveacid.metastore.txn.owner import Owner, Snapshot, find_open_transactions, open_transaction
from hiveacid.rules.names import Base


def need(partition=None, table="shop.orders", **more):
    needs = {
        "format": 1,
        "table": table,
        "partition": partition,
        "type": "minor",
        "reason": "12 deltas (limit 10).",
        "deltas": 12,
        "delta_bytes": 100,
        "base_bytes": 2000,
        "delta_ratio": 0.05,
        "bytes": 100,
    }
    return needs | more


@pytest.fixture
def compacted(spark_submit):
    """spark-submit, which reports one partition of shop.days that was compacted."""
    report_compaction(spark_submit, "shop.days")
    return spark_submit


def report_compaction(spark_submit, table):
    partition = {"table": table, "outcome": "compacted", "reason": "12 deltas."}
    spark_submit.will(report={"job": "compact", "target": table, "partitions": [partition]})


def test_a_compact_job_is_submitted_as_it_is(compacted, context):
    job = CompactJob(
        target="shop.{{ 'days' }}",
        partitions=["day={{ run_id }}"],
        type="major",
        policy=CompactionPolicy(max_deltas=3),
        budget=Budget(max_partitions=7),
        run_in="spark",
    )
    operator = HiveAcidCompactOperator(task_id="t", job=job)
    operator.render_template_fields(context)
    report = operator.execute(context)
    seen = compacted.seen.job
    assert (seen["job"], seen["target"], seen["partitions"]) == ("compact", "shop.days", ["day=r"])
    assert (seen["policy"]["max_deltas"], seen["budget"]["max_partitions"]) == (3, 7)
    assert seen["run_token"] == "d/r/t/-1"
    assert report["partitions"][0]["outcome"] == "compacted"
    assert json.loads(json.dumps(report)) == report


@pytest.mark.parametrize(
    ("needs", "target", "partitions"),
    [
        (need(), "shop.orders", None),
        (need("day=1", "shop.days"), "shop.days", ["day=1"]),
        (
            [need("day=1", "shop.days"), need("day=2", "shop.days")],
            "shop.days",
            ["day=1", "day=2"],
        ),
    ],
)
def test_the_result_of_a_sensor_determines_the_compaction(
    needs, target, partitions, compacted, context
):
    report_compaction(compacted, target)
    job = CompactJob(target="shop.*", parallel=5, orc_codec="zstd", run_in="spark")
    operator = HiveAcidCompactOperator(task_id="t", job=job, need=needs)
    operator.render_template_fields(context)
    operator.execute(context)
    seen = compacted.seen.job
    assert (seen["target"], seen["partitions"], seen["type"]) == (target, partitions, "minor")
    assert seen["reason"] == "12 deltas (limit 10)."
    assert (seen["parallel"], seen["orc_codec"]) == (5, "zstd")


def test_a_need_is_enough_where_it_is_mapped(compacted, context):
    with DAG("d"):
        job = CompactJob(target="{{ task.need }}", run_in="spark")
        mapped = HiveAcidCompactOperator.partial(task_id="compact", job=job).expand(
            need=[need("day=1", "shop.days")]
        )
    operator = mapped.unmap({"need": need("day=1", "shop.days")})
    operator.render_template_fields(context | {"task": operator})
    operator.execute(context)
    assert compacted.seen.job["target"] == "shop.days"


@pytest.mark.parametrize("operator", [HiveAcidCleanOperator, HiveAcidCompactOperator])
@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ([], "need must be the result of a sensor"),
        ("shop.orders", "need must be the result of a sensor"),
        ([need(), {"format": 1, "table": "shop.orders"}], r"need\[1\] lacks the key"),
        ([need(), need(table="shop.visits")], "partitions of shop.orders and of shop.visits"),
    ],
)
def test_a_need_that_cannot_be_one_task_fails_for_good(
    operator, needs, message, spark_submit, context
):
    with pytest.raises(AirflowFailException, match=message):
        operator(task_id="t", need=needs).execute(context)
    assert not spark_submit.seen_file.exists()


def test_one_task_does_not_compact_in_two_ways(spark_submit, context):
    needs = [need("d=1"), need("d=2", type="major")]
    with pytest.raises(AirflowFailException, match="Group the result of the sensor"):
        HiveAcidCompactOperator(task_id="t", need=needs).execute(context)


@pytest.mark.parametrize("operator", [HiveAcidCleanOperator, HiveAcidCompactOperator])
def test_a_task_without_job_and_need_fails_while_the_dag_is_parsed(operator):
    with pytest.raises(InvalidJob, match="needs a job, or a need"):
        operator(task_id="t")


def test_deferring_a_cleaning_is_refused_while_the_dag_is_parsed():
    with pytest.raises(InvalidJob, match="works in the worker"):
        HiveAcidCleanOperator(task_id="t", job=CleanJob(target="db.t"), deferrable=True)


def test_a_cleaning_takes_no_parameters_of_spark():
    # Those that are for all tasks of the DAG concern others.
    with DAG("d", default_args={"spark_conn_id": "lake", "jars": "a.jar"}):
        HiveAcidCleanOperator(task_id="clean", job=CleanJob(target="db.t"))
    with pytest.raises(InvalidJob, match="has jars, but works in the worker"):
        HiveAcidCleanOperator(task_id="t", job=CleanJob(target="db.t"), jars="a.jar")


def test_partitions_that_failed_fail_the_task_with_their_error(spark_submit, context):
    error = {
        "id": "CorruptFile",
        "message": "1 of 2 failed (shop.orders/d=1): delta_1 is broken.",
        "remedy": "Restore it.",
        "exit_code": 30,
    }
    spark_submit.will(
        report={"job": "compact", "target": "shop.orders", "error": error}, exit_code=30
    )
    job = CompactJob(target="shop.orders", type="minor", run_in="spark")
    with pytest.raises(AirflowFailException, match=r"shop.orders/d=1.*\nRestore it"):
        HiveAcidCompactOperator(task_id="t", job=job).execute(context)


def test_the_texts_of_a_job_stay_texts_in_a_dag_of_native_objects(context):
    with DAG("native", render_template_as_native_obj=True):
        delete = HiveAcidDeleteOperator(
            task_id="t", job=DeleteJob(target="{{ params.table }}", where="'{{ run_id }}'")
        )
        compact = HiveAcidCompactOperator(task_id="c", job=CompactJob(target="db.t"))
    for operator in (delete, compact):
        operator.render_template_fields(context)
    assert (delete.job.target, delete.job.where) == ("db.orders", "'r'")
    assert compact.job.reason == ""


@pytest.mark.parametrize("type_", [None, "major"])
def test_a_clean_table_is_not_worth_a_spark(type_, spark_submit, context, capsys):
    job = CompactJob(target="db.t", type=type_)
    report = HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    assert not spark_submit.seen_file.exists()
    told = CompactReport.from_dict(json.loads(json.dumps(report)))
    (partition,) = told.partitions
    assert (told.target, told.error, partition.outcome) == ("db.t", None, "skipped")
    assert f"db.t: {partition.reason}" in capsys.readouterr().out


def test_a_clean_table_is_not_worth_deferring(cluster, context):
    operator = HiveAcidCompactOperator(
        task_id="t",
        job=CompactJob(target="shop.orders"),
        deploy_mode="cluster",
        deferrable=True,
    )
    (partition,) = operator.execute(context)["partitions"]
    assert partition["outcome"] == "skipped"
    assert "application_id" not in context["ti"].xcoms


def test_missing_partitions_are_left_to_the_run(compacted, context):
    job = CompactJob(target="shop.days", partitions=["day=1", "day=3"], run_in="spark")
    HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    assert compacted.seen.job["partitions"] == ["day=1", "day=3"]


def test_open_transactions_of_an_earlier_attempt_end_also_without_spark(
    orders, metastore_connection, context, monkeypatch
):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    job = CompactJob(target="shop.orders", type="major", run_token="d/r/t/-1")
    owner = Owner.of(job.token, orders.client.user)
    txn_id = open_transaction(orders.client, owner)
    HiveAcidCompactOperator(task_id="t", job=job).execute(context)
    assert find_open_transactions(orders.client, *job.tokens) == []
    assert txn_id in Snapshot.take(orders.client, []).txns.aborted


@pytest.fixture
def two_deltas(orders, metastore_connection):
    """Two deltas that a base has replaced; their names."""
    names = [orders.insert(), orders.insert()]
    orders.compact(Base(3))
    return names


def test_cleaning_needs_no_spark(orders, two_deltas, context, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    operator = HiveAcidCleanOperator(task_id="t", job=CleanJob(target="{{ params.table }}"))
    operator.render_template_fields(context | {"params": {"table": "shop.orders"}})
    report = operator.execute(context)
    assert sorted(removed["path"] for removed in report["removed"])[1:] == two_deltas
    assert json.loads(json.dumps(report)) == report
    log = capsys.readouterr().out
    assert f"Removed {two_deltas[0]}" in log
    assert report["oldest_version"] == 3
    assert "Versions can be read since 3, of 20" in log
    assert set(two_deltas).isdisjoint(orders.directories())


def test_a_dry_run_reports_removable_files(orders, two_deltas, context, capsys):
    job = CleanJob(target="shop.orders", dry_run=True)
    report = HiveAcidCleanOperator(task_id="t", job=job).execute(context)
    assert report["dry_run"]
    assert f"Would remove {two_deltas[0]}" in capsys.readouterr().out
    assert set(two_deltas) < set(orders.directories())


def test_kept_directories_are_reported_with_reasons(orders, two_deltas, context, capsys):
    with orders.reading() as reader:
        HiveAcidCleanOperator(task_id="t", need=need(table="shop.orders")).execute(context)
    log = capsys.readouterr().out
    assert f"Kept {two_deltas[0]}: " in log
    assert f"transaction {reader.txn_id} of" in log


def test_a_table_that_cannot_be_cleaned_fails_for_good(metastore_connection, context):
    with pytest.raises(AirflowException, match=r"shop\.gone does not exist") as failed:
        HiveAcidCleanOperator(task_id="t", job=CleanJob(target="shop.gone")).execute(context)
    assert isinstance(failed.value, AirflowFailException)
