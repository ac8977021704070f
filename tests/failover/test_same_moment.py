"""The answers of metastores with the same database to simultaneous calls."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import SUCCEEDED, CompactionQueue
from hiveacid.metastore.table_rules import require_same_definition
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from tests.engine.definitions import replace_definition
from tests.failover.front import Fronts

pytestmark = [pytest.mark.failover, pytest.mark.timeout(600)]

_AT_A_TIME = 4
_REQUESTS = 120
_WRITE_IDS = 20
_REPORTS = 10
_ALTERATIONS = 60


@pytest.fixture
def table(observer: MetastoreClient) -> Iterator[TableRef]:
    """A table with some partitions, in a database of its own."""
    ref = TableRef("same_moment", "t")
    observer.create_database(ref.database)
    columns, keys = [HiveColumn("id", "int")], [HiveColumn("p", "string")]
    observer.create_table(HiveTable.new(ref, columns, partition_keys=keys))
    described = observer.get_table(ref)
    observer.add_partitions(ref, [HivePartition.new(described, [p]) for p in "abcd"])
    yield ref
    observer.drop_database(ref.database, cascade=True)


@pytest.fixture
def clients(fronts: Fronts) -> Iterator[list[MetastoreClient]]:
    """Clients of the one metastore and of the other one, by turns."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(MetastoreClient(MetastoreOptions(uris=fronts.uris(number % 2))))
            for number in range(_AT_A_TIME)
        ]


def test_requests_to_compact_are_all_accepted(observer: MetastoreClient, table: TableRef) -> None:
    """Some databases end them by deadlocks."""
    queue = CompactionQueue(observer)

    def ask(number: int) -> bool:
        return queue.request(table, f"p={number}", CompactionType.MAJOR).accepted

    with ThreadPoolExecutor(_AT_A_TIME) as asking:
        assert all(asking.map(ask, range(_REQUESTS)))
    assert len(queue.show(table)) == _REQUESTS


def test_cleaners_of_one_request_all_report_that_it_is_cleaned(
    observer: MetastoreClient, clients: list[MetastoreClient], table: TableRef
) -> None:
    """Each report inserts a row of the same number, so that the database refuses all but one."""
    queue = CompactionQueue(observer)
    if not observer.features.has_queue:
        pytest.skip("Version 3 has no reports.")
    with ThreadPoolExecutor(_AT_A_TIME) as reporting:
        for number in range(_REPORTS):
            partition = f"p={number}"
            queue.request(table, partition, CompactionType.MAJOR, pool="reports")
            claimed = queue.claim(f"reporter-{number}", "reports")
            assert claimed is not None
            txn = observer.open_txn("somebody", "host", None, TxnType.COMPACTION)
            queue.record(claimed, txn, 1, "somebody")
            queue.compacted(claimed)
            observer.commit_txn(txn)
            (ready,) = queue.show(table, partition)
            list(
                reporting.map(
                    lambda client, ready=ready: CompactionQueue(client).cleaned(ready), clients
                )
            )
            (cleaned,) = queue.show(table, partition)
            assert cleaned.state == SUCCEEDED


def test_a_transaction_has_one_write_id_whomever_it_asks(
    clients: list[MetastoreClient], table: TableRef
) -> None:
    """So it is with a question that is sent again, while the metastore that was lost carries it out."""
    with ThreadPoolExecutor(_AT_A_TIME) as asking:
        for _ in range(_WRITE_IDS):
            txn = clients[0].open_txn("somebody", "host", None)
            ask = asking.map(lambda client, txn=txn: client.allocate_write_id(txn, table), clients)
            assert len({*ask, clients[0].allocate_write_id(txn, table)}) == 1
            clients[0].commit_txn(txn)


def test_a_table_that_is_altered_is_the_same_one_whomever_one_asks(
    clients: list[MetastoreClient], table: TableRef
) -> None:
    writer, *readers = clients
    was = writer.get_table(table)
    partitions = writer.get_partitions(was)
    altered = threading.Event()

    def look(reader: MetastoreClient) -> int:
        looks = 0
        while not altered.is_set():
            require_same_definition(reader, was, partitions)
            looks += 1
        return looks

    with ThreadPoolExecutor(_AT_A_TIME) as looking:
        looks = [looking.submit(look, reader) for reader in readers]
        try:
            for number in range(_ALTERATIONS):

                def change(raw: Any, number: int = number) -> None:
                    raw.parameters["number"] = str(number)

                replace_definition(writer, table, change)
        finally:
            altered.set()
        assert all(look.result() > 0 for look in looks)
