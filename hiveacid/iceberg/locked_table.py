"""The Hive table of an export or a comparison, locked for reading."""

from collections.abc import Iterator
from contextlib import contextmanager

from hiveacid.errors import NotTransactional
from hiveacid.jobs.iceberg_job import IcebergJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import PhaseClock
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind


def transactional_table(client: MetastoreClient, job: IcebergJob) -> HiveTable:
    """Return the Hive table of a job.

    Args:
        client: The metastore.
        job: The job.

    Raises:
        AccessRefused: The location of the table is not allowed.
        TableNotFound: The table does not exist.
        NotTransactional: The table is not transactional.
    """
    table = existing_table(client, TableRef.parse(job.target))
    _require_transactional(table)
    return table


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
        _require_transactional(table)
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


def _require_transactional(table: HiveTable) -> None:
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{table.ref} is not a transactional table.")
