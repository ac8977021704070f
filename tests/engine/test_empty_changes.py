"""A statement that changes no row makes a version that the history of the table shows."""

from dataclasses import replace
from itertools import count

import pytest
from pyspark.sql import SparkSession

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_script
from hiveacid.records.history_entries import HistoryState
from hiveacid.records.table_history import table_history
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.engine.acid_tables import left_behind

STATEMENTS = {
    "update": "UPDATE t SET a = 2 WHERE a = 7",
    "delete": "DELETE FROM t WHERE a = 7",
    "merge": "MERGE INTO t USING (SELECT 7 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
    "insert": "INSERT INTO t SELECT 1 WHERE false",
}


@pytest.mark.parametrize("hms", ["fake 3.1.3", "fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("has_run", [False, True])
def test_each_version_has_an_entry(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    has_run: bool,
) -> None:
    numbers = count()

    def run_sql(text: str) -> None:
        # Each statement is a run of its own.
        token = f"dag/run/{next(numbers)}/-1" if has_run else None
        run(spark, replace(to_script(text, database), metastore=hms.options, run_token=token))

    run_sql("CREATE TABLE IF NOT EXISTS t (a int); INSERT INTO t VALUES (1)")
    for statement in STATEMENTS.values():
        run_sql(statement)
    entries = table_history(client, TableRef(database, "t"))
    told = [(each.operation, each.rows_inserted, each.rows_deleted) for each in reversed(entries)]
    assert told == [("insert", 1, 0), *((operation, 0, 0) for operation in STATEMENTS)]
    assert [each.write_id for each in entries] == [5, 4, 3, 2, 1]
    assert {each.state for each in entries} == {HistoryState.CURRENT}
    assert left_behind(client) == []


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_table_without_rows_in_a_transaction_over_two(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    text = (
        "CREATE TABLE t (a int); CREATE TABLE u (a int); "
        "FROM range(3) INSERT INTO t SELECT id INSERT INTO u SELECT id WHERE id > 7"
    )
    run(spark, replace(to_script(text, database), metastore=hms.options))
    for name, rows in (("t", 3), ("u", 0)):
        (entry,) = table_history(client, TableRef(database, name))
        assert (entry.rows_inserted, entry.state) == (rows, HistoryState.CURRENT)
