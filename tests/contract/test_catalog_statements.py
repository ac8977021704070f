"""The contract of statements that change the catalog, checked on fake and real metastores."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hiveacid.errors import (
    HiveAcidError,
    InvalidJob,
    LockTimeout,
    TableExists,
    TableNotFound,
    TransactionAborted,
    UnsupportedTable,
    UserError,
    WrongTableKind,
)
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.txn.locks import LockRequest
from hiveacid.metastore.txn.owner import Owner, Snapshot, open_transaction
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.parser.script import to_jobs, to_script
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.tables.definitions.answers import create_statement
from hiveacid.tables.definitions.run import run_ddl, run_script_of_ddl
from tests.fakes.metastore import REAL_AND_FAKE
from tests.versions import REAL_4

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
TOKEN = "orders/2026-01-01/drop/-1"


def run(client: MetastoreClient, sql: str, **options: object) -> tuple[str, ...]:
    reports = [run_ddl(client, replace(job, **options)) for job in to_jobs(sql)]
    return tuple(warning for report in reports for warning in report.warnings)


def again(client: MetastoreClient, sql: str) -> tuple[str, ...]:
    """Run a script as each attempt of a task does."""
    script = replace(to_script(sql), metastore=client.options, run_token=TOKEN)
    return run_script_of_ddl(client, script).warnings


def folder_of(client: MetastoreClient, ref: TableRef) -> Path:
    return Path(urlsplit(client.get_table(ref).folder).path)


def writing(client: MetastoreClient, ref: TableRef, partition: str | None = None) -> Transaction:
    partitions = None if partition is None else [partition]
    target = Target(ref, Operation.INSERT, partition is not None, partitions)
    return Transaction(client, targets=[target])


def write(client: MetastoreClient, ref: TableRef, partition: str | None = None) -> None:
    with writing(client, ref, partition) as txn:
        txn.commit()


def version(client: MetastoreClient, ref: TableRef) -> int:
    return Snapshot.take(client, [ref]).write_ids[ref.full_name].high_watermark


@pytest.mark.sampled(1)
@REAL_AND_FAKE
def test_a_table_with_another_name_keeps_all_that_it_is(client, database) -> None:
    old, new = TableRef(database, "orders"), TableRef(database, "sold")
    run(client, f"CREATE TABLE {old} (id int) PARTITIONED BY (day string)")
    table = client.get_table(old)
    client.add_partitions(old, [HivePartition.new(table, ["1"])])
    write(client, old, "day=1")
    write(client, old, "day=1")
    (folder_of(client, old) / "day=1" / "a").write_text("rows")
    before = folder_of(client, old)
    run(client, f"ALTER TABLE {old} RENAME TO {new}")
    assert not before.exists()
    assert (folder_of(client, new) / "day=1" / "a").read_text() == "rows"
    (partition,) = client.get_partitions(client.get_table(new))
    assert partition.folder == f"{client.get_table(new).folder}/day=1"
    assert client.get_table(new).raw.createTime == table.raw.createTime
    assert version(client, new) == 2
    write(client, new, "day=1")
    assert version(client, new) == 3
    assert client.show_locks(new) == []
    # Nothing of it is left for who takes the name now.
    run(client, f"CREATE TABLE {old} (id int)")
    assert version(client, old) == 0
    run(client, f"DROP TABLE {old}; DROP TABLE {new}")


@pytest.mark.parametrize("hms", [*REAL_4, "fake 4.0.1"], indirect=True)
def test_requests_of_a_table_follow_its_new_name(client, database) -> None:
    old, new = TableRef(database, "orders"), TableRef(database, "sold")
    run(client, f"CREATE TABLE {old} (id int)")
    CompactionQueue(client).request(old, None, CompactionType.MAJOR)
    run(client, f"ALTER TABLE {old} RENAME TO {new}")
    assert CompactionQueue(client).show(old) == []
    assert [entry.type for entry in CompactionQueue(client).show(new)] == ["major"]
    run(client, f"DROP TABLE {new}")


@FAKE
def test_a_name_is_not_taken_from_others(client, database) -> None:
    run(client, f"CREATE TABLE {database}.a (id int); CREATE TABLE {database}.b (id int)")
    with pytest.raises(TableExists, match="b is there already"):
        run(client, f"ALTER TABLE {database}.a RENAME TO {database}.b")
    with pytest.raises(HiveAcidError, match="cannot be moved to another database"):
        run(client, f"ALTER TABLE {database}.a RENAME TO default.a")
    with pytest.raises(TableNotFound):
        run(client, f"ALTER TABLE {database}.c RENAME TO {database}.d")


@REAL_AND_FAKE
def test_a_drop_waits_for_writers(client, database) -> None:
    ref = TableRef(database, "t")
    run(client, f"CREATE TABLE {ref} (id int)")
    write(client, ref)
    folder = folder_of(client, ref)
    with writing(client, ref) as txn:
        for sql in (f"DROP TABLE {ref}", f"DROP DATABASE {database} CASCADE"):
            with pytest.raises(LockTimeout, match=f"transaction {txn.txn_id}"):
                run(client, sql, lock_wait_seconds=0)
        assert client.get_table(ref).ref == ref
        txn.commit()
    assert run(client, f"DROP TABLE {ref}") == ()
    assert not folder.exists()
    assert client.show_locks(ref) == []
    with pytest.raises(TableNotFound, match="IF EXISTS"):
        run(client, f"DROP TABLE {ref}")
    assert "There was no table" in run(client, f"DROP TABLE IF EXISTS {ref}")[0]
    # A new table of this name begins at the beginning.
    run(client, f"CREATE TABLE {ref} (id int)")
    assert version(client, ref) == 0


@REAL_AND_FAKE
def test_nothing_is_dropped_when_the_lock_is_lost(client, database, monkeypatch) -> None:
    ref = TableRef(database, "t")
    run(client, f"CREATE TABLE {ref} (id int)")
    wait = LockRequest.wait

    def sleep(lock, *arguments):
        wait(lock, *arguments)
        (held,) = client.show_locks(ref)
        client.abort_txn(held.txn_id)

    monkeypatch.setattr(LockRequest, "wait", sleep)
    for sql in (f"DROP TABLE {ref}", f"DROP DATABASE {database} CASCADE"):
        with pytest.raises(TransactionAborted):
            run(client, sql)
    assert client.get_table(ref).ref == ref


@FAKE
def test_another_try_of_a_rename_finds_it_done_or_not_at_all(client, database) -> None:
    run(client, f"CREATE TABLE {database}.t (a int); CREATE TABLE {database}.new (b int)")
    again(client, f"ALTER TABLE {database}.t RENAME TO {database}.old")
    with pytest.raises(
        TableNotFound, match="If an earlier attempt has renamed it, nothing is left"
    ):
        again(client, f"ALTER TABLE {database}.t RENAME TO {database}.old")
    again(client, f"ALTER TABLE {database}.new RENAME TO {database}.t")
    with pytest.raises(TableNotFound):
        again(client, f"ALTER TABLE {database}.new RENAME TO {database}.t")
    with pytest.raises(TableExists, match="Choose another name"):
        again(client, f"ALTER TABLE {database}.t RENAME TO {database}.old")
    columns = {name: client.get_table(TableRef(database, name)).columns for name in ("t", "old")}
    assert [columns[name][0].name for name in ("t", "old")] == ["b", "a"]


@FAKE
def test_a_lost_answer_of_a_drop_and_of_a_rename_is_no_failure(
    client, database, monkeypatch
) -> None:
    run(client, f"CREATE TABLE {database}.t (a int)")
    really = client.call

    def call(declared, *arguments, **about):
        done = really(declared, *arguments, **about)
        if declared.name in ("drop_table", "alter_table_with_environment_context"):
            really(declared, *arguments, **about)  # As a call is repeated.
        return done

    monkeypatch.setattr(client, "call", call)
    run(client, f"ALTER TABLE {database}.t RENAME TO {database}.u")
    run(client, f"DROP TABLE {database}.u")
    assert client.get_tables(database) == []


@REAL_AND_FAKE
def test_databases_come_and_go(client, database) -> None:
    name = f"{database}_more"
    run(client, f"CREATE DATABASE {name.upper()} COMMENT 'all' WITH DBPROPERTIES ('a' = 'B')")
    described = client.get_database(name)
    assert (described.comment, described.parameters) == ("all", {"a": "B"})
    with pytest.raises(TableExists):
        run(client, f"CREATE DATABASE {name}")
    assert "left as it was" in run(client, f"CREATE SCHEMA IF NOT EXISTS {name}")[0]
    run(client, f"CREATE TABLE {name}.t (id int); CREATE TABLE {name}.u (id int)")
    with pytest.raises(UserError, match="has tables: t, u"):
        run(client, f"DROP DATABASE {name}")
    run(client, f"DROP DATABASE {name} CASCADE")
    assert name not in client.get_databases()
    with pytest.raises(TableNotFound, match=f"no database {name}"):
        run(client, f"DROP DATABASE {name}")
    assert "no database" in run(client, f"DROP DATABASE IF EXISTS {name}")[0]
    with pytest.raises(InvalidJob, match="default cannot be dropped"):
        run_ddl(client, replace(to_jobs(f"DROP DATABASE {name}")[0], target="DEFAULT"))


@FAKE
def test_another_try_finds_its_database_and_columns(client, database) -> None:
    sql = (
        f"CREATE DATABASE IF NOT EXISTS {database}_2;"
        f"CREATE TABLE IF NOT EXISTS {database}_2.t (id int)"
    )
    assert again(client, sql) == ()
    assert len(again(client, sql)) == 2
    columns = f"ALTER TABLE {database}_2.t ADD COLUMNS (a int)"
    assert again(client, columns) == ()
    assert "had the columns a already" in again(client, columns)[0]
    with pytest.raises(InvalidJob, match="has the column a already"):
        run(client, columns)
    run(client, f"DROP DATABASE {database}_2 CASCADE")


@FAKE
@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE IF EXISTS {}.t",
        "ALTER TABLE {}.t DROP PARTITION (day = '2026-01-01')",
    ],
)
def test_another_try_with_nothing_left_to_do_ends_the_locks_of_a_killed_one(
    client, database, sql: str
) -> None:
    run(client, f"CREATE TABLE {database}.t (id int) PARTITIONED BY (day string)")
    run(client, f"ALTER TABLE {database}.t ADD PARTITION (day = '2026-01-01')")
    (job,) = to_jobs(sql.format(database))
    job = replace(job, run_token=TOKEN)
    run_ddl(client, job)
    left = open_transaction(client, Owner.of(job.token, "ann"))
    run_ddl(client, job)
    assert left in Snapshot.take(client, []).txns.aborted


@pytest.mark.sampled(1)
@REAL_AND_FAKE
def test_columns_and_properties_change_and_others_stay(client, database) -> None:
    ref = TableRef(database, "t")
    run(client, f"CREATE TABLE {ref} (id int) PARTITIONED BY (day string)")
    client.add_partitions(ref, [HivePartition.new(client.get_table(ref), ["1"])])
    run(client, f"ALTER TABLE {ref} ADD COLUMNS (Tags array<struct<a:int>> COMMENT 'c', n int)")
    table = client.get_table(ref)
    added = [HiveColumn("tags", "array<struct<a:int>>", "c"), HiveColumn("n", "int")]
    assert [*table.columns[1:]] == added
    assert [*client.get_partitions(client.get_table(ref))[0].columns[1:]] == added
    with pytest.raises(InvalidJob, match="has the column day already"):
        run(client, f"ALTER TABLE {ref} ADD COLUMNS (day int)")
    run(client, f"ALTER TABLE {ref} SET TBLPROPERTIES ('orc.compress' = 'ZSTD', 'Note' = 'A')")
    run(client, f"ALTER TABLE {ref} UNSET TBLPROPERTIES IF EXISTS ('orc.compress', 'none')")
    parameters = client.get_table(ref).parameters
    assert (parameters["Note"], "orc.compress" in parameters) == ("A", False)
    assert client.get_table(ref).kind is TableKind.FULL_ACID
    with pytest.raises(InvalidJob, match="no property 'none'"):
        run(client, f"ALTER TABLE {ref} UNSET TBLPROPERTIES ('none')")


@FAKE
def test_a_property_is_set_beside_who_writes_and_not_beside_who_alters(client, database) -> None:
    ref = TableRef(database, "t")
    run(client, f"CREATE TABLE {ref} (id int)")
    with writing(client, ref):
        run(client, f"ALTER TABLE {ref} SET TBLPROPERTIES ('a' = 'b')", lock_wait_seconds=0)
        for change in (
            "SET TBLPROPERTIES ('hiveacid.column_mapping' = 'name')",
            "SET TBLPROPERTIES ('field.delim' = ',', 'a' = 'c')",
            "UNSET TBLPROPERTIES ('a')",
            "ADD COLUMNS (a int)",
            f"RENAME TO {ref}2",
        ):
            with pytest.raises(LockTimeout):
                run(client, f"ALTER TABLE {ref} {change}", lock_wait_seconds=0)


@FAKE
def test_plain_tables_and_views_are_left_alone(client, database) -> None:
    ref = TableRef(database, "plain")
    client.create_table(HiveTable.new(ref, [HiveColumn("a", "int")], kind=TableKind.NOT_ACID))
    for change in ("RENAME TO x", "ADD COLUMNS (b int)", "SET TBLPROPERTIES ('a' = 'b')"):
        with pytest.raises(WrongTableKind):
            run(client, f"ALTER TABLE {ref} {change}".replace("TO x", f"TO {database}.x"))
    view = HiveTable.new(TableRef(database, "v"), [HiveColumn("a", "int")])
    view.raw.tableType = "VIRTUAL_VIEW"
    client.create_table(view)
    with pytest.raises(UnsupportedTable, match="is a view"):
        run(client, f"DROP TABLE {view.ref}")
    with pytest.raises(UnsupportedTable, match="is a view"):
        run(client, f"CREATE TABLE {database}.like_it LIKE {view.ref}")


@FAKE
def test_a_table_like_another_one_is_distinguished_by_its_rows_only(client, database) -> None:
    run(
        client,
        rf"""
        CREATE TABLE {database}.a (ID int COMMENT 'it\'s', tags array<struct<X:int>>)
        COMMENT 'a "b" \\ c' PARTITIONED BY (day date COMMENT 'd') CLUSTERED BY (ID) INTO 4 BUCKETS
        TBLPROPERTIES ('orc.compress' = 'ZSTD')
        """,
    )
    run(
        client,
        f"CREATE TABLE {database}.b (id int, n string) ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'"
        " STORED AS TEXTFILE",
    )
    run(
        client,
        f"CREATE TABLE {database}.c (n string) ROW FORMAT SERDE"
        " 'org.apache.hadoop.hive.serde2.OpenCSVSerde' WITH SERDEPROPERTIES ('separatorChar' = ';')",
    )
    for name in "abc":
        table = client.get_table(TableRef(database, name))
        run(client, f"CREATE TABLE {database}.{name}2 LIKE {table.ref} TBLPROPERTIES ('x' = 'y')")
        copy = client.get_table(TableRef(database, f"{name}2"))
        run(client, create_statement(table).replace(f"`{name}`", f"`{name}3`", 1))
        again = client.get_table(TableRef(database, f"{name}3"))
        for other in (copy, again):
            assert other.location != table.location
            for what in (
                *("kind", "columns", "partition_keys", "bucket_columns", "num_buckets"),
                *("serde", "input_format", "serde_parameters"),
            ):
                assert getattr(other, what) == getattr(table, what)
            kept = {**other.parameters, "transient_lastDdlTime": ""}
            kept.pop("x", None)
            assert kept == {**table.parameters, "transient_lastDdlTime": ""}
