"""The triggers in an event loop of their own, with a real metastore."""

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from airflow.sdk import Asset, AssetWatcher

from airflow_hiveacid.sensors.compaction import CompactionNeeded
from airflow_hiveacid.triggers import HiveAcidCompactionEventTrigger, compaction_event
from airflow_hiveacid.triggers.condition import HiveAcidConditionTrigger
from hiveacid.errors import InvalidJob
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy
from hiveacid.rules.names import Base
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.usefixtures("metastore_connection")
SOON = 0.05
EAGER = {"max_deltas": 1, "max_delta_ratio": None}


def waiting(table="shop.orders", **options):
    condition = CompactionNeeded(
        table=table, partitions=None, policy=CompactionPolicy(**EAGER), budget=Budget()
    )
    given = {"metastore_conn_id": "hive_acid_default", "poke_interval": SOON}
    return HiveAcidConditionTrigger(condition=condition, **given | options)


def watching(**options):
    given = {"table": "shop.orders", "policy": EAGER, "poke_interval": SOON}
    return HiveAcidCompactionEventTrigger(**given | options)


@pytest.mark.parametrize("trigger", [waiting(), watching(table="shop.*", remind_after_hours=2)])
def test_a_trigger_can_be_built_again_from_json(trigger):
    path, kwargs = trigger.serialize()
    module, name = path.rsplit(".", 1)
    again = getattr(import_module(module), name)(**json.loads(json.dumps(kwargs)))
    assert again.serialize() == (path, kwargs)
    assert "s3cret" not in json.dumps(kwargs)


async def next_event(events):
    return (await asyncio.wait_for(anext(events), timeout=60)).payload


async def is_silent(events, seconds=1.0):
    """Return whether no event arrives during many polls."""
    pending = asyncio.ensure_future(anext(events))
    done, _ = await asyncio.wait([pending], timeout=seconds)
    pending.cancel()
    await asyncio.gather(pending, return_exceptions=True)
    return not done


def test_the_trigger_of_a_sensor_fires_once_there_is_something(orders):
    async def wait():
        async with aclosing(waiting().run()) as events:
            pending = asyncio.ensure_future(next_event(events))
            for _ in range(2):
                assert not (await asyncio.wait([pending], timeout=0.5))[0]
                orders.insert()
            return await pending

    event = asyncio.run(wait())
    assert event["status"] == "found"
    assert [(need["table"], need["deltas"]) for need in event["found"]] == [("shop.orders", 2)]


def test_looking_does_not_block_the_triggerer(orders):
    async def longest_pause():
        loop, longest = asyncio.get_running_loop(), 0.0
        async with aclosing(waiting().run()) as events:
            pending = asyncio.ensure_future(next_event(events))
            begun = last = loop.time()
            while last - begun < 2:
                await asyncio.sleep(0)
                longest, last = max(longest, loop.time() - last), loop.time()
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        return longest

    asyncio.run(longest_pause())  # The first one imports the modules of a poll.
    assert asyncio.run(longest_pause()) < 0.2


@pytest.mark.parametrize(
    ("options", "retryable", "message"),
    [
        ({"table": "shop.gone"}, False, "shop.gone does not exist"),
        ({"metastore_conn_id": "unknown"}, False, "no metastore connection 'unknown'"),
        ({"metastore_conn_id": "down", "patience": 0}, True, "127.0.0.1:1"),
    ],
)
def test_the_trigger_of_a_sensor_hands_its_failure_to_the_task(
    options, retryable, message, monkeypatch
):
    connection = {"conn_type": "hive_acid_metastore", "host": "127.0.0.1", "port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_DOWN", json.dumps(connection))

    async def wait():
        async with aclosing(waiting(**options).run()) as events:
            return await next_event(events)

    event = asyncio.run(wait())
    assert (event["status"], event["error"]["retryable"]) == ("error", retryable)
    assert message in event["error"]["message"]


def test_an_event_reports_a_need_once_and_again_after_a_compaction(orders):
    async def watch():
        async with aclosing(watching().run()) as events:
            for _ in range(2):
                orders.insert()
            first = await next_event(events)
            orders.insert()
        # A need that persists is also reported by a newly started trigger.
        async with aclosing(watching().run()) as events:
            await next_event(events)
            assert await is_silent(events)
        return first

    assert [need["deltas"] for need in asyncio.run(watch())["needs"]] == [2]


class Store:
    """Airflow 3.3's memory of an asset, which outlives the triggerer."""

    def __init__(self):
        self.values = {}

    async def aget(self, key, default=None):
        return self.values.get(key, default)

    async def aset(self, key, value):
        self.values[key] = json.loads(json.dumps(value))


