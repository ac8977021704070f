"""What docker-compose.yml starts, started without Docker: the full set, and two DAGs on it."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_hiveacid.acid.locks import MetastoreVersion
from airflow_hiveacid.jobs.options import MetastoreOptions
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.live.airflow_api import AirflowApi, wait_until
from tests.live.compose_stack import ComposeStack

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """PostgreSQL, the S3 store, the metastore on both, and what Airflow needs beforehand."""
    with ComposeStack(tmp_path_factory.mktemp("stack")) as stack:
        stack.start_postgres()
        stack.start("s3")
        stack.start("metastore")
        stack.run("airflow-setup")
        yield stack


def test_the_metastore_keeps_its_tables_in_postgresql_and_their_files_in_s3(
    stack: ComposeStack,
) -> None:
    assert stack.query("metastore", 'SELECT "TBL_NAME" FROM "TBLS"') == "customers"
    location = stack.query("metastore", 'SELECT "LOCATION" FROM "SDS"')
    assert location == "s3a://warehouse/hive/demo.db/customers"
    with MetastoreClient(metastore(stack)) as client:
        assert client.version is MetastoreVersion.HMS4
        assert client.get_databases() == ["default", "demo"]


def test_a_second_start_finds_all_that_the_first_one_made(stack: ComposeStack) -> None:
    stack.kill("metastore")
    stack.start("metastore")
    assert "Created" not in stack.run("airflow-setup")
    with MetastoreClient(metastore(stack)) as client:
        assert client.get_tables("demo") == ["customers"]


def test_the_provider_is_there_and_its_examples_can_be_run(stack: ComposeStack) -> None:
    assert "airflow-hiveacid" in stack.run("airflow-api", "airflow", "providers", "list")
    # It fails when there are any.
    stack.run("airflow-api", "airflow", "dags", "list-import-errors")


def test_merges_and_a_compaction_run_on_the_cluster(stack: ComposeStack) -> None:
    for name in ("spark-master", "spark-worker", "airflow-api", "airflow-scheduler"):
        stack.start(name)
    for name in ("airflow-dag-processor", "airflow-triggerer"):
        stack.start(name)
    environment = stack.environment("airflow-api")
    api = AirflowApi(f"http://127.0.0.1:{stack.port('airflow-api')}")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        log_in(api, "a guess")
    log_in(api, environment["AIRFLOW_ADMIN_PASSWORD"])

    wait_until("the examples are there", lambda: api.get("/dags/hourly_merge") is not None, 120)
    for number, run_id in enumerate(("first", "again")):
        hour = {
            "logical_date": f"2026-11-20T09:0{number}:00Z",
            "data_interval_start": "2026-11-20T09:00:00Z",
            "data_interval_end": "2026-11-20T10:00:00Z",
        }
        run(api, "hourly_merge", run_id, {"feed": environment["DEMO_FEED"]}, hour)
        assert rows(stack) == [(1, "Emmy", "de"), (2, "Sophie", "fr")]
    # The second one replaced what the first one wrote: there are two deltas in each partition.
    conf = {"table": "demo.customers", "max_deltas": 1}
    run(api, "automatic_compaction", "first", conf, {"logical_date": None})
    assert rows(stack) == [(1, "Emmy", "de"), (2, "Sophie", "fr")]
    directories = hiveacid(stack, "inspect")
    assert directories.count("base_0000002_v") == 2
    assert "delta_" not in directories
    names = [application["name"] for application in applications(stack)]
    assert sorted(names) == ["automatic_compaction.compact"] + ["hourly_merge.merge"] * 2


def metastore(stack: ComposeStack) -> MetastoreOptions:
    return MetastoreOptions(uris=f"thrift://127.0.0.1:{stack.port('metastore')}")


def log_in(api: AirflowApi, password: str) -> None:
    request = urllib.request.Request(
        f"{api.url}/auth/token",
        data=json.dumps({"username": "admin", "password": password}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        api._token = json.loads(answer.read())["access_token"]


def run(
    api: AirflowApi, dag_id: str, run_id: str, conf: dict[str, Any], dates: dict[str, str | None]
) -> None:
    api.ask("POST", f"/dags/{dag_id}/dagRuns", {"dag_run_id": run_id, "conf": conf} | dates)
    # Nothing of its schedule is to run in between.
    api.unpause(dag_id)
    api.wait_for_run(dag_id, run_id, seconds=300)


def hiveacid(stack: ComposeStack, command: str, *options: str) -> str:
    address = metastore(stack).uris
    words = ("hiveacid", command, "demo.customers", "--metastore", address, *options)
    return stack.run("airflow-api", *words)


def rows(stack: ComposeStack) -> list[tuple[int, str, str]]:
    lines = hiveacid(stack, "cat", "--json").splitlines()
    found = [json.loads(line) for line in lines]
    return sorted((row["id"], row["name"], row["country"]) for row in found)


def applications(stack: ComposeStack) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{stack.spark_master}/json/", timeout=60) as answer:
        master = json.loads(answer.read())
    return list(master["completedapps"])
