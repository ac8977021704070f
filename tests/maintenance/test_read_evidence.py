"""Reads of tables by the locks of others, and by the notes on own runs."""

import time

import pytest

from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
from airflow_hiveacid.acid.locks import LockType, read_lock_components
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.table_identity import TableIdentity
from airflow_hiveacid.jobs.reports.report import RunReport, TableReport
from airflow_hiveacid.maintenance.compaction_poll import CompactionPoll
from airflow_hiveacid.maintenance.read_evidence import read_locks, run_reads
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.records.run_note import RunNote
from airflow_hiveacid.records.run_note_folder import NoteFile, mark_committed, write_note
from airflow_hiveacid.storage.folder import Storage
from tests.cli.acid_files import ids, write_events
from tests.fakes.metastore import FakeMetastore
from tests.places import place_of

REF = TableRef("default", "t")


@pytest.fixture(params=["4.0.1", "3.1.3"])
def client(request, tmp_path):
    with (
        FakeMetastore(request.param, directory=tmp_path / "fake") as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        keys = [HiveColumn("day", "string")]
        client.create_table(HiveTable.new(REF, [HiveColumn("id", "int")], partition_keys=keys))
        yield client


def note(client, operation="merge", partitions=("day=1",), identity=None, marked=True, commit=True):
    """A note on a run that has changed some partitions."""
    table = client.get_table(REF)
    txn_id = client.open_txn("writer", "localhost", None)
    write_id = client.allocate_write_id(txn_id, REF)
    if commit:
        client.commit_txn(txn_id)
    else:
        client.abort_txn(txn_id)
    changed = TableReport(table=REF.full_name, files=1, partitions=partitions)
    file = NoteFile.new(
        RunNote(
            run_token=f"dag/run/{txn_id}/-1",
            txn_id=txn_id,
            write_ids={REF.full_name: write_id},
            identity=identity or table.identity,
            operation=operation,
            report=RunReport(job=operation, target=REF.full_name, files=1, tables=(changed,)),
        )
    )
    storage = Storage.of(table.folder)
    write_note(storage, file)
    if marked:
        mark_committed(storage, file)


def per_hour(client, partition="day=1"):
    rate = run_reads(client, client.get_table(REF)).rate(partition)
    return 0 if rate is None else rate.per_hour


def test_runs_that_change_rows_count_as_reads_of_their_partitions(client):
    note(client)
    note(client, "update", ("day=1", "day=2"))
    # The table is new: the shortest period is an hour.
    assert (per_hour(client), per_hour(client, "day=2"), per_hour(client, "day=3")) == (2, 1, 0)
    rate = run_reads(client, client.get_table(REF)).rate("day=1")
    assert (rate.source, rate.evidence[:10]) == ("runs", "2 own runs")


def test_a_run_with_unknown_partitions_counts_for_all(client):
    note(client, "delete", ())
    assert per_hour(client, "day=9") == 1


@pytest.mark.parametrize("operation", ["insert", "overwrite", "", "SELECT"])
def test_other_operations_read_nothing(client, operation):
    note(client, operation)
    assert per_hour(client) == 0


def test_an_aborted_run_is_no_read(client):
    note(client, marked=False, commit=False)
    assert per_hour(client) == 0


def test_notes_on_an_earlier_table_of_the_name_are_no_evidence(client):
    earlier = TableIdentity(created=1)
    note(client, identity=earlier)
    assert per_hour(client) == 0


def test_foreign_files_among_the_notes_are_no_evidence(client):
    note(client)
    storage = Storage.of(client.get_table(REF).folder)
    (own,) = [path for path, size, _ in storage.walk() if path.endswith(".json")]
    storage.write_file(own, b"{}", replace=True)
    assert per_hour(client) == 0


def test_only_granted_shared_locks_are_reads(client):
    reader = client.open_txn("reader", "localhost", "reader")
    client.lock(read_lock_components(REF, True, ["day=1"]), reader, "reader", "localhost", "x")
    writer = client.open_txn("writer", "localhost", "writer")
    exclusive = read_lock_components(TableRef("default", "other"), True)
    changed = [type(each)(**{**_fields(each), "type": LockType.EXCLUSIVE}) for each in exclusive]
    client.lock(changed, writer, "writer", "localhost", "y")
    waiting = client.open_txn("late", "localhost", "late")
    client.lock(exclusive, waiting, "late", "localhost", "z")
    (lock,) = read_locks(client)
    assert (lock.table, lock.partition, lock.holder) == ("default.t", "day=1", reader)
    assert abs(lock.acquired - time.time()) < 3600


def _fields(component):
    return {name: getattr(component, name) for name in component.__slots__}


def test_a_poll_with_a_budget_of_core_seconds_learns_from_the_locks_of_readers(client, monkeypatch):
    for name, count in (("often", 12), ("never", 14)):
        ref = TableRef("default", name)
        client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
        root = place_of(client.get_table(ref).folder)
        for _ in range(count):
            txn = client.open_txn("tests", "localhost", "tests")
            write_id = client.allocate_write_id(txn, ref)
            client.commit_txn(txn)
            delta = root / f"delta_{write_id:07d}_{write_id:07d}_0000"
            write_events(delta / "bucket_00000", [(write_id, 0, write_id)], ids(write_id))
    often = read_lock_components(TableRef("default", "often"), True)
    for _ in range(50):
        txn = client.open_txn("reader", "localhost", "reader")
        client.lock(often, txn, "reader", "localhost", "x")
    budget = Budget(max_core_seconds=1.0, max_partitions=1)
    poll = CompactionPoll(client.options, CompactionPolicy(), budget)

    def first():
        return poll.survey(["default.often", "default.never"]).needs[0].table

    # Without evidence, the table with more deltas.
    assert first() == "default.never"
    began = time.time()
    for number in range(1, 10):
        monkeypatch.setattr(time, "time", lambda number=number: began + 600 * number)
        found = first()
    assert found == "default.often"
