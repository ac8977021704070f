"""The waits for changes that a consumer has not seen: the sensor and the triggers."""

import asyncio
import json
from contextlib import aclosing
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused, HiveAcidTaskTrouble
from airflow_hiveacid.sensors import HiveAcidNewDataSensor
from airflow_hiveacid.sensors.new_data import NewData
from airflow_hiveacid.triggers import HiveAcidNewDataEventTrigger
from airflow_hiveacid.triggers.condition import HiveAcidConditionTrigger
from hiveacid.errors import InvalidJob, MetastoreUnreachable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.records.consumers import Consumer
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.metrics import Sample
from tests.engine.acid_tables import create
from tests.metastore_calls import counted_calls

pytestmark = pytest.mark.parametrize(
    "hms", ["fake 4.0.1", "fake 3.1.3"], ids=["4.0.1", "3.1.3"], indirect=True
)
SOON = 0.02


class Table:
    """A table that is written without files."""

    def __init__(self, client: MetastoreClient, name: str) -> None:
        self.client, self.ref = client, TableRef.parse(name)
        create(client, name, {"id": "int"})

    def open(self) -> int:
        txn = self.client.open_txn("user", "host", None)
        self.client.allocate_write_id(txn, self.ref)
        return txn

    def write(self) -> None:
        self.client.commit_txn(self.open())

    def sensor(self, **more: Any) -> HiveAcidNewDataSensor:
        given = {"task_id": "t", "table": self.ref.full_name, "consumer": "audit"}
        return HiveAcidNewDataSensor(**given | more)

    def trigger(self, after: str = "0") -> HiveAcidConditionTrigger:
        return HiveAcidConditionTrigger(
            condition=NewData(self.ref.full_name, "audit", after),
            metastore_conn_id="hive_acid_default",
            poke_interval=SOON,
        )

    def events(self) -> HiveAcidNewDataEventTrigger:
        return HiveAcidNewDataEventTrigger(table=self.ref.full_name, poke_interval=SOON)

    def found(self, after: int, up_to: int) -> dict[str, Any]:
        return {"table": self.ref.full_name, "after": after, "up_to": up_to}


