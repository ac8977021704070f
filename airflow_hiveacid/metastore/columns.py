"""Changing the columns of a table."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.metastore.alteration import DDL_TIME, alter_table
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift import idl_tables
from airflow_hiveacid.metastore.txn.exclusive import ExclusiveTable


def change_columns(
    client: MetastoreClient,
    ref: TableRef,
    choose: Callable[[HiveTable], Sequence[HiveColumn]],
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

    def change(raw: Any) -> bool:
        table = HiveTable.from_thrift(raw)
        columns = tuple(choose(table))
        raw.sd.cols = [
            idl_tables.FieldSchema(each.name, each.type, each.comment) for each in columns
        ]
        raw.parameters[DDL_TIME] = str(int(time.time()))
        return columns != table.columns

    # Only those who ask for locks are kept away by it.
    with ExclusiveTable(client, ref, run_token, lock_wait_seconds):
        alter_table(client, ref, change, context={"CASCADE": "true"})
        return client.get_table(ref)
