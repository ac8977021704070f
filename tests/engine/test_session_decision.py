"""The statements of a session that are left to Spark, decided without Spark."""

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import hiveacid
from hiveacid.errors import InvalidJob, SqlError, UserError
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import statements
from hiveacid.parser.statements import is_of_spark
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import create
from tests.fakes.metastore import FakeMetastore
from tests.stored_views import store_view


class StubSpark:
    """A session of Spark with a temporary view, and with two tables that are not transactional."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.catalog = self

    def sql(self, text: str) -> None:
        self.texts.append(text)

    def currentDatabase(self) -> str:  # noqa: N802
        return "decided"

    def tableExists(self, name: str) -> bool:  # noqa: N802
        # Spark with the same metastore also lists the transactional ones.
        return name in (
            "`updates`",
            *(f"`decided`.`{name}`" for name in ("t", "plain", "v", "flat")),
        )

    def getTable(self, name: str) -> Any:  # noqa: N802
        return SimpleNamespace(isTemporary=name == "`updates`")


@pytest.fixture(scope="module")
def fake(fake4: FakeMetastore) -> Iterator[MetastoreClient]:
    with MetastoreClient(fake4.options) as client:
        client.create_database("decided")
        create(client, "decided.t", {"id": "int"})
        create(client, "decided.plain", {"id": "int"}, kind=TableKind.NOT_ACID)
        create(client, "decided.hidden", {"id": "int"}, kind=TableKind.NOT_ACID)
        column = HiveColumn("id", "int")
        for name, table in (("v", "t"), ("flat", "plain")):
            text = f"SELECT `s`.`id` FROM `decided`.`{table}` `s`"
            store_view(client, TableRef("decided", name), text, [column])
        yield client
        client.drop_database("decided", cascade=True)


def by_spark(fake: MetastoreClient, monkeypatch: pytest.MonkeyPatch, text: str) -> bool:
    spark: Any = StubSpark()
    session = hiveacid.session(spark, fake.options)
    ours: list[object] = []
    for name in ("_query", "change", "_frame"):
        monkeypatch.setattr(session, name, ours.append)
    session.sql(text)
    assert len(ours) + len(spark.texts) == 1
    assert ours or spark.texts == [text]
    return not ours


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT * FROM range(3)",
        "SELECT * FROM updates",
        "SELECT * FROM plain JOIN updates ON plain.id = updates.id",
        "WITH t AS (SELECT 1 id) SELECT * FROM t",
        "SELECT * FROM flat",
        "SELECT * FROM mine.db.t",
        "INSERT INTO plain SELECT * FROM updates",
        "DELETE FROM decided.plain WHERE id = 1",
        "ALTER TABLE plain ADD COLUMNS (b int)",
        "TRUNCATE TABLE plain",
        "DROP TABLE plain",
        "DROP VIEW updates",
        "DESCRIBE updates",
        "DESCRIBE QUERY SELECT 1",
        "SHOW FUNCTIONS",
        "SHOW CREATE TABLE plain",
        "EXPLAIN SELECT * FROM plain",
        "SET spark.sql.ansi.enabled = true",
        "CACHE TABLE updates",
        "CREATE TEMPORARY VIEW x AS SELECT 1",
        "CREATE OR REPLACE TEMP VIEW x AS SELECT 1",
        "CREATE TEMPORARY VIEW x AS SELECT * FROM plain",
        "CREATE TEMPORARY VIEW x AS WITH t AS (SELECT 1 AS id) SELECT * FROM t",
        "CREATE TABLE x USING parquet AS SELECT * FROM updates",
        "CREATE TABLE x (id int) USING parquet",
        "CREATE FUNCTION f AS 'x.Y'",
    ],
)
def test_statements_without_a_transactional_table_are_left_to_spark(
    fake: MetastoreClient, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert by_spark(fake, monkeypatch, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT * FROM DECIDED.T",
        "SELECT * FROM plain WHERE id IN (SELECT id FROM decided.t)",
        "SELECT * FROM v",
        "SELECT * FROM hidden",
        "SELECT * FROM t FOR VERSION AS OF 1",
        "SELECT * FROM TABLE_CHANGES('decided.t', 1, 2)",
        "INSERT INTO t SELECT * FROM updates",
        "MERGE INTO t USING updates s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "UPDATE t SET id = 1 WHERE id = 2",
        "DELETE FROM hidden WHERE id = 1",
        "OPTIMIZE t",
        "CONVERT TABLE plain TO ACID",
        "CREATE TABLE x AS SELECT a.id FROM updates a JOIN plain b USING (id)",
        "CREATE VIEW x AS SELECT * FROM t",
        "DROP TABLE t",
        "DROP TABLE IF EXISTS missing",
        "DESCRIBE t",
        "SHOW TABLES",
        "SHOW LOCKS",
    ],
)
def test_statements_on_transactional_tables_are_not(
    fake: MetastoreClient, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert not by_spark(fake, monkeypatch, text)


def test_what_neither_can_do_is_refused(
    fake: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark: Any = StubSpark()
    session = hiveacid.session(spark, fake.options)
    with pytest.raises(InvalidJob, match=r"decided.plain is a table of Spark.*decided.t"):
        session.sql("INSERT INTO plain SELECT id FROM t")
    with pytest.raises(SqlError, match="LOAD is not supported"):
        session.sql("LOAD DATA INPATH '/x' INTO TABLE t")
    with pytest.raises(SqlError, match="has no value"):
        session.sql("SELECT * FROM t WHERE id = :id")
    with pytest.raises(InvalidJob, match="no statement"):
        session.sql(" ; ")
    assert not spark.texts
    monkeypatch.delenv("HIVEACID_METASTORE", raising=False)
    with pytest.raises(UserError, match="No metastore is named") as unnamed:
        hiveacid.session(spark)
    assert "HIVEACID_METASTORE" in unnamed.value.remedy
    monkeypatch.setenv("HIVEACID_METASTORE", fake.options.uris)
    monkeypatch.setenv("HIVEACID_KERBEROS_SERVICE_NAME", "hms")
    options = hiveacid.session(spark)._client.options
    assert (options.uris, options.kerberos_service_name) == (fake.options.uris, "hms")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TEMPORARY VIEW x AS SELECT * FROM t",
        "CREATE OR REPLACE TEMP VIEW x AS (WITH a AS (SELECT * FROM decided.t) SELECT * FROM a)",
        "CREATE TABLE x USING parquet AS SELECT * FROM plain JOIN v USING (id)",
        "CACHE LAZY TABLE x AS SELECT * FROM t",
        "DESCRIBE QUERY SELECT * FROM t",
        "CREATE TEMPORARY VIEW x AS FROM t SELECT *",
        "CREATE TABLE x USING parquet COMMENT 'AS' AS SELECT * FROM t",
    ],
)
def test_spark_never_reads_a_transactional_table_by_itself(
    fake: MetastoreClient, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    with pytest.raises(InvalidJob, match="Spark cannot read the transactional tables") as refused:
        by_spark(fake, monkeypatch, text)
    assert "createOrReplaceTempView" in refused.value.remedy


@pytest.mark.parametrize("query", ["TABLE t", "SELECT * FROM t WHERE"])
def test_a_query_with_unknown_tables_is_not_left_to_spark(
    fake: MetastoreClient, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    with pytest.raises(SqlError):
        by_spark(fake, monkeypatch, f"CREATE TEMPORARY VIEW x AS {query}")


@pytest.mark.parametrize(
    "text", ["TABLE t", "VALUES (1)", "(SELECT 1)", "FROM t SELECT 1", "GRANT x"]
)
def test_words_that_may_concern_a_transactional_table_are_of_this_package(text: str) -> None:
    (statement,) = statements(text)
    assert not is_of_spark(statement)


def test_the_library_is_imported_without_spark() -> None:
    program = "import hiveacid, sys; assert 'session' in dir(hiveacid); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
