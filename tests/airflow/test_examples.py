import json
from dataclasses import replace
from pathlib import Path

import airflow.sdk
import pytest

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Before Airflow 3.2.
    from airflow.models.dagbag import DagBag

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_hiveacid.cluster.packaged import example_dags
from hiveacid.cli.main import main
from hiveacid.errors import CheckFailed
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnLiveness
from hiveacid.rules.names import TableRef
from hiveacid.worker.run import change_rows
from tests.engine.acid_tables import create
from tests.rows import rows_of

EXAMPLES = sorted(path.stem for path in example_dags().glob("*.py"))
# It declares nothing where Airflow knows of no partitions.
PARTITIONED = "partitioned_backfill"
# The trigger rules that pass a failure on.
PASSING = {"all_success", "none_failed", "none_failed_min_one_success"}


@pytest.fixture(scope="module")
def dags():
    bag = DagBag(dag_folder=str(example_dags()))
    assert bag.import_errors == {}
    return bag.dags


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_documented_dag_of_its_file_s_name(name, dags):
    if name == PARTITIONED and not hasattr(airflow.sdk, "CronPartitionTimetable"):
        pytest.skip("needs a newer Airflow")
    dag = dags[name]
    assert Path(dag.fileloc).stem == name
    assert dag.doc_md
    assert "hive-acid" in dag.tags


@pytest.mark.parametrize("name", ["hourly_merge", "daily_merge"])
def test_a_merge_of_an_interval_has_one(name, dags):
    # In Airflow 3 a bare cron schedule has intervals without length: it would merge nothing.
    assert type(dags[name].timetable).__name__ == "CronDataIntervalTimetable"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_run_fails_if_any_task_fails(name, dags):
    # Only the leaves determine the state of a run, and a leaf with "all_done" ignores failures.
    if name not in dags:
        pytest.skip("needs a newer Airflow")

    def reaches_a_leaf(task):
        below = task.downstream_list
        return not below or any(
            each.trigger_rule in PASSING and reaches_a_leaf(each) for each in below
        )

    hidden = [task.task_id for task in dags[name].tasks if not reaches_a_leaf(task)]
    assert hidden == []


def test_backfilled_merges_declare_once_per(dags):
    for name in {"daily_merge", PARTITIONED} & dags.keys():
        once_per = dags[name].get_task("merge").once_per
        assert "run_id" not in once_per
        assert "data_interval_start" in once_per or "partition_key" in once_per


def test_irreversible_changes_wait_for_an_approval(dags):
    dag = dags["approved_changes"]
    for task, ask in {
        "overwrite.overwrite": "overwrite.ask",
        "forget.delete": "forget.ask",
        "abort.abort": "abort.ask",
    }.items():
        # A "Reject" skips only the tasks directly after the question.
        assert task in dag.get_task(ask).downstream_task_ids
        assert dag.get_task(task).trigger_rule == "all_success"
    assert dag.get_task("forget.clean").upstream_task_ids == {"forget.compact"}
    assert dag.get_task("forget.compact").upstream_task_ids == {"forget.delete"}


def test_a_staged_change_is_published_or_discarded(dags):
    dag = dags["staged_changes"]
    ends = dag.get_task("ask").options_mapping.values()
    assert {*ends} == {"publish", "discard"}
    for end in ends:
        assert dag.get_task(end).upstream_task_ids == {"stage", "ask"}


def test_an_erasure_waits_for_the_certificate_of_its_request(dags):
    erase, erased = (dags["erasure"].get_task(name) for name in ("erase", "erased"))
    assert erased.upstream_task_ids == {"erase"}
    assert (erased.request, erased.folder) == (erase.job.request, erase.job.folder)
    assert erase.job.keys.params == {"day": erase.job.request}


