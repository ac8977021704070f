"""SQL of a program, on transactional tables and on those of Spark."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hiveacid
from hiveacid import AcidTable, register_views
from hiveacid.errors import InvalidJob, SqlError, TableNotFound
from hiveacid.jobs.report import RunReport, ScriptReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.records.history_entries import History
from hiveacid.rules.schema import TableKind
from hiveacid.spark.sql_session import AcidSession
from tests.engine.acid_tables import ONLY_HIVE4, create, left_behind

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)


@pytest.fixture
def acid(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[AcidSession]:
    """A session of a user's own, with two tables of the metastore that the environment names."""
    create(client, f"{database}.orders", {"id": "int", "status": "string"})
    create(client, f"{database}.lines", {"id": "int"}, kind=TableKind.INSERT_ONLY)
    monkeypatch.setenv("HIVEACID_METASTORE", hms.uri)
    acid = hiveacid.session(spark.newSession())
    acid.sql(f"USE {database}")
    acid.sql("INSERT INTO orders VALUES (1, 'new'), (2, 'new'); INSERT INTO lines VALUES (2), (3)")
    yield acid
    acid.close()


def rows(result: object) -> list[tuple[Any, ...]]:
    assert isinstance(result, DataFrame)
    return sorted(tuple(row) for row in result.collect())


