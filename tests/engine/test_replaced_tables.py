"""Tables that are dropped, moved or changed during a job, by a client without locks."""

from contextlib import nullcontext
from functools import partial

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import TableReplaced, TransactionAborted
from hiveacid.jobs.definition_jobs import AddColumnsJob, ColumnSpec
from hiveacid.metastore.alteration import DDL_TIME
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.progress import Phase
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.run import run_ddl
from tests.engine.acid_tables import create, files, folder, left_behind
from tests.metastore_calls import acting_before, counted_calls
from tests.observers import At
from tests.rows import rows_of

COLUMNS, KEYS = {"id": "int", "v": "string"}, {"p": "string"}
SCHEMA = "id int, v string, p string"
CONTEXT = idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})


def create_anew(client, ref, elsewhere):
    # The files remain, like those with another owner.
    client.drop_table(ref, delete_data=False)
    create(client, ref.full_name, COLUMNS, KEYS, location=elsewhere)


def drop(client, ref, _):
    client.drop_table(ref, delete_data=False)


def move(client, ref, elsewhere):
    raw = client.get_table(ref).raw
    raw.sd.location = elsewhere
    _alter(client, raw)


def change_column(client, ref, _):
    raw = client.get_table(ref).raw
    raw.sd.cols[1].type = "varchar(3)"
    _alter(client, raw)


def change_mapping(client, ref, _):
    set_property(client, ref, "hiveacid.column_mapping", "name")


def change_parquet_mapping(client, ref, _):
    set_property(client, ref, "parquet.column.index.access", "true")


def set_property(client, ref, name, value):
    raw = client.get_table(ref).raw
    raw.parameters[name] = value
    _alter(client, raw)


def move_partition(client, ref, elsewhere):
    (partition,) = client.get_partitions(client.get_table(ref), ["p=x"])
    partition.raw.sd.location = elsewhere
    call = idl_tables.alter_partitions_with_environment_context
    client.call(call, ref.database, ref.name, [partition.raw], CONTEXT)


def _alter(client, raw):
    call = idl_tables.alter_table_with_environment_context
    client.call(call, raw.dbName, raw.tableName, raw, CONTEXT)


AFTER_PREPARING, AFTER_READING, BEFORE_PUBLISHING = Phase.OPEN, Phase.WRITE, Phase.REGISTER
APPEND, UPDATE, COMPACT = "append", "update", "compact"
CASES = [
    ("4.0.1", APPEND, create_anew, BEFORE_PUBLISHING),
    ("3.1.3", APPEND, create_anew, BEFORE_PUBLISHING),
    ("3.1.3", COMPACT, create_anew, BEFORE_PUBLISHING),
    ("fake 3.1.3", APPEND, create_anew, AFTER_PREPARING),
    ("fake 4.0.1", APPEND, drop, BEFORE_PUBLISHING),
    ("fake 4.0.1", COMPACT, drop, BEFORE_PUBLISHING),
    ("fake 3.1.3", APPEND, move, BEFORE_PUBLISHING),
    ("fake 4.0.1", COMPACT, move, AFTER_PREPARING),
    ("fake 4.0.1", APPEND, change_column, AFTER_PREPARING),
    ("fake 4.0.1", UPDATE, change_mapping, AFTER_PREPARING),
    ("fake 3.1.3", UPDATE, change_mapping, BEFORE_PUBLISHING),
    ("fake 4.0.1", COMPACT, change_mapping, AFTER_READING),
    ("fake 4.0.1", COMPACT, change_mapping, BEFORE_PUBLISHING),
    ("fake 4.0.1", APPEND, change_parquet_mapping, BEFORE_PUBLISHING),
    ("fake 4.0.1", APPEND, move_partition, BEFORE_PUBLISHING),
    ("fake 3.1.3", UPDATE, move_partition, AFTER_READING),
    ("fake 4.0.1", COMPACT, move_partition, BEFORE_PUBLISHING),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("hms", "action", "change", "phase"), CASES, indirect=["hms"])
def test_nothing_is_published_in_what_became_another_table(
    hms, client, database, spark, action, change, phase
):
    table = create(client, f"{database}.t", COLUMNS, KEYS)
    with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as writer:
        for number in range(2):
            writer.append(spark.createDataFrame([(number, "a", "x")], SCHEMA))
    before = files(table)
    elsewhere = folder(table).with_name("elsewhere")

    def act():
        with MetastoreClient(client.options) as other:
            change(other, table.ref, f"file:{elsewhere}")

    observers = [At(phase, act)]
    with AcidTable(
        table.ref.full_name, hms.uri, spark=spark, run_in="spark", observers=observers
    ) as overtaken:
        if action == COMPACT:
            with pytest.raises(TableReplaced, match="1 of 1 failed"):
                overtaken.compact("major")
        else:
            new = spark.createDataFrame([(7, "new", "x")], SCHEMA)
            with pytest.raises(TableReplaced, match="meanwhile"):
                overtaken.append(new) if action == APPEND else overtaken.update(
                    {"v": "'new'"}, all_rows=True
                )
    assert files(table) == before
    assert not list(elsewhere.rglob("bucket_*"))
    assert left_behind(client) == []
    if change is create_anew:
        assert rows_of(hms.uri, table.ref.full_name) == []


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_a_new_partition_has_the_columns_that_the_table_got_after_the_preparation(
    hms, client, database, spark
):
    table = create(client, f"{database}.t", COLUMNS, KEYS)

    def grow():
        added = AddColumnsJob(
            target=table.ref.full_name, columns=[ColumnSpec("w", "int")], metastore=client.options
        )
        with MetastoreClient(client.options) as other:
            run_ddl(other, added)

    observers = [At(AFTER_PREPARING, grow)]
    with AcidTable(
        table.ref.full_name, hms.uri, spark=spark, run_in="spark", observers=observers
    ) as overtaken:
        overtaken.append(spark.createDataFrame([(7, "new", "x")], SCHEMA))
    grown = client.get_table(table.ref)
    assert [partition.columns for partition in client.get_partitions(grown)] == [grown.columns]
    assert rows_of(hms.uri, table.ref.full_name) == [{"id": 7, "v": "new", "w": None, "p": "x"}]


