"""The services of docker-compose.yml, started without Docker: the full set, and two DAGs on it."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.metastore_version import MetastoreVersion
from tests.live.airflow_api import ENDED, AirflowApi, wait_until
from tests.live.compose_stack import ComposeStack

pytestmark = [pytest.mark.live, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """PostgreSQL, the S3 store, the metastore on both, and Airflow's initial objects."""
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


def test_the_small_set_merges_inside_of_airflow(stack: ComposeStack) -> None:
    stack.start("airflow")
    log_in(api_of(stack), stack.environment("airflow")["AIRFLOW_ADMIN_PASSWORD"])
    # As in deploy/README.md.
    conf = json.dumps({"feed": stack.environment("airflow")["DEMO_FEED"]})
    words = ("dags", "test", "hourly_merge", "2026-11-20T10:00:00+00:00", "--conf", conf)
    stack.run("airflow", "airflow", *words)
    assert rows(stack) == [(1, "Emmy", "de"), (2, "Sophie", "fr")]
    stack.kill("airflow")


def test_the_full_set_merges_on_the_cluster_and_compacts_in_the_worker(stack: ComposeStack) -> None:
    for name in ("spark-master", "spark-worker", "airflow-api", "airflow-scheduler"):
        stack.start(name)
    for name in ("airflow-dag-processor", "airflow-triggerer"):
        stack.start(name)
    environment = stack.environment("airflow-api")
    api = api_of(stack)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        log_in(api, "a guess")
    log_in(api, environment["AIRFLOW_ADMIN_PASSWORD"])

    wait_until("the examples are there", lambda: api.get("/dags/hourly_merge") is not None, 120)
    hour = {
        "logical_date": "2026-11-20T09:30:00Z",
        "data_interval_start": "2026-11-20T09:00:00Z",
        "data_interval_end": "2026-11-20T10:00:00Z",
    }
    run(api, "hourly_merge", "again", {"feed": environment["DEMO_FEED"]}, hour)
    assert rows(stack) == [(1, "Emmy", "de"), (2, "Sophie", "fr")]
    # It has replaced the files of the small set: there are two deltas in each partition.
    conf = {"table": "demo.customers", "max_deltas": 1}
    run(api, "automatic_compaction", "first", conf, {"logical_date": None})
    assert rows(stack) == [(1, "Emmy", "de"), (2, "Sophie", "fr")]
    directories = hiveacid(stack, "cat", "--directories")
    assert directories.count("base_0000002_v") == 2
    # Earlier versions need the deltas for a day.
    assert all("obsolete" in line for line in directories.splitlines() if "delta_" in line)
    names = {application["name"] for application in applications(stack)}
    assert names == {"MergeJob demo.customers"}


def api_of(stack: ComposeStack) -> AirflowApi:
    return AirflowApi(f"http://127.0.0.1:{stack.port('airflow-api')}")


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
    api.unpause(dag_id)

    def has_ended() -> bool:
        # The schedule may want a run, too, for which there is no feed.
        for run in api.runs(dag_id):
            if run["state"] not in ENDED and run["dag_run_id"] != run_id:
                path = quote(run["dag_run_id"], safe="")
                api.ask("PATCH", f"/dags/{dag_id}/dagRuns/{path}", {"state": "failed"})
        return api.get(f"/dags/{dag_id}/dagRuns/{run_id}")["state"] in ENDED

    wait_until(f"{dag_id} {run_id} has ended", has_ended, 900)
    api.wait_for_run(dag_id, run_id)


def hiveacid(stack: ComposeStack, command: str, *options: str) -> str:
    address = metastore(stack).uris
    words = ("hiveacid", command, "demo.customers", "--metastore", address, *options)
    return stack.run("airflow-api", *words)


def rows(stack: ComposeStack) -> list[tuple[int, str, str]]:
    lines = hiveacid(stack, "cat", "--json").splitlines()
    rows = [json.loads(line) for line in lines]
    return sorted((row["id"], row["name"], row["country"]) for row in rows)


def applications(stack: ComposeStack) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{stack.spark_master}/json/", timeout=60) as answer:
        master = json.loads(answer.read())
    return list(master["completedapps"])
