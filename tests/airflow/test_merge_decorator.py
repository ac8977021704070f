"""@task.hive_acid_merge: the function returns the source of the merge."""

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, Param, task

from airflow_hiveacid import (
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
    QuerySource,
    TableSource,
)
from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.jobs.write_jobs import MergeJob

MERGE = {
    "target": "db.orders",
    "on": "t.id = s.id",
    "when": [MatchedUpdate(), NotMatchedInsert()],
    "run_in": "spark",
}
FEED = PathSource(path="s3a://landing/feed", format="json")


def feed():
    return FEED


@pytest.fixture
def merged(spark_submit, context):
    """Run the task of a decorated function; answer the job that reached Spark."""
    spark_submit.will(report={"job": "merge", "target": "db.orders"})

    def run(function, *args, **options):
        with DAG("d"):
            operator = task.hive_acid_merge(**(MERGE | options))(function)(*args).operator
        operator.render_template_fields(context)
        assert operator.execute(context)["target"] == "db.orders"
        return codec.decode(MergeJob, spark_submit.seen.job, "job")

    return run


@pytest.mark.parametrize(
    ("returned", "source"),
    [
        (FEED, FEED),
        (TableSource("db.feed"), TableSource("db.feed")),
        ("SELECT 1 AS id, 'x' AS a", QuerySource("SELECT 1 AS id, 'x' AS a")),
        (QuerySource("SELECT * FROM f", {"f": FEED}), QuerySource("SELECT * FROM f", {"f": FEED})),
        ({"path": "s3a://landing/feed", "format": "json"}, FEED),
        ({"name": "db.feed"}, TableSource("db.feed")),
        (
            {"sql": "SELECT * FROM f", "inputs": {"f": {"kind": "table", "name": "db.feed"}}},
            QuerySource("SELECT * FROM f", {"f": TableSource("db.feed")}),
        ),
    ],
)
def test_a_source_is_returned_in_one_of_several_ways(returned, source, merged):
    def changes():
        return returned

    job = merged(changes)
    assert job.source == source
    assert (job.target, job.on, job.when) == ("db.orders", "t.id = s.id", tuple(MERGE["when"]))
    assert job.run_token == "d/r/t/-1"


def test_a_query_sees_the_inputs_of_the_decorator_and_the_function_its_arguments(merged):
    def changes(day, params=None):
        return f"SELECT * FROM feed WHERE a = '{day}' AND a <> '{params['table']}'"

    job = merged(changes, "2026-11-20", inputs={"feed": TableSource("{{ params.table }}")})
    assert job.source == QuerySource(
        "SELECT * FROM feed WHERE a = '2026-11-20' AND a <> 'db.orders'",
        {"feed": TableSource("db.orders")},
    )


def test_params_are_those_of_airflow_and_parameters_those_of_the_job(spark_submit, context):
    spark_submit.will(report={"job": "merge", "target": "db.orders"})
    with DAG("d", params={"feed": Param("landing", type="string")}):

        @task.hive_acid_merge(
            **MERGE | {"on": "t.id = s.id AND t.day > :day"}, parameters={"day": 7}
        )
        def merge():
            return FEED

        operator = merge().operator
    assert dict(operator.params) == {"feed": "landing"}
    operator.render_template_fields(context)
    operator.execute(context)
    assert codec.decode(MergeJob, spark_submit.seen.job, "job").params == {"day": 7}


def test_all_else_of_the_job_is_a_template_and_the_text_of_a_function_is_not(merged):
    def changes():
        return "SELECT 1 AS id, '{{ run_id }}' AS a"

    job = merged(changes, target="{{ params.table }}")
    assert job.target == "db.orders"
    assert job.source.sql == "SELECT 1 AS id, '{{ run_id }}' AS a"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "has returned None.\nReturn a query"),
        ([1], r"has returned \[1\]"),
        ({"path": "s3a://landing/feed"}, "source lacks the key 'format'"),
        ({"file": "s3a://landing/feed"}, "source.kind must be one of"),
        ("  ", "source.sql must be a non-empty text"),
    ],
)
def test_a_function_that_returns_no_source_fails_for_good(returned, message, merged):
    def changes():
        return returned

    with pytest.raises(AirflowFailException, match=message):
        merged(changes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "orders"}, "'orders' is not the name of a table"),
        ({"when": []}, "clause"),
        ({"inputs": {"a b": FEED}}, "cannot be the name of a view"),
    ],
)
def test_mistakes_show_while_the_dag_is_parsed(options, message):
    with DAG("d"), pytest.raises(InvalidJob, match=message):
        task.hive_acid_merge(**(MERGE | options))(feed)()


def test_required_fields_of_a_merge_cannot_be_omitted():
    with DAG("d"), pytest.raises(InvalidJob, match="lacks on, when"):
        task.hive_acid_merge(target="db.orders")(feed)()


def test_the_function_can_be_mapped():
    with DAG("d") as dag:

        @task
        def days():
            return ["2026-11-19", "2026-11-20"]

        @task.hive_acid_merge(**MERGE, max_active_tis_per_dagrun=1)
        def merge(day):
            return {"path": f"/feed/{day}", "format": "json"}

        merge.expand(day=days())
    mapped = dag.get_task("merge")
    assert mapped.is_mapped
    assert mapped.partial_kwargs["target"] == "db.orders"
