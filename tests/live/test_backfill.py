"""Two weeks filled back, three days at a time, with kills in the middle: every day counts once."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.cluster.packaged import example_dags
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.rules.names import TableRef
from tests.live.airflow_api import wait_until
from tests.live.airflow_processes import AirflowProcesses, TaskProcess
from tests.live.applied import applied, committed_write_ids
from tests.live.postgres import Postgres
from tests.rows import rows_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(3600)]

FIRST = date(2026, 1, 1)
DAYS = [str(FIRST + timedelta(days=number)) for number in range(14)]
# One more than these would be the end of a task that is hit by all of them.
KILLS: tuple[Callable[[TaskProcess], None], ...] = (
    TaskProcess.kill_runner,
    TaskProcess.kill_programs,
    TaskProcess.kill_worker,
    TaskProcess.kill_supervisor,
)
Rows = list[dict[str, Any]]


def bookings(day: str, dice: random.Random) -> Rows:
    """A day in the feed of daily_merge; some accounts are new, most are not."""
    return [
        {"account": dice.randrange(1, 40), "cents": dice.randrange(-5000, 9000)} for _ in range(60)
    ]


def balances(feed: Mapping[str, Rows]) -> Rows:
    """Return the result of the whole feed of bookings, applied once."""
    accounts: dict[int, dict[str, Any]] = {}
    for day in sorted(feed):
        for booking in feed[day]:
            account = accounts.setdefault(
                booking["account"],
                {"account": booking["account"], "balance": 0, "bookings": 0, "last_day": day},
            )
            account["balance"] += booking["cents"]
            account["bookings"] += 1
            account["last_day"] = day
    return sorted(accounts.values(), key=lambda row: row["account"])


def changes(day: str, dice: random.Random) -> Rows:
    """A day in the feed of partitioned_backfill: orders that come, change and go."""
    return [
        {
            "id": dice.randrange(1, 25),
            "name": f"order {number} of {day}",
            "amount": dice.randrange(1000),
            "op": dice.choice(["upsert", "upsert", "delete"]),
            "changed_at": f"{day}T{number // 60:02}:{number % 60:02}:00Z",
        }
        for number in range(80)
    ]


def orders(feed: Mapping[str, Rows]) -> Rows:
    """Return the result of the whole feed of orders, applied once."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for day in sorted(feed):
        for change in feed[day]:
            key = (day, change["id"])
            rows.pop(key, None)
            if change["op"] != "delete":
                rows[key] = {name: change[name] for name in ("id", "name", "amount")} | {"ds": day}
    return sorted(rows.values(), key=lambda row: [*row.values()])


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory, connections: Mapping[str, Mapping[str, Any]]
) -> Iterator[AirflowProcesses]:
    files = [example_dags() / f"{name}.py" for name in ("daily_merge", "partitioned_backfill")]
    with (
        # Side by side, tasks would now and then find a database of SQLite locked.
        Postgres() as postgres,
        AirflowProcesses(
            tmp_path_factory.mktemp("backfill") / "airflow",
            files,
            connections=connections,
            database=postgres.create_database("airflow"),
            # Backfills alone: a DAG that is not paused would begin with the day that is just over.
            environment={"AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False"},
        ) as airflow,
    ):
        airflow.wait_for_dags("daily_merge", "partitioned_backfill")
        yield airflow


@pytest.fixture
def backfill(
    request: pytest.FixtureRequest,
    airflow: AirflowProcesses,
    hms4: EmbeddedMetastore,
    tmp_path: Path,
) -> Iterator[SimpleNamespace]:
    """A table, a feed of 14 days, and a backfill of a DAG that merges one into the other."""
    dag_id, columns, keys, days = request.param
    dice = random.Random(dag_id)
    feed = {day: days(day, dice) for day in DAYS}
    for day, lines in feed.items():
        (tmp_path / day).mkdir()
        (tmp_path / day / "part.json").write_text("\n".join(map(json.dumps, lines)))
    table = TableRef("backfill", dag_id)
    conf = {"table": str(table), "feed": str(tmp_path)}
    with MetastoreClient(hms4.options) as client:
        client.create_database(table.database)
        client.create_table(
            HiveTable.new(
                table,
                [HiveColumn(*column) for column in columns],
                partition_keys=[HiveColumn(*key) for key in keys],
            )
        )
        airflow.api.unpause(dag_id)

        def create(*options: str, first: str = DAYS[0], last: str = DAYS[-1], **more: str) -> None:
            options = (*options, "--max-active-runs", "3")
            airflow.backfill(
                dag_id, first, last, *options, "--dag-run-conf", json.dumps(conf | more)
            )

        def wait() -> None:
            wait_until("the backfill is over", lambda: airflow.backfill_is_over(dag_id), 1500)
            states = Counter(run["state"] for run in airflow.api.runs(dag_id))
            assert set(states) == {"success"}, airflow.api.task_instances(dag_id)

        yield SimpleNamespace(
            dag_id=dag_id,
            dice=dice,
            feed=feed,
            folder=tmp_path,
            create=create,
            wait=wait,
            rows=lambda: rows_of(hms4.uri, str(table)),
            applied=lambda: applied(client, table),
            committed=lambda: committed_write_ids(client, table),
            open=lambda: {
                txn.host.partition("/")[2]
                for txn in client.get_open_txns_info()
                if txn.state is TxnState.OPEN and f"/{dag_id}/" in f"{txn.host}/"
            },
            reports=lambda: [
                airflow.api.xcom(dag_id, run["dag_run_id"], "merge")
                for run in airflow.api.runs(dag_id)
            ],
        )
        client.drop_database(table.database, cascade=True)