def add_column(client, ref, *, ends_writers: bool = False) -> None:
    """Add a column to a table and its partitions without a lock, or after those of writers ended."""
    with MetastoreClient(client.options) as other:
        for txn in other.get_open_txns_info():
            if ends_writers and txn.state is TxnState.OPEN:
                other.abort_txn(txn.txn_id)
        raw = other.get_table(ref).raw
        raw.sd.cols = [*raw.sd.cols, idl_tables.FieldSchema("w", "int", None)]
        raw.parameters[DDL_TIME] = str(int(raw.parameters[DDL_TIME]) + 1)
        context = {"DO_NOT_UPDATE_STATS": "true", "CASCADE": "true"}
        call = idl_tables.alter_table_with_environment_context
        place = (ref.database, ref.name)
        other.call(call, *place, raw, idl_tables.EnvironmentContext(context))


EVERY = pytest.mark.parametrize(
    "hms", ["4.0.1", "3.1.3", "fake 4.0.1", "fake 3.1.3"], indirect=True
)


@EVERY
@pytest.mark.parametrize("ends_writers", [False, True])
def test_a_new_partition_has_a_column_that_was_added_directly_before_its_call(
    hms, client, database, spark, ends_writers
):
    """A lost transaction leaves the partition."""
    table = create(client, f"{database}.t", COLUMNS, KEYS)
    act = partial(add_column, client, table.ref, ends_writers=ends_writers)
    with (
        acting_before("add_partitions_req", act),
        AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as writer,
        pytest.raises(TransactionAborted) if ends_writers else nullcontext(),
    ):
        writer.append(spark.createDataFrame([(7, "new", "x")], SCHEMA))
    grown = client.get_table(table.ref)
    assert [column.name for column in grown.columns] == ["id", "v", "w"]
    assert [partition.columns for partition in client.get_partitions(grown)] == [grown.columns]
    expected = [] if ends_writers else [{"id": 7, "v": "new", "w": None, "p": "x"}]
    assert rows_of(hms.uri, table.ref.full_name) == expected


# The real version 3 ends the connection when it is asked for a write id of an aborted transaction.
@pytest.mark.parametrize("hms", ["4.0.1", "fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_a_write_whose_transaction_was_lost_changes_no_row_count(hms, client, database, spark):
    """The metastore accepts a definition with the write id of an aborted transaction."""
    counted = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "numRows": "7"}
    table = create(client, f"{database}.t", COLUMNS, parameters=counted)
    before = client.get_table(table.ref).raw
    lose = partial(add_column, client, table.ref, ends_writers=True)
    with (
        AcidTable(
            table.ref.full_name,
            hms.uri,
            spark=spark,
            run_in="spark",
            observers=[At(BEFORE_PUBLISHING, lose)],
        ) as writer,
        pytest.raises(TransactionAborted),
    ):
        writer.append(spark.createDataFrame([(7, "new")], "id int, v string"))
    now = client.get_table(table.ref).raw
    assert [column.name for column in now.sd.cols] == ["id", "v", "w"]
    for name in counted:
        assert now.parameters[name] == before.parameters[name]


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_new_partitions_cost_no_further_call(hms, client, database, spark):
    table = create(client, f"{database}.t", COLUMNS, KEYS)
    rows = spark.createDataFrame([(1, "a", "x")], SCHEMA)
    calls = []
    with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as writer:
        for _ in range(2):
            with counted_calls() as counts:
                writer.append(rows)
            calls.append(counts)
    new, existing = calls
    names = ("get_table_req", "alter_partitions_req", "alter_partitions_with_environment_context")
    assert [existing[name] for name in names] == [4, 0, 0]
    assert [new[name] for name in names] == [4, 0, 0]
    assert new["heartbeat_txn_range"] == existing["heartbeat_txn_range"] + 1


@pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
def test_a_new_table_restarts_its_write_ids(hms, client, database):
    # The evidence for a table that was dropped and created within one second.
    ref = TableRef(database, "t")
    create(client, ref.full_name, COLUMNS)
    first, txn = (client.open_txn("user", "host", None) for _ in range(2))
    assert client.allocate_write_id(first, ref) == 1
    assert [client.allocate_write_id(txn, ref) for _ in range(2)] == [2, 2]
    client.drop_table(ref)
    create(client, ref.full_name, COLUMNS)
    assert client.allocate_write_id(txn, ref) == 1
    for txn_id in (first, txn):
        client.abort_txn(txn_id)