def test_a_report_waits_for_the_mirror_of_the_other_dag(dags):
    mirror = dags["iceberg_mirror"].get_task("to_iceberg").job
    report = dags["iceberg_mirror_report"]
    fresh = report.get_task("fresh")
    assert (fresh.target, fresh.table, fresh.catalog) == (
        mirror.target,
        mirror.table,
        mirror.catalog,
    )
    assert fresh.deferrable
    assert report.get_task("report").upstream_task_ids == {"fresh"}


@pytest.fixture
def fake(fake4, monkeypatch):
    host, port = fake4.uri.removeprefix("thrift://").split(":")
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(connection))
    with MetastoreClient(fake4.options) as client:
        yield client


def test_a_day_of_the_ledger_is_visible_only_if_it_balances(dags, fake, tmp_path):
    columns = {"account": "bigint", "day": "date", "amount": "decimal(18,2)"}
    fake.create_database("ledger")
    for side in ("debits", "credits"):
        create(fake, f"ledger.{side}", columns)
    create(fake, "ledger.accounts", {"account": "bigint"})
    uri = fake.options.uris
    accounts = "INSERT INTO ledger.accounts VALUES (1), (2)"
    assert main(["sql", accounts, "--run-in", "worker", "--metastore", uri]) == 0
    day = "2026-11-20"

    def run(*credits):
        for side, amounts in (("debits", [7.5, 2.5]), ("credits", credits)):
            folder = tmp_path / side / day
            folder.mkdir(parents=True, exist_ok=True)
            lines = (
                json.dumps({"account": number, "day": day, "amount": amount})
                for number, amount in enumerate(amounts, start=1)
            )
            (folder / "part.json").write_text("\n".join(lines))
        texts = {"{{ params.feed }}": f"file:{tmp_path}", "{{ ds }}": day}
        job = dags["balanced_ledgers"].get_task("load").job

        def render(text):
            for name, value in texts.items():
                text = text.replace(name, value)
            return text

        return change_rows(fake, replace(job.render(render), metastore=fake.options))

    with pytest.raises(CheckFailed, match=r"balanced.*10\.00.*9\.75"):
        run(7.25, 2.5)
    with pytest.raises(CheckFailed, match=r"references.*3"):
        run(5, 4, 1)
    assert rows_of(uri, "ledger.debits") == []
    report = run(8, 2)
    assert len(report.checks) == 11
    assert all(each.passed for each in report.checks)
    assert len(rows_of(uri, "ledger.credits")) == 2
    fake.drop_database("ledger", cascade=True)


def test_only_transactions_that_were_shown_are_aborted(dags, fake):
    find, abort = (
        dags["approved_changes"].get_task(f"abort.{name}").python_callable
        for name in ("find_old_ones", "abort")
    )
    with pytest.raises(AirflowSkipException):
        find(params={"hours": 24})
    old, done = (fake.open_txn("anna\n- 1 of 'mallory'", "host", None) for _ in range(2))
    found = find(params={"hours": 0})
    assert {old, done} <= set(found["ids"])
    assert len(found["text"].splitlines()) == len(found["ids"])
    new = fake.open_txn("anna", "host", None)
    fake.commit_txn(done)
    assert abort({**found, "ids": [old, done]}) == [old]
    assert [fake.heartbeat(txn) for txn in (old, new)] == [TxnLiveness.ABORTED, TxnLiveness.OPEN]
    fake.abort_txn(new)


def test_the_reported_version_is_the_newest(dags, fake):
    fake.create_database("approved")
    create(fake, "approved.orders", {"id": "int"})
    look_up = dags["approved_changes"].get_task("overwrite.look_up_version").python_callable
    assert look_up(params={"target": "approved.orders"}) == 0
    txn = fake.open_txn("anna", "host", None)
    fake.allocate_write_id(txn, TableRef.parse("approved.orders"))
    fake.commit_txn(txn)
    assert look_up(params={"target": "Approved.orders"}) == 1
    fake.drop_database("approved", cascade=True)