DAILY = (
    "daily_merge",
    [("account", "bigint"), ("balance", "bigint"), ("bookings", "bigint"), ("last_day", "string")],
    [],
    bookings,
)
PARTITIONED = (
    "partitioned_backfill",
    [("id", "bigint"), ("name", "string"), ("amount", "bigint")],
    [("ds", "string")],
    changes,
)


@pytest.mark.parametrize(
    ("backfill", "replayed"),
    [(DAILY, balances), (PARTITIONED, orders)],
    indirect=["backfill"],
    ids=["by data interval", "by partition"],
)
def test_days_filled_back_with_kills_and_reprocessed_count_once(
    backfill: SimpleNamespace, replayed: Callable[[Mapping[str, Rows]], Rows], airflow
) -> None:
    backfill.create()
    hits = kill_now_and_then(airflow, backfill)
    backfill.wait()
    assert len(hits) == 2 * len(KILLS)
    expected = replayed(backfill.feed)
    assert backfill.rows() == expected
    first = backfill.applied()
    assert len(first) == len(DAYS), first
    assert all(len(write_ids) == 1 for write_ids in first.values()), first
    assert backfill.committed() == set().union(*first.values())

    backfill.create("--reprocess-behavior", "completed")
    backfill.wait()
    assert backfill.rows() == expected
    assert backfill.applied() == first
    assert backfill.committed() == set().union(*first.values())
    reports = backfill.reports()
    assert sum(report["already_done"] for report in reports) >= len(DAYS)


@pytest.mark.parametrize("backfill", [PARTITIONED], indirect=True, ids=["by partition"])
def test_a_day_is_merged_once_more_for_a_new_reason(backfill: SimpleNamespace) -> None:
    day, reprocess = DAYS[6], ("--reprocess-behavior", "completed")

    def merged(**conf: str) -> Rows:
        backfill.create(*reprocess, first=day, last=day, **conf)
        backfill.wait()
        return backfill.rows()

    expected = orders({day: backfill.feed[day]})
    assert merged() == expected
    late = {"id": 99, "name": "late", "amount": 1, "op": "upsert", "changed_at": f"{day}T12:00:00Z"}
    (backfill.folder / day / "late.json").write_text(json.dumps(late))
    assert merged() == expected
    expected = orders({day: [*backfill.feed[day], late]})
    assert merged(again="one came late") == expected
    assert merged(again="one came late") == expected
    assert len(backfill.committed()) == 2


def kill_now_and_then(airflow: AirflowProcesses, backfill: SimpleNamespace) -> list[str]:
    """Hit tasks in every way, young ones whose Spark starts and old ones with a transaction."""
    planned = [(kill, age) for kill in KILLS for age in ("young", "old")]
    backfill.dice.shuffle(planned)
    hits: list[str] = []

    def hit() -> bool:
        kill, age = planned[-1]
        at_work = [task for task in airflow.task_processes() if task.programs]
        # Not all at once: the last days shall be hit as well as the first.
        due = len(hits) <= len(backfill.committed())
        if due and at_work and (age == "young" or backfill.open()):
            kill(at_work[-1 if age == "young" else 0])
            hits.append(f"{kill.__name__} of the {age}est")
            planned.pop()
        return not planned or airflow.backfill_is_over(backfill.dag_id)

    wait_until("every kill has hit", hit, 1500, every=2)
    return hits
