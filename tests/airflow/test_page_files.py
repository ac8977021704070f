"""Storage that does not answer, and forged notes, block no other route of Airflow."""

import asyncio
import json
import os
import threading
import time
from pathlib import Path

import httpx
import pytest

from airflow_hiveacid.plugin import metastores
from airflow_hiveacid.plugin import routes as page_routes
from airflow_hiveacid.plugin.metastores import FileAccess
from hiveacid.errors import AccessRefused, StorageUnreachable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from tests.airflow.page_users import bearer
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of
from tests.records.forged_notes import forge_note
from tests.silent_host import silent_host
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.filterwarnings("ignore:The HMAC key is")

REQUESTS = 45
ROUNDS = 5
TABLE = "/hiveacid/api/tables/default.t"


@pytest.fixture
def host():
    with silent_host() as host:
        yield host


@pytest.fixture
def table(airflow, monkeypatch, tmp_path):
    """A table of the only metastore of the page."""
    metastores.metastore_of.cache_clear()
    with (
        FakeMetastore("4.0.1", directory=tmp_path) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        name, port = metastore.uri.removeprefix("thrift://").split(":")
        connection = {"conn_type": "hive_acid_metastore", "host": name, "port": int(port)}
        monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
        table = AcidFolders.create(client, "default.t", ["p=1"])
        table.insert("p=1")
        yield table
    metastores.metastore_of.cache_clear()


def move_partition(table, location):
    """Register another location for the partition, where the metastore makes no directory."""
    [partition] = table.client.get_partitions(table.client.get_table(table.ref), ["p=1"])
    partition.raw.sd.location = location
    table.client.call(
        idl_tables.alter_partitions_with_environment_context,
        table.ref.database,
        table.ref.name,
        [partition.raw],
        idl_tables.EnvironmentContext({}),
    )


async def measured(browser):
    """Wait until the tables of the page have been measured; their rows."""
    while True:
        listed = (await browser.get("/hiveacid/api/tables")).json()
        assert listed["error"] is None
        if listed["measured"]:
            return {row["table"]: row for row in listed["rows"]}
        await asyncio.sleep(0.02)


def with_other_routes(app, ask):
    """Ask the page, and another route of Airflow meanwhile; the answers, and the longest of others."""

    async def run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=bearer("viewer"), timeout=60
        ) as browser:
            await measured(browser)
            await browser.get("/api/v2/monitor/health")  # The first request imports modules.
            asked = asyncio.ensure_future(ask(browser))
            longest = 0.0
            while True:
                begun = time.monotonic()
                health = await browser.get("/api/v2/monitor/health")
                assert health.status_code == 200
                longest = max(longest, time.monotonic() - begun)
                if asked.done():
                    return asked.result(), longest
                await asyncio.wait([asked], timeout=0.05)

    return asyncio.run(run())


async def ask_for_histories(browser):
    return await asyncio.gather(*(browser.get(f"{TABLE}/history") for _ in range(REQUESTS)))


def fastest(app, ask, limit=1):
    """The answers of one of some rounds, and the longest time of another route in the fastest round.

    Other programs may have the processors for a second; threads that are blocked block every round.
    """
    rounds = []
    while len(rounds) < ROUNDS and not (rounds and rounds[-1][1] < limit):
        rounds.append(with_other_routes(app, ask))
    return min(rounds, key=lambda each: each[1])


def test_forged_notes_lead_to_no_other_host(airflow, table, host):
    for number in range(3):
        forge_note(table, f"{host.url}/warehouse", f"dag/run/task/{number}")
    answers, longest = fastest(airflow, ask_for_histories)
    assert [answer.json()["error"] for answer in answers] == [None] * REQUESTS
    assert host.connections == []
    assert longest < 1


def test_a_store_that_does_not_answer_blocks_no_other_route(airflow, table, host, monkeypatch):
    monkeypatch.setattr(page_routes, "LOOKUPS", FileAccess(1.5))
    monkeypatch.setattr(metastores, "_MEASURING", FileAccess(1.5, most_of_table=1))
    move_partition(table, f"{host.url}/warehouse/t/p=1")

    async def ask(browser):
        paths = [f"{TABLE}/versions/{number % 5}" for number in range(REQUESTS)]
        begun = time.monotonic()
        answers = await asyncio.gather(*map(browser.get, paths))
        return answers, time.monotonic() - begun

    (answers, seconds), longest = fastest(airflow, ask)
    messages = [answer.json()["error"]["message"] for answer in answers]
    assert sum("was not read within 1.5 seconds" in message for message in messages) == 36
    assert sum("4 of them of this table" in message for message in messages) == 9
    assert seconds < 15
    assert longest < 1
    assert host.connections != []