def test_it_is_armed_again_by_the_compaction_and_remembers_over_a_restart(orders):
    store = Store()

    def trigger():
        made = watching()
        made.asset_state_store = store
        return made

    async def watch():
        for _ in range(2):
            orders.insert()
        # The first triggerer dies before Airflow has the event.
        for _ in range(2):
            async with aclosing(trigger().run()) as events:
                await next_event(events)
        async with aclosing(trigger().run()) as events:
            await next_event(events)
            assert await is_silent(events)
        async with aclosing(trigger().run()) as events:
            assert await is_silent(events)
        orders.compact(Base(3))
        async with aclosing(trigger().run()) as events:
            assert await is_silent(events)
            for _ in range(2):
                orders.insert()
        async with aclosing(trigger().run()) as events:
            return await next_event(events)

    assert [need["deltas"] for need in asyncio.run(watch())["needs"]] == [2]


def test_persistent_needs_are_reported_again_after_some_hours():
    now = datetime.now(UTC)
    needs = [{"table": "a.t", "partition": None}, {"table": "a.t", "partition": "p=1"}]
    fresh, told = compaction_event._choose(needs[:1], {}, now, 6)
    assert fresh == needs[:1]
    fresh, told = compaction_event._choose(needs, told, now + timedelta(hours=5), 6)
    assert fresh == needs[1:]
    fresh, told = compaction_event._choose(needs, told, now + timedelta(hours=7), 6)
    assert fresh == needs[:1]
    assert compaction_event._choose([], told, now + timedelta(hours=7), 6) == ([], {})
    assert compaction_event._choose(needs[:1], told, now, 1e308)[0] == []


def test_one_event_reports_a_limited_number_of_partitions():
    now = datetime.now(UTC)
    needs = [{"table": "a.t", "partition": f"p={number}"} for number in range(150)]
    first, told = compaction_event._choose(needs, {}, now, 6)
    second, told = compaction_event._choose(needs, told, now, 6)
    assert (first, second) == (needs[:100], needs[100:])
    assert compaction_event._choose(needs, told, now, 6) == ([], told)


def test_all_tables_of_a_connection_share_one_poll(orders):
    shared_stream = pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow 3.3")
    visits = AcidFolders.create(orders.client, "shop.visits")
    triggers = [watching(), watching(table="shop.visits"), watching(table="shop.o*")]
    keys = {trigger.shared_stream_key() for trigger in triggers}
    assert len(keys) == 1
    for other in ({"metastore_conn_id": "b"}, {"poke_interval": 9}, {"policy": {}}):
        assert watching(**other).shared_stream_key() not in keys

    async def watch():
        manager = shared_stream.SharedStreamManager()
        streams = []
        for number, trigger in enumerate(triggers):
            key = trigger.shared_stream_key()
            raw = manager.subscribe(trigger_id=number, trigger=trigger, key=key)
            streams.append(trigger.filter_shared_stream(raw))
        pending = [asyncio.ensure_future(next_event(stream)) for stream in streams]
        for _ in range(2):
            visits.insert()
        done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        assert done == {pending[1]}
        for _ in range(2):
            orders.insert()
        events = await asyncio.gather(*pending)
        for stream in streams:
            await stream.aclose()
        await manager.stop_all()
        return events

    events = asyncio.run(watch())
    told = [[need["table"] for need in event["needs"]] for event in events]
    assert told == [["shop.orders"], ["shop.visits"], ["shop.orders"]]
    assert compaction_event._watched[keys.pop()] == {}


def test_an_event_trigger_survives_what_fails(orders, monkeypatch, caplog, eventually):
    connection = {"conn_type": "hive_acid_metastore", "host": "127.0.0.1", "port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_LATER", json.dumps(connection))

    async def watch():
        for _ in range(2):
            orders.insert()
        trigger = watching(metastore_conn_id="gone")
        async with aclosing(trigger.run()) as events:
            pending = asyncio.ensure_future(next_event(events))
            while "will try again" not in caplog.text:
                await asyncio.sleep(SOON)
            host, port = orders.client.options.uris.removeprefix("thrift://").split(":")
            reached = connection | {"host": host, "port": int(port)}
            monkeypatch.setenv("AIRFLOW_CONN_GONE", json.dumps(reached))
            return await pending

    assert asyncio.run(watch())["needs"][0]["table"] == "shop.orders"
    assert "no metastore connection 'gone'" in caplog.text


def test_a_watcher_takes_the_event_trigger():
    asset = Asset("t", watchers=[AssetWatcher(name="w", trigger=watching())])
    assert asset.watchers[0].trigger.serialize()[1]["table"] == "shop.orders"


@pytest.mark.parametrize("policy", [{"max_deltas": -1}, {"max_delta": 1}])
def test_a_policy_that_makes_no_sense_fails_while_the_dag_is_parsed(policy):
    with pytest.raises(InvalidJob, match="max_delta"):
        watching(policy=policy)
