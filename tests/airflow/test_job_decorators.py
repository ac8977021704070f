"""@task.hive_acid_insert, _sql and _compact: a function returns the rows, statements or needs."""

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk import DAG, task

from airflow_hiveacid import MatchedUpdate, PathSource, TableSource
from hiveacid.errors import InvalidJob
from hiveacid.jobs import CompactJob, InsertJob, codec
from hiveacid.jobs.job import Job
from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport


def decorated(name, returned, *args, **options):
    def told(*given):
        return returned(*given) if callable(returned) else returned

    with DAG("d"):
        return getattr(task, name)(**options)(told)(*args).operator


@pytest.fixture
def run(context):
    """Run the task of a decorated function as Airflow does."""

    def go(*args, **options):
        operator = decorated(*args, **options)
        operator.render_template_fields(context)
        return operator.execute(context)

    return go


def test_an_insert_takes_the_source_that_is_returned(run, spark_submit):
    spark_submit.will(report={"job": "insert", "target": "db.orders"})
    run(
        "hive_acid_insert",
        {"name": "db.feed"},
        target="{{ params.table }}",
        overwrite=True,
        run_in="spark",
    )
    job = codec.decode(InsertJob, spark_submit.seen.job, "job")
    assert (job.target, job.source, job.overwrite) == ("db.orders", TableSource("db.feed"), True)


def test_an_insert_sees_the_arguments_of_its_function(run, spark_submit):
    spark_submit.will(report={"job": "insert", "target": "db.orders"})
    feed = "hive_acid_insert", lambda day: f"SELECT '{day}' AS a FROM feed", "{{ run_id }}"
    run(
        *feed,
        target="db.orders",
        inputs={"feed": PathSource("s3a://feed", format="json")},
        run_in="spark",
    )
    assert spark_submit.seen.job["source"]["sql"] == "SELECT 'r' AS a FROM feed"


def test_statements_are_those_that_are_returned(run, spark_submit, context):
    done = RunReport(job="delete", target="shop.orders", txn_id=7, rows_deleted=3)
    spark_submit.will(report=ScriptReport.of("shop.orders", [done, done]).to_dict())
    # A text that ends like a file's name is not a file; the returned value is not a template.
    run(
        "hive_acid_sql",
        lambda name: (
            f"DELETE FROM orders WHERE a = '{name}'; DELETE FROM gone WHERE a = '{{{{ x }}}}'"
        ),
        "x.sql",
        database="shop",
        run_in="spark",
    )
    first, second = spark_submit.seen.job["statements"]
    assert (first["target"], first["where"]) == ("shop.orders", "a = 'x.sql'")
    assert (second["target"], second["where"]) == ("shop.gone", "a = '{{ x }}'")
    assert context["ti"].xcoms["sql"].startswith("DELETE FROM orders")


@pytest.mark.parametrize(
    ("name", "returned", "options"),
    [
        ("hive_acid_sql", "DELETE FROM db.t WHERE a", {}),
        ("hive_acid_insert", {"name": "db.feed"}, {"target": "db.t"}),
        (
            "hive_acid_merge",
            "SELECT * FROM feed",
            {
                "target": "db.t",
                "on": "t.id = s.id",
                "when": [MatchedUpdate()],
                "inputs": {"feed": PathSource("s3a://feed", format="json")},
            },
        ),
        ("hive_acid_compact", ["day=1"], {"target": "db.days"}),
    ],
)
def test_a_deferred_task_continues_with_the_result_of_its_function(
    spark_submit, context, monkeypatch, name, returned, options
):
    jobs = []

    def end(_, *arguments):
        jobs.extend(each for each in arguments if isinstance(each, Job))
        raise AirflowFailException("The end of the test.")

    context["ti"].xcom_pull = lambda key, **_: context["ti"].xcoms.get(key)
    operator = decorated(name, returned, **options)
    for method in ("_run", "_after_trigger"):
        monkeypatch.setattr(type(operator), method, end)
    with pytest.raises(AirflowFailException, match="The end of the test"):
        operator.execute(context)
    resumed = decorated(name, lambda: pytest.fail("It was called again."), **options)
    with pytest.raises(AirflowFailException, match="The end of the test"):
        resumed.resume_execution("execute_complete", {"event": {}}, context)
    assert jobs[0] == jobs[1]


def test_a_compaction_takes_the_partitions_that_are_returned(run, spark_submit):
    spark_submit.will(report=CompactReport(target="shop.days").to_dict())
    run(
        "hive_acid_compact",
        ["day=1", "day=2"],
        target="shop.days",
        type="major",
        pool="night",
        run_in="spark",
    )
    job = codec.decode(CompactJob, spark_submit.seen.job, "job")
    assert (job.partitions, job.type, job.pool) == (("day=1", "day=2"), "major", None)


def test_without_a_partition_there_is_nothing_to_compact(run, spark_submit):
    with pytest.raises(AirflowSkipException):
        run("hive_acid_compact", [], target="db.orders")
    assert not spark_submit.seen_file.exists()


@pytest.mark.parametrize(
    ("name", "returned", "message"),
    [
        ("hive_acid_insert", None, "has returned None.\nReturn a query"),
        ("hive_acid_sql", None, "has returned None.\nReturn one statement"),
        ("hive_acid_sql", "SELECT 1", "It only asks something"),
        # All partitions, because of a forgotten return, would be a costly mistake.
        ("hive_acid_compact", None, "has returned None.\nReturn a list"),
        ("hive_acid_compact", "id=1", "has returned 'id=1'.\nReturn a list"),
        ("hive_acid_compact", ["id=1", "id=1"], "is there twice"),
        ("hive_acid_compact", [1], r"partitions\[0\]"),
    ],
)
def test_invalid_results_of_a_function_fail_without_retries(
    name, returned, message, run, spark_submit
):
    options = {} if name == "hive_acid_sql" else {"target": "db.orders"}
    with pytest.raises(AirflowFailException, match=message):
        run(name, returned, **options)
    assert not spark_submit.seen_file.exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hive_acid_insert", {}, "lacks target"),
        ("hive_acid_compact", {"type": "major"}, "lacks target"),
        ("hive_acid_compact", {"target": "db.t", "type": "mayor"}, "'mayor'"),
    ],
)
def test_mistakes_show_while_the_dag_is_parsed(name, options, message):
    with pytest.raises(InvalidJob, match=message):
        decorated(name, "", **options)
