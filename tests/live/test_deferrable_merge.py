"""Merges with their drivers in a YARN: after any death, the task succeeds and the merge is applied
once."""

import getpass
import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.cluster.applications import Application, ApplicationState, application_tag
from airflow_hiveacid.cluster.yarn import YarnApplications
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import marked_token
from tests.live.airflow_api import AirflowApi, wait_until
from tests.live.airflow_processes import AirflowProcesses, TaskProcess
from tests.live.applied import applied, committed_write_ids
from tests.live.table_lock import TableLock
from tests.live.yarn import Yarn
from tests.rows import rows_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

DEFERRED, WAITING, TASK = "deferred_merge", "waiting_merge", "merge"
FEED = [{"account": n, "cents": 10 * n} for n in range(5)]
ROWS = [{"account": n, "balance": 10 * n} for n in range(5)]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with Yarn(tmp_path_factory.mktemp("yarn")) as yarn:
        yield yarn


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    connections: Mapping[str, Mapping[str, Any]],
    yarn: Yarn,
) -> Iterator[AirflowProcesses]:
    with AirflowProcesses(
        tmp_path_factory.mktemp("deferrable") / "airflow",
        [Path(__file__).parent / "dags" / "merge_in_yarn.py"],
        connections={**connections, "spark_default": yarn.connection},
        environment=yarn.environment | {"SPARK_CONF_OF_YARN": json.dumps(yarn.spark_conf)},
    ) as airflow:
        airflow.wait_for_dags(DEFERRED, WAITING)
        airflow.api.unpause(DEFERRED)
        airflow.api.unpause(WAITING)
        yield airflow


@dataclass
class Merge:
    """A table, and a run of a DAG that merges a feed into it."""

    airflow: AirflowProcesses
    yarn: Yarn
    client: MetastoreClient
    table: TableRef
    feed: Path
    dag_id: str = DEFERRED
    run_id: str = ""

    @property
    def api(self) -> AirflowApi:
        return self.airflow.api

    @property
    def token(self) -> str:
        return f"{self.dag_id}/{self.run_id}/{TASK}/-1"

    @property
    def marked(self) -> str:
        return marked_token(self.token, [str(self.table)])

    def trigger(self, dag_id: str = DEFERRED) -> None:
        self.dag_id = dag_id
        self.run_id = self.api.trigger(dag_id, {"table": str(self.table), "feed": str(self.feed)})

    def locked(self) -> TableLock:
        """Exclude other writers during the body."""
        return TableLock(self.client, self.table)

    def open(self) -> list[int]:
        return find_open_transactions(self.client, self.marked)

    def xcom(self, key: str) -> Any:
        return self.api.xcom(self.dag_id, self.run_id, TASK, key)

    def applications(self) -> list[Application]:
        cluster = YarnApplications(
            [self.yarn.address], "hive", [getpass.getuser()], self.yarn.hosts
        )
        return cluster.find(application_tag(self.marked))

    def states(self) -> list[ApplicationState]:
        return [application.state for application in self.applications()]

    def wait_for_task(self, *states: str, every: float = 0.5) -> None:
        wait_until(
            f"the task is {states}",
            lambda: self.api.task(self.dag_id, self.run_id, TASK)["state"] in states,
            240,
            every,
        )

    def wait_for_application(self, *states: ApplicationState) -> None:
        """Wait until the last application of the run is in one of these states."""
        wait_until(
            f"an application is {states}",
            lambda: [state for state in self.states()[-1:] if state in states],
            240,
            every=0.05,
        )

    def is_open(self) -> bool:
        return bool(self.open())

    def wait_for_transaction(self) -> None:
        """Wait until its application works."""
        wait_until("its transaction is open", self.is_open, 240, every=0.1)

    def task_process(self, *, submitting: bool) -> TaskProcess:
        """The task at work, once it is so far."""
        tasks: list[TaskProcess] = []

        def is_there() -> bool:
            tasks[:] = [
                task
                for task in self.airflow.task_processes()
                if task.runner and (task.programs or not submitting)
            ]
            return bool(tasks)

        wait_until("the task is at work", is_there, 120, every=0.05)
        return tasks[0]

    def ends_well(self, *, tries: Container[int], applications: Container[int]) -> None:
        """Check that the task succeeds, and that the merge was applied once."""
        self.api.wait_for_run(self.dag_id, self.run_id, seconds=480)
        assert self.api.task(self.dag_id, self.run_id, TASK)["try_number"] in tries
        (write_id,) = applied(self.client, self.table)[self.token]
        assert committed_write_ids(self.client, self.table) == {write_id}
        assert rows_of(self.client.options.uris, str(self.table)) == ROWS
        report = self.xcom("return_value")
        assert report["write_ids"] == self.xcom("write_ids") == {str(self.table): write_id}
        assert report["txn_id"] == self.xcom("txn_id")
        ids = [application.id for application in self.applications()]
        assert self.xcom("application_id") == ids[-1]
        assert len(ids) in applications
        wait_until("nothing runs on", lambda: all(state.ended for state in self.states()), 60)
        assert self.open() == []

    def was_given_up(self) -> None:
        """Nothing runs on, and nothing has been done."""
        self.wait_for_application(ApplicationState.KILLED)
        wait_until("its transaction is aborted", lambda: not self.open(), 60)
        assert committed_write_ids(self.client, self.table) == set()
        assert rows_of(self.client.options.uris, str(self.table)) == []


