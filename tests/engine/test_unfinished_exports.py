"""An export that has lost its lock removes nothing: another attempt may have published the folder."""

import pytest

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.engine.export import _Export
from airflow_hiveacid.errors import TransactionAborted
from airflow_hiveacid.jobs.export_job import ExportChangesJob
from airflow_hiveacid.jobs.sources import ChangesSource
from airflow_hiveacid.metastore.txn.exclusive import ExclusiveTable
from airflow_hiveacid.progress import PhaseClock

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.mark.parametrize("lost", [False, True])
def test_an_export_that_has_lost_its_lock_removes_no_folder(client, database, tmp_path, lost):
    folder = tmp_path / "changes_after_0"
    folder.mkdir()
    job = ExportChangesJob(
        source=ChangesSource(f"{database}.t", after="0", up_to="3"), path=f"file:{tmp_path}"
    )
    export = _Export(None, client, job, PhaseClock())
    with ExclusiveTable(client, TableRef(database, "t#export"), None, 0) as exclusive:
        if lost:
            client.abort_txn(exclusive.txn_id)
            with pytest.raises(TransactionAborted):
                export._remove_unfinished(exclusive)
        else:
            export._remove_unfinished(exclusive)
    assert folder.exists() is lost
