"""Airflow's own SQL operators on transactional tables, in a worker without Spark and Java."""

import json
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.providers.common.sql.operators.sql import (
    SQLCheckOperator,
    SQLColumnCheckOperator,
    SQLExecuteQueryOperator,
    SQLIntervalCheckOperator,
    SQLTableCheckOperator,
    SQLThresholdCheckOperator,
    SQLValueCheckOperator,
)
from airflow.providers.common.sql.sensors.sql import SqlSensor
from airflow.sdk import BaseHook
from airflow.sdk.execution_time import macros

from airflow_hiveacid import AcidTable, HiveAcidSqlOperator
from airflow_hiveacid.hooks import HiveAcidSqlHook
from hiveacid.errors import AccessRefused, HiveAcidError, UserError, WrongTableKind
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import folder

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
CONNECTION = "hive_acid_default"
Context = dict[str, Any]


@pytest.fixture
def orders(
    client: MetastoreClient, database: str, context: Context, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A table with two days of two rows, after a third row was deleted, and a connection."""
    host, port = client.options.uris.removeprefix("thrift://").split(":")
    # Operators pass the extra to the hook as well.
    extra = {"transport": "binary", "patience_seconds": 0}
    connection = {"conn_type": "hive_acid_metastore", "host": host, "port": int(port)}
    monkeypatch.setenv(
        f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(connection | {"extra": extra})
    )
    for name in ("JAVA_HOME", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    sql = (
        "CREATE TABLE IF NOT EXISTS orders (id int, price decimal(5,2)) PARTITIONED BY (day string)"
    )
    HiveAcidSqlOperator(task_id="create", sql=sql, database=database).execute(context)
    prices = {1: "1.50", 2: "2.50", 3: "-9.00", 4: "4.00", 5: None}
    rows = [
        {
            "id": id_,
            "price": price and Decimal(price),
            "day": "2026-05-01" if id_ < 3 else "2026-05-02",
        }
        for id_, price in prices.items()
    ]
    schema = pa.schema({"id": pa.int32(), "price": pa.decimal128(5, 2), "day": pa.string()})
    with AcidTable(f"{database}.orders", client.options, run_in="worker") as table:
        table.append(pa.Table.from_pylist(rows, schema))
        table.delete("id = 3")
    return f"{database}.orders"


@pytest.fixture
def ends(client: MetastoreClient) -> Callable[[], None]:
    """Check that no transaction and no lock is left."""

    def check() -> None:
        assert client.show_locks() == []
        assert [txn for txn in client.get_open_txns_info() if txn.state.name == "OPEN"] == []

    return check


def checks(table: str, database: str, *, fails: bool) -> dict[str, Any]:
    """Each operator with a check that passes, or one that fails."""
    common = {"task_id": "check", "conn_id": CONNECTION}
    least = 2 if fails else 1.5
    return {
        "columns": SQLColumnCheckOperator(
            **common,
            table=table,
            partition_clause="day = '2026-05-01'",
            column_mapping={
                "id": {"null_check": {"equal_to": 0}, "distinct_check": {"equal_to": 2}},
                "price": {"min": {"geq_to": least}},
            },
        ),
        "table": SQLTableCheckOperator(
            **common,
            table=table,
            partition_clause="day >= '2026-05-01'",
            checks={
                "rows": {"check_statement": f"COUNT(*) = {3 if fails else 4}"},
                "positive": {"check_statement": "price > 0", "partition_clause": "id < 5"},
            },
        ),
        "check": SQLCheckOperator(
            **common, sql=f"SELECT count(*) FROM {table} WHERE id = {3 if fails else 4}"
        ),
        "value": SQLValueCheckOperator(
            **common,
            sql="SELECT count(*) FROM orders WHERE day = ?",
            parameters=["2026-05-02"],
            database=database,
            pass_value=3 if fails else 2,
        ),
        "interval": SQLIntervalCheckOperator(
            **common,
            table=table,
            days_back=-1,
            date_filter_column="day",
            metrics_thresholds={"COUNT(*)": 1 if fails else 1.5},
        ),
        "threshold": SQLThresholdCheckOperator(
            **common,
            sql=f"SELECT sum(price) FROM {table}",
            min_threshold=f"SELECT 2 * min(price) FROM {table}",
            max_threshold=7 if fails else 8,
        ),
    }


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kind", ["columns", "table", "check", "value", "interval", "threshold"])
def test_checks_see_the_visible_rows(
    kind: str, fails: bool, orders: str, database: str, context: Context, ends: Callable[[], None]
) -> None:
    check = checks(orders, database, fails=fails)[kind]
    check.render_template_fields(context | {"ds": "2026-05-02", "macros": macros})
    if fails:
        with pytest.raises(AirflowException):
            check.execute(context)
    else:
        check.execute(context)
    ends()


def query(sql: str, **arguments: Any) -> Any:
    """Run a query as an operator does, and return its rows."""
    hook = BaseHook.get_connection(CONNECTION).get_hook(hook_params={"transport": "binary"})
    return hook.get_records(sql, **arguments)


def test_the_hook_of_the_connection_is_that_of_the_metastore_as_well(
    orders: str, context: Context, ends: Callable[[], None]
) -> None:
    hook = BaseHook.get_hook(CONNECTION)
    assert isinstance(hook, HiveAcidSqlHook)
    assert hook.get_partition_names(orders) == ["day=2026-05-01", "day=2026-05-02"]
    reached, message = hook.test_connection()
    assert reached, message
    with hook.transaction(reads=[orders]):
        pass
    ends()


def test_other_operators_and_frames_read_as_well(
    orders: str, context: Context, ends: Callable[[], None]
) -> None:
    common = {"task_id": "sql", "conn_id": CONNECTION}
    sql = f"SELECT id, price FROM {orders} WHERE id > 3 ORDER BY id; SELECT max(id) FROM {orders}"
    rows = SQLExecuteQueryOperator(**common, sql=sql, split_statements=True, return_last=False)
    assert rows.execute(context) == [[(4, Decimal("4.00")), (5, None)], [(5,)]]
    assert SqlSensor(**common, sql=f"SELECT 1 FROM {orders} WHERE id = 5").poke(context)
    assert not SqlSensor(**common, sql=f"SELECT 1 FROM {orders} WHERE id = 3").poke(context)
    frame = HiveAcidSqlHook().get_df(f"SELECT id FROM {orders} WHERE id < 3 ORDER BY id")
    assert list(frame["id"]) == [1, 2]
    ends()


def test_names_of_tables_are_those_of_sql(orders: str, database: str) -> None:
    """Names have no case, may be quoted, and one of a common table expression is no table."""
    quoted = f'"{database.upper()}"."Orders"'
    assert query(f"SELECT count(*) FROM {quoted} JOIN {orders} o USING (id, day)") == [(4,)]
    assert query(f"WITH a AS (SELECT * FROM {orders}) SELECT count(*) FROM a, range(2)") == [(8,)]
    assert query(
        f"SELECT (SELECT max(id) FROM {orders} WHERE day = $day)", parameters={"day": "2026-05-01"}
    ) == [(2,)]
    assert query("SELECT 1; SELECT 2") == [(2,)]
    hook = HiveAcidSqlHook(schema=database)
    assert hook.get_first("SELECT orders.id FROM orders ORDER BY 1") == (1,)
    assert hook.get_first("WITH Orders AS (SELECT 7 AS id) SELECT id FROM ORDERS") == (7,)


def test_a_database_may_have_the_name_of_a_catalog(orders: str, client: MetastoreClient) -> None:
    client.create_database("temp")
    try:
        table = HiveTable.new(
            TableRef("temp", "t"), [HiveColumn("id", "int")], kind=TableKind.FULL_ACID
        )
        client.create_table(table)
        assert query("SELECT count(*) FROM memory.temp.t") == [(0,)]
        with pytest.raises(duckdb.Error, match="Ambiguous reference"):
            query("SELECT count(*) FROM temp.t")
    finally:
        client.drop_database("temp", cascade=True)


def test_a_query_sees_one_snapshot(
    orders: str, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch, ends: Callable[[], None]
) -> None:
    """A row that is inserted while a query reads is in none of its scans."""
    begin = Transaction.__enter__
    reads: list[Transaction] = []

    def insert_later(txn: Transaction) -> Transaction:
        found = begin(txn)
        if not txn.write_ids:
            reads.append(txn)
            assert [lock.table for lock in client.show_locks()] == [TableRef.parse(orders)]
            with AcidTable(orders, client.options, run_in="worker") as table:
                table.append(pa.table({"id": pa.array([6], pa.int32()), "day": ["2026-05-01"]}))
        return found

    monkeypatch.setattr(Transaction, "__enter__", insert_later)
    counts = query(f"SELECT count(*) FROM {orders} UNION ALL SELECT count(id) FROM {orders}")
    assert counts == [(4,), (4,)]
    assert len(reads) == 1
    monkeypatch.undo()
    assert client.show_locks() == []


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("DELETE FROM {orders}", UserError, "only reads.*HiveAcidSqlOperator"),
        ("CREATE TABLE {orders}_2 AS SELECT * FROM {orders}", UserError, "only reads"),
        ("COPY (SELECT 1) TO '/tmp/hiveacid_x.csv'", UserError, "only reads"),
        ("SELECT 1; DROP TABLE {orders}", UserError, "only reads"),
        ("SET enable_external_access = true", UserError, "only reads"),
        ("SELEC 1", UserError, "syntax error"),
        ("SELECT * FROM '/etc/passwd'", HiveAcidError, "/etc/passwd"),
        ("SELECT * FROM read_text('/etc/passwd')", duckdb.PermissionException, "disabled"),
        ("SELECT * FROM query_table('orders')", duckdb.CatalogException, "does not exist"),
        ("SELECT * FROM information_schema.tables", HiveAcidError, "information_schema"),
        ("SELECT nothing FROM {orders}", duckdb.BinderException, "nothing"),
        ("SELECT CAST(day AS int) FROM {orders}", duckdb.ConversionException, "2026-05-0"),
        ("SELECT * FROM {orders}_2", HiveAcidError, "orders_2"),
        ("SELECT * FROM {database}.plain", WrongTableKind, "plain"),
    ],
)
def test_all_else_is_refused_and_ends_the_transaction(
    sql: str,
    error: type[Exception],
    message: str,
    orders: str,
    database: str,
    client: MetastoreClient,
    ends: Callable[[], None],
) -> None:
    plain = TableRef(database, "plain")
    client.create_table(
        HiveTable.new(plain, [HiveColumn("id", "int")], partition_keys=[], kind=TableKind.NOT_ACID)
    )
    with pytest.raises(error, match=message):
        query(sql.format(orders=orders, database=database))
    ends()
    assert query(f"SELECT count(*) FROM {orders}") == [(4,)]


def test_a_damaged_file_fails_the_query_and_ends_the_transaction(
    orders: str, client: MetastoreClient, ends: Callable[[], None]
) -> None:
    root = folder(client.get_table(TableRef.parse(orders)))
    for path in root.glob("day=2026-05-02/delta_*/bucket*"):
        path.write_bytes(path.read_bytes()[:20])
    assert query(f"SELECT max(id) FROM {orders} WHERE day = '2026-05-01'") == [(2,)]
    with pytest.raises(duckdb.Error, match=r"hiveacid.errors.CorruptFile: .*day=2026-05-02"):
        query(f"SELECT sum(id) FROM {orders}")
    ends()


def test_a_refused_user_reads_nothing(
    orders: str, monkeypatch: pytest.MonkeyPatch, ends: Callable[[], None]
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.nobody")
    with pytest.raises(AccessRefused, match="orders"):
        query(f"SELECT 1 FROM {orders}")
    ends()


def nobody(**_: object) -> bool:
    """Allow nothing."""
    return False


def test_without_duckdb_the_error_names_the_extra(
    orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UserError, match=r"pip install 'hiveacid\[duckdb\]'"):
        query("SELECT 1")
