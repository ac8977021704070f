"""The contract of the client, checked on both versions of the real metastore."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.errors import (
    HiveAcidError,
    MetastoreCallFailed,
    TableNotFound,
    TransactionAborted,
    WriteConflict,
)
from hiveacid.metastore import client as client_module
from hiveacid.metastore.alteration import send_definition
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import LockState, TxnLiveness, TxnState, TxnType
from hiveacid.rules.locks import DataOperation, LockType, Operation, lock_components
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import ValidTxnList
from tests.fakes.metastore import REAL_AND_FAKE

pytestmark = REAL_AND_FAKE

COLUMNS = (
    HiveColumn("id", "bigint", "the key"),
    HiveColumn("name", "varchar(20)"),
    HiveColumn("tags", "map<string,array<decimal(10,2)>>"),
)
DAY = (HiveColumn("day", "string"),)
WHO = ("user", "host", "dag.task")


@pytest.fixture
def table(client: MetastoreClient, database: str) -> HiveTable:
    """A table partitioned by day."""
    ref = TableRef(database, "orders")
    client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=DAY))
    return client.get_table(ref)


def open_and_lock(
    client: MetastoreClient, table: HiveTable, *partitions: str
) -> tuple[int, int, LockState]:
    txn = client.open_txn(*WHO)
    client.allocate_write_id(txn, table.ref)
    components = lock_components(
        client.features.has_excl_write,
        Operation.UPDATE,
        table.ref,
        partitioned=True,
        partitions=partitions or None,
    )
    answer = client.lock(components, txn, *WHO)
    return txn, answer.lock_id, answer.state


def txn_list(client: MetastoreClient, txn: int = 0) -> ValidTxnList:
    answer = client.get_open_txns()
    return ValidTxnList.from_open_txns(
        answer.high_watermark, answer.open_txns, answer.aborted_bits, txn
    )


def test_the_version_is_found_out_by_asking(
    client: MetastoreClient, hms: EmbeddedMetastore
) -> None:
    assert client.version is MetastoreVersion(int(hms.version[0]))


def test_server_settings_can_be_read(client: MetastoreClient) -> None:
    assert client.config_value("hive.txn.timeout", "?") == "300s"
    assert client.config_value("hive.no.such.setting", "fallback") == "fallback"


# Databases and tables


def test_databases(client: MetastoreClient, database: str) -> None:
    assert database in client.get_databases()
    described = client.get_database(database)
    assert described.name == database
    assert (described.location or "").endswith(f"/{database}.db")
    assert client.get_tables(database) == []


def test_created_objects_belong_to_the_acting_user(
    hms: EmbeddedMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    for user, expected in (("alice", "alice"), (None, "bob")):
        with MetastoreClient(replace(hms.options, user=user)) as client:
            table = TableRef(f"of_{expected}", "t")
            client.create_database(table.database)
            client.create_table(HiveTable.new(table, COLUMNS))
            assert client.get_table(table).owner == expected
            # Version 3 leaves a database's owner to the client.
            if client.features.takes_requests:
                assert client.get_database(table.database).owner == expected
            client.drop_database(table.database, cascade=True)


@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
def test_a_created_table_reads_back_as_it_was_described(
    client: MetastoreClient, database: str, kind: TableKind
) -> None:
    ref = TableRef(database, "t")
    described = HiveTable.new(
        ref,
        COLUMNS,
        partition_keys=DAY,
        bucket_columns=["id"],
        num_buckets=4,
        parameters={"orc.compress": "ZSTD", "note": "naïve ☃"},
        kind=kind,
        owner="alice",
    )
    client.create_table(described)
    stored = client.get_table(ref)
    assert stored.kind is kind
    assert stored.columns == COLUMNS
    assert stored.partition_keys == DAY
    assert stored.bucket_columns == ("id",)
    assert stored.num_buckets == 4
    assert stored.bucketing_version == 2
    assert stored.owner == "alice"
    assert described.parameters.items() <= stored.parameters.items()
    assert (stored.location or "").endswith(f"/{database}.db/t")
    assert client.get_tables(database) == ["t"]


def test_a_table_can_be_created_at_a_place(
    client: MetastoreClient, database: str, hms: EmbeddedMetastore
) -> None:
    ref = TableRef(database, "t")
    location = f"file:{hms.warehouse}/{database}.db/elsewhere a%2Fb"
    client.create_table(HiveTable.new(ref, COLUMNS, location=location))
    assert client.get_table(ref).location == location


def test_a_dropped_table_is_gone(client: MetastoreClient, table: HiveTable) -> None:
    client.drop_table(table.ref)
    with pytest.raises(TableNotFound, match=table.ref.full_name):
        client.get_table(table.ref)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda client, ref: client.get_table(TableRef(ref.database, "no")), TableNotFound, ".no"),
        (lambda client, ref: client.get_database("nowhere"), TableNotFound, "nowhere"),
        (lambda client, ref: client.drop_database(ref.database), MetastoreCallFailed, "not empty"),
        (lambda client, ref: client.create_database(ref.database), MetastoreCallFailed, "exists"),
        (
            lambda client, ref: client.create_table(HiveTable.new(ref, COLUMNS)),
            MetastoreCallFailed,
            "create_table.* failed for .*orders.*already exists",
        ),
        (lambda client, ref: client.commit_txn(10**9), TransactionAborted, "txnid:1000000000"),
        (lambda client, ref: client.check_lock(10**9, 0), TransactionAborted, "lock has expired"),
    ],
)
def test_errors_name_what_they_are_about(
    client: MetastoreClient,
    table: HiveTable,
    call: Callable[[MetastoreClient, TableRef], object],
    error: type[HiveAcidError],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        call(client, table.ref)


# Partitions


def test_partitions_keep_any_values(
    client: MetastoreClient, table: HiveTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_PARTITIONS_PER_CALL", 2)
    values = ["2026-01-01", "a/b=c", "100%", "x%2Fy", "Größe", None, ".", "UPPER"]
    partitions = [HivePartition.new(table, [value]) for value in values]
    client.add_partitions(table.ref, partitions)
    client.add_partitions(table.ref, partitions[:3])
    assert sorted(client.get_partition_names(table.ref)) == sorted(
        partition.name for partition in partitions
    )
    stored = {
        partition.name: partition
        for partition in client.get_partitions(client.get_table(table.ref))
    }
    assert len(stored) == len(values)
    for partition in partitions:
        assert stored[partition.name].values == partition.values
        assert stored[partition.name].location == f"{table.location}/{partition.name}"
        assert stored[partition.name].columns == COLUMNS


def test_only_existing_partitions_of_those_asked_for_are_described(
    client: MetastoreClient, table: HiveTable
) -> None:
    client.add_partitions(table.ref, [HivePartition.new(table, [day]) for day in "abc"])
    existing = client.get_partitions(client.get_table(table.ref), ["day=a", "day=c", "day=z"])
    assert sorted(partition.name for partition in existing) == ["day=a", "day=c"]
    assert client.get_partitions(client.get_table(table.ref), []) == []


@pytest.mark.parametrize("names", [None, [], ["day=a"]])
def test_a_dropped_table_is_not_mistaken_for_one_without_partitions(
    client: MetastoreClient, table: HiveTable, names: list[str] | None
) -> None:
    client.add_partitions(table.ref, [HivePartition.new(table, ["a"])])
    client.drop_table(table.ref)
    with pytest.raises(TableNotFound, match=table.ref.full_name):
        client.get_partitions(table, names)


def test_a_table_that_is_gone_is_neither_altered_nor_given_partitions(
    client: MetastoreClient, table: HiveTable
) -> None:
    client.drop_table(table.ref)
    with pytest.raises(MetastoreCallFailed):
        client.add_partitions(table.ref, [HivePartition.new(table, ["a"])])
    with pytest.raises(MetastoreCallFailed):
        send_definition(client, table.ref, table.raw)


# Transactions


def test_a_heartbeat_returns_the_state_of_a_transaction(client: MetastoreClient) -> None:
    txn = client.open_txn(*WHO)
    assert client.heartbeat(txn) is TxnLiveness.OPEN
    client.abort_txn(txn)
    client.abort_txn(txn)
    assert client.heartbeat(txn) is TxnLiveness.ABORTED
    assert client.heartbeat(10**9) is TxnLiveness.UNKNOWN
    with pytest.raises(TransactionAborted, match=str(txn)):
        client.commit_txn(txn)


def test_a_read_only_transaction_can_be_opened(client: MetastoreClient) -> None:
    txn = client.open_txn(*WHO, TxnType.READ_ONLY)
    assert client.heartbeat(txn) is TxnLiveness.OPEN
    answer = client.get_open_txns()
    assert answer.min_open is not None
    assert answer.min_open <= txn
    # Version 4 does not list it, version 3 knows no kinds.
    assert (txn in answer.open_txns) == (not client.features.names_conflicts)
    client.commit_txn(txn)


def test_open_and_aborted_transactions_are_listed(
    client: MetastoreClient, table: HiveTable
) -> None:
    aborted, _, _ = open_and_lock(client, table, "day=a")
    client.abort_txn(aborted)
    txn = client.open_txn("alice", "there", None)
    answer = client.get_open_txns()
    assert answer.high_watermark >= txn
    assert answer.min_open is not None
    assert answer.min_open <= txn
    txns = txn_list(client)
    assert txns.is_aborted(aborted)
    assert not txns.is_valid(txn)
    assert not txns.is_aborted(txn)
    (info,) = [info for info in client.get_open_txns_info() if info.txn_id == txn]
    assert (info.user, info.host, info.state) == ("alice", "there", TxnState.OPEN)
    assert info.started_at is not None
    assert abs(datetime.now(UTC) - info.started_at) < timedelta(minutes=10)
    client.abort_txn(txn)


def test_write_ids_follow_the_fate_of_their_transactions(
    client: MetastoreClient, table: HiveTable
) -> None:
    txns = [client.open_txn(*WHO) for _ in range(4)]
    ids = [client.allocate_write_id(txn, table.ref) for txn in txns]
    assert ids == [1, 2, 3, 4]
    assert client.allocate_write_id(txns[0], table.ref) == 1
    components = lock_components(
        client.features.has_excl_write, Operation.INSERT, table.ref, True, ["day=a"]
    )
    client.lock(components, txns[1], *WHO)
    client.commit_txn(txns[0])
    client.abort_txn(txns[1])
    lists = client.get_valid_write_ids([table.ref], txn_list(client))
    write_ids = lists[table.ref.full_name]
    assert [write_ids.is_valid(write_id) for write_id in ids] == [True, False, False, False]
    assert [write_ids.is_aborted(write_id) for write_id in ids] == [False, True, False, False]
    # As the third transaction sees it, whose list ends with itself.
    own = client.get_valid_write_ids([table.ref], txn_list(client, txns[2]))
    assert own[table.ref.full_name].is_valid(3)
    assert not own[table.ref.full_name].is_valid(4)
    for txn in txns[2:]:
        client.abort_txn(txn)


def test_two_changes_of_one_partition_conflict(client: MetastoreClient, table: HiveTable) -> None:
    first, _, state = open_and_lock(client, table, "day=2026-01-01")
    assert state is LockState.ACQUIRED
    second, lock_id, state = open_and_lock(client, table, "day=2026-01-01")
    assert state is LockState.WAITING
    assert client.check_lock(lock_id, second).state is LockState.WAITING
    client.commit_txn(first)
    assert client.check_lock(lock_id, second).state is LockState.ACQUIRED
    if client.features.names_conflicts:
        assert client.latest_conflicting_txn(second) == first
    with pytest.raises(WriteConflict) as caught:
        client.commit_txn(second)
    for part in (f"Transaction {second}", table.ref.full_name, "day=2026-01-01", f"{first},"):
        assert part in caught.value.what
    assert client.heartbeat(second) is TxnLiveness.ABORTED


def test_changes_of_different_partitions_do_not_conflict(
    client: MetastoreClient, table: HiveTable
) -> None:
    txns = []
    for day in ("a", "b"):
        txn, _, state = open_and_lock(client, table, f"day={day}")
        assert state is LockState.ACQUIRED
        txns.append(txn)
    for txn in reversed(txns):
        client.commit_txn(txn)


def test_partitions_written_under_a_lock_on_the_table_conflict_by_partition(
    client: MetastoreClient, table: HiveTable
) -> None:
    first, _, _ = open_and_lock(client, table)
    second, waiting, _ = open_and_lock(client, table)
    for txn, day in ((first, "a"), (second, "b")):
        write_id = client.allocate_write_id(txn, table.ref)
        client.add_dynamic_partitions(
            txn, write_id, table.ref, [f"day={day}"], DataOperation.UPDATE
        )
    client.commit_txn(first)
    assert client.check_lock(waiting, second).state is LockState.ACQUIRED
    client.commit_txn(second)


def test_the_locks_by_which_metastores_elect_are_left_out(
    client: MetastoreClient, table: HiveTable
) -> None:
    txn = client.open_txn(*WHO)
    (component,) = lock_components(
        client.features.has_excl_write, Operation.INSERT, table.ref, partitioned=False
    )
    client.lock([replace(component, database="__metastore_leader_election__")], txn, *WHO)
    assert client.show_locks() == []
    client.abort_txn(txn)


def test_held_locks_contain_their_holders(client: MetastoreClient, table: HiveTable) -> None:
    txn, lock_id, _ = open_and_lock(client, table, "day=a")
    other = TableRef(table.ref.database, "other")
    assert client.show_locks(other) == []
    (held,) = client.show_locks(table.ref)
    assert held in client.show_locks()
    assert (held.lock_id, held.txn_id, held.table) == (lock_id, txn, table.ref)
    assert (held.partition, held.state) == ("day=a", LockState.ACQUIRED)
    assert (held.user, held.host, held.agent_info) == WHO
    expected = {False: LockType.SHARED_WRITE, True: LockType.EXCL_WRITE}
    assert held.type is expected[client.features.has_excl_write]
    client.abort_txn(txn)
    assert client.show_locks(table.ref) == []
