"""Erasures as tasks: the operator ends at once, and the sensor waits for the certificate."""

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred

from airflow_hiveacid import HiveAcidEraseOperator
from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused
from airflow_hiveacid.sensors import HiveAcidErasedSensor
from airflow_hiveacid.triggers.condition import Condition, Poller
from hiveacid.cli.main import main
from hiveacid.errors import AccessRefused
from hiveacid.jobs import EraseJob
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


ASKED: list[tuple[str, str, str]] = []


def refuse(*, user: str, table: str, action: str, **_: Any) -> bool:
    ASKED.append((user, table, action))
    return False


class Shop:
    """A table of orders, and requests to erase customers."""

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        self.client, self.database, self.folder = client, database, f"file:{folder}"
        self.orders = f"{database}.orders"
        self.sql("CREATE TABLE orders (id int, customer bigint)")
        self.sql("INSERT INTO orders VALUES (1, 7), (2, 8), (3, 7)")
        self.sql("CREATE TABLE requests (person bigint, day string)")
        self.sql("INSERT INTO requests VALUES (7, '2026-03-01')")

    def sql(self, script: str) -> None:
        arguments = ["sql", script, "--database", self.database, "--run-in", "worker"]
        assert main([*arguments, "--metastore", self.client.options.uris]) == 0

    def erase(self, day: str = "2026-03-01", **options: Any) -> HiveAcidEraseOperator:
        job = EraseJob(
            request=day,
            keys=QuerySource(
                "SELECT person FROM r WHERE day = :day",
                inputs={"r": TableSource(f"{self.database}.requests")},
                params={"day": day},
            ),
            columns={self.orders: "customer"},
            folder=self.folder,
            retention="0",
            **options,
        )
        return HiveAcidEraseOperator(task_id="erase", job=job)

    def sensor(self, **more: Any) -> HiveAcidErasedSensor:
        given = {"task_id": "erased", "request": "2026-03-01", "folder": self.folder}
        return HiveAcidErasedSensor(**given | more)


@pytest.fixture
def shop(
    client: MetastoreClient, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shop:
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    return Shop(client, database, tmp_path / "erasures")


def test_a_task_returns_the_certificate(shop: Shop, context: dict[str, Any]) -> None:
    report = shop.erase().execute(context)
    assert json.loads(json.dumps(report)) == report
    assert report["rows_deleted"] == 2
    certificate = report["certificate"]
    assert Path(certificate.removeprefix("file:")).exists()
    again = shop.erase().execute(context)
    assert again["certificate"] == certificate
    poked = shop.sensor().poke(context)
    assert (poked.is_done, poked.xcom_value["certificate"]) == (True, certificate)


def test_the_sensor_waits_for_a_reader_and_continues_the_request(
    shop: Shop, context: dict[str, Any]
) -> None:
    with Transaction(shop.client, reads=[TableRef.parse(shop.orders)]):
        report = shop.erase().execute(context)
        assert report["certificate"] is None
        assert {wait["kind"] for wait in report["waits"]} == {"reader"}
        assert not shop.sensor().poke(context).is_done
    poked = shop.sensor().poke(context)
    assert poked.is_done
    assert poked.xcom_value["certificate"]


def test_a_deferred_sensor_only_reads_in_the_triggerer(shop: Shop, context: dict[str, Any]) -> None:
    sensor = shop.sensor(deferrable=True, poke_interval=7)
    with Transaction(shop.client, reads=[TableRef.parse(shop.orders)]):
        shop.erase().execute(context)
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute(context)
        _, kwargs = deferred.value.trigger.serialize()
        condition = Condition.restore(kwargs["condition"])
        poller = Poller(shop.client.options, sensor.log)
        before = sorted(Path(shop.folder.removeprefix("file:")).rglob("*"))
        assert condition.poll(poller) is None
    found = condition.poll(poller)
    assert found == {"request": "2026-03-01", "folder": shop.folder}
    assert sorted(Path(shop.folder.removeprefix("file:")).rglob("*")) == before
    value = sensor.execute_complete(context, {"status": "found", "found": found})
    assert value["certificate"]


def test_a_sensor_defers_again_if_a_reader_has_begun_meanwhile(
    shop: Shop, context: dict[str, Any]
) -> None:
    sensor = shop.sensor(deferrable=True)
    with Transaction(shop.client, reads=[TableRef.parse(shop.orders)]):
        shop.erase().execute(context)
        found = {"request": "2026-03-01", "folder": shop.folder}
        with pytest.raises(TaskDeferred):
            sensor.execute_complete(context, {"status": "found", "found": found})


def test_a_day_without_requests_is_skipped(shop: Shop, context: dict[str, Any]) -> None:
    with pytest.raises(AirflowSkipException):
        shop.erase("2026-03-02", on_empty="skip").execute(context)


def test_a_request_that_does_not_exist_fails_the_sensor(
    shop: Shop, context: dict[str, Any]
) -> None:
    with pytest.raises(HiveAcidTaskRefused, match="has no request gone"):
        shop.sensor(request="gone").poke(context)


def test_a_sensor_asks_the_authorizer_before_it_changes_files(
    shop: Shop, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Transaction(shop.client, reads=[TableRef.parse(shop.orders)]):
        shop.erase().execute(context)
    ASKED.clear()
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse")
    sensor = shop.sensor()
    with pytest.raises(HiveAcidTaskRefused, match="may not erase"):
        sensor.poke(context)
    assert [(f"dag:{sensor.dag_id}", shop.orders, "erase")] == ASKED


def test_a_record_of_other_tables_tells_a_sensor_nothing(
    shop: Shop,
    context: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Transaction(shop.client, reads=[TableRef.parse(shop.orders)]):
        shop.erase().execute(context)
        monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse")
        caplog.clear()
        sensor = shop.sensor(deferrable=True)
        with pytest.raises(HiveAcidTaskRefused, match="may not erase"):
            sensor.execute(context)
        condition = sensor._trigger(context).condition
        assert condition["user"] == f"dag:{sensor.dag_id}"
        with pytest.raises(AccessRefused, match="may not erase"):
            Condition.restore(condition).poll(Poller(shop.client.options, sensor.log))
    assert "waits for" not in caplog.text


def test_a_record_leads_a_sensor_to_no_other_host(
    shop: Shop, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Transaction(shop.client, reads=[TableRef.parse(shop.orders)]):
        shop.erase().execute(context)
    folder = Path(shop.folder.removeprefix("file:"), "2026-03-01", "record")
    (path,) = folder.iterdir()
    record = json.loads(path.read_text())
    record["files"][0]["path"] = "hdfs://other:8020/w/delta_0000001_0000001_0000/bucket_00000"
    path.write_text(json.dumps(record))
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "file")
    with pytest.raises(HiveAcidTaskRefused, match="hdfs://other:8020/w"):
        shop.sensor().poke(context)
