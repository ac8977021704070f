"""The waits for a mirror in Iceberg: the sensor and its trigger."""

import asyncio
import json
import socket
from contextlib import aclosing
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused, HiveAcidTaskTrouble
from airflow_hiveacid.sensors import HiveAcidMirrorFreshSensor
from airflow_hiveacid.sensors.mirror_fresh import MirrorFresh
from airflow_hiveacid.triggers.condition import HiveAcidConditionTrigger
from hiveacid.errors import InvalidJob, MetastoreUnreachable
from hiveacid.iceberg.lake import Lake
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.lag import LagLimits
from tests.compaction.written_table import WrittenTable
from tests.iceberg.hostile.test_allowed_locations import Mirror
from tests.iceberg.lakes import sql_options

pytestmark = pytest.mark.parametrize(
    "hms", ["fake 4.0.1", "fake 3.1.3"], ids=["4.0.1", "3.1.3"], indirect=True
)
SOON = 0.02


def refuse_iceberg(*, table: str, action: str, **_: object) -> bool:
    assert action == "read"
    return not table.startswith("iceberg:sqlite:")


class Watched(Mirror):
    """A table with one version, and its mirror."""

    def __init__(self, table: WrittenTable, folder: Path) -> None:
        super().__init__(table.client, str(table.ref), folder)
        self.hive = table

    def sensor(self, **more: Any) -> HiveAcidMirrorFreshSensor:
        given = {
            "task_id": "t",
            "target": self.target,
            "table": "ns.t",
            "catalog": "lake",
            "catalog_options": sql_options(self.folder),
        }
        return HiveAcidMirrorFreshSensor(**given | more)

    def trigger(self, **more: Any) -> HiveAcidConditionTrigger:
        given = {
            "target": self.target,
            "table": "ns.t",
            "catalog": "lake",
            "catalog_options": sql_options(self.folder),
            "limits": LagLimits(),
        }
        return HiveAcidConditionTrigger(
            condition=MirrorFresh(**given | more),
            metastore_conn_id="hive_acid_default",
            poke_interval=SOON,
        )


def fresh(version: int, newest: int) -> dict[str, Any]:
    return {"version": version, "newest": newest, "versions": 0, "seconds": 0.0}


@pytest.fixture
def mirror(
    client: MetastoreClient, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Watched:
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1)
    found = Watched(table, tmp_path)
    found.run()
    return found


