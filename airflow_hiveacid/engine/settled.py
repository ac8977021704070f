"""What an earlier try of the same run has left: something to abort, or its report."""

from airflow_hiveacid.acid.cleaning import stale_staging
from airflow_hiveacid.engine.run_note import find_report
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.settle import abort_open_transactions
from airflow_hiveacid.metastore.snapshot import Snapshot
from airflow_hiveacid.storage import Storage


def settle_run(client: MetastoreClient, table: HiveTable, run_token: str) -> RunReport | None:
    """Abort what earlier tries of a run have left open, and find the report of one that committed.

    Args:
        client: The metastore.
        table: What the run writes.
        run_token: The run's token.

    Returns:
        The report; None when no try has committed anything.
    """
    # In this order: what could not be aborted, because it committed just now, is then found.
    abort_open_transactions(client, run_token)
    snapshot = Snapshot.take(client, [table.ref])
    storage = Storage.of(table.folder)
    for name in stale_staging(storage.list_directories(missing_ok=True), snapshot.txns):
        storage.delete_directory(name)
    return find_report(storage, run_token, snapshot.write_ids[table.ref.full_name])
