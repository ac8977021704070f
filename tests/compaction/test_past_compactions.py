"""The work and the CPU time of earlier compactions, as their notes contain them."""

import json

import pytest

from airflow_hiveacid.acid.compaction_fit import FEWEST_RUNS
from airflow_hiveacid.acid.compaction_policy import Budget
from airflow_hiveacid.acid.compaction_value import CostRates
from airflow_hiveacid.acid.names import SIDECAR_FILE, TableRef
from airflow_hiveacid.compaction.past_compactions import past_compactions, past_run
from airflow_hiveacid.compaction.ranking import rank
from airflow_hiveacid.compaction.table import TableCompactor
from airflow_hiveacid.compaction.worker_scheduler import WorkerScheduler
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.maintenance.survey import Survey
from airflow_hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.cli.acid_files import ids, write_events
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of

REF = TableRef("default", "t")
DAYS = [str(day) for day in range(FEWEST_RUNS + 2)]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A table whose partitions have been compacted, but one that needs it now."""
    folder = tmp_path_factory.mktemp("metastore")
    with (
        FakeMetastore("4.0.1", directory=folder) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        keys = [HiveColumn("day", "string")]
        client.create_table(HiveTable.new(REF, [HiveColumn("id", "int")], partition_keys=keys))
        table = client.get_table(REF)
        client.add_partitions(REF, [HivePartition.new(table, [day]) for day in DAYS])
        for day in DAYS:
            write(client, day, 12)
        compacted = [f"day={day}" for day in DAYS[1:]]
        job = CompactJob(
            target=str(REF), type="major", partitions=compacted, metastore=metastore.options
        )
        with WorkerScheduler() as scheduler:
            report = TableCompactor(scheduler, client, job).run()
        assert {each.outcome for each in report.partitions} == {"compacted"}
        yield client


def write(client, day, count):
    root = place_of(client.get_table(REF).folder)
    for _ in range(count):
        txn = client.open_txn("tests", "localhost", "tests")
        write_id = client.allocate_write_id(txn, REF)
        client.commit_txn(txn)
        delta = root / f"day={day}" / f"delta_{write_id:07d}_{write_id:07d}_0000"
        write_events(delta / "bucket_00000", [(write_id, 0, write_id)], ids(write_id))
        (delta / "_orc_acid_version").write_text("2")


def note_of(client, day):
    root = place_of(client.get_table(REF).folder) / f"day={day}"
    (base,) = root.glob("base_*")
    return base / SIDECAR_FILE


def test_a_note_contains_the_cpu_time_and_the_work(client):
    sizes = [each.size for each in Survey(client).survey([REF])]
    runs = past_compactions(client, client.get_table(REF), sizes)
    assert len(runs) == len(DAYS) - 1
    for run in runs:
        assert run.directories == 12
        # The small stripes are joined.
        assert (run.work.copied_bytes, run.work.encoded_bytes > 0) == (0, True)
        assert 0 < run.seconds < 60


def test_the_rates_of_a_ranking_are_fitted_to_the_notes(client):
    decisions = Survey(client).survey([REF])
    ranking = rank(client, decisions, Budget(max_core_seconds=600))
    assert ranking.past_runs == len(DAYS) - 1
    assert ranking.rates != CostRates()
    (first, *_) = ranking.decisions
    assert first.size.partition == f"day={DAYS[0]}"
    seconds = [run.seconds for run in _runs(client)]
    assert min(seconds) / 2 <= first.value.cost <= 2 * max(seconds)


def _runs(client):
    sizes = [each.size for each in Survey(client).survey([REF])]
    return past_compactions(client, client.get_table(REF), sizes)


@pytest.mark.parametrize(
    "changed",
    [
        {"core_seconds": None},
        {"core_seconds": "1"},
        {"core_seconds": -1},
        {"core_seconds": True},
        {"core_seconds": 1e300},
        {"operation": "insert"},
        {"operation": ["major"]},
        {"proof": None},
        {"replaces": None},
        {"files": {}},
        {"files": {"bucket_00000": {"rows": 0, "bytes": 10}}},
        {"files": {"bucket_00000": {"rows": -1, "bytes": 10}}},
        {"files": "many"},
        {"format": 2},
    ],
)
def test_an_impossible_note_is_no_evidence(client, changed):
    note = json.loads(note_of(client, DAYS[1]).read_bytes())
    assert past_run(note) is not None
    assert past_run(note | changed) is None


@pytest.mark.parametrize("rows", ["x", -5, 2**80, 1e9, None])
def test_an_impossible_count_of_rows_leaves_possible_work(client, rows):
    note = json.loads(note_of(client, DAYS[1]).read_bytes())
    run = past_run(note | {"proof": {"rows_encoded": rows, "rows_deleted": rows}})
    assert 0 <= run.work.encoded_bytes <= run.work.copied_bytes + run.work.encoded_bytes
    assert run.work.delete_events >= 0


def test_notes_that_are_gone_or_broken_are_left_out(client):
    note = note_of(client, DAYS[-1])
    content = note.read_bytes()
    try:
        note.write_bytes(b"\xff")
        assert len(_runs(client)) == len(DAYS) - 2
        note.unlink()
        assert len(_runs(client)) == len(DAYS) - 2
    finally:
        note.write_bytes(content)
