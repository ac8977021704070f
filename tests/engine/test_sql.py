"""Statements of SQL against tables of a real metastore."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import (
    HiveAcidError,
    TableExists,
    TableNotFound,
    UnknownColumn,
    UnsupportedTable,
    UserError,
)
from hiveacid.jobs.report import ScriptReport
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import ONLY_HIVE4, left_behind, rows_of

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)

Sql = Callable[..., ScriptReport]
Rows = Callable[[str], list[tuple]]


@pytest.fixture
def rows(spark: SparkSession, hms: EmbeddedMetastore, database: str) -> Rows:
    """The rows of a table."""

    def read(name: str) -> list[tuple]:
        with AcidTable(f"{database}.{name}", hms.uri, spark=spark) as table:
            return rows_of(table.to_df())

    return read


def test_inserts_go_by_position(sql: Sql, rows: Rows, client: MetastoreClient) -> None:
    sql("CREATE TABLE t (id int, name string) PARTITIONED BY (day string, hour int)")
    sql(
        """
        INSERT INTO t VALUES (1, 'a', 'mon', 1), (2, NULL, 'mon', 2);
        INSERT INTO t (hour, day, id) SELECT 3, 'tue', 3;
        INSERT INTO t PARTITION (day = 'wed', hour = 4) SELECT 4 AS name, 'd' AS id;
        INSERT INTO t PARTITION (day = 'wed', hour) VALUES (5, 'e', 5), (6, 'f', 4);
        INSERT INTO t BY NAME SELECT 1 AS hour, 'mon' AS day, 'g' AS name, 7 AS id
        """
    )
    expected = [
        (1, "a", "mon", 1),
        (2, None, "mon", 2),
        (3, None, "tue", 3),
        (4, "d", "wed", 4),
        (5, "e", "wed", 5),
        (6, "f", "wed", 4),
        (7, "g", "mon", 1),
    ]
    assert rows("t") == expected
    # Only the partitions that get rows are replaced.
    sql("INSERT OVERWRITE TABLE t PARTITION (day = 'wed', hour) SELECT 8, 'h', 5")
    sql("INSERT OVERWRITE TABLE t PARTITION (day = 'mon', hour = 2) SELECT 9, 'i' WHERE false")
    expected = [row for row in expected if row[0] not in (2, 5)] + [(8, "h", "wed", 5)]
    assert rows("t") == expected
    sql("INSERT INTO t REPLACE WHERE TRUE SELECT 10, 'j', 'sun', 1")
    assert rows("t") == [(10, "j", "sun", 1)]
    sql("INSERT INTO t BY NAME REPLACE WHERE true SELECT * FROM t WHERE false")
    assert rows("t") == []
    sql("INSERT INTO t VALUES (8, 'h', 'wed', 5)")
    expected = [(8, "h", "wed", 5)]
    for wrong, message in {
        "INSERT INTO t SELECT 1, 'x', 'mon'": "3 columns for 4: id, name, day, hour",
        "INSERT INTO t PARTITION (day = 'mon', hour) SELECT 1, 'x'": "2 columns for 3",
        "INSERT INTO t (id, oops, day, hour) SELECT 1, 2, 'mon', 3": "oops",
        "INSERT INTO t (id, day) SELECT 1, 'mon'": "no partition column hour",
    }.items():
        with pytest.raises(UnknownColumn, match=message):
            sql(wrong)
    with pytest.raises(UserError, match="not one of the partition keys"):
        sql("INSERT INTO t PARTITION (name = 'x', hour) SELECT 1, 'mon', 3")
    for keys in ("day, month", "hour, day", "hour = 3, day", "day", "day, hour, name"):
        with pytest.raises(UserError, match="names the partition keys"):
            sql(f"INSERT OVERWRITE TABLE t PARTITION ({keys}) SELECT 1, 'x', 'mon', 3")
    sql("CREATE TABLE whole (id int); INSERT INTO whole VALUES (1)")
    with pytest.raises(UserError, match="the table is partitioned by nothing"):
        sql("INSERT OVERWRITE TABLE whole PARTITION (id) SELECT 7")
    assert rows("whole") == [(1,)]
    assert rows("t") == expected
    assert left_behind(client) == []


def test_conditions_have_subqueries(sql: Sql, rows: Rows, client: MetastoreClient) -> None:
    sql(
        """
        CREATE TABLE orders (id int, n int) PARTITIONED BY (day string);
        CREATE TABLE gone (id int, n int) CLUSTERED BY (id) INTO 2 BUCKETS;
        INSERT INTO orders VALUES (1, 1, 'mon'), (2, 2, 'mon'), (3, 3, 'tue'), (4, 40, 'wed');
        INSERT INTO gone VALUES (2, 200), (3, 300)
        """
    )
    report = sql(
        "UPDATE orders o SET n = (SELECT max(n) FROM gone) + o.n"
        " WHERE o.id IN (SELECT id FROM gone WHERE n > 100) AND o.day = 'mon'"
    )
    assert report.statements[0].report.rows_updated == 1
    assert rows("orders") == [(1, 1, "mon"), (2, 302, "mon"), (3, 3, "tue"), (4, 40, "wed")]
    # A filter of the subquery on a column of the same name does not restrict the target's rows.
    sql(
        "DELETE FROM orders WHERE EXISTS (SELECT 1 FROM gone WHERE gone.id = orders.id AND n = 300)"
    )
    assert rows("orders") == [(1, 1, "mon"), (2, 302, "mon"), (4, 40, "wed")]
    sql("DELETE FROM orders WHERE n = (SELECT max(n) FROM orders)")
    assert rows("orders") == [(1, 1, "mon"), (4, 40, "wed")]
    sql("DELETE FROM orders WHERE id NOT IN (SELECT n FROM orders WHERE day = 'mon')")
    assert rows("orders") == [(1, 1, "mon")]
    with pytest.raises(UnknownColumn, match="nothing"):
        sql("DELETE FROM orders WHERE id IN (SELECT nothing FROM gone)")
    with pytest.raises(TableNotFound):
        sql("DELETE FROM orders WHERE id IN (SELECT id FROM nowhere)")
    assert left_behind(client) == []


def test_merges_of_both_dialects(sql: Sql, rows: Rows, client: MetastoreClient) -> None:
    sql(
        """
        CREATE TABLE t (id int, name string) PARTITIONED BY (day string);
        CREATE TABLE feed (name string, id int, day string, op string);
        INSERT INTO t VALUES (1, 'a', 'mon'), (2, 'b', 'mon'), (3, 'c', 'tue');
        INSERT INTO feed VALUES ('B', 2, 'mon', 'u'), ('', 3, 'tue', 'd'), ('D', 4, 'wed', 'u')
        """
    )
    sql(
        """
        MERGE INTO t USING feed s ON t.id = s.id AND t.day = s.day
        WHEN MATCHED AND s.op = 'd' THEN DELETE
        WHEN MATCHED THEN UPDATE SET name = concat(s.name, t.name)
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, s.day)
        """
    )
    assert rows("t") == [(1, "a", "mon"), (2, "Bb", "mon"), (4, "D", "wed")]
    report = sql(
        """
        WITH newest AS (SELECT id, max(name) AS name, 'mon' AS day FROM feed GROUP BY id)
        MERGE INTO t x USING newest ON x.id = newest.id
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE THEN DELETE
        """
    )
    done = report.statements[0].report
    assert (done.rows_updated, done.rows_inserted, done.rows_deleted) == (2, 1, 1)
    assert rows("t") == [(2, "B", "mon"), (3, "", "mon"), (4, "D", "mon")]
    with pytest.raises(UnknownColumn, match=r"2 values, but .* has 3 columns: id, name, day"):
        sql("MERGE INTO t USING feed s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1, 2)")
    assert left_behind(client) == []


def test_several_inserts_are_one_transaction(sql: Sql, rows: Rows, client: MetastoreClient) -> None:
    sql(
        """
        CREATE TABLE feed (id int, kind string);
        CREATE TABLE big (id int);
        CREATE TABLE small (id int, kind string);
        INSERT INTO feed VALUES (1, 'x'), (200, 'y'), (300, 'x');
        """
    )
    report = sql(
        """
        FROM (SELECT id, upper(kind) AS kind FROM feed) f
        INSERT INTO big SELECT id WHERE id > 100
        INSERT INTO small SELECT id, kind WHERE id <= 100
        INSERT INTO small SELECT max(id), kind GROUP BY kind
        """
    )
    assert rows("big") == [(200,), (300,)]
    assert rows("small") == [(1, "X"), (200, "Y"), (300, "X")]
    (done,) = (statement.report for statement in report.statements)
    assert len(done.write_ids) == 2
    assert left_behind(client) == []


def test_truncate_and_compact(sql: Sql, rows: Rows, client: MetastoreClient) -> None:
    sql(
        """
        CREATE TABLE t (id int) PARTITIONED BY (day string, hour int);
        INSERT INTO t VALUES (1, 'mon', 1), (2, 'mon', 2), (3, 'tue', 1), (4, NULL, 1);
        INSERT INTO t VALUES (5, 'tue', 1)
        """
    )
    report = sql("ALTER TABLE t PARTITION (day = 'tue', hour = 1) COMPACT 'major'")
    (compacted,) = report.statements[0].report.partitions
    assert (compacted.partition, compacted.outcome) == ("day=tue/hour=1", "compacted")
    sql("TRUNCATE TABLE t PARTITION (day = 'mon', hour = '02')")
    assert rows("t") == [(1, "mon", 1), (3, "tue", 1), (4, None, 1), (5, "tue", 1)]
    sql("TRUNCATE TABLE t PARTITION (hour = 1, day = NULL)")
    assert rows("t") == [(1, "mon", 1), (3, "tue", 1), (5, "tue", 1)]
    for wrong in ("PARTITION (day = 'wed')", "PARTITION (month = 1)"):
        with pytest.raises(UserError, match="has no partition"):
            sql(f"TRUNCATE TABLE t {wrong}")
    sql("TRUNCATE TABLE t PARTITION (day = 'tue')")
    assert rows("t") == [(1, "mon", 1)]
    sql("TRUNCATE TABLE t")
    assert rows("t") == []
    sql("CREATE TABLE plain (id int); INSERT INTO plain VALUES (1); TRUNCATE TABLE plain")
    assert rows("plain") == []
    assert left_behind(client) == []


def test_views_are_expanded(sql: Sql, rows: Rows, client: MetastoreClient, database: str) -> None:
    sql(
        """
        CREATE TABLE orders (id int, n int);
        CREATE TABLE t (id int, n bigint);
        INSERT INTO orders VALUES (1, 10), (2, 20), (3, 30)
        """
    )
    columns = [HiveColumn("number", "int"), HiveColumn("many", "bigint")]
    _create_view(
        client,
        f"{database}.large",
        f"SELECT `orders`.`id`, `orders`.`n` FROM `{database}`.`orders` WHERE `orders`.`n` > 10",
        columns,
    )
    _create_view(client, f"{database}.larger", "SELECT * FROM large WHERE many > 20", columns)
    sql("INSERT INTO t SELECT l.number, sum(l.many) FROM large l GROUP BY l.number")
    assert rows("t") == [(2, 20), (3, 30)]
    sql("MERGE INTO t USING larger s ON t.id = s.number WHEN MATCHED THEN DELETE")
    assert rows("t") == [(2, 20)]
    sql("DELETE FROM t WHERE id IN (SELECT number FROM large)")
    assert rows("t") == []
    _create_view(client, f"{database}.loop", f"SELECT * FROM {database}.loop", columns)
    with pytest.raises(HiveAcidError, match="reads itself"):
        sql("INSERT INTO t SELECT * FROM loop")


def test_a_script_continues_after_its_last_completed_statement(
    sql: Sql, rows: Rows, client: MetastoreClient
) -> None:
    sql("CREATE TABLE t (id int); CREATE TABLE u (id int)")
    first = "INSERT INTO t VALUES (1); "
    with pytest.raises(UnknownColumn, match=r"Statement 2 of 2: .* 2 columns for 1"):
        sql(first + "INSERT INTO u VALUES (2, 3)", run_token="run")
    assert rows("t") == [(1,)]
    report = sql(first + "INSERT INTO u VALUES (2)", run_token="run")
    assert [statement.report.already_done for statement in report.statements] == [True, False]
    assert (rows("t"), rows("u")) == ([(1,)], [(2,)])
    assert sql(first + "INSERT INTO u VALUES (2)", run_token="run").already_done
    assert (rows("t"), rows("u")) == ([(1,)], [(2,)])
    assert left_behind(client) == []


def test_a_plain_table_is_converted_with_its_rows(
    spark: SparkSession,
    sql: Sql,
    rows: Rows,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
) -> None:
    ref = TableRef(database, "t")
    table = HiveTable.new(
        ref, [HiveColumn("id", "int"), HiveColumn("name", "string")], owner="olga"
    )
    for name in ("transactional", "transactional_properties"):
        del table.raw.parameters[name]
    client.call(idl_tables.create_table, table.raw)
    location = Path(client.get_table(ref).folder.removeprefix("file:"))
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id int, name string").coalesce(1)
    frame.write.orc(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("part-*")
    location.mkdir(exist_ok=True)
    file.rename(location / "000000_0")
    sql("CONVERT TABLE t; UPDATE t SET name = 'B' WHERE id = 2; INSERT INTO t VALUES (3, 'c')")
    assert rows("t") == [(1, "a"), (2, "B"), (3, "c")]
    assert client.get_table(ref).parameters["transactional"] == "true"


@pytest.mark.parametrize("day", ["", " PARTITIONED BY (day string)"], ids=["whole", "partitioned"])
def test_a_table_with_names_of_spark_is_replaced_by_the_copy_of_the_remedy(
    spark: SparkSession,
    sql: Sql,
    rows: Rows,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    day: str,
) -> None:
    ref = TableRef(database, "t")
    keys = [HiveColumn("day", "string")] if day else []
    columns = [HiveColumn("id", "int"), HiveColumn("name", "varchar(9)")]
    table = HiveTable.new(ref, columns, partition_keys=keys, kind=TableKind.NOT_ACID, owner="olga")
    client.call(idl_tables.create_table, table.raw)
    table = client.get_table(ref)
    folder = Path(table.folder.removeprefix("file:"))
    if day:
        client.add_partitions(ref, [HivePartition.new(table, ["mon"])])
        folder /= "day=mon"
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id int, name string").coalesce(1)
    frame.write.mode("overwrite").orc(str(folder))
    before = [(1, "a", "mon"), (2, "b", "mon")] if day else [(1, "a"), (2, "b")]
    with pytest.raises(UnsupportedTable, match="as Spark writes them, such as") as refused:
        sql("CONVERT TABLE t")
    copy, exchange = re.findall("(?:CREATE|DROP) TABLE [^:]*;", refused.value.remedy)
    sql(copy)
    assert rows("t_acid") == before
    sql(exchange)
    assert client.get_tables(database) == ["t"]
    sql("UPDATE t SET name = 'B' WHERE id = 2")
    assert rows("t") == [before[0], (2, "B", *before[1][2:])]
    converted = client.get_table(ref)
    assert converted.kind is TableKind.FULL_ACID
    assert [column.type for column in converted.columns] == ["int", "varchar(9)"]


def _create_view(client: MetastoreClient, name: str, text: str, columns: list[HiveColumn]) -> None:
    table = HiveTable.new(TableRef.parse(name), columns, owner="olga")
    table.raw.tableType = "VIRTUAL_VIEW"
    table.raw.parameters = {}
    table.raw.viewOriginalText = table.raw.viewExpandedText = text
    client.call(idl_tables.create_table, table.raw)


def test_a_table_of_a_query_has_its_types_and_rows_once(
    sql: Sql, rows: Rows, client: MetastoreClient, database: str
) -> None:
    text = """
        CREATE TABLE IF NOT EXISTS of_query
        PARTITIONED BY (day) CLUSTERED BY (id) INTO 2 BUCKETS TBLPROPERTIES ('owner' = 'me')
        AS SELECT id % 2 AS day, id, array(CAST(id AS decimal(5, 2))) AS PRICES, 'a' AS name
        FROM range(4)
    """
    [first] = sql(text, "run").statements
    table = client.get_table(TableRef(database, "of_query"))
    assert [f"{one.name} {one.type}" for one in (*table.columns, *table.partition_keys)] == [
        *("id bigint", "prices array<decimal(5,2)>", "name string", "day bigint")
    ]
    assert (table.bucket_columns, table.num_buckets, table.parameters["owner"]) == (
        ("id",),
        2,
        "me",
    )
    assert (first.report.job, first.report.rows_inserted) == ("create_table_as", 4)
    [again], [other] = sql(text, "run").statements, sql(text, "another").statements
    assert again.report.already_done
    assert "is left as it was" in other.report.warnings[0]
    with pytest.raises(TableExists, match="is there already"):
        sql("CREATE TABLE of_query AS SELECT 1 AS a", "a third one")
    assert sorted(row[0] for row in rows("of_query")) == [0, 1, 2, 3]


def test_a_run_continues_with_the_table_of_its_own_statement(
    sql: Sql, rows: Rows, client: MetastoreClient, database: str
) -> None:
    sql("CREATE TABLE source (v string); INSERT INTO source VALUES ('x')")
    text = "CREATE TABLE IF NOT EXISTS of_query AS SELECT CAST(v AS int) AS a FROM source"
    with pytest.raises(HiveAcidError, match="of_query has been created: another attempt of this"):
        sql(text, "run")
    assert rows("of_query") == []
    # It has no rows of the query, so it does not count as there already.
    with pytest.raises(TableExists, match="another statement of this run has created it"):
        sql(text.replace("v AS int", "concat('7', v) AS int"), "run")
    sql("INSERT OVERWRITE TABLE source VALUES ('70')")
    sql(text, "run")
    assert rows("of_query") == [(70,)]


@pytest.mark.parametrize(
    ("query", "keys", "message"),
    [
        ("SELECT NULL AS a", "", "Column a of the source has type void"),
        ("SELECT 1 AS a, 2 AS A", "", "the column a twice"),
        ("SELECT 1 AS a", "PARTITIONED BY (b)", "b, which is no column of the query"),
        ("SELECT 1 AS `a b`", "", "gets no column 'a b'"),
    ],
)
def test_a_query_that_makes_no_table_leaves_none(
    query: str, keys: str, message: str, sql: Sql, client: MetastoreClient, database: str
) -> None:
    with pytest.raises(UserError, match=message):
        sql(f"CREATE TABLE of_query {keys} AS {query}")
    assert "of_query" not in client.get_tables(database)
