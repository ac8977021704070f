"""DROP TABLE."""

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.ddl.tables import find_table
from airflow_hiveacid.errors import MetastoreError, TableNotFound, UnsupportedTable
from airflow_hiveacid.jobs.catalog_jobs import DropTableJob
from airflow_hiveacid.jobs.run_token import is_later_statement
from airflow_hiveacid.jobs.table_properties import RUN_PROPERTY
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.same_table import require_same_table
from airflow_hiveacid.metastore.txn.exclusive import ExclusiveTable


def drop_table(client: MetastoreClient, ref: TableRef, job: DropTableJob) -> tuple[str, ...]:
    """Drop a table when nobody who asks for locks reads or writes it.

    Returns:
        What its author should know.
    """
    table = find_table(client, ref)
    if table is None:
        if not job.if_exists:
            raise TableNotFound(
                f"There is no table {ref}.",
                remedy="Write DROP TABLE IF EXISTS where an earlier try may have dropped it.",
            )
        return (f"There was no table {ref}.",)
    if table.is_view:
        raise UnsupportedTable(
            f"{ref} is a view, and no table.", remedy="Drop it where it was made."
        )
    created_by = table.parameters.get(RUN_PROPERTY)
    if created_by and job.run_token and is_later_statement(created_by, job.run_token):
        return (f"{ref} was created again by a later statement in an earlier try; it stays.",)
    with ExclusiveTable(client, ref, job.token, job.lock_wait_seconds) as held:
        require_same_table(client, table)
        drop_held(client, ref)
    return tuple(held.warnings)


def drop_held(client: MetastoreClient, ref: TableRef) -> None:
    """Drop a table that is locked, so that what is not there any more was dropped by this."""
    try:
        client.drop_table(ref)
    except (MetastoreError, TableNotFound):
        if find_table(client, ref) is not None:
            raise
