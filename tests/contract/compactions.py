"""The actions and checks that tests of the metastore's compactions share."""

from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue, CompactionTransaction
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from tests.versions import REAL_4

MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
DAY = "day=1"
needs_pools = pytest.mark.needs("CompactionRequest.poolName")


def only_hms4(test: Callable[..., None]) -> Any:
    """Run a test with metastores whose queue this package uses."""
    on_4 = pytest.mark.parametrize("hms", [*REAL_4, "fake 4.0.1"], indirect=True)
    return needs_pools(on_4(test))


def begin_write(
    client: MetastoreClient,
    ref: TableRef,
    operation: Operation = Operation.INSERT,
    partition: str = DAY,
) -> Transaction:
    return Transaction(
        client,
        targets=[Target(ref, operation, partitioned=True, partitions=[partition])],
        lock_wait_seconds=0,
    )


def write(client: MetastoreClient, ref: TableRef, partition: str = DAY) -> int:
    with begin_write(client, ref, partition=partition) as transaction:
        transaction.commit()
    return transaction.write_ids[ref.full_name]


def finish(compaction: CompactionTransaction) -> None:
    compaction.record(compaction.write_ids.high_watermark)
    compaction.commit()


def states(queue: CompactionQueue, ref: TableRef) -> list[str]:
    return [entry.state for entry in queue.show(ref)]
