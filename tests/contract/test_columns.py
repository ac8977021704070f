"""Changes of columns, on the fake metastores and real ones."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hiveacid.errors import LockTimeout, TableReplaced, UnknownColumn, UnsupportedTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import all_constraints
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.parser.script import to_jobs
from hiveacid.rules.constraints import Check
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import ColumnMapping
from hiveacid.tables.definitions.run import run_ddl
from tests.fakes.metastore import REAL_AND_FAKE
from tests.late_constraints import declare_late
from tests.metastore_calls import acting_before
from tests.versions import REAL_4

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
# The state after an INSERT of Hive.
ACCURATE = {
    "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true","COLUMN_STATS":{"n":"true"}}',
    "numRows": "10",
}


def run(client: MetastoreClient, sql: str, **options: object) -> tuple[str, ...]:
    reports = [run_ddl(client, replace(job, **options)) for job in to_jobs(sql)]
    return tuple(warning for report in reports for warning in report.warnings)


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    ref = TableRef(database, "events")
    run(
        client,
        f"""
        CREATE TABLE {ref} (id int, n int COMMENT 'a number', v varchar(5))
        PARTITIONED BY (day string) TBLPROPERTIES ('hiveacid.column_mapping' = 'position');
        ALTER TABLE {ref} ADD PARTITION (day = '1') PARTITION (day = '2')
        """,
    )
    return ref


def columns(client: MetastoreClient, ref: TableRef) -> list[tuple[str, str, str | None]]:
    """The columns of the table, which are those of its partitions."""
    table = client.get_table(ref)
    for partition in client.get_partitions(client.get_table(ref)):
        assert partition.columns == table.columns
    return [(column.name, column.type, column.comment) for column in table.columns]


@REAL_AND_FAKE
def test_columns_of_a_table_and_its_partitions_change_together(client, table) -> None:
    run(client, f"ALTER TABLE {table} CHANGE n M bigint COMMENT 'larger' AFTER id")
    assert columns(client, table)[1] == ("m", "bigint", "larger")
    run(client, f"ALTER TABLE {table} RENAME COLUMN m TO n")
    run(client, f"ALTER TABLE {table} ALTER COLUMN v TYPE string")
    run(client, f"ALTER TABLE {table} ALTER COLUMN v COMMENT 'a text'")
    run(client, f"ALTER TABLE {table} RENAME COLUMN id TO key")
    assert columns(client, table) == [
        ("key", "int", None),
        ("n", "bigint", "larger"),
        ("v", "string", "a text"),
    ]
    run(client, f"ALTER TABLE {table} REPLACE COLUMNS (key bigint, n bigint, v string, w date)")
    assert columns(client, table) == [
        ("key", "bigint", None),
        ("n", "bigint", None),
        ("v", "string", None),
        ("w", "date", None),
    ]
    assert client.show_locks(table) == []


@REAL_AND_FAKE
def test_a_rename_that_would_hide_values_is_refused(client, database) -> None:
    run(client, f"CREATE TABLE {database}.t (a int, b int)")
    rename = f"ALTER TABLE {database}.t RENAME COLUMN a TO c"
    if client.column_mapping is not ColumnMapping.POSITION:
        with pytest.raises(UnsupportedTable, match="by name, and the values that are there"):
            run(client, rename)
    else:
        run(client, rename)
        assert client.get_table(TableRef(database, "t")).columns[0].name == "c"
    run(client, f"CREATE TABLE {database}.p (a int, b int) STORED AS PARQUET")
    with pytest.raises(UnsupportedTable, match="by name, and the values that are there"):
        run(client, rename.replace(".t", ".p"))
    run(client, f"CREATE TABLE {database}.x (a int, b int) STORED AS TEXTFILE")
    run(client, rename.replace(".t", ".x"))


@pytest.mark.parametrize("hms", REAL_4, indirect=True)
def test_statistics_that_hive_takes_for_exact_do_not_keep_a_column_as_it_is(client, table) -> None:
    txn = client.open_txn("user", "host", None)
    write_id = client.allocate_write_id(txn, table)
    partitions = [partition.raw for partition in client.get_partitions(client.get_table(table))]
    for raw in partitions:
        raw.parameters |= ACCURATE
        raw.writeId = write_id
    request = idl_tables.AlterPartitionsRequest(
        catName="hive",
        dbName=table.database,
        tableName=table.name,
        partitions=partitions,
        environmentContext=idl_tables.EnvironmentContext({}),
        writeId=write_id,
        validWriteIdList=f"{table.full_name}:{write_id}:9223372036854775807::",
    )
    client.call(idl_tables.alter_partitions_req, request)
    client.commit_txn(txn)
    run(client, f"ALTER TABLE {table} CHANGE n m bigint")
    assert columns(client, table)[1][:2] == ("m", "bigint")
    for partition in client.get_partitions(client.get_table(table)):
        assert "COLUMN_STATS_ACCURATE" not in partition.parameters


@FAKE
def test_a_change_waits_for_readers_and_a_second_try_finds_it_done(client, table) -> None:
    rename = f"ALTER TABLE {table} RENAME COLUMN n TO m"
    with Transaction(client, reads=[table]), pytest.raises(LockTimeout):
        run(client, rename, lock_wait_seconds=0)
    token = "d/r/t/-1"
    assert run(client, rename, run_token=token) == ()
    assert "had the column m already" in run(client, rename, run_token=token)[0]
    with pytest.raises(UnknownColumn, match="has no column n"):
        run(client, rename)


@REAL_AND_FAKE
def test_constraints_stay_as_they_are(client, database) -> None:
    ref = TableRef(database, "t")
    run(
        client, f"CREATE TABLE {ref} (a int NOT NULL, b int DEFAULT 7, c int, d int, CHECK (c > 0))"
    )
    before = all_constraints(client, ref)
    assert len(before.all) == 3
    kept = ["a TYPE bigint", "a COMMENT 'x'", "b TYPE bigint", "c TYPE bigint"]
    others = ["ALTER COLUMN d TYPE bigint", "ADD COLUMNS (e int)"]
    old = not client.features.keeps_constraints
    for change in [*(f"ALTER COLUMN {each}" for each in kept), *(others if old else ())]:
        with pytest.raises(UnsupportedTable, match="constraint"):
            run(client, f"ALTER TABLE {ref} {change}")
    for change in () if old else others:
        run(client, f"ALTER TABLE {ref} {change}")
    assert all_constraints(client, ref) == before


@FAKE
@pytest.mark.parametrize(
    "statement", ["ALTER TABLE {0} ADD PARTITION (day = '3')", "MSCK REPAIR TABLE {0}"]
)
def test_a_new_partition_has_the_columns_that_were_added_before_its_lock(
    client, table, statement: str
) -> None:
    Path(urlsplit(client.get_table(table).folder).path, "day=3").mkdir()
    add = f"ALTER TABLE {table} ADD COLUMNS (w date)"
    with acting_before("lock", lambda: run(client, add)):
        run(client, statement.format(table))
    assert "day=3" in client.get_partition_names(table)
    assert columns(client, table)[-1] == ("w", "date", None)


@FAKE
@pytest.mark.parametrize("change", ["ADD COLUMNS (w date)", "ALTER COLUMN n TYPE bigint"])
def test_no_column_of_a_table_is_changed_that_was_created_again_before_the_lock(
    client, table, change: str
) -> None:
    def create_again() -> None:
        run(client, f"DROP TABLE {table}; CREATE TABLE {table} (n int) LOCATION '{place}_again'")

    place = client.get_table(table).folder
    with acting_before("lock", create_again), pytest.raises(TableReplaced):
        run(client, f"ALTER TABLE {table} {change}")
    assert columns(client, table) == [("n", "int", None)]


@pytest.mark.parametrize("hms", REAL_4, indirect=True)
def test_a_column_keeps_its_type_if_a_constraint_was_added_before_the_lock(client, table) -> None:
    def constrain() -> None:
        declare_late(client, table, Check(expression="n > 0"))

    with (
        acting_before("lock", constrain),
        pytest.raises(UnsupportedTable, match="constraint"),
    ):
        run(client, f"ALTER TABLE {table} ALTER COLUMN n TYPE bigint")
    assert columns(client, table)[1] == ("n", "int", "a number")
