"""An export to Iceberg as a task of a worker that has neither Java nor a Spark connection."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid import HiveAcidToIcebergOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs import IcebergExportJob
from hiveacid.metastore.client import MetastoreClient
from tests.compaction.written_table import WrittenTable, expected_rows, twelve_deltas
from tests.iceberg.lakes import sql_catalog, sql_options


@pytest.fixture
def table(client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch) -> WrittenTable:
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    return twelve_deltas(client, f"{database}.t")


def job(target: object, folder: Path, **more: Any) -> IcebergExportJob:
    return IcebergExportJob(
        target=str(target),
        table="ns.{{ ti.task_id }}",
        catalog="lake",
        catalog_options=sql_options(folder),
        **more,
    )


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_a_task_exports_once(table: WrittenTable, context: dict[str, Any], tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)

    def run() -> dict[str, Any]:
        operator = HiveAcidToIcebergOperator(task_id="t", job=job(table.ref, tmp_path))
        operator.render_template_fields(context)
        report: dict[str, Any] = operator.execute(context)
        return report

    report = run()
    assert json.loads(json.dumps(report)) == report
    exported = catalog.load_table("ns.t")
    assert report["snapshot_id"] == exported.metadata.current_snapshot_id
    assert report["rows"] == exported.scan().to_arrow().num_rows == len(expected_rows())
    again = run()
    assert again["already_done"]
    assert len(catalog.load_table("ns.t").metadata.snapshots) == 1
    context["ti"].run_id = "another"
    assert run()["outcome"] == "unchanged"
    table.insert(1000)
    context["ti"].run_id = "one more"
    assert run()["outcome"] == "updated"
    assert catalog.load_table("ns.t").scan().to_arrow().num_rows == len(expected_rows()) + 1


def test_a_task_that_cannot_wait_is_not_deferrable(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match="deferrable"):
        HiveAcidToIcebergOperator(task_id="t", job=job("a.b", tmp_path), deferrable=True)


def test_rendered_fields_contain_no_secret(tmp_path: Path) -> None:
    shown = str(
        IcebergExportJob(target="a.b", table="c.d", catalog_options={"credential": "geheim"})
    )
    assert "geheim" not in shown
    assert "credential" in shown
