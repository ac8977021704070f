"""The Hive table of an export or a comparison, locked for reading."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.errors import NotTransactional
from airflow_hiveacid.jobs.iceberg_job import IcebergJob
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.table_rules import existing_table
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.progress import PhaseClock


@contextmanager
def locked_table(
    client: MetastoreClient, job: IcebergJob, phases: PhaseClock
) -> Iterator[tuple[Transaction, HiveTable]]:
    """Read the Hive table of a job in a transaction, during which its definition remains.

    Args:
        client: The metastore.
        job: The job.
        phases: Receives the phases of the transaction.

    Raises:
        TableNotFound: The table does not exist.
        NotTransactional: The table is not transactional.
        TableReplaced: The table was replaced before the transaction had its lock.
    """
    ref = TableRef.parse(job.target)
    known = existing_table(client, ref)
    with Transaction(
        client,
        reads=[ref],
        run_token=job.token,
        lock_wait_seconds=job.lock_wait_seconds,
        max_restarts=job.max_restarts,
        phases=phases,
    ) as txn:
        # Another client may have changed the definition before the lock.
        table = txn.definitions.current(known)
        if table.kind is TableKind.NOT_ACID:
            raise NotTransactional(f"{ref.full_name} is not a transactional table.")
        yield txn, table


def confirm(txn: Transaction) -> None:
    """Verify, after the last read of a Hive table, that all reads were of the same table.

    Args:
        txn: The transaction that keeps cleaners from removing its files.

    Raises:
        TableReplaced: The table was replaced, or has another definition.
        TransactionAborted: The metastore has aborted the transaction.
    """
    txn.confirm_alive()
    txn.definitions.require_unchanged()
