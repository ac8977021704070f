"""An Airflow of the tests' own, and a spark-submit that shows how it was called."""

import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import Base, TableRef
from hiveacid.rules.schema import TableKind
from tests.fakes.kubernetes import KubernetesServer
from tests.fakes.metastore import FakeMetastore
from tests.fakes.spark_cluster import SparkCluster
from tests.upkeep.acid_folders import AcidFolders

# Airflow reads these once, when it is first imported.
os.environ.update(
    AIRFLOW_HOME=tempfile.mkdtemp(prefix="airflow-"),
    AIRFLOW__CORE__UNIT_TEST_MODE="True",
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS="False",
)

# Record its input, then do as the test requests: write a report, wait for a kill, exit.
_SPARK_SUBMIT = """\
import json, os, stat, sys, time
from pathlib import Path
here = Path(__file__).parent
plan = json.loads((here / "plan.json").read_text())
argv = sys.argv[1:]
job = Path(argv[argv.index("--job") + 1])
seen = {
    "argv": argv,
    "environment": dict(os.environ),
    "job": json.loads(job.read_text()),
    "job_mode": stat.S_IMODE(job.stat().st_mode),
    "pid": os.getpid(),
}
(here / "seen.partial").write_text(json.dumps(seen))
(here / "seen.partial").rename(here / "seen.json")
if plan["started"] is not None:
    started = Path(argv[argv.index("--report") + 1] + ".started")
    started.write_text(json.dumps(plan["started"]))
if plan["report"] is not None:
    Path(argv[argv.index("--report") + 1]).write_text(json.dumps(plan["report"]))
print(plan["output"], flush=True)
while plan["hang"]:
    time.sleep(60)
if plan["exit_code"] < 0:
    os.kill(os.getpid(), -plan["exit_code"])
sys.exit(plan["exit_code"])
"""


_SMALL_TABLES = {
    "db": ("t", "u", "orders", "feed", "plain", "days"),
    "shop": ("orders", "gone", "days"),
}
# Those with something to compact, and its partitions.
_WRITTEN = {
    "db.orders": [None],
    "shop.orders": [None],
    "shop.days": ["day=1", "day=2", "day=r"],
}


@dataclass
class SparkSubmit:
    """The program that represents spark-submit on the PATH."""

    folder: Path

    def will(
        self,
        *,
        report: dict[str, Any] | None = None,
        started: dict[str, Any] | None = None,
        exit_code: int = 0,
        output: str = "",
        hang: bool = False,
    ) -> None:
        plan = {
            "report": report,
            "started": started,
            "exit_code": exit_code,
            "output": output,
            "hang": hang,
        }
        (self.folder / "plan.json").write_text(json.dumps(plan))

    @property
    def seen_file(self) -> Path:
        return self.folder / "seen.json"

    @property
    def seen(self) -> SimpleNamespace:
        return SimpleNamespace(**json.loads(self.seen_file.read_text()))


@pytest.fixture(scope="session")
def small_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeMetastore]:
    """A metastore with the tables of jobs that are never run."""
    with FakeMetastore("4.0.1", directory=tmp_path_factory.mktemp("small")) as metastore:
        with MetastoreClient(metastore.options) as client:
            columns = [HiveColumn("id", "int"), HiveColumn("a", "string")]
            for database, names in _SMALL_TABLES.items():
                client.create_database(database)
                for name in names:
                    kind = TableKind.NOT_ACID if name == "plain" else TableKind.FULL_ACID
                    ref = TableRef(database, name)
                    keys = [HiveColumn("day", "string")] if name == "days" else []
                    table = HiveTable.new(ref, columns, partition_keys=keys, kind=kind)
                    client.create_table(table)
                    folders = AcidFolders(client, ref)
                    for partition in _WRITTEN.get(ref.full_name, ()):
                        if partition is not None:
                            folders.add(partition)
                        _ = folders.insert(partition), folders.insert(partition)
        yield metastore


@pytest.fixture
def spark_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_tables: FakeMetastore
) -> SparkSubmit:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "spark-submit"
    program.write_text(f"#!{sys.executable}\n{_SPARK_SUBMIT}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    host, port = small_tables.uri.removeprefix("thrift://").split(":")
    metastore = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv(
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(metastore | {"password": "s3cret"})
    )
    submit = SparkSubmit(folder)
    submit.will(report={"job": "delete", "target": "db.t"})
    return submit


@pytest.fixture(autouse=True)
def _audit_records(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Collect audit records with those of the log, where they are not."""
    from airflow_hiveacid.authorization import audit_log

    audit_log.addHandler(caplog.handler)
    yield
    audit_log.removeHandler(caplog.handler)


@pytest.fixture
def context() -> dict[str, Any]:
    xcoms: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id="d",
        run_id="r",
        task_id="t",
        map_index=-1,
        try_number=2,
        start_date=datetime.now(UTC),
        xcoms=xcoms,
        xcom_push=lambda key, value: xcoms.update({key: value}),
        xcom_pull=lambda task_ids, key, map_indexes: xcoms.get(key),
    )
    task = SimpleNamespace(outlets=[])
    return {"ti": ti, "task": task, "run_id": "r", "params": {"table": "db.orders"}}


@pytest.fixture
def metastore_connection(hms4: EmbeddedMetastore, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a connection to a real metastore."""
    host, port = hms4.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv(
        "AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection | {"password": "s3cret"})
    )
    return "hive_acid_default"


@pytest.fixture
def orders(hms4: EmbeddedMetastore) -> Iterator[AcidFolders]:
    """A table in that metastore with a base, whose deltas the tests make."""
    with MetastoreClient(hms4.options) as client:
        client.create_database("shop")
        folders = AcidFolders.create(client, "shop.orders")
        folders.insert()
        base = folders.compact(Base(1))
        (folders.root / base / "bucket_00000").write_bytes(b"r" * 10_000)
        folders.clean()
        yield folders
        client.drop_database("shop", cascade=True)


@pytest.fixture
def cluster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    metastore_connection: str,
    orders: AcidFolders,
    context: dict[str, Any],
) -> Iterator[SparkCluster]:
    """A cluster for the drivers of tasks, and the table that they change."""

    def push(key: str, value: Any, **_: Any) -> None:
        context["ti"].xcom_push(key, value)

    # The triggerer's way to the same XComs.
    monkeypatch.setattr("airflow.sdk.execution_time.xcom.XCom.set", push)
    with KubernetesServer() as kubernetes:
        yield SparkCluster(tmp_path, kubernetes, monkeypatch)


@pytest.fixture(scope="module")
def airflow() -> Any:
    """Airflow's API server, which takes seconds to import."""
    from airflow.api_fastapi.app import create_app
    from airflow.utils.db import initdb

    initdb()
    return create_app(apps="core")


@pytest.fixture
def browser(airflow: Any) -> Iterator[Any]:
    """A browser without a login."""
    from fastapi.testclient import TestClient

    with TestClient(airflow, base_url="http://localhost") as client:
        yield client
