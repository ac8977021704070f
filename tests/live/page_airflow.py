"""An Airflow with the page of tables, whose users sign in."""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from airflow_hiveacid.cluster.packaged import example_dags
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.live.airflow_processes import AirflowProcesses

PICTURES = Path("build/page")
FRAME = "document.querySelector('iframe')?.contentDocument?"
ROWS = "querySelectorAll('#rows tr:not(.waiting)').length"
DETAILS = "querySelector('#details:not([hidden]) svg.picture')"


class PageAirflow:
    """An Airflow with passwords, with a user, a viewer and a user without permissions."""

    def __init__(self, home: Path, metastore: EmbeddedMetastore) -> None:
        host, port = metastore.uri.removeprefix("thrift://").split(":")
        connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
        self.erasures, self.key_file = f"file:{home}/erasures", home / "erasure.key"
        settings = {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,rosa:user,jane:viewer,guest:",
            "AIRFLOW__HIVE_ACID__PAGE_REFRESH_SECONDS": "2",
            "AIRFLOW__HIVE_ACID__PAGE_DAG": "compact_or_clean",
            "AIRFLOW__HIVE_ACID__ERASURES": self.erasures,
            "AIRFLOW__HIVE_ACID__SIGNING_KEY_FILE": str(self.key_file),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": "http://localhost:9/execution/",
        }
        self.processes = AirflowProcesses(
            home,
            sorted(example_dags().glob("*.py")),
            connections={"hive_acid_default": connection},
            environment=settings,
        )
        self.url = self.processes.api.url
        self._passwords = home / "simple_auth_manager_passwords.json.generated"

    def start(self) -> None:
        self.processes.cli("db", "migrate")
        self.processes.cli("dags", "reserialize")
        self.processes.start("api-server")

    def restart(self) -> None:
        """A new process, which knows nothing of any table."""
        self.processes.kill("api-server")
        self.processes.start("api-server")

    def token(self, user: str) -> str:
        passwords = json.loads(self._passwords.read_text())
        body = json.dumps({"username": user, "password": passwords[user]}).encode()
        request = urllib.request.Request(
            f"{self.url}/auth/token", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(json.load(answer)["access_token"])

    def ask(self, path: str, user: str | None = "jane") -> tuple[int, Any]:
        """The status and the answer."""
        return self._ask(f"hiveacid/{path}", user)

    def api(self, path: str, user: str) -> dict[str, Any]:
        """Return the answer of Airflow's own API."""
        status, answer = self._ask(f"api/v2/{path}", user)
        assert status == 200
        return dict(answer)

    def _ask(self, path: str, user: str | None) -> tuple[int, Any]:
        headers = {} if user is None else {"Authorization": f"Bearer {self.token(user)}"}
        request = urllib.request.Request(f"{self.url}/{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read().decode()
                plain = answer.headers["content-type"].startswith("text/html")
                return answer.status, text if plain else json.loads(text)
        except urllib.error.HTTPError as error:
            return error.code, None

    def measured(self, count: int, show: str = "all") -> dict[str, Any]:
        """The list, as soon as so many tables of a kind are in it."""
        deadline = time.monotonic() + 600
        while True:
            status, answer = self.ask("api/tables")
            assert status == 200
            if answer["measured"] and answer["counts"][show] == count:
                return dict(answer)
            assert time.monotonic() < deadline, answer
            time.sleep(0.2)