def test_a_mirror_is_fresh_once_it_has_all_versions(
    mirror: Watched, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    poked = mirror.sensor().poke({})
    assert (poked.is_done, poked.xcom_value) == (True, fresh(1, 1))
    assert json.dumps(poked.xcom_value)
    mirror.hive.insert(2)
    seen: list[tuple[str, float, dict[str, str]]] = []
    monkeypatch.setattr(
        "airflow_hiveacid.sensors.mirror_fresh.emit",
        lambda samples: seen.extend((s.metric.name, s.value, dict(s.labels)) for s in samples()),
    )
    poked = mirror.sensor().poke({})
    assert (poked.is_done, poked.xcom_value) == (False, None)
    labels = {"table": mirror.target, "catalog": "lake", "mirror": "ns.t"}
    (versions, (name, seconds, same)) = seen
    assert versions == ("hiveacid_mirror_versions_behind", 1, labels)
    assert (name, same) == ("hiveacid_mirror_lag_in_sec", labels)
    assert seconds > 0
    assert "is at version 1, 1 version behind for at most" in capsys.readouterr().out
    mirror.run()
    assert mirror.sensor().poke({}).xcom_value == fresh(2, 2)


def test_a_version_is_enough(mirror: Watched) -> None:
    mirror.hive.insert(2)
    assert mirror.sensor(version="1").poke({}).xcom_value == fresh(1, 1)
    assert not mirror.sensor(version=2).poke({})
    mirror.run()
    mirror.hive.insert(3)
    assert mirror.sensor(version=2).poke({}).xcom_value == fresh(2, 2)


def test_a_mirror_within_the_limits_is_fresh(mirror: Watched) -> None:
    for number in (2, 3):
        mirror.hive.insert(number)
    assert not mirror.sensor(max_versions=1).poke({})
    assert mirror.sensor(max_versions=2).poke({}).xcom_value["versions"] == 2
    assert not mirror.sensor(max_lag=timedelta(0)).poke({})
    late = mirror.sensor(max_lag=timedelta(hours=1)).poke({}).xcom_value
    assert 0 < late["seconds"] < 3600


def test_options_of_the_catalog_are_templates_that_airflow_does_not_show(
    mirror: Watched, context: dict[str, Any]
) -> None:
    options = {**sql_options(mirror.folder), "s3.region": "{{ ti.task_id }}"}
    with DAG("d"):
        sensor = mirror.sensor(catalog_options=options, table="ns.{{ ti.task_id }}")
    sensor.render_template_fields(context)
    assert sensor.table == "ns.t"
    assert sensor.catalog_options == options
    mirror.hive.insert(2)
    assert not sensor.poke(context).is_done
    sensor.deferrable = True
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    assert deferred.value.trigger.serialize()[1]["condition"]["catalog_options"]["s3.region"] == "t"
    assert "catalog_options" not in sensor.template_fields


def test_secrets_of_the_catalog_come_from_a_connection(
    mirror: Watched, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {**sql_options(mirror.folder), "s3.session-token": "s3cret"}
    connection = {"conn_type": "generic", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    sensor = mirror.sensor(catalog_options=None, catalog_conn_id="lake", deferrable=True)
    assert sensor.poke(context).is_done
    mirror.hive.insert(2)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    _, kwargs = deferred.value.trigger.serialize()
    assert "s3cret" not in json.dumps(kwargs)
    mirror.run()

    async def wait() -> Any:
        trigger = HiveAcidConditionTrigger(**kwargs)
        async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
            return await next_of(events)

    assert asyncio.run(wait()) == {"status": "found", "found": fresh(2, 2)}
    missing = mirror.sensor(catalog_options=None, catalog_conn_id="gone")
    with pytest.raises(HiveAcidTaskRefused, match="no connection 'gone'"):
        missing.poke(context)


@pytest.mark.parametrize(
    "options",
    [
        {"token": "s3cret"},
        {"credential": "{{ conn.lake.password }}"},
        {"uri": "postgresql://user:s3/cret@host/db"},
        {"s3.access-key-id": "s3cret"},
        {"header.Authorization": "s3cret"},
    ],
)
def test_no_secret_becomes_an_argument_of_a_trigger(
    mirror: Watched, context: dict[str, Any], options: dict[str, str]
) -> None:
    with pytest.raises(InvalidJob, match="contains a secret"):
        mirror.sensor(catalog_options=options, deferrable=True)
    with pytest.raises(InvalidJob, match="contains a secret"):
        mirror.trigger(catalog_options=options)
    sensor = mirror.sensor(catalog_options={"uri": "{{ params.uri }}"}, deferrable=True)
    with pytest.raises(HiveAcidTaskRefused, match="contains a secret"):
        sensor.execute(context | {"params": {"uri": "postgresql://user:s3/cret@host/db"}})


def test_a_sensor_that_defers_waits_in_its_trigger(mirror: Watched) -> None:
    assert mirror.sensor(deferrable=True).execute({}) == fresh(1, 1)
    mirror.hive.insert(2)
    sensor = mirror.sensor(deferrable=True, version="2", poke_interval=7)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    _, kwargs = deferred.value.trigger.serialize()
    assert (kwargs["condition"]["version"], kwargs["poke_interval"]) == (2, 7)
    found = {"status": "found", "found": fresh(2, 2)}
    assert sensor.execute_complete({}, found) == fresh(2, 2)


async def next_of(events: Any) -> Any:
    return (await asyncio.wait_for(anext(events), timeout=60)).payload


def test_the_trigger_waits_for_a_run_of_the_mirror(
    mirror: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    really = Lake.table

    def look(lake: Lake) -> Any:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise MetastoreUnreachable("It is away.")
        return really(lake)

    async def wait() -> Any:
        async with aclosing(mirror.trigger().run()) as events:  # type: ignore[type-var]
            pending = asyncio.ensure_future(next_of(events))
            while looks < 3:
                assert not (await asyncio.wait([pending], timeout=SOON))[0]
            await asyncio.to_thread(mirror.run)
            return await pending

    mirror.hive.insert(2)
    monkeypatch.setattr(Lake, "table", look)
    assert asyncio.run(wait()) == {"status": "found", "found": fresh(2, 2)}


def test_the_trigger_reports_a_table_that_is_no_mirror(mirror: Watched) -> None:
    async def wait() -> Any:
        async with aclosing(mirror.trigger(table="ns.gone").run()) as events:  # type: ignore[type-var]
            return await next_of(events)

    event = asyncio.run(wait())
    assert (event["status"], event["error"]["id"]) == ("error", "TableNotFound")
    with pytest.raises(HiveAcidTaskRefused, match="does not exist"):
        mirror.sensor().execute_complete({}, event)


def test_the_trigger_can_be_built_again_from_json(mirror: Watched) -> None:
    path, kwargs = mirror.trigger().serialize()
    module, name = path.rsplit(".", 1)
    again = getattr(import_module(module), name)(**json.loads(json.dumps(kwargs)))
    assert again.serialize() == (path, kwargs)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"table": "ns.gone"}, "does not exist"),
        ({"target": "shop.gone"}, "shop.gone"),
        ({"version": 9}, "no version 9"),
    ],
)
def test_a_mirror_that_cannot_become_fresh_fails_the_task(
    mirror: Watched, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(HiveAcidTaskRefused, match=message):
        mirror.sensor(**more).execute({})


def test_an_unreachable_catalog_is_tolerated_for_a_while(
    mirror: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def table(lake: Lake) -> Any:
        raise MetastoreUnreachable("It is away.")

    monkeypatch.setattr(Lake, "table", table)
    assert not mirror.sensor().poke({})
    with pytest.raises(HiveAcidTaskTrouble):
        mirror.sensor(metastore_patience=timedelta(0)).poke({})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": "t"}, "t"),
        ({"table": "t"}, "namespace"),
        ({"version": "new"}, "'new'"),
        ({"max_versions": -1}, "negative"),
        ({"max_lag": timedelta(seconds=-1)}, "negative"),
        ({"catalog_options": {"a": 1}}, "must be a text"),
    ],
)
def test_wrong_parameters_are_refused_while_the_dag_is_parsed(
    mirror: Watched, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJob, match=message):
        mirror.sensor(**more)


def test_the_sensor_asks_for_both_tables(
    mirror: Watched, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_iceberg")
    with DAG("d"):
        sensor = mirror.sensor()
    with pytest.raises(HiveAcidTaskRefused, match="may not read iceberg:sqlite:"):
        sensor.poke(context)


def test_templates_are_accepted_while_the_dag_is_parsed(mirror: Watched) -> None:
    given = ("target", "table", "version")
    assert mirror.sensor(**dict.fromkeys(given, "{{ params.it }}"))


def test_the_files_of_a_mirror_are_at_allowed_locations(
    mirror: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "file")
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        folder = f"hdfs://127.0.0.1:{elsewhere.getsockname()[1]}/lake"
        mirror.name_metadata(folder)
        options = {**sql_options(mirror.folder), "locations": folder}
        event = asyncio.run(_payload(mirror.trigger(catalog_options=options)))
        assert "is not among the locations" in str(event["error"])
        with pytest.raises(HiveAcidTaskRefused, match="is not among the locations"):
            mirror.sensor(catalog_options=options).poke({})
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


async def _payload(trigger: HiveAcidConditionTrigger) -> Any:
    async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
        return (await anext(events)).payload
