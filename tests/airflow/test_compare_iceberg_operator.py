"""A comparison with an Iceberg table as a task, which fails if the rows differ."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo

from airflow_hiveacid import HiveAcidCompareIcebergOperator
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure
from hiveacid.errors import InvalidJob
from hiveacid.jobs import IcebergCompareJob
from hiveacid.metastore.client import MetastoreClient
from tests.compaction.written_table import WrittenTable
from tests.iceberg.case import LakeCase
from tests.iceberg.lakes import sql_catalog, sql_options


def job(target: object, folder: Path) -> IcebergCompareJob:
    return IcebergCompareJob(
        target=str(target),
        table="ns.{{ ti.task_id }}",
        catalog="lake",
        catalog_options=sql_options(folder),
    )


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_a_task_fails_if_the_rows_differ(
    client: MetastoreClient,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    context: dict[str, Any],
    tmp_path: Path,
) -> None:
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    LakeCase(client, str(table.ref), tmp_path).run()

    def run() -> dict[str, Any]:
        operator = HiveAcidCompareIcebergOperator(task_id="t", job=job(table.ref, tmp_path))
        operator.render_template_fields(context)
        report: dict[str, Any] = operator.execute(context)
        return report

    report = run()
    assert json.loads(json.dumps(report)) == report
    assert (report["equal"], report["hive_rows"]) == (True, 3)
    sql_catalog(tmp_path).load_table("ns.t").delete(EqualTo("id", 2))  # type: ignore[call-arg]
    with pytest.raises(HiveAcidTaskFailure, match=r"CheckFailed: .*2 instead of 3 rows"):
        run()
    assert not client.show_locks()


def test_a_task_that_cannot_wait_is_not_deferrable(tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match="deferrable"):
        HiveAcidCompareIcebergOperator(task_id="t", job=job("a.b", tmp_path), deferrable=True)
