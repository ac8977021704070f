"""Changing the columns of a table."""

from collections.abc import Callable, Sequence

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.metastore import idl_tables
from airflow_hiveacid.metastore.catalog import Column, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.exclusive import ExclusiveTable

# Without the first the metastore would count files; the second is for the partitions' own columns.
_CONTEXT = {"DO_NOT_UPDATE_STATS": "true", "CASCADE": "true"}


def change_columns(
    client: MetastoreClient,
    ref: TableRef,
    choose: Callable[[HiveTable], Sequence[Column]],
    *,
    run_token: str | None,
    lock_wait_seconds: float,
) -> HiveTable:
    """Give a table, and all of its partitions, other columns while nobody else has a lock on it.

    Args:
        client: The metastore.
        ref: The table.
        choose: The columns that it gets, given the table as it is under the lock.
        run_token: The run that wants it.
        lock_wait_seconds: How long to wait for others.

    Returns:
        The table as it is then.
    """
    with ExclusiveTable(client, ref, run_token, lock_wait_seconds):
        table = client.get_table(ref)
        columns = choose(table)
        if tuple(columns) == table.columns:
            return table
        table.raw.sd.cols = [
            idl_tables.FieldSchema(column.name, column.type, column.comment) for column in columns
        ]
        client.call(
            idl_tables.alter_table_with_environment_context,
            ref.database,
            ref.name,
            table.raw,
            idl_tables.EnvironmentContext(_CONTEXT),
            about=ref.full_name,
        )
        return client.get_table(ref)
