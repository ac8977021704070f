"""Definitions that other clients change directly before a call with a whole definition.

Calls of metastores are contracts, so that the fake ones are compared with real ones.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hiveacid.errors import (
    AnswerLost,
    MetastoreCallFailed,
    MetastoreError,
    TransactionAborted,
    UnsupportedTable,
)
from hiveacid.metastore.alteration import DDL_TIME, Writer, forget_statistics, send_definition
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.thrift.idl import Call, ServerException
from hiveacid.metastore.thrift.session import Session
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.parser.script import to_jobs
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.tables.definitions.run import run_ddl
from tests.fakes.metastore import REAL_AND_FAKE
from tests.metastore_calls import acting_after, acting_before
from tests.versions import REAL_4

ONLY_4 = pytest.mark.parametrize("hms", [*REAL_4, "fake 4.0.1"], indirect=True)
ONLY_3 = pytest.mark.parametrize("hms", ["3.1.3", "fake 3.1.3"], indirect=True)
COMPARED = pytest.mark.needs("expected_parameter_key")
ALTER_TABLE = "alter_table_with_environment_context"
# The state after an INSERT of Hive.
ACCURATE = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "numRows": "10"}


def run(client: MetastoreClient, sql: str, **options: object) -> None:
    for job in to_jobs(sql):
        run_ddl(client, replace(job, **options))


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    """A table with two partitions that Hive has written."""
    ref = TableRef(database, "events")
    keys = [HiveColumn("day", "string")]
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")], partition_keys=keys))
    partitions = [HivePartition.new(client.get_table(ref), [day]) for day in "12"]
    for partition in partitions:
        partition.raw.parameters.update(ACCURATE)
    client.add_partitions(ref, partitions)
    return ref


def add_column(client: MetastoreClient, ref: TableRef, name: str = "w") -> None:
    """Add a column to a table and its partitions without a lock, as other engines do."""
    with MetastoreClient(client.options) as other:
        raw = other.get_table(ref).raw
        raw.sd.cols = [*raw.sd.cols, idl_tables.FieldSchema(name, "int", None)]
        raw.parameters[DDL_TIME] = str(int(raw.parameters[DDL_TIME]) + 1)
        context = {"DO_NOT_UPDATE_STATS": "true", "CASCADE": "true"}
        other.call(
            idl_tables.alter_table_with_environment_context,
            *(ref.database, ref.name, raw, idl_tables.EnvironmentContext(context)),
        )


def lose_locks(client: MetastoreClient) -> None:
    """Abort all transactions, as the metastore does after a long pause of their processes."""
    with MetastoreClient(client.options) as other:
        for txn in other.get_open_txns_info():
            if txn.state is TxnState.OPEN:
                other.abort_txn(txn.txn_id)


def pause(client: MetastoreClient, ref: TableRef) -> Callable[[], None]:
    """Return a pause that ends the transaction, and in which another client adds a column."""

    def act() -> None:
        lose_locks(client)
        add_column(client, ref)

    return act


def column_names(client: MetastoreClient, ref: TableRef) -> list[str]:
    """The names of the columns of a table, which are those of all of its partitions."""
    table = client.get_table(ref)
    if table.partition_keys:
        for partition in client.get_partitions(table):
            assert partition.columns == table.columns, partition.name
    return [column.name for column in table.columns]


def call_of_partitions(client: MetastoreClient) -> str:
    old = not client.features.versions_definitions
    return "alter_partitions_with_environment_context" if old else "alter_partitions_req"


@REAL_AND_FAKE
@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize(
    "statement", ["ALTER TABLE {0} ADD PARTITION (day = '3')", "MSCK REPAIR TABLE {0}"]
)
def test_a_new_partition_has_a_column_that_was_added_directly_before_its_call(
    client: MetastoreClient, table: TableRef, statement: str, is_paused: bool
) -> None:
    Path(urlsplit(client.get_table(table).folder).path, "day=3").mkdir()
    act = pause(client, table) if is_paused else lambda: add_column(client, table)
    with acting_before("add_partitions_req", act):
        run(client, statement.format(table))
    assert "day=3" in client.get_partition_names(table)
    assert column_names(client, table) == ["id", "w"]


@REAL_AND_FAKE
def test_a_new_partition_has_all_columns_that_are_added_while_it_is_completed(
    client: MetastoreClient, table: TableRef
) -> None:
    with (
        acting_before("add_partitions_req", lambda: add_column(client, table, "w")),
        acting_before(call_of_partitions(client), lambda: add_column(client, table, "x")),
    ):
        run(client, f"ALTER TABLE {table} ADD PARTITION (day = '3')")
    assert column_names(client, table) == ["id", "w", "x"]


@REAL_AND_FAKE
def test_partitions_keep_a_column_that_was_added_directly_before_their_statistics_changed(
    client: MetastoreClient, table: TableRef
) -> None:
    with writing(client, table) as txn:
        with acting_before(call_of_partitions(client), lambda: add_column(client, table)):
            forget(client, txn, table)
        txn.commit()
    assert column_names(client, table) == ["id", "w"]
    for partition in client.get_partitions(client.get_table(table)):
        assert partition.parameters["numRows"] == ""
        assert "COLUMN_STATS_ACCURATE" not in partition.parameters


@REAL_AND_FAKE
def test_a_lost_transaction_changes_no_definition(client: MetastoreClient, table: TableRef) -> None:
    before = [partition.raw for partition in client.get_partitions(client.get_table(table))]
    with (
        pytest.raises(TransactionAborted),
        writing(client, table) as txn,
        acting_after("get_partitions_by_names", lambda: lose_locks(client)),
    ):
        forget(client, txn, table)
    assert [each.raw for each in client.get_partitions(client.get_table(table))] == before


def writing(client: MetastoreClient, ref: TableRef) -> Transaction:
    return Transaction(client, targets=[Target(ref, Operation.INSERT, True, ["day=1", "day=2"])])


def forget(client: MetastoreClient, txn: Transaction, ref: TableRef) -> None:
    seen = txn.snapshot.write_ids[ref.full_name]
    writer = Writer(txn.write_ids[ref.full_name], seen, txn.confirm_alive)
    forget_statistics(client, ref, ["day=1", "day=2"], writer)


@REAL_AND_FAKE
def test_a_dropped_partition_does_not_come_back_by_a_change_of_its_definition(
    client: MetastoreClient, table: TableRef
) -> None:
    def drop() -> None:
        with MetastoreClient(client.options) as other:
            other.drop_partitions(table, ["day=1"], lambda: None)

    with (
        pytest.raises(MetastoreCallFailed),
        writing(client, table) as txn,
        acting_before(call_of_partitions(client), drop),
    ):
        forget(client, txn, table)
    assert client.get_partition_names(table) == ["day=2"]


@pytest.fixture
def plain(client: MetastoreClient, database: str) -> TableRef:
    """A plain table of ORC files."""
    ref = TableRef(database, "plain")
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")], kind=TableKind.NOT_ACID))
    return ref


@REAL_AND_FAKE
@pytest.mark.parametrize("number", [1, 2])
def test_a_conversion_that_lost_its_locks_keeps_a_column_or_fails(
    client: MetastoreClient, plain: TableRef, number: int
) -> None:
    """Version 4 is first asked whether it compares definitions, by a call that converts nothing."""
    number = number if client.features.compares_definitions else 1
    with (
        acting_before(ALTER_TABLE, pause(client, plain), number=number),
        pytest.raises((TransactionAborted, MetastoreError)) as raised,
    ):
        run(client, f"CONVERT TABLE {plain}")
    if isinstance(raised.value, TransactionAborted):
        assert client.get_table(plain).kind is TableKind.NOT_ACID
        assert column_names(client, plain) == ["id", "w"]
    else:
        assert f"The locks on {plain} were lost" in str(raised.value)


@ONLY_4
@COMPARED
def test_a_conversion_keeps_a_column_that_was_added_directly_before_its_first_call(
    client: MetastoreClient, plain: TableRef
) -> None:
    with acting_before(ALTER_TABLE, lambda: add_column(client, plain)):
        run(client, f"CONVERT TABLE {plain}")
    assert client.get_table(plain).kind is TableKind.FULL_ACID
    assert column_names(client, plain) == ["id", "w"]


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@COMPARED
def test_a_conversion_that_is_refused_for_a_new_column_has_statements_that_copy_the_table(
    client: MetastoreClient, plain: TableRef
) -> None:
    with (
        acting_before(ALTER_TABLE, lambda: add_column(client, plain), number=2),
        pytest.raises(UnsupportedTable, match=r"write ids of an earlier conversion.*CREATE TABLE"),
    ):
        run(client, f"CONVERT TABLE {plain}")
    assert client.get_table(plain).kind is TableKind.NOT_ACID
    assert column_names(client, plain) == ["id", "w"]


@ONLY_4
@COMPARED
def test_a_refused_conversion_leaves_write_ids_behind(
    client: MetastoreClient, plain: TableRef
) -> None:
    raw = client.get_table(plain).raw
    for name in ("EXTERNAL", "TRANSLATED_TO_EXTERNAL", "external.table.purge"):
        raw.parameters.pop(name, None)
    raw.tableType = "MANAGED_TABLE"
    raw.parameters |= {"transactional": "true", "transactional_properties": "default"}
    expected = {"expected_parameter_key": DDL_TIME, "expected_parameter_value": "1"}
    with pytest.raises(MetastoreCallFailed, match="The table has been modified"):
        send_definition(client, plain, raw, expected)
    with pytest.raises(UnsupportedTable, match="write ids of an earlier conversion"):
        run(client, f"CONVERT TABLE {plain}")


@ONLY_4
@COMPARED
def test_a_conversion_checks_the_definition_of_each_attempt(
    client: MetastoreClient, plain: TableRef
) -> None:
    def make_insert_only() -> None:
        with MetastoreClient(client.options) as other:
            raw = other.get_table(plain).raw
            raw.tableType = "MANAGED_TABLE"
            for name in ("EXTERNAL", "TRANSLATED_TO_EXTERNAL", "external.table.purge"):
                raw.parameters.pop(name, None)
            raw.parameters["transactional"] = "true"
            raw.parameters["transactional_properties"] = "insert_only"
            raw.parameters[DDL_TIME] = str(int(raw.parameters[DDL_TIME]) + 1)
            context = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
            call = idl_tables.alter_table_with_environment_context
            other.call(call, plain.database, plain.name, raw, context)

    with (
        acting_before(ALTER_TABLE, make_insert_only),
        pytest.raises(UnsupportedTable, match="is insert-only; only plain tables are converted"),
    ):
        run(client, f"CONVERT TABLE {plain}")
    assert client.get_table(plain).kind is TableKind.INSERT_ONLY


@ONLY_3
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE {table} ADD COLUMNS (x int)",
        "ALTER TABLE {table} DROP PARTITION (day = '1')",
        "ALTER TABLE {table} RENAME TO {table}_2",
    ],
)
def test_no_success_is_reported_if_the_locks_were_lost_while_a_definition_was_replaced(
    client: MetastoreClient, table: TableRef, statement: str
) -> None:
    """Version 3 does not compare definitions: a column may be gone."""
    with (
        acting_before(ALTER_TABLE, pause(client, table)),
        pytest.raises(
            MetastoreError, match=rf"The locks on {table} were lost .* Compare the columns"
        ) as raised,
    ):
        run(client, statement.format(table=table))
    # A repetition would report success.
    assert not raised.value.retryable


@REAL_AND_FAKE
def test_a_change_that_another_client_reverts_is_made_again(
    client: MetastoreClient, table: TableRef
) -> None:
    stale = client.get_table(table).raw

    def revert() -> None:
        with MetastoreClient(client.options) as other:
            context = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
            call = idl_tables.alter_table_with_environment_context
            other.call(call, table.database, table.name, stale, context)

    with acting_after(ALTER_TABLE, revert):
        run(client, f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")
    assert client.get_table(table).parameters["a"] == "b"


@REAL_AND_FAKE
@pytest.mark.parametrize("is_executed", [False, True])
def test_a_lost_answer_reverts_no_change_that_was_made_since(
    client: MetastoreClient, table: TableRef, monkeypatch: pytest.MonkeyPatch, is_executed: bool
) -> None:
    use, waiting = Session._use, [True]

    def lose(self: Session, connection: Any, call: Call, *arguments: Any, **options: Any) -> Any:
        if call.name != ALTER_TABLE or not waiting:
            return use(self, connection, call, *arguments, **options)
        waiting.clear()
        if is_executed:
            with suppress(ServerException):  # Derby cannot compare, and replaces nothing.
                use(self, connection, call, *arguments, **options)
        add_column(client, table)
        raise AnswerLost(f"The answer to {call.name} got lost.")

    monkeypatch.setattr(Session, "_use", lose)
    run(client, f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")
    assert client.get_table(table).parameters["a"] == "b"
    assert column_names(client, table) == ["id", "w"]
