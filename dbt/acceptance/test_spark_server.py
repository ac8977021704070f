"""dbt's adapter for Spark itself, whose server makes and merges transactional tables."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import VERSION

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from tests.door.servers import THRIFT, Server, by_beeline

pytestmark = pytest.mark.skipif(
    not VERSION.startswith("3."),
    reason="Spark's own client of the metastore cannot speak to version 4",
)
PROJECT = Path(__file__).parent / "spark_server"
SCHEMA = "served"


@pytest.fixture
def server(metastore: EmbeddedMetastore, tmp_path: Path) -> Iterator[Server]:
    server = Server(THRIFT, metastore, tmp_path)
    deadline = time.monotonic() + 120
    while not server.accepts():
        assert time.monotonic() < deadline, server.log()
        time.sleep(0.5)
    yield server
    server.stop()


def test_a_project_for_spark_merges_into_transactional_tables(
    server: Server, metastore: EmbeddedMetastore, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    variables = {"SERVER_PORT": str(server.port), "SCHEMA": SCHEMA}
    # The second run merges, in sessions of its own.
    for more in ([], ["--vars", "{later: true}"]):
        built = subprocess.run(
            [
                *(str(Path(sys.executable).parent / "dbt"), "build", *more),
                *("--project-dir", str(project), "--profiles-dir", str(project)),
            ],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "PASS=5 WARN=0 ERROR=0 SKIP=0" in built.stdout, built.stdout[-3000:]
    rows = by_beeline(
        server,
        "anna",
        [f"SELECT * FROM {SCHEMA}.orders ORDER BY id", f"SELECT * FROM {SCHEMA}.totals"],
    )
    assert rows == [
        [["1", "one", "10"], ["2", "second", "21"], ["3", "three", "30"]],
        [["3", "61"]],
    ]
    with MetastoreClient(metastore.options) as client:
        orders = client.get_table(TableRef(SCHEMA, "orders"))
        assert orders.parameters["transactional_properties"] == "default"
        client.drop_database(SCHEMA, cascade=True)
