"""Airflow's REST API, as far as the tests need it."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import quote, urlencode

ENDED = ("success", "failed")


class AirflowApi:
    """Calls an api-server whose users all are administrators."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._token: str | None = None

    def health(self) -> dict[str, dict[str, str | None]] | None:
        """Return the last health of the components; None without an answer."""
        try:
            health: dict[str, dict[str, str | None]] = self._ask("GET", "/api/v2/monitor/health")
        except OSError:
            return None
        return health

    def get(self, path: str, **query: Any) -> Any:
        """The answer below /api/v2; None where there is no such thing."""
        try:
            return self.ask("GET", f"{path}?{urlencode(query, doseq=True)}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None

    def token(self) -> str:
        """Return the token of an administrator."""
        if self._token is None:
            self._token = str(self._ask("GET", "/auth/token")["access_token"])
        return self._token

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to any call below /api/v2; an error contains the server's text."""
        self.token()
        try:
            return self._ask(method, f"/api/v2{path}", body)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                error.add_note(error.read().decode(errors="replace")[:2000])
            raise

    def unpause(self, dag_id: str) -> None:
        self.ask("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def pause(self, dag_id: str) -> None:
        self.ask("PATCH", f"/dags/{dag_id}", {"is_paused": True})

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Start a run of a DAG; its id."""
        run = self.ask("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """All runs of a DAG, oldest first."""
        answer = self.get(f"/dags/{dag_id}/dagRuns", limit=1000, order_by="id")
        return list(answer["dag_runs"])

    def task_instances(self, dag_id: str, run_id: str = "~") -> list[dict[str, Any]]:
        """The last attempts of the tasks of a run, or of all runs."""
        path = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='~')}/taskInstances"
        return list(self.get(path, limit=1000)["task_instances"])

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """The last attempt of one task."""
        for task in self.task_instances(dag_id, run_id):
            if (task["task_id"], task["map_index"]) == (task_id, map_index):
                return task
        raise LookupError(f"{run_id} has no {task_id} {map_index}")

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1
    ) -> Any:
        """An XCom as the value that it was; None when there is none."""
        path = f"{_task_path(dag_id, run_id, task_id)}/xcomEntries"
        xcom = self.get(f"{path}/{key}", map_index=map_index, stringify="false")
        return None if xcom is None else xcom["value"]

    def question(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any] | None:
        """Return a task's question to a human, and the answer so far; None without a question."""
        return self.get(f"{_task_path(dag_id, run_id, task_id)}/-1/hitlDetails")

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Choose one of the options that a task offers."""
        path = f"{_task_path(dag_id, run_id, task_id)}/-1/hitlDetails"
        self.ask("PATCH", path, {"chosen_options": [option], "params_input": {}})

    def set_task_state(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Do as a user does who marks a task as failed, or as a success."""
        self.ask("PATCH", _task_path(dag_id, run_id, task_id), {"new_state": state})

    def clear_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a task of a run like a user, in any state."""
        body = {
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "dry_run": False,
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self.ask("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def backfills(self, dag_id: str) -> list[dict[str, Any]]:
        """The backfills of a DAG, oldest first; those that go on have no ``completed_at``."""
        return list(self.get("/backfills", dag_id=dag_id, order_by="id")["backfills"])

    def wait_for_run(
        self, dag_id: str, run_id: str, state: str = "success", seconds: float = 300
    ) -> None:
        """Wait until a run has ended, and in this state."""
        ended: dict[str, Any] = {}

        def has_ended() -> bool:
            ended.update(self.get(f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"))
            return ended["state"] in ENDED

        wait_until(f"{dag_id} {run_id} has ended", has_ended, seconds)
        assert ended["state"] == state, self.task_instances(dag_id, run_id)

    def wait_for_task(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        states: Collection[str],
        seconds: float = 120,
    ) -> None:
        """Wait until the last attempt of a task is in one of these states, for example deferred."""

        def is_there() -> bool:
            return self.task(dag_id, run_id, task_id)["state"] in states

        wait_until(f"{dag_id} {run_id} {task_id} is {states}", is_there, seconds)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content else None


def _task_path(dag_id: str, run_id: str, task_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}"


def wait_until(what: str, holds: Callable[[], bool], seconds: float, every: float = 0.5) -> None:
    """Look again and again until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(every)
