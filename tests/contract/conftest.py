"""A table to compact, for the tests that do not make their own."""

from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue, CompactionTransaction
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from tests.contract.compactions import DAY, MAJOR, write


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    ref = TableRef(database, "events")
    keys = [HiveColumn("day", "string")]
    columns = [HiveColumn("id", "bigint")]
    client.create_table(HiveTable.new(ref, columns, partition_keys=keys, owner="olga"))
    write(client, ref)
    return ref


@pytest.fixture
def queue(client: MetastoreClient) -> CompactionQueue:
    return CompactionQueue(client)


@pytest.fixture
def begin(client: MetastoreClient, table: TableRef) -> Callable[..., CompactionTransaction]:
    """Describe a compaction of a partition of the table; by default it never waits."""

    def describe(
        partition: str = DAY, type_: CompactionType = MAJOR, **options: Any
    ) -> CompactionTransaction:
        options = {"lock_wait_seconds": 0, **options}
        return CompactionTransaction(client, table, partition, type_, **options)

    return describe