@pytest.fixture
def merge(
    airflow: AirflowProcesses, yarn: Yarn, hms4: EmbeddedMetastore, tmp_path: Path
) -> Iterator[Merge]:
    table, feed = TableRef("bank", "accounts"), tmp_path / "feed.json"
    feed.write_text("\n".join(map(json.dumps, FEED)))
    with MetastoreClient(hms4.options) as client:
        client.create_database(table.database)
        columns = [HiveColumn("account", "bigint"), HiveColumn("balance", "bigint")]
        client.create_table(HiveTable.new(table, columns))
        yield Merge(airflow, yarn, client, table, feed)
        client.drop_database(table.database, cascade=True)


def test_the_triggerer_dies_before_the_driver_runs(merge: Merge) -> None:
    merge.yarn.kill_daemon("nodemanager")
    merge.trigger()
    merge.wait_for_task("deferred")
    assert merge.states() == [ApplicationState.PENDING]
    merge.airflow.kill("triggerer")
    merge.yarn.start_daemon("nodemanager")
    merge.wait_for_transaction()
    merge.airflow.start("triggerer")
    merge.ends_well(tries={1}, applications={1})


def test_the_triggerer_dies_while_the_merge_works(merge: Merge) -> None:
    with merge.locked() as lock:
        merge.trigger()
        lock.let_open(merge.is_open)
        merge.wait_for_task("deferred")
        merge.airflow.kill("triggerer")
        merge.airflow.start("triggerer")
        # The next one reports the application's transaction before any other action.
        wait_until("the transaction is reported", lambda: merge.xcom("txn_id") is not None, 120)
        assert merge.open() == [merge.xcom("txn_id")]
        assert list(merge.xcom("write_ids")) == [str(merge.table)]
    merge.ends_well(tries={1}, applications={1})


def test_the_merge_ends_while_there_is_no_triggerer(merge: Merge) -> None:
    with merge.locked() as lock:
        merge.trigger()
        lock.let_open(merge.is_open)
        merge.wait_for_task("deferred")
        merge.airflow.kill("triggerer")
    merge.wait_for_application(ApplicationState.SUCCEEDED)
    merge.airflow.start("triggerer")
    merge.ends_well(tries={1}, applications={1})


def test_the_worker_dies_while_it_submits(merge: Merge) -> None:
    merge.trigger()
    merge.task_process(submitting=True).kill_worker()
    assert merge.applications() == []
    # Its child is an orphan that may submit the merge nevertheless, also after the search of the
    # next attempt.
    merge.wait_for_application(*ApplicationState)
    merge.ends_well(tries={2}, applications={1, 2})


