"""A table, and transactions on a partition of it."""

from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import PhaseClock
from hiveacid.rules.locks import Operation, Target, WriteKind
from hiveacid.rules.names import TableRef
from tests.contract.other_engines import OtherEngine
from tests.contract.txn.overlapping_writers import APPEND, DAYS, ONE, Writer
from tests.contract.txn.transactions import SELECT
from tests.observers import At


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    ref = TableRef(database, "events")
    keys = [HiveColumn("day", "string")]
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "bigint")], partition_keys=keys))
    return ref


@pytest.fixture
def begin(client: MetastoreClient, table: TableRef) -> Callable[..., Transaction]:
    """Describe a transaction on a partition of the table; by default it never waits."""

    def describe(
        operation: Operation,
        partition: str | None = "day=1",
        during: At | None = None,
        **options: Any,
    ) -> Transaction:
        if operation is SELECT:
            options["reads"] = [table]
        else:
            partitions = None if partition is None else [partition]
            options.setdefault("targets", [Target(table, operation, True, partitions)])
        options = {"client": client, "lock_wait_seconds": 0, **options}
        phases = PhaseClock([during] if during else [])
        return Transaction(phases=phases, **options)

    return describe


@pytest.fixture
def other_engine(client: MetastoreClient, table: TableRef) -> Callable[[Operation], OtherEngine]:
    """Begin a transaction of another engine on the same partition."""
    return lambda operation: OtherEngine(client, table, operation, ["day=1"])


@pytest.fixture
def writer(client: MetastoreClient, table: TableRef) -> Callable[..., Writer]:
    made = client.get_table(table)
    client.add_partitions(
        table, [HivePartition.new(made, [name.partition("=")[2]]) for name in DAYS]
    )

    def make(kind: WriteKind, *partitions: str, **more: object) -> Writer:
        return Writer(client, table, kind, partitions or (ONE,), **more)

    for _ in range(2):
        make(APPEND, *DAYS).run()
    return make
