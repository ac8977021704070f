"""The contract of DDL, checked on both versions of the real metastore."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hiveacid.errors import TableExists, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.parser.script import to_jobs
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.tables.definitions.run import run_ddl
from tests.versions import REAL

ON_REAL = pytest.mark.parametrize("hms", REAL, indirect=True)
COLUMNS = [HiveColumn("id", "bigint"), HiveColumn("name", "string")]
# The first one after those that the metastore keeps for the files that are there.
FIRST_WRITE_ID = 10_000_001


def run(client: MetastoreClient, sql: str) -> None:
    for job in to_jobs(sql):
        run_ddl(client, job)


def plain_table(
    client: MetastoreClient, database: str, form: StorageFormat = StorageFormat.ORC
) -> HiveTable:
    """A managed table that is not transactional, with one file."""
    ref = TableRef(database, "plain")
    table = HiveTable.new(ref, COLUMNS, kind=TableKind.NOT_ACID, format=form, owner="olga")
    # The newer call of version 4 makes an external table of it.
    client.call(idl_tables.create_table, table.raw)
    table = client.get_table(ref)
    add_file(table, "000000_0")
    return table


def add_file(table: HiveTable, name: str) -> None:
    file = Path(urlsplit(table.folder).path, name)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"rows")


@ON_REAL
def test_tables_are_created_as_declared(client: MetastoreClient, database: str) -> None:
    run(
        client,
        f"""
        CREATE TABLE {database}.Orders (
            ID bigint COMMENT 'the key', tags array<struct<name:string,n:int>>, price decimal(10,2)
        ) COMMENT 'All of them'
        PARTITIONED BY (day date, shop string)
        CLUSTERED BY (ID) INTO 4 BUCKETS
        STORED AS ORC
        TBLPROPERTIES ('orc.compress'='SNAPPY');
        CREATE TABLE {database}.events (line string, n int)
        ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'
        STORED AS TEXTFILE
        """,
    )
    orders = client.get_table(TableRef(database, "orders"))
    assert orders.kind is TableKind.FULL_ACID
    assert [(column.name, column.type) for column in orders.columns] == [
        ("id", "bigint"),
        ("tags", "array<struct<name:string,n:int>>"),
        ("price", "decimal(10,2)"),
    ]
    assert orders.columns[0].comment == "the key"
    assert [(key.name, key.type) for key in orders.partition_keys] == [
        ("day", "date"),
        ("shop", "string"),
    ]
    assert (orders.bucket_columns, orders.num_buckets) == (("id",), 4)
    assert orders.parameters["orc.compress"] == "SNAPPY"
    assert orders.parameters["comment"] == "All of them"
    events = client.get_table(TableRef(database, "events"))
    assert events.kind is TableKind.INSERT_ONLY
    assert events.format is StorageFormat.TEXTFILE
    assert events.serde_parameters["field.delim"] == "|"


@ON_REAL
def test_new_tables_are_compressed_by_the_best_codec_that_every_reader_knows(
    client: MetastoreClient, database: str
) -> None:
    run(
        client,
        f"""
        CREATE TABLE {database}.a (id int);
        CREATE TABLE {database}.b (id int) TBLPROPERTIES ('orc.compress'='zlib');
        CREATE TABLE {database}.c (id int) STORED AS PARQUET;
        CREATE TABLE {database}.d (id int) TBLPROPERTIES ('transactional_properties'='insert_only')
        """,
    )
    stated = {
        name: client.get_table(TableRef(database, name)).parameters.get("orc.compress")
        for name in "abcd"
    }
    # Other readers of the table are not known.
    assert stated == {"a": None, "b": "zlib", "c": None, "d": None}


@ON_REAL
def test_a_table_that_is_there_is_kept_or_refused(client: MetastoreClient, database: str) -> None:
    run(client, f"CREATE TABLE {database}.t (id int)")
    with pytest.raises(TableExists, match=f"{database}.t is there already. Write IF NOT EXISTS"):
        run(client, f"CREATE TABLE {database}.t (name string)")
    (job,) = to_jobs(f"CREATE TABLE IF NOT EXISTS {database}.t (name string)")
    assert "left as it was" in run_ddl(client, job).warnings[0]
    assert [column.name for column in client.get_table(TableRef(database, "t")).columns] == ["id"]


@ON_REAL
def test_a_table_that_the_same_run_has_created_is_no_error(
    client: MetastoreClient, database: str
) -> None:
    (job,) = to_jobs(f"CREATE TABLE {database}.t (id int)")
    mine = replace(job, run_token="d/r/t/-1#1")
    assert run_ddl(client, mine).warnings == ()
    assert "earlier attempt" in run_ddl(client, mine).warnings[0]
    with pytest.raises(TableExists):
        run_ddl(client, replace(job, run_token="d/other/t/-1#1"))


@ON_REAL
@pytest.mark.parametrize(
    "sql",
    ["CONVERT TABLE {0} TO ACID", "ALTER TABLE {0} SET TBLPROPERTIES ('transactional'='true')"],
)
def test_a_plain_table_becomes_full_acid(client: MetastoreClient, database: str, sql: str) -> None:
    table = plain_table(client, database)
    run(client, sql.format(table.ref))
    converted = client.get_table(table.ref)
    assert converted.kind is TableKind.FULL_ACID
    assert converted.location == table.location
    with Transaction(client, targets=[Target(table.ref, Operation.INSERT)]) as txn:
        assert txn.write_ids[table.ref.full_name] == FIRST_WRITE_ID
        txn.commit()
    assert client.show_locks(table.ref) == []
    (job,) = to_jobs(sql.format(table.ref))
    assert "full ACID already" in run_ddl(client, job).warnings[0]


@ON_REAL
@pytest.mark.parametrize(
    ("form", "file", "message"),
    [
        (StorageFormat.PARQUET, "000000_0", "is not stored as ORC"),
        (
            StorageFormat.ORC,
            "part-00000-7f3b-c000.snappy.orc",
            r"Spark writes them, such as file:\S+/plain/part-00000-7f3b-c000.snappy.orc\. ",
        ),
    ],
)
def test_unsupported_conversions_change_nothing(
    client: MetastoreClient, database: str, form: StorageFormat, file: str, message: str
) -> None:
    table = plain_table(client, database, form)
    add_file(table, file)
    with pytest.raises(UnsupportedTable, match=message):
        run(client, f"CONVERT TABLE {table.ref}")
    assert client.get_table(table.ref).kind is TableKind.NOT_ACID
    assert client.show_locks(table.ref) == []


@ON_REAL
def test_an_insert_only_table_is_not_converted(client: MetastoreClient, database: str) -> None:
    run(client, f"CREATE TABLE {database}.t (id int) STORED AS PARQUET")
    with pytest.raises(UnsupportedTable, match="is insert-only; only plain tables"):
        run(client, f"CONVERT TABLE {database}.t")
    assert client.get_table(TableRef(database, "t")).kind is TableKind.INSERT_ONLY


@ON_REAL
def test_a_partition_outside_of_the_folder_of_its_table_needs_names_with_buckets(
    client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    table = HiveTable.new(
        TableRef(database, "plain"),
        COLUMNS,
        partition_keys=[HiveColumn("day", "string")],
        kind=TableKind.NOT_ACID,
        owner="olga",
    )
    client.call(idl_tables.create_table, table.raw)
    table = client.get_table(table.ref)
    partition = HivePartition.new(table, ["mon"])
    # A path that only seems to be in the folder of the table.
    elsewhere = f"{table.folder}/../elsewhere"
    partition.raw.sd.location = elsewhere
    client.add_partitions(table.ref, [partition])
    folder = Path(urlsplit(table.folder).path).parent / "elsewhere"
    folder.mkdir(exist_ok=True)
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / "000000_0").write_bytes(b"rows")
    strange = folder / "part-00000-7f3b-c000.snappy.orc"
    strange.write_bytes(b"rows")
    with pytest.raises(UnsupportedTable, match=rf"such as \S+/elsewhere/{strange.name}"):
        run(client, f"CONVERT TABLE {table.ref}")
    assert client.get_table(table.ref).kind is TableKind.NOT_ACID
    strange.rename(folder / "000001_0")
    run(client, f"CONVERT TABLE {table.ref}")
    assert client.get_table(table.ref).kind is TableKind.FULL_ACID


@ON_REAL
@pytest.mark.parametrize(
    ("table", "copy"),
    [
        (
            "CREATE TABLE {0}.t (id int) PARTITIONED BY (day date, `a b` int)"
            " CLUSTERED BY (id) INTO 4 BUCKETS STORED AS PARQUET",
            "CREATE TABLE {0}.t_acid PARTITIONED BY (day, `a b`) CLUSTERED BY (id) INTO 4 BUCKETS"
            " STORED AS ORC AS SELECT * FROM {0}.t;",
        ),
        (
            "CREATE TABLE {0}.t (id int) STORED AS TEXTFILE",
            "CREATE TABLE {0}.t_acid STORED AS ORC AS SELECT * FROM {0}.t;",
        ),
    ],
)
def test_the_remedy_copies_a_table_that_is_not_stored_as_orc(
    client: MetastoreClient, database: str, table: str, copy: str
) -> None:
    run(client, table.format(database))
    with pytest.raises(UnsupportedTable) as refused:
        run(client, f"CONVERT TABLE {database}.t")
    assert refused.value.remedy == (
        f"Stop its writers, and copy it: {copy.format(database)} Compare the rows, then exchange both:"
        f" DROP TABLE {database}.t; ALTER TABLE {database}.t_acid RENAME TO {database}.t;"
    )
    to_jobs(copy.format(database))
