"""@task.hive_acid_changes: the function returns the query over the changes."""

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, task

from airflow_hiveacid import ChangesSource, QuerySource
from hiveacid.errors import InvalidJob
from hiveacid.jobs import InsertJob, codec
from hiveacid.rules.names import TableRef
from tests.engine.acid_tables import create

LOG = {"consumer": "audit", "target": "decorated.log"}


@pytest.fixture
def written(fake4: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the name of a table with one version."""
    from hiveacid.metastore.client import MetastoreClient

    host, port = fake4.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    with MetastoreClient(fake4.options) as client:
        client.create_database("decorated")
        create(client, "decorated.orders", {"id": "int"})
        create(client, "decorated.log", {"id": "int"})
        txn = client.open_txn("user", "host", None)
        client.allocate_write_id(txn, TableRef.parse("decorated.orders"))
        client.commit_txn(txn)
        monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
        yield "decorated.orders"
        client.drop_database("decorated", cascade=True)


def test_the_function_returns_the_query(spark_submit: Any, written: str, context: Any) -> None:
    # In this order: the fixture of spark-submit sets a connection, too.
    report = {"job": "insert", "target": "decorated.log"}
    read = {"table": written, "after": 0, "up_to": 1}
    spark_submit.will(report={**report, "changes": [read]})
    context["ti"].xcom_pull = lambda **_: None

    def changes(what: str) -> str:
        return f"SELECT {what} FROM changed"

    with DAG("d"):
        operator = task.hive_acid_changes(table=written, keys=["id"], **LOG)(changes)("id").operator
    operator.render_template_fields(context)
    assert operator.execute(context)["changes"][0]["up_to"] == 1
    job = codec.decode(InsertJob, spark_submit.seen.job, "job")
    changed = ChangesSource(written, after="0", up_to="1", keys=("id",))
    assert job.source == QuerySource("SELECT id FROM changed", {"changed": changed})
    assert job.run_token.startswith(f"{written}@")
    assert job.run_token.endswith("/audit/0")
    spark_submit.seen_file.unlink()
    assert operator.execute(context)["changes"] == []
    assert not spark_submit.seen_file.exists()


@pytest.mark.parametrize("returned", [None, " ", 7])
def test_a_function_that_returns_no_query_fails_for_good(returned: Any, context: Any) -> None:
    def changes() -> Any:
        return returned

    with DAG("d"):
        operator = task.hive_acid_changes(table="a.b", **LOG)(changes)().operator
    with pytest.raises(AirflowFailException, match="Return a query that reads changed"):
        operator.execute(context)


def test_mistakes_show_while_the_dag_is_parsed() -> None:
    def changes() -> str:
        return "SELECT * FROM changed"

    with DAG("d"), pytest.raises(InvalidJob, match="lacks target"):
        task.hive_acid_changes(table="a.b", consumer="c")(changes)()
    with DAG("d"), pytest.raises(InvalidJob, match="no name of a consumer"):
        task.hive_acid_changes(table="a.b", consumer="c/d", target="a.c")(changes)()
