"""The example with human approvals: approved changes are made, and rejected ones are not."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.cluster.packaged import example_dags
from hiveacid.cli.main import main
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnLiveness
from hiveacid.rules.names import TableRef
from tests.live.airflow_api import wait_until
from tests.live.airflow_processes import AirflowProcesses
from tests.rows import rows_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

DAG = "approved_changes"
QUESTIONS = ("overwrite.ask", "forget.ask", "abort.ask")
# Airflow before 3.3 reports deferred.
_WAITING = ("awaiting_input", "deferred")
_ENDED = ("success", "failed", "skipped", "upstream_failed")
TABLES = """
    CREATE DATABASE approved;
    CREATE TABLE approved.orders (id int, customer bigint);
    CREATE TABLE approved.corrected LIKE approved.orders;
    INSERT INTO approved.orders VALUES (1, 7), (2, 8), (3, 7);
    INSERT INTO approved.corrected VALUES (9, 9)
"""


@pytest.fixture
def airflow(
    tmp_path: Path, connections: Mapping[str, Mapping[str, Any]]
) -> Iterator[AirflowProcesses]:
    # Transactions of this test have not been open for an hour.
    example = (example_dags() / f"{DAG}.py").read_text()
    assert example.count("minimum=1,") == 1
    copy = tmp_path / f"{DAG}.py"
    copy.write_text(example.replace("minimum=1,", "minimum=0,"))
    with AirflowProcesses(tmp_path / "airflow", [copy], connections=connections) as airflow:
        airflow.wait_for_dags(DAG)
        airflow.api.unpause(DAG)
        yield airflow


class Run:
    """A run of the DAG that has asked all its questions."""

    def __init__(self, airflow: AirflowProcesses, requests: Path) -> None:
        self.api = airflow.api
        self.id = self.api.trigger(
            DAG,
            {
                "target": "approved.orders",
                "source": "approved.corrected",
                "requests": str(requests),
                "hours": 0,
            },
        )
        wait_until("all questions are asked", lambda: all(map(self._waits, QUESTIONS)), 180)

    def question(self, task: str) -> dict[str, Any] | None:
        return self.api.question(DAG, self.id, task)

    def end(self, **answers: str) -> dict[str, str]:
        """Answer all questions until the run has ended; return the states of its tasks."""

        def ended() -> bool:
            for group, option in answers.items():
                # Airflow may stumble over an answer that is so quick, and ask once more.
                if self._waits(f"{group}.ask"):
                    self.api.answer(DAG, self.id, f"{group}.ask", option)
            return all(state in _ENDED for state in self.states().values())

        wait_until("all is done", ended, 400, every=2)
        return self.states()

    def states(self) -> dict[str, str]:
        return {each["task_id"]: each["state"] for each in self.api.task_instances(DAG, self.id)}

    def _waits(self, task: str) -> bool:
        """Return whether a task has asked, is not answered yet, and is idle."""
        question = self.question(task)
        asked = question is not None and not question["response_received"]
        return asked and self.states()[task] in _WAITING


def test_a_human_decides(
    airflow: AirflowProcesses, hms4: EmbeddedMetastore, tmp_path: Path
) -> None:
    requests = tmp_path / "requests"
    requests.mkdir()
    (requests / "today.json").write_text(json.dumps({"customer": 7}))
    assert main(["sql", TABLES, "--metastore", hms4.uri, "--master", "local[1]"]) == 0
    with MetastoreClient(hms4.options) as client:
        old = client.open_txn("ann", "laptop", None)
        run = Run(airflow, requests)
        body = {task: str((run.question(task) or {})["body"]) for task in QUESTIONS}
        assert "Now its version is 1;" in body["overwrite.ask"]
        assert f"`{requests}`" in body["forget.ask"]
        assert f"- {old} of 'ann' on 'laptop'" in body["abort.ask"]
        # No process waits for the human.
        assert client.show_locks(TableRef.parse("approved.orders")) == []
        assert rows(hms4) == [1, 2, 3]

        states = run.end(overwrite="Reject", forget="Approve", abort="Approve")
        assert rows(hms4) == [2]
        assert states["overwrite.overwrite"] == "skipped"
        assert {states[f"forget.{step}"] for step in ("delete", "compact", "clean")} == {"success"}
        # The metastore forgets one that has written nothing.
        assert client.heartbeat(old) in (TxnLiveness.ABORTED, TxnLiveness.UNKNOWN)

        old = client.open_txn("ann", "laptop", None)
        states = Run(airflow, requests).end(overwrite="Approve", forget="Reject", abort="Reject")
        assert rows(hms4) == [9]
        rejected = ("forget.delete", "forget.compact", "forget.clean", "abort.abort")
        assert {states[task] for task in rejected} == {"skipped"}
        assert client.heartbeat(old) is TxnLiveness.OPEN
        client.abort_txn(old)
        client.drop_database("approved", cascade=True)


def rows(metastore: EmbeddedMetastore) -> list[int]:
    return [row["id"] for row in rows_of(metastore.uri, "approved.orders")]
