"""Exports that have lost their lock: they remove nothing of others, and publish nothing incomplete."""

import pytest

from hiveacid.errors import StorageError, TransactionAborted
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.sources import ChangesSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.progress import PhaseClock
from hiveacid.rules.names import TableRef
from hiveacid.spark.export import _Export
from hiveacid.storage.folder import Storage
from tests.metastore_calls import acting_after_answer

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def export(client, database, tmp_path):
    source = ChangesSource(f"{database}.t", after="0", up_to="3")
    job = ExportChangesJob(source=source, path=f"file:{tmp_path}/export")
    return lambda: _Export(None, client, job, PhaseClock())


@pytest.fixture
def lock(client, database):
    return lambda: ExclusiveTable(client, TableRef(database, "t#export"), None, 0)


@pytest.mark.parametrize("lost", [False, True])
def test_an_export_that_has_lost_its_lock_removes_no_folder_of_a_store(
    client, export, lock, tmp_path, monkeypatch, lost
):
    monkeypatch.setattr(Storage, "renames_at_once", False)
    folder = tmp_path / "export" / "changes_after_0"
    folder.mkdir(parents=True)
    with lock() as exclusive:
        if lost:
            client.abort_txn(exclusive.txn_id)
            with pytest.raises(TransactionAborted):
                export()._remove_unfinished(exclusive)
        else:
            export()._remove_unfinished(exclusive)
    assert folder.exists() is lost


def test_an_export_removes_no_complete_folder(export, lock, tmp_path):
    folder = tmp_path / "export" / "changes_after_0"
    folder.mkdir(parents=True)
    with lock() as exclusive:
        export()._remove_unfinished(exclusive)
    assert folder.exists()


def test_an_export_whose_files_another_attempt_has_removed_publishes_no_part_of_them(
    client, database, export, lock, tmp_path
):
    """It sleeps between the confirmation of its lock and the publication."""
    client.create_table(HiveTable.new(TableRef(database, "t"), [HiveColumn("id", "int")]))
    table, sleeper = client.get_table(TableRef(database, "t")), export()
    staged = tmp_path / "export" / sleeper._staged
    staged.mkdir(parents=True)
    (staged / "part-00000.json").write_text("{}")
    with lock() as exclusive:

        def meanwhile():
            client.abort_txn(exclusive.txn_id)
            with lock() as other:
                export()._remove_unfinished(other)

        with pytest.raises(StorageError), acting_after_answer(0, meanwhile):
            sleeper._publish(table, 1, exclusive)
    assert list((tmp_path / "export").iterdir()) == []