def test_changes_and_queries_take_tables_and_views_of_both(
    acid: AcidSession, client: MetastoreClient, database: str
) -> None:
    spark = acid.spark
    spark.udf.register("twice", lambda value: 2 * value, "int")
    acid.sql("SET spark.sql.shuffle.partitions = 3")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    acid.sql(
        "CREATE TEMPORARY VIEW updates AS SELECT 2 AS id, 'late' AS status UNION SELECT 7, 'x'"
    )
    report = acid.sql(
        f"MERGE INTO {database}.orders o USING updates u ON o.id = u.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert isinstance(report, RunReport)
    assert (report.rows_updated, report.rows_inserted) == (1, 1)
    joined = """
        WITH late AS (SELECT * FROM orders WHERE status = :status)
        SELECT late.id, twice(u.id), orders.status FROM late JOIN updates u USING (id)
        JOIN orders ON orders.id = late.id JOIN lines l ON l.id = late.id
    """
    assert rows(acid.sql(joined, {"status": "late"})) == [(2, 4, "late")]
    script = acid.sql("""
        UPDATE orders SET status = (SELECT max(status) FROM updates) WHERE id = 1;
        INSERT INTO lines SELECT id + 10 FROM updates;
        CREATE TABLE copied AS SELECT u.id, o.status FROM updates u JOIN orders o ON o.id = u.id
    """)
    assert isinstance(script, ScriptReport)
    assert [each.report.job for each in script.statements] == [
        "update",
        "insert",
        "create_table_as",
    ]
    assert rows(acid.sql("SELECT id, status FROM orders")) == [(1, "x"), (2, "late"), (7, "x")]
    assert rows(acid.sql("SELECT * FROM lines")) == [(2,), (3,), (12,), (17,)]
    assert rows(acid.sql("SELECT * FROM copied")) == [(2, "late"), (7, "x")]
    older = acid.sql("SELECT status FROM orders FOR VERSION AS OF 1 WHERE id = 1")
    assert rows(older) == [("new",)]
    del older
    assert {table.name for table in spark.catalog.listTables() if table.isTemporary} == {"updates"}


def test_all_tables_of_a_query_are_read_in_one_transaction_that_ends(
    acid: AcidSession, client: MetastoreClient, database: str
) -> None:
    with acid:
        frame = acid.sql("SELECT o.id FROM orders o JOIN lines l ON o.id = l.id")
        assert isinstance(frame, DataFrame)
        txns = [txn for txn in client.get_open_txns_info() if txn.state is TxnState.OPEN]
        assert len(txns) == 1
        acid.sql("DELETE FROM orders WHERE id = 2; INSERT INTO lines VALUES (1)")
        assert rows(frame) == [(2,)]
        assert rows(acid.sql("SELECT o.id FROM orders o JOIN lines l ON o.id = l.id")) == [(1,)]
    assert left_behind(client) == []


def test_plain_tables_are_those_of_spark_and_of_the_metastore(
    acid: AcidSession, client: MetastoreClient, database: str, tmp_path: Any
) -> None:
    spark = acid.spark
    table = create(client, f"{database}.plain", {"id": "int"}, kind=TableKind.NOT_ACID)
    spark.range(2, 4).selectExpr("CAST(id AS INT) id").write.mode("append").orc(table.location)
    spark.sql(f"CREATE DATABASE spark_{database} LOCATION '{tmp_path}'")
    acid.sql(f"CREATE TABLE spark_{database}.own (id int, day date) USING parquet")
    acid.sql(f"INSERT INTO spark_{database}.own VALUES (2, DATE '2026-05-01')")
    found = acid.sql(f"""
        SELECT o.id, own.day FROM orders o JOIN plain p ON p.id = o.id
        JOIN spark_{database}.own ON own.id = o.id
    """)
    assert rows(found) == [(2, date(2026, 5, 1))]
    assert rows(acid.sql(f"SELECT own.id FROM spark_{database}.own")) == [(2,)]
    assert rows(acid.sql("SELECT id FROM plain")) == [(2,), (3,)]
    with pytest.raises(InvalidJob, match=f"cannot read {database}.orders"):
        acid.sql(f"INSERT INTO spark_{database}.own SELECT id, NULL FROM orders")
    acid.sql(f"DROP TABLE spark_{database}.own")
    with pytest.raises(TableNotFound, match="Statement 2 of 2"):
        acid.sql("SELECT 1; SELECT * FROM missing")


def test_questions_are_answered_as_frames(acid: AcidSession, database: str) -> None:
    spark = acid.spark
    spark.range(1).createOrReplaceTempView("mine")
    assert rows(acid.sql("SHOW TABLES")) == [("lines",), ("orders",)]
    described = acid.sql("DESCRIBE EXTENDED orders")
    assert isinstance(described, DataFrame)
    assert described.columns == ["col_name", "data_type", "comment"]
    assert ("kind", "full_acid", None) in rows(described)
    assert rows(acid.sql("DESCRIBE mine")) == [("id", "bigint", None)]
    assert ("abs",) in rows(acid.sql("SHOW FUNCTIONS"))
    history = acid.sql("SHOW HISTORY orders")
    assert isinstance(history, History)
    assert [entry.operation for entry in history] == ["insert"]
    assert acid.sql("DESCRIBE DETAIL orders").deltas == 1  # type: ignore[union-attr]
    locks = acid.sql("SHOW LOCKS")
    assert isinstance(locks, DataFrame)
    with pytest.raises(SqlError, match="does not explain"):
        acid.sql("EXPLAIN DELETE FROM orders WHERE id = 1")
    assert rows(acid.sql("EXPLAIN SELECT * FROM mine"))
    acid.sql("DROP VIEW mine")
    assert not spark.catalog.tableExists("mine")


def test_registered_views_are_changed_by_the_names_of_their_tables(
    acid: AcidSession, hms: EmbeddedMetastore, database: str
) -> None:
    with register_views(hms.uri, f"{database}.orders", spark=acid.spark):
        # Spark refuses these before it asks anybody: docs/notebook.md names the remedy.
        for text in (
            "UPDATE orders SET id = 3",
            "DELETE FROM orders",
            "INSERT INTO orders VALUES (3)",
        ):
            with pytest.raises((PySparkException, Py4JError)):
                acid.spark.sql(text)
        acid.sql("DELETE FROM orders WHERE id = 1")
    with AcidTable(f"{database}.orders", hms.uri, spark=acid.spark) as table:
        assert [row.id for row in table.to_df().collect()] == [2]