def test_the_worker_dies_when_its_application_is_accepted(merge: Merge) -> None:
    with merge.locked():
        merge.trigger()
        worker = merge.task_process(submitting=True)
        merge.wait_for_application(ApplicationState.PENDING)
        worker.kill_worker()
        assert merge.api.task(DEFERRED, merge.run_id, TASK)["state"] == "running"
        merge.wait_for_task("deferred")
    merge.ends_well(tries={2}, applications={1})


def test_the_worker_dies_while_it_fetches_the_result(merge: Merge) -> None:
    with merge.locked() as lock:
        merge.trigger()
        lock.let_open(merge.is_open)
        merge.wait_for_task("deferred")
    # Not before Airflow has noted that it runs: a task that is lost in the queue takes ten minutes.
    merge.wait_for_task("running", every=0.05)
    merge.task_process(submitting=False).kill_worker()
    merge.ends_well(tries={2}, applications={2})


def test_a_worker_dies_that_waits_for_its_application(merge: Merge) -> None:
    with merge.locked() as lock:
        merge.trigger(WAITING)
        lock.let_open(merge.is_open)
        wait_until("the transaction is reported", lambda: merge.xcom("txn_id") is not None, 120)
        assert merge.open() == [merge.xcom("txn_id")]
        merge.task_process(submitting=False).kill_worker()
        wait_until(
            "the next try is there",
            lambda: merge.api.task(WAITING, merge.run_id, TASK)["try_number"] == 2,
            240,
        )
    merge.ends_well(tries={2}, applications={1})


def test_the_submitter_dies_while_it_starts(merge: Merge) -> None:
    merge.trigger()
    merge.task_process(submitting=True).kill_programs()
    assert merge.applications() == []
    merge.ends_well(tries={2}, applications={1})


def test_the_submitter_dies_before_its_application_is_accepted(merge: Merge) -> None:
    staging = merge.yarn.directory / "staging"
    before = set(staging.glob("**/application_*"))
    merge.trigger()
    submitter = merge.task_process(submitting=True)
    wait_until(
        "files are uploaded",
        lambda: set(staging.glob("**/application_*")) > before,
        120,
        every=0.01,
    )
    submitter.kill_programs()
    assert merge.applications() == []
    merge.ends_well(tries={2}, applications={1})


def test_the_submitter_dies_when_its_application_is_accepted(merge: Merge) -> None:
    with merge.locked():
        merge.trigger()
        submitter = merge.task_process(submitting=True)
        merge.wait_for_application(ApplicationState.PENDING)
        submitter.kill_programs()
        merge.wait_for_task("deferred")
    # The number of the second attempt shows that the first one died before any report.
    merge.ends_well(tries={2}, applications={1})


def failed(merge: Merge) -> None:
    merge.api.set_task_state(merge.dag_id, merge.run_id, TASK, "failed")


def cleared(merge: Merge) -> None:
    merge.api.clear_task(merge.dag_id, merge.run_id, TASK)


@pytest.mark.parametrize("dag_id", [DEFERRED, WAITING])
def test_a_merge_that_a_user_marks_as_failed_is_ended(merge: Merge, dag_id: str) -> None:
    with merge.locked() as lock:
        merge.trigger(dag_id)
        lock.let_open(merge.is_open)
        merge.wait_for_task("deferred" if dag_id == DEFERRED else "running")
        failed(merge)
        merge.was_given_up()
    assert merge.states() == [ApplicationState.KILLED]


@pytest.mark.parametrize("dag_id", [DEFERRED, WAITING])
def test_a_merge_that_a_user_clears_is_ended_and_begun_again(merge: Merge, dag_id: str) -> None:
    with merge.locked() as lock:
        merge.trigger(dag_id)
        lock.let_open(merge.is_open)
        merge.wait_for_task("deferred" if dag_id == DEFERRED else "running")
        cleared(merge)
        wait_until("it is ended", lambda: merge.states()[0] is ApplicationState.KILLED, 120)
    # A second try that is quick finds the application before it has ended, and ends with it.
    merge.ends_well(tries={2, 3}, applications={2})
