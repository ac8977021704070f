"""Changes of definitions, held against real metastores and the fake ones: others' are kept."""

from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.metastore.alteration import DDL_TIME, Writer, change_columns, forget_statistics
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import ValidWriteIdList
from tests.fakes.metastore import REAL_AND_FAKE
from tests.versions import REAL_4

COLUMNS = (
    HiveColumn("id", "bigint", "the key"),
    HiveColumn("tags", "map<string,array<decimal(10,2)>>"),
)
ACCURATE = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "numRows": "10", "totalSize": "0"}
ONLY_VERSION_4 = pytest.mark.parametrize("hms", [*REAL_4, "fake 4.0.1"], indirect=True)


def forget(client: MetastoreClient, ref: TableRef, *partitions: str) -> None:
    txn = client.open_txn("user", "host", None)
    write_id = client.allocate_write_id(txn, ref)
    seen = ValidWriteIdList(ref.full_name, write_id)
    forget_statistics(client, ref, partitions, Writer(write_id, seen, lambda: None))
    client.commit_txn(txn)


def before_the_alter(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]
) -> list[str]:
    """Have something done just before the first alter is sent; answers which alters there were."""
    sent: list[str] = []
    really = client.call

    def call(declared: Any, *arguments: Any, **about: Any) -> Any:
        if declared.name.startswith("alter_"):
            sent.append(declared.name)
            if len(sent) == 1:
                action()
        return really(declared, *arguments, **about)

    monkeypatch.setattr(client, "call", call)
    return sent


def add_column_without_a_lock(client: MetastoreClient, ref: TableRef, name: str) -> None:
    """As other engines do it."""
    with MetastoreClient(client.options) as other:
        raw = other.get_table(ref).raw
        raw.sd.cols = [*raw.sd.cols, idl_tables.FieldSchema(name, "int", None)]
        raw.parameters[DDL_TIME] = str(int(raw.parameters[DDL_TIME]) + 1)
        call = idl_tables.alter_table_with_environment_context
        context = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
        other.call(call, ref.database, ref.name, raw, context)


@REAL_AND_FAKE
def test_statistics_are_forgotten_once_and_nothing_else_changes(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = TableRef(database, "counted")
    day = [HiveColumn("day", "string")]
    client.create_table(
        HiveTable.new(
            *(ref, COLUMNS),
            partition_keys=day,
            bucket_columns=["id"],
            num_buckets=2,
            parameters=ACCURATE,
        )
    )
    table = client.get_table(ref)
    partitions = [HivePartition.new(table, [day]) for day in "abc"]
    for partition in partitions[:2]:
        partition.raw.parameters.update(ACCURATE, mine="kept")
    client.add_partitions(ref, partitions)
    before = {
        partition.name: partition for partition in client.get_partitions(client.get_table(ref))
    }
    assert "COLUMN_STATS_ACCURATE" in before["day=a"].parameters

    forget(client, ref, "day=a", "day=c")
    after = {
        partition.name: partition for partition in client.get_partitions(client.get_table(ref))
    }
    assert without_statistics(client.get_table(ref)) == without_statistics(table)
    assert "COLUMN_STATS_ACCURATE" not in client.get_table(ref).parameters
    assert "COLUMN_STATS_ACCURATE" not in after["day=a"].parameters
    assert after["day=a"].parameters["numRows"] == ""
    assert without_statistics(after["day=a"]) == without_statistics(before["day=a"])
    # The transaction has not written these.
    assert after["day=b"].raw == before["day=b"].raw
    assert after["day=c"].raw == before["day=c"].raw

    sent = before_the_alter(client, monkeypatch, lambda: None)
    forget(client, ref, "day=a", "day=c")
    assert sent == []


@REAL_AND_FAKE
def test_a_table_that_we_create_claims_nothing(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = TableRef(database, "ours")
    client.create_table(HiveTable.new(ref, COLUMNS))
    sent = before_the_alter(client, monkeypatch, lambda: None)
    forget(client, ref)
    assert sent == []


@ONLY_VERSION_4
@pytest.mark.needs("expected_parameter_key")
@pytest.mark.parametrize("grow", [False, True])
def test_a_column_that_is_added_just_before_the_alter_stays(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch, grow: bool
) -> None:
    ref = TableRef(database, "shared")
    client.create_table(HiveTable.new(ref, COLUMNS, parameters=ACCURATE))
    table = client.get_table(ref)
    sent = before_the_alter(
        client, monkeypatch, lambda: add_column_without_a_lock(client, ref, "other")
    )
    added = ["other"]
    if grow:
        change_columns(
            *(client, table, lambda table: (*table.columns, HiveColumn("own", "int"))),
            run_token=None,
            lock_wait_seconds=0,
        )
        added += ["own"]
    else:
        forget(client, ref)
        assert client.get_table(ref).parameters["numRows"] == ""
    assert [column.name for column in client.get_table(ref).columns] == ["id", "tags", *added]
    assert len(sent) > 1


@REAL_AND_FAKE
def test_a_second_try_does_not_wait_for_the_lock_of_the_first(
    client: MetastoreClient, database: str
) -> None:
    """The first may have died, and the metastore reports it only after minutes."""
    ref = TableRef(database, "locked")
    client.create_table(HiveTable.new(ref, COLUMNS))
    table = client.get_table(ref)
    with ExclusiveTable(client, ref, "a run", 0):
        grown = change_columns(
            *(client, table, lambda table: (*table.columns, HiveColumn("own", "int"))),
            run_token="a run",
            lock_wait_seconds=0,
        )
        assert grown.columns[-1].name == "own"


def without_statistics(described: HiveTable | HivePartition) -> dict[str, object]:
    fields = {name: getattr(described.raw, name) for name in described.raw.__slots__}
    ignored = ("COLUMN_STATS_ACCURATE", "numRows", DDL_TIME)
    parameters = described.parameters.items()
    fields["parameters"] = {name: value for name, value in parameters if name not in ignored}
    del fields["writeId"]
    return fields
