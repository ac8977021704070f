"""What an earlier try of the same run has left: something to abort, or its report."""

from collections.abc import Mapping, Sequence

from airflow_hiveacid.acid.cleaning import stale_staging
from airflow_hiveacid.acid.errors import ConflictError
from airflow_hiveacid.engine.run_note import find_report
from airflow_hiveacid.jobs.phases import PhaseObserver
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.settle import abort_open_transactions
from airflow_hiveacid.metastore.snapshot import Snapshot
from airflow_hiveacid.storage import Storage


def settle_run(
    client: MetastoreClient,
    tables: Sequence[HiveTable],
    run_token: str,
    *,
    before: int | None = None,
) -> RunReport | None:
    """Abort what earlier tries of a run have left open, and find the report of one that committed.

    Args:
        client: The metastore.
        tables: What the run writes; the note about it lies in the first one.
        run_token: The run's token.
        before: A transaction of this try: it and younger ones are left as they are.

    Returns:
        The report; None when no try has committed anything.
    """
    # In this order: what could not be aborted, because it committed just now, is then found.
    abort_open_transactions(client, run_token, before=before)
    snapshot = Snapshot.take(client, [tables[0].ref])
    for table in tables:
        storage = Storage.of(table.folder)
        for name in stale_staging(storage.list_directories(missing_ok=True), snapshot.txns):
            storage.delete_directory(name)
    write_ids = snapshot.write_ids[tables[0].ref.full_name]
    return find_report(Storage.of(tables[0].folder), run_token, write_ids)


class AlreadyApplied(ConflictError):
    """Another try of the same run has committed meanwhile.

    Attributes:
        report: What it did.
    """

    def __init__(self, report: RunReport) -> None:
        super().__init__(f"Another try of this run has already committed on {report.target}.")
        self.report = report


class Fence(PhaseObserver):
    """Keeps two tries of one run from both being applied, however they overlap.

    A try may still be starting when the next one looks for what there is to settle. Both open a
    transaction sooner or later, and transactions have an order: so every try looks once more when
    it has opened its own, and ends those that are older.

    Args:
        client: The metastore.
        tables: What the run writes.
        run_token: The run's token.
    """

    def __init__(
        self, client: MetastoreClient, tables: Sequence[HiveTable], run_token: str
    ) -> None:
        self._client = client
        self._tables = tables
        self._run_token = run_token

    def opened(self, txn_id: int, write_ids: Mapping[str, int]) -> None:
        """Settle what older tries have begun.

        Raises:
            AlreadyApplied: One of them has committed.
        """
        report = settle_run(self._client, self._tables, self._run_token, before=txn_id)
        if report is not None:
            raise AlreadyApplied(report)
