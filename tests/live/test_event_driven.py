"""Tables that compact themselves: one look for all, one run for each table that needs it."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.cluster.packaged import example_dags
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.cli.acid_files import ids, write_events
from tests.live.airflow_api import wait_until
from tests.live.airflow_processes import AirflowProcesses
from tests.proxy import Proxy
from tests.rows import rows_of
from tests.upkeep.acid_folders import AcidFolders

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

DAG = "event_driven_compaction"
TABLES = ["events.orders", "events.visits", "events.clicks"]
# Hive's own threshold are ten.
DELTAS = 11
POKE_SECONDS = 2


@pytest.fixture(scope="module")
def proxy(hms4: EmbeddedMetastore) -> Iterator[Proxy]:
    proxy = Proxy(hms4)
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def tables(hms4: EmbeddedMetastore) -> Iterator[dict[str, AcidFolders]]:
    with MetastoreClient(hms4.options) as client:
        client.create_database("events")
        # Nothing is kept for earlier versions.
        properties = {"hiveacid.retention": "0"}
        yield {name: AcidFolders.create(client, name, parameters=properties) for name in TABLES}
        client.drop_database("events", cascade=True)


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    connections: Mapping[str, Mapping[str, Any]],
    proxy: Proxy,
    tables: dict[str, AcidFolders],
) -> Iterator[AirflowProcesses]:
    folder = tmp_path_factory.mktemp("event_driven")
    dag = folder / f"{DAG}.py"
    shutil.copy(example_dags() / dag.name, dag)
    text = dag.read_text()
    for said, meant in (
        ('TABLES = ["default.orders", "default.customers"]', f"TABLES = {TABLES}"),
        ("poke_interval=60", f"poke_interval={POKE_SECONDS}"),
    ):
        assert said in text
        text = text.replace(said, meant)
    dag.write_text(text)
    metastore = dict(connections["hive_acid_default"], port=int(proxy.uri.rpartition(":")[2]))
    with AirflowProcesses(
        folder / "airflow", [dag], connections={**connections, "hive_acid_default": metastore}
    ) as airflow:
        airflow.wait_for_dags(DAG)
        airflow.api.unpause(DAG)
        yield airflow


@pytest.fixture
def shop(
    airflow: AirflowProcesses, tables: dict[str, AcidFolders], proxy: Proxy, hms4: EmbeddedMetastore
) -> SimpleNamespace:
    """The operations on the tables, and Airflow's reactions."""
    numbers: Counter[str] = Counter()

    def cross(name: str) -> None:
        """Bring a table over the threshold, by rows that identify their insert."""
        folders = tables[name]
        for _ in range(DELTAS):
            numbers[name] += 1
            delta = folders.insert()
            write_id = int(delta.split("_")[1])
            bucket = folders.root / delta / "bucket_00000"
            write_events(bucket, [(write_id, 0, write_id)], ids(numbers[name]))

    def compacted() -> list[str]:
        """The tables that all runs together have compacted, each as often as that happened."""
        reports = [
            airflow.api.xcom(DAG, task["dag_run_id"], "compact", map_index=task["map_index"])
            for task in airflow.api.task_instances(DAG)
            if task["task_id"] == "compact" and task["state"] == "success"
        ]
        return sorted(report["target"] for report in reports)

    return SimpleNamespace(
        cross=cross,
        compacted=compacted,
        runs=lambda: airflow.api.runs(DAG),
        idle=lambda: all(run["state"] == "success" for run in airflow.api.runs(DAG)),
        events=lambda: airflow.api.get("/assets/events")["total_entries"],
        deltas=lambda: {name: len(folders.directories()) for name, folders in tables.items()},
        rows_are_right=lambda: all(
            rows_of(hms4.uri, name) == [{"id": number + 1} for number in range(numbers[name])]
            for name in tables
        ),
    )


def wait_for_polls(proxy: Proxy, count: int) -> list[float]:
    """The times of the next polls, while nothing else asks the metastore."""
    before = len(proxy.begun)
    wait_until(f"{count} polls", lambda: len(proxy.begun) >= before + count, 120)
    return proxy.begun[before : before + count]


def test_three_tables_over_the_threshold_are_three_runs_and_armed_again(airflow, shop, proxy):
    times = wait_for_polls(proxy, 6)
    # Three polls, one for each table, would come at once or in between.
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= POKE_SECONDS, gaps
    assert shop.runs() == []

    for number, name in enumerate(TABLES, start=1):
        shop.cross(name)
        wait_until(f"{name} is told of", lambda wanted=number: len(shop.runs()) >= wanted, 120)
    wait_until("all runs have ended", shop.idle, 600)
    wait_for_polls(proxy, 3)
    assert len(shop.runs()) == shop.events() == 3
    assert shop.compacted() == sorted(TABLES)
    assert set(shop.deltas().values()) == {1}
    assert shop.rows_are_right()

    # Simultaneous needs may arrive in one run, but none arrives twice.
    for name in TABLES:
        shop.cross(name)
    wait_until("they are compacted again", lambda: len(shop.compacted()) >= 6, 600)
    wait_until("all runs have ended", shop.idle, 600)
    wait_for_polls(proxy, 3)
    assert shop.events() == 6
    assert 4 <= len(shop.runs()) <= 6
    assert shop.compacted() == sorted(TABLES * 2)
    assert shop.rows_are_right()
    assert "Looking for compactions failed" not in airflow.log("triggerer")
