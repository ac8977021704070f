"""The typical loads among the example DAGs, run on small tables and held against plain Python."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.cluster.packaged import example_dags
from hiveacid.api.table import AcidTable
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.fakes.metastore import FakeMetastore

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Before Airflow 3.2.
    from airflow.models.dagbag import DagBag

START = datetime(2026, 11, 20, tzinfo=UTC)
Event = Mapping[str, Any]
Rows = set[tuple[Any, ...]]


class Load:
    """Runs the tasks of an example DAG on tables of a fake metastore."""

    def __init__(self, metastore: FakeMetastore, client: MetastoreClient, database: str) -> None:
        self.metastore, self.client, self.database = metastore, client, database
        self.dags = DagBag(dag_folder=str(example_dags())).dags

    def create(self, name: str, columns: str, keys: Sequence[HiveColumn] = (), **more: Any) -> str:
        named = [HiveColumn(*column.split(" ")) for column in columns.split(", ")]
        ref = TableRef(self.database, name)
        self.client.create_table(HiveTable.new(ref, named, partition_keys=keys, **more))
        return ref.full_name

    def job(self, dag_id: str, task_id: str) -> Any:
        return self.dags[dag_id].get_task(task_id).job

    def run(
        self,
        spark: SparkSession,
        dag_id: str,
        task_id: str,
        at: datetime,
        params: Mapping[str, Any],
        **changes: Any,
    ) -> RunReport:
        dag = self.dags[dag_id]
        environment = dag.get_template_env()
        context = {"params": {**dag.params.dump(), **params}, "data_interval_start": at}
        job = self.job(dag_id, task_id)
        rendered = job.render(lambda text: environment.from_string(text).render(context))
        report = run(spark, replace(rendered, metastore=self.metastore.options, **changes))
        assert isinstance(report, RunReport)
        assert report.error is None
        return report

    def rows(self, spark: SparkSession, table: str, *columns: str) -> Rows:
        with AcidTable(table, self.metastore.uri, spark=spark, run_in="spark") as acid:
            rows = [tuple(row) for row in acid.to_df().selectExpr(*columns).collect()]
        assert len(rows) == len(set(rows))
        return set(rows)


@pytest.fixture
def load(fake4: FakeMetastore, tmp_path: Path) -> Iterator[Load]:
    with MetastoreClient(fake4.options) as client:
        client.create_database("loads")
        yield Load(fake4, client, "loads")
        client.drop_database("loads", cascade=True)


@pytest.fixture
def feed(tmp_path: Path) -> Callable[[str, Sequence[Event]], None]:
    def write(folder: str, events: Sequence[Event]) -> None:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "events.json").write_text("\n".join(map(json.dumps, events)))

    return write


def test_a_change_feed_ends_with_the_youngest_event_of_every_row(
    load: Load, spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    random = Random(7)
    table = load.create(
        "customers",
        "id bigint, name string, email string, seq bigint, changed_at timestamp, deleted boolean",
    )
    events = [
        {
            "id": random.randrange(12),
            "name": f"name {seq}",
            "email": f"{seq}@example.org",
            "op": random.choice(["upsert", "upsert", "delete"]),
            "seq": seq,
            "changed_at": f"{START + timedelta(minutes=seq):%Y-%m-%dT%H:%M:%SZ}",
        }
        for seq in range(45)
    ]
    # Every event comes at least once, some twice, and in no order at all.
    arriving = events + random.sample(events, 15)
    random.shuffle(arriving)
    hours = [START + timedelta(hours=hour) for hour in range(3)]
    for number, hour in enumerate(hours):
        feed(f"{hour:%Y-%m-%dT%H}", arriving[number * 20 : (number + 1) * 20])
    params = {"table": table, "feed": str(tmp_path), "lateness_days": 1}

    for hour in [hours[2], hours[0], hours[1], hours[2]]:
        report = load.run(spark, "change_feed", "apply", hour, params)
    # The last one had been applied before.
    assert report.rows_inserted == report.rows_updated == report.rows_deleted == 0

    last = {event["id"]: event for event in events}
    expected = {
        (id_, event["seq"], True, None, None)
        if event["op"] == "delete"
        else (id_, event["seq"], False, event["name"], event["email"])
        for id_, event in last.items()
    }
    columns = ("id", "seq", "deleted", "name", "email")
    assert load.rows(spark, table, *columns) == expected
    tombstones = {row for row in expected if row[2]}
    assert tombstones

    assert load.run(spark, "change_feed", "purge", START, params).rows_deleted == 0
    later = START + timedelta(days=1, hours=2)
    report = load.run(spark, "change_feed", "purge", later, params)
    assert report.rows_deleted == len(tombstones)
    assert load.rows(spark, table, *columns) == expected - tombstones


def test_dimensions_of_both_types(
    load: Load, spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    random = Random(3)
    now = load.create("now", "customer bigint, city string, segment string, changed_at timestamp")
    history = load.create(
        "history",
        "customer bigint, city string, segment string, valid_from timestamp, valid_to timestamp, "
        "is_current boolean",
    )
    params = {"now": now, "history": history, "feed": str(tmp_path)}
    current: dict[int, tuple[Any, ...]] = {}
    versions: dict[int, list[tuple[Any, ...]]] = {}
    for number in range(4):
        day = START + timedelta(days=number)
        events = [
            {
                "customer": random.randrange(8),
                "city": random.choice(["Kiel", "Bonn", None]),
                "segment": random.choice(["gold", "iron"]),
                "op": random.choice(["upsert"] * 4 + ["delete"]),
                "changed_at": f"{day + timedelta(seconds=second):%Y-%m-%d %H:%M:%S}",
            }
            for second in range(10)
        ]
        last = {event["customer"]: event for event in events}
        # One event is a day late: the known state is newer.
        late = next((id_ for id_ in current if id_ not in last), None)
        if late is not None:
            at = f"{START - timedelta(days=1):%Y-%m-%d %H:%M:%S}"
            events.append({"customer": late, "city": "x", "segment": "x", "op": "upsert"})
            events[-1]["changed_at"] = at
        feed(f"{day:%Y-%m-%d}", random.sample(events, len(events)))
        for id_, event in last.items():
            _apply(event, current.get(id_), versions.setdefault(id_, []))
            if event["op"] == "delete":
                current.pop(id_, None)
            else:
                current[id_] = (event["city"], event["segment"], event["changed_at"])
        for task in ("type_1", "type_2"):
            load.run(spark, "slowly_changing_dimension", task, day, params)
        columns = ("customer", "city", "segment", "cast(changed_at as string)")
        assert load.rows(spark, now, *columns) == {
            (id_, *values) for id_, values in current.items()
        }
    columns = (
        *("customer", "city", "segment"),
        *("cast(valid_from as string)", "cast(valid_to as string)", "is_current"),
    )
    expected = {
        (id_, *version, version[-1] is None) for id_, rows in versions.items() for version in rows
    }
    assert load.rows(spark, history, *columns) == expected
    again = load.run(spark, "slowly_changing_dimension", "type_2", day, params)
    assert again.rows_inserted == again.rows_updated == 0
    assert load.rows(spark, history, *columns) == expected


def _apply(event: Event, now: tuple[Any, ...] | None, versions: list[tuple[Any, ...]]) -> None:
    """Apply an event to the versions of its customer: city, segment, from, to."""
    values = (event["city"], event["segment"])
    if event["op"] != "delete" and now is not None and values == now[:2]:
        return
    if now is not None:
        *opened, _ = versions[-1]
        versions[-1] = (*opened, event["changed_at"])
    if event["op"] != "delete":
        versions.append((*values, event["changed_at"], None))


def test_facts_and_their_dimension_change_together(
    load: Load, spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    shops = load.create("shops", "shop int, name string, country string")
    orders = load.create(
        "orders",
        "order_id bigint, shop int, amount decimal(12,2), version bigint",
        [HiveColumn("day", "string")],
        bucket_columns=["order_id"],
        num_buckets=2,
    )
    params = {"facts": orders, "dimension": shops, "feed": str(tmp_path)}

    def order(number: int, amount: float, version: int, op: str, day: str) -> Event:
        values = {"order_id": number, "shop": 1, "amount": amount}
        return {**values, "version": version, "op": op, "day": day}

    hours = [
        [order(1, 1.5, 1, "upsert", "d1"), order(2, 2, 1, "upsert", "d1")],
        [
            *(order(1, 9, 2, "upsert", "d1"), order(1, 8, 3, "upsert", "d1")),
            *(order(2, 0, 2, "cancel", "d1"), order(3, 3, 1, "upsert", "d2")),
            *(order(4, 0, 1, "cancel", "d2"), order(1, 7, 1, "upsert", "d2")),
        ],
    ]
    counts = []
    for number, events in enumerate(hours):
        hour = START + timedelta(hours=number)
        feed(f"{hour:%Y-%m-%dT%H}/orders", events)
        shop = {"shop": 1, "name": f"name {number}", "country": "de"}
        feed(f"{hour:%Y-%m-%dT%H}/shops", [shop, shop])
        report = load.run(spark, "hourly_facts", "apply", hour, params)
        counts.append((report.rows_inserted, report.rows_updated, report.rows_deleted))
    assert counts == [(3, 0, 0), (2, 2, 1)]
    assert load.rows(spark, shops, "name") == {("name 1",)}
    rows = load.rows(spark, orders, "order_id", "cast(amount as double)", "version", "day")
    assert rows == {(1, 8.0, 3, "d1"), (3, 3.0, 1, "d2"), (1, 7.0, 1, "d2")}