@pytest.fixture
def table(
    hms: Any, client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> Table:
    host, port = hms.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    return Table(client, f"{database}.orders")


def test_new_and_final_versions_are_found(
    table: Table, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Sample] = []
    monkeypatch.setattr(
        "airflow_hiveacid.sensors.new_data.emit", lambda samples: seen.extend(samples())
    )
    sensor = table.sensor()
    assert not sensor.poke({})
    table.write()
    open_ = table.open()
    table.write()
    poked = sensor.poke({})
    assert (poked.is_done, poked.xcom_value) == (True, table.found(0, 1))
    assert json.dumps(poked.xcom_value)
    Consumer(client, table.ref.full_name, "audit", ["d.copy"]).advance(1)
    assert not sensor.poke({})
    client.commit_txn(open_)
    assert sensor.poke({}).xcom_value == table.found(1, 3)
    assert table.sensor(consumer="other", after="2").poke({}).xcom_value == table.found(2, 3)
    assert table.sensor(consumer="other", after="oldest").poke({}).xcom_value == table.found(0, 3)
    assert {each.metric.name for each in seen} == {"hiveacid_consumer_versions_behind"}
    assert [each.value for each in seen] == [0, 1, 0, 2, 1, 3]
    assert seen[1].labels == {"table": table.ref.full_name, "consumer": "audit"}


def test_a_look_takes_three_calls(table: Table) -> None:
    with counted_calls() as calls:
        table.sensor().poke({})
    asked = calls.keys() - {"set_ugi", "getVersion"}
    assert asked == {"get_table_req", "get_open_txns", "get_valid_write_ids"}
    assert {calls[name] for name in asked} == {1}


def test_a_sensor_that_defers_waits_in_its_trigger(table: Table) -> None:
    table.write()
    sensor = table.sensor(deferrable=True, after="1", poke_interval=7)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    _, kwargs = deferred.value.trigger.serialize()
    assert (kwargs["condition"]["after"], kwargs["poke_interval"]) == ("1", 7)
    table.write()
    assert table.sensor(deferrable=True, after="1").execute({}) == table.found(1, 2)
    found = {"status": "found", "found": table.found(1, 2)}
    assert sensor.execute_complete({}, found) == table.found(1, 2)


@pytest.mark.parametrize(
    ("more", "failure"),
    [
        ({"table": "shop.gone"}, HiveAcidTaskRefused),
        (
            {
                "metastore_conn_id": "down",
                "soft_fail": True,
                "metastore_patience": timedelta(seconds=0.2),
                "poke_interval": 0.1,
            },
            HiveAcidTaskTrouble,
        ),
    ],
)
def test_unreadable_tables_do_not_count_as_unchanged(
    table: Table, more: dict[str, Any], failure: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "hive_acid_metastore", "host": "127.0.0.1", "port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_DOWN", json.dumps(connection))
    with pytest.raises(failure):
        table.sensor(**more).execute({})


def test_a_sensor_that_defers_waits_for_a_metastore_that_is_away(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [MetastoreUnreachable("It is away.")]
    really = Consumer.range

    def find(consumer: Consumer, source: Any) -> Any:
        if away:
            raise away.pop()
        return really(consumer, source)

    monkeypatch.setattr(Consumer, "range", find)
    table.write()
    sensor = table.sensor(deferrable=True, poke_interval=SOON)
    with pytest.raises(TaskDeferred):
        sensor.execute({})
    assert sensor.execute({}) == table.found(0, 1)
    away.append(MetastoreUnreachable("It is away."))
    assert not table.sensor().poke({}).is_done

    async def wait() -> Any:
        away.append(MetastoreUnreachable("It is away."))
        async with aclosing(table.trigger().run()) as events:  # type: ignore[type-var]
            return await next_of(events)

    assert asyncio.run(wait())["found"]["up_to"] == 1


def test_a_wrong_name_is_refused_while_the_dag_is_parsed(table: Table) -> None:
    with pytest.raises(InvalidJob, match="no name of a consumer"):
        table.sensor(consumer="a/b")
    assert table.sensor(consumer="{{ params.consumer }}")


def test_triggers_can_be_built_again_from_json(table: Table) -> None:
    for trigger in (table.trigger(), table.events()):
        path, kwargs = trigger.serialize()
        module, name = path.rsplit(".", 1)
        again = getattr(import_module(module), name)(**json.loads(json.dumps(kwargs)))
        assert again.serialize() == (path, kwargs)


async def next_of(events: Any) -> Any:
    return (await asyncio.wait_for(anext(events), timeout=60)).payload


def test_the_trigger_of_a_sensor_waits_for_a_version(table: Table) -> None:
    async def wait() -> Any:
        async with aclosing(table.trigger("1").run()) as events:  # type: ignore[type-var]
            pending = asyncio.ensure_future(next_of(events))
            table.write()
            assert not (await asyncio.wait([pending], timeout=0.3))[0]
            table.write()
            return await pending

    event = asyncio.run(wait())
    assert event == {"status": "found", "found": table.found(1, 2)}


class _Store:
    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = value


def test_events_report_each_version_once(table: Table) -> None:
    store = _Store()

    async def watch(first: bool) -> Any:
        trigger = table.events()
        object.__setattr__(trigger, "asset_state_store", store)
        async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
            if first:
                assert (await next_of(events))["after"] is None
            table.write()
            return await next_of(events)

    table.write()
    assert asyncio.run(watch(first=True)) == table.found(1, 2)
    # After a restart of the triggerer, events that may have been lost are repeated, and no others.
    assert asyncio.run(watch(first=False)) == table.found(1, 3)


def test_events_of_a_table_that_was_created_again_begin_with_its_first_version(
    table: Table,
) -> None:
    store = _Store()

    async def watch() -> Any:
        trigger = table.events()
        object.__setattr__(trigger, "asset_state_store", store)
        async with aclosing(trigger.run()) as events:  # type: ignore[type-var]
            found = await next_of(events)
            table.write()
            await next_of(events)
            return found

    table.write()
    assert asyncio.run(watch())["after"] is None
    (key,) = store.kept
    known, _, creation = store.kept[key].partition(" ")
    assert known == "1"
    store.kept[key] = f"9 {creation.replace('created 2', 'created 1')}"
    assert asyncio.run(watch()) == {"table": table.ref.full_name, "after": None, "up_to": 2}


def test_events_go_on_after_the_metastore_was_away(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [MetastoreUnreachable("It is away.")]
    really = HiveAcidNewDataEventTrigger._newest_version

    def newest_version(trigger: HiveAcidNewDataEventTrigger, options: Any) -> Any:
        if away:
            raise away.pop()
        return really(trigger, options)

    monkeypatch.setattr(HiveAcidNewDataEventTrigger, "_newest_version", newest_version)
    table.write()

    async def watch() -> Any:
        async with aclosing(table.events().run()) as events:  # type: ignore[type-var]
            return await next_of(events)

    assert asyncio.run(watch()) == {"table": table.ref.full_name, "after": None, "up_to": 1}
