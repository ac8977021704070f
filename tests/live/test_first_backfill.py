"""The first backfill of a new user: five days of the example DAG, on Airflow's default database."""

import json
import random
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.cluster.packaged import example_dags
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from tests.live.airflow_api import wait_until
from tests.live.airflow_processes import AirflowProcesses
from tests.live.applied import committed_write_ids
from tests.live.test_backfill import DAILY, Rows, balances, bookings
from tests.rows import rows_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(3600)]

FIRST = date(2026, 1, 1)
DAYS = [str(FIRST + timedelta(days=number)) for number in range(5)]
MOST_ATTEMPTS = 10
TABLE = TableRef("first_backfill", "balances")
WITHOUT_INTERVAL = '''
from datetime import datetime
from airflow.sdk import DAG
from airflow_hiveacid import HiveAcidSqlOperator

with DAG("without_interval", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    HiveAcidSqlOperator(
        task_id="expire",
        sql="""DELETE FROM first_backfill.balances
        WHERE last_day >= '{{ data_interval_start | ds }}' AND last_day < '{{ data_interval_end | ds }}'""",
    )
'''


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory, connections: Mapping[str, Mapping[str, Any]]
) -> Iterator[AirflowProcesses]:
    folder = tmp_path_factory.mktemp("first_backfill")
    (folder / "without_interval.py").write_text(WITHOUT_INTERVAL)
    with AirflowProcesses(
        folder / "airflow",
        [example_dags() / "daily_merge.py", folder / "without_interval.py"],
        connections=connections,
        # Backfills alone: a DAG that is not paused would begin with the day that is just over.
        environment={"AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False"},
    ) as airflow:
        airflow.wait_for_dags("daily_merge", "without_interval")
        yield airflow


@pytest.fixture
def feed(hms4: EmbeddedMetastore, tmp_path: Path) -> Iterator[dict[str, Rows]]:
    """The feed of five days in the folder of the test, and the empty table."""
    dice = random.Random(5)
    days = {day: bookings(day, dice) for day in DAYS}
    for day, lines in days.items():
        (tmp_path / day).mkdir()
        (tmp_path / day / "part.json").write_text("\n".join(map(json.dumps, lines)))
    with MetastoreClient(hms4.options) as client:
        client.create_database(TABLE.database)
        client.create_table(HiveTable.new(TABLE, [HiveColumn(*each) for each in DAILY[1]]))
        yield days
        client.drop_database(TABLE.database, cascade=True)


def test_five_days_are_merged_in_their_order_and_once(
    airflow: AirflowProcesses, feed: dict[str, Rows], hms4: EmbeddedMetastore, tmp_path: Path
) -> None:
    conf = json.dumps({"table": str(TABLE), "feed": str(tmp_path)})

    def backfill(*options: str) -> list[dict[str, Any]]:
        """Run a backfill of all days; return its runs in the order of their starts."""
        limit = ("--max-active-runs", "1", "--dag-run-conf", conf)
        create(airflow, "daily_merge", DAYS[-1], *limit, *options)
        wait_until("the backfill is over", lambda: airflow.backfill_is_over("daily_merge"), 1500)
        found: list[dict[str, Any]] = airflow.api.runs("daily_merge")
        return sorted(found, key=lambda run: run["start_date"])

    runs = backfill()
    assert [run["state"] for run in runs] == ["success"] * len(DAYS), airflow.log("scheduler")
    intervals = [[parsed(run[f"data_interval_{end}"]) for end in ("start", "end")] for run in runs]
    midnights = [datetime.fromisoformat(f"{day}T00:00:00+00:00") for day in DAYS]
    assert intervals == [[day, day + timedelta(days=1)] for day in midnights]
    # A run is named after the end of its interval.
    assert [run["dag_run_id"] for run in runs] == [
        f"backfill__{end.isoformat()}" for _, end in intervals
    ]
    assert rows_of(hms4.uri, str(TABLE)) == balances(feed)
    with MetastoreClient(hms4.options) as client:
        written = committed_write_ids(client, TABLE)
        assert len(written) == len(DAYS)

        # By default, days with a run are skipped.
        again = backfill()
        assert [run["start_date"] for run in again] == [run["start_date"] for run in runs]

        again = backfill("--reprocess-behavior", "completed", "--run-backwards")
        assert [run["dag_run_id"] for run in again] == [run["dag_run_id"] for run in runs[::-1]]
        assert all(
            airflow.api.xcom("daily_merge", run["dag_run_id"], "merge")["already_done"]
            for run in again
        )
        assert committed_write_ids(client, TABLE) == written
    assert rows_of(hms4.uri, str(TABLE)) == balances(feed)


def test_a_schedule_without_intervals_is_reported_and_deletes_nothing(
    airflow: AirflowProcesses, feed: dict[str, Rows], hms4: EmbeddedMetastore
) -> None:
    create(airflow, "without_interval", DAYS[1])
    wait_until("the backfill is over", lambda: airflow.backfill_is_over("without_interval"), 600)
    runs = airflow.api.runs("without_interval")
    assert [run["state"] for run in runs] == ["failed"] * 2
    for run in runs:
        log = airflow.task_log("without_interval", run["dag_run_id"], "expire")
        assert "selects an empty data interval, and so no rows" in log
        assert "CronDataIntervalTimetable" in log


def create(airflow: AirflowProcesses, dag_id: str, last: str, *options: str) -> None:
    """Create a backfill, and repeat the command while it finds the database of SQLite locked.

    The DAG is paused meanwhile: a command that fails removes its runs, and a scheduler that has
    started one of them would end with an error.
    """
    airflow.api.pause(dag_id)
    for _ in range(MOST_ATTEMPTS):
        try:
            airflow.backfill(dag_id, DAYS[0], last, *options)
        except AssertionError as error:
            if "database is locked" not in str(error):
                raise
            # The failed command has left nothing, or the next one would be refused.
            assert all(each["completed_at"] for each in airflow.api.backfills(dag_id))
        else:
            airflow.api.unpause(dag_id)
            return
    pytest.fail(f"The database was locked at each of {MOST_ATTEMPTS} attempts.")


def parsed(time: str) -> datetime:
    return datetime.fromisoformat(time)