def test_a_table_that_is_not_measured_in_time_hides_no_other(airflow, table, host, monkeypatch):
    monkeypatch.setattr(metastores, "_MEASURING", FileAccess(0.5, most_of_table=1))
    AcidFolders.create(table.client, "default.a")
    AcidFolders.create(table.client, "default.z")
    move_partition(table, f"{host.url}/warehouse/t/p=1")

    async def ask(browser):
        return await measured(browser)

    rows, _ = with_other_routes(airflow, ask)
    assert {name: row["broken"] for name, row in rows.items()} == {
        "default.a": False,
        "default.t": True,
        "default.z": False,
    }


def test_looks_share_threads_and_end_with_the_error_of_the_look():
    files, threads = FileAccess(10, most=2), set()

    def look():
        threads.add(threading.get_ident())
        raise StorageUnreachable("It is away.")

    for table in ("a", "b", "c"):
        with pytest.raises(StorageUnreachable, match="It is away"):
            files.wait(table, look)
    assert len(threads) == 1


@pytest.mark.parametrize(
    ("allowed", "page", "error"),
    [("s3a", "", "AccessRefused"), ("s3a", "file", None), ("file", "s3a", "AccessRefused")],
)
def test_the_page_opens_locations_that_jobs_may_open(table, monkeypatch, allowed, page, error):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", allowed)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__PAGE_LOCATIONS", page)
    metastore = metastores.metastore_of("hive_acid_default")
    if error is None:
        assert len(metastore.history("default.t")) == 1
    else:
        with pytest.raises(AccessRefused):
            metastore.history("default.t")
    [health] = metastore._measure()
    assert (health.error and health.error.id) == error


# Of about the largest size that is read; each takes a parser much longer than its bytes.
_CONTENTS = [
    b"[" + b"[]," * 340_000 + b"1]",
    b"[" + b"1," * 500_000 + b"1]",
    b"[" * 1_000_000,
    b'{"a":' * 200_000,
    b"1" * 1_000_000,
    b'{"format": 1, "a": "' + b"\\u0041" * 170_000 + b'"}',
    b"{" + b",".join(b'"k%d": 0.5' % number for number in range(70_000)) + b"}",
    b'{"format": 1, "hashes": "' + b"0" * 1_000_000 + b'"}',
]
# The folders that the page reads: the path of one of a hundred files, and the routes that open it.
_HOSTILE = {
    "of deltas": ("p=1/delta_{n:07}_{n:07}_0000/_hiveacid.json", ["history", "oldest", ""]),
    "of bases": ("p=1/base_{n:07}/_metadata_acid", ["history", "oldest", ""]),
    "of notes on runs": ("_hiveacid_runs/{n:032x}.{n}.json", ["history", ""]),
    "of staged changes": ("_hiveacid_staged/{n:032x}_{n}/manifest.json", ["staged", ""]),
    "of cursors": ("_hiveacid_consumers/c{n}/{n}.json", [""]),
    "of mirrors": ("_hiveacid_mirrors/{n:016x}/1.json", ["mirrors", ""]),
    "of positions": ("_hiveacid_streams/s{n}/1.json", ["streams", ""]),
    "of states of streams": ("_hiveacid_streams/s{n}.json", ["streams", ""]),
    "of requests": ("../erasures/r{n}/record/1.json", ["erasures"]),
    "of certificates": ("../erasures/r{n}/certificate.json", ["certificate"]),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_a_hundred_hostile_files_delay_no_other_user(airflow, table, monkeypatch, tmp_path, name):
    template, parts = _HOSTILE[name]
    folder = Path(place_of(table.table.folder))
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ERASURES", f"file:{folder.parent}/erasures")
    paths = {"erasures": "erasures", "certificate": "erasures/r7/certificate"}
    routes = [f"/hiveacid/api/{paths[part]}" for part in parts if part in paths] or [
        f"{TABLE}/{part}".rstrip("/") for part in parts
    ]
    answered = []

    async def ask(browser):
        answered[:] = await asyncio.gather(*(browser.get(route) for route in routes))

    _, before = fastest(airflow, ask, 0)
    for number in range(1, 101):
        path = Path(os.path.normpath(folder / template.format(n=number)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_CONTENTS[number % len(_CONTENTS)])
    _, longest = fastest(airflow, ask, before + 0.5)
    assert {answer.status_code for answer in answered} <= {200, 503}
    assert all(len(answer.content) < 200_000 for answer in answered)
    assert longest <= before + 0.5
