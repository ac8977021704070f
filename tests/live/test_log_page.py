"""Airflow's own pages for a task: the log of a success and of a failure, and its job.

Their pictures are left in build/page.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_script
from hiveacid.tables.definitions.run import run_script_of_ddl
from tests.live.airflow_processes import AirflowProcesses
from tests.live.chromium import Chromium, needs_chromium
from tests.snippets.pages import ROOT, snippets

pytestmark = [
    pytest.mark.live,
    needs_chromium,
    pytest.mark.timeout(900),
]
PICTURES = Path("build/page")
GUIDE = snippets(ROOT / "docs" / "first-merge.md")
CHANGES = [
    {"id": number, "country": "de", "op": "upsert", "name": f"customer {number}"}
    for number in range(7)
]


def of_guide(language: str, part: str) -> str:
    (text,) = [each.text for each in GUIDE if each.language == language and part in each.text]
    return text


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    connections: Mapping[str, Mapping[str, Any]],
    hms4: EmbeddedMetastore,
) -> Iterator[AirflowProcesses]:
    """An Airflow with the DAG of the guide, and with one that misspells the table."""
    folder = tmp_path_factory.mktemp("log")
    feed = folder / "feeds" / "customers" / "2026-11-20T09"
    feed.mkdir(parents=True)
    (feed / "changes.json").write_text("\n".join(map(json.dumps, CHANGES)))
    dag = of_guide("python", "CronDataIntervalTimetable").replace("/feeds/", f"{folder}/feeds/")
    right, wrong = folder / "customers.py", folder / "misspelt.py"
    right.write_text(dag)
    wrong.write_text(
        dag.replace("demo.customers", "demo.custmers").replace('"customers"', '"misspelt"')
    )
    with MetastoreClient(hms4.options) as client:
        script = to_script(of_guide("sql", "CREATE TABLE").rpartition(";")[0], "default")
        run_script_of_ddl(client, script)
        with AirflowProcesses(
            folder / "airflow",
            [right, wrong],
            connections=connections,
            environment={"AIRFLOW__API__DEFAULT_WRAP": "True"},
        ) as airflow:
            airflow.wait_for_dags("customers", "misspelt")
            yield airflow
        client.drop_database("demo", cascade=True)


def run_of(airflow: AirflowProcesses, dag_id: str, state: str) -> str:
    """The address of a task's page, after a run of a DAG for the hour of the feed."""
    airflow.api.unpause(dag_id)
    body = {"logical_date": "2026-11-20T10:00:00Z"}
    run_id = airflow.api.ask("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"]
    airflow.api.wait_for_run(dag_id, run_id, state=state, seconds=300)
    return f"{airflow.api.url}/dags/{dag_id}/runs/{quote(run_id, safe='')}/tasks/merge"


@pytest.mark.parametrize(
    ("dag_id", "state", "last"),
    [
        ("customers", "success", "demo.customers: 7 inserted"),
        ("misspelt", "failed", "Did you mean demo.customers?"),
    ],
)
def test_the_log_ends_with_what_has_become_of_the_task(
    airflow: AirflowProcesses, tmp_path: Path, dag_id: str, state: str, last: str
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    address = run_of(airflow, dag_id, state)
    for name, width in (("wide", 1280), ("narrow", 420)):
        with Chromium(tmp_path / name, width, 800) as browser:
            for scheme in ("light", "dark"):
                browser.prefer(scheme)
                browser.open(address)
                browser.wait_until(f"document.body?.innerText.includes({json.dumps(last)})")
                browser.screenshot(PICTURES / f"log-{state}-{name}-{scheme}.png")
                if state == "success":
                    browser.open(f"{address}/rendered_templates")
                    query = "sql: |-\n    SELECT * FROM ("
                    wanted = json.dumps("".join(query.split()))
                    shown = "document.body?.innerText.replace(/[\\s0-9]/g, '')"
                    browser.wait_until(f"{shown}.includes({wanted})")
                    browser.screenshot(PICTURES / f"rendered-{name}-{scheme}.png")
