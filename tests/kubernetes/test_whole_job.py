"""A whole job: the operator, Spark's own program, an API server, a driver, its executor, a table."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid import HiveAcidInsertOperator, PathSource
from hiveacid.jobs import InsertJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore, free_port
from hiveacid.rules.names import TableRef
from tests.airflow.cluster_task import deferred_by, first_event, rebuilt
from tests.kubernetes.namespace import Namespace
from tests.kubernetes.node import Node
from tests.rows import rows_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("spark_connection")]
TABLE = TableRef("on_kubernetes", "orders")


def test_rows_that_an_executor_in_a_pod_has_written_are_in_the_table(
    namespace: Namespace, context: dict[str, Any], hms4: EmbeddedMetastore, tmp_path: Path
) -> None:
    (tmp_path / "uploads").mkdir()
    (tmp_path / "feed.json").write_text('{"id": 1}\n{"id": 2}\n')
    conf = {
        "spark.kubernetes.container.image": "spark:4.1.3",
        "spark.kubernetes.file.upload.path": (tmp_path / "uploads").as_uri(),
        "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
        # The addresses of the API server, the driver and its ports without a network of the
        # cluster.
        "spark.kubernetes.driver.master": namespace.server.url,
        "spark.driver.port": str(free_port()),
        "spark.driver.blockManager.port": str(free_port()),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    source = PathSource(path=str(tmp_path / "feed.json"), format="json", schema="id INT")
    operator = HiveAcidInsertOperator(
        task_id="t",
        job=InsertJob(target=str(TABLE), source=source),
        deferrable=True,
        deploy_mode="cluster",
        poll_seconds=0.5,
        num_executors=1,
        executor_memory="1g",
        executor_cores=1,
        conf=conf,
    )
    with MetastoreClient(hms4.options) as client, Node(namespace, tmp_path / "node") as node:
        client.create_database(TABLE.database)
        client.create_table(HiveTable.new(TABLE, [HiveColumn("id", "int")]))
        deferred = deferred_by(operator, context)
        event = asyncio.run(first_event(rebuilt(deferred, context)))
        assert event.get("state") == "succeeded", node.log("*-driver")
        report = operator.execute_complete(context, event)
        assert "Running task 0.0 in stage" in node.log("*-exec-1")
        assert "Running task 0.0 in stage" not in node.log("*-driver")

        assert report["rows_inserted"] == 2
        assert rows_of(hms4.uri, str(TABLE)) == [{"id": 1}, {"id": 2}]
        client.drop_database(TABLE.database, cascade=True)
