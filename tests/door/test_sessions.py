"""SQL and frames of Spark on transactional tables, in sessions of a Python program."""

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import hiveacid
from hiveacid.jobs import (
    CompactJob,
    DeleteJob,
    InsertJob,
    UpdateJob,
)
from hiveacid.jobs.checks import Passes, RowCount
from hiveacid.jobs.job import Job
from hiveacid.jobs.job_json import to_json
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import CompactReport, RunReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import PathSource, QuerySource
from hiveacid.jobs.stage_jobs import StageJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnInfo
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from hiveacid.spark.sql_session import AcidSession
from tests.door.sessions import collect_garbage, condition_of
from tests.engine.acid_tables import ONLY_HIVE4, create, left_behind
from tests.spark_versions.versions import NEEDS_SPARK_4_0, NEEDS_SPARK_4_1

pytestmark = pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)

Row = tuple[Any, ...]
ROWS = "VALUES (1, 'one', 0), (2, 'two', 1), (3, 'three', 1)"
# Each is run on a table through the door, and on another one by a session.
STATEMENTS = (
    f"INSERT INTO {{t}} {ROWS}",
    "UPDATE {t} SET v = upper(v) WHERE id = 2",
    "DELETE FROM {t} WHERE id = 3",
    "WITH n AS (SELECT 5 AS id) INSERT INTO {t} SELECT id, 'five', 0 FROM n",
    "MERGE INTO {t} t USING changed c ON t.id = c.id AND t.k = c.k"
    " WHEN MATCHED THEN UPDATE SET v = c.v WHEN NOT MATCHED THEN INSERT *",
    "FROM changed INSERT INTO {t} SELECT id + 100, v, k",
    "INSERT OVERWRITE TABLE {t} PARTITION (k = 1) SELECT 7, 'seven'",
    "ALTER TABLE {t} ADD COLUMNS (w int)",
    "ALTER TABLE {t} COMPACT 'major'",
    "TRUNCATE TABLE {t} PARTITION (k = 0)",
    "DROP TABLE {t}",
)


@pytest.fixture
def door(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[SparkSession]:
    """A session with the door, and a table `t` with rows."""
    create(client, f"{database}.t", {"id": "int", "v": "string"}, {"k": "int"})
    door = hiveacid.install(spark.newSession(), hms.uri)
    door.sql(f"INSERT INTO {database}.t {ROWS}")
    yield door
    collect_garbage(spark, client)


def rows(frame: DataFrame) -> list[Row]:
    return sorted(tuple(row) for row in frame.collect())


def figures(report: object) -> dict[str, Any]:
    """What the report of a session has in common with the rows of the door."""
    if isinstance(report, CompactReport):
        names = ("partition", "type", "outcome", "rows", "deletes")
        parts = [{name: getattr(part, name) for name in names} for part in report.partitions]
        return {"parts": sorted(parts, key=str)}
    assert isinstance(report, RunReport)
    names = ("rows_inserted", "rows_updated", "rows_deleted", "files")
    return {"statement": report.job, **{name: getattr(report, name) for name in names}}


def shown_figures(frame: DataFrame) -> dict[str, Any]:
    shown = [row.asDict() for row in frame.collect()]
    if "outcome" in frame.columns:
        names = ("partition", "type", "outcome", "rows", "deletes")
        parts = [{name: row[name] for name in names} for row in shown]
        return {"parts": sorted(parts, key=str)}
    assert len(shown) == 1
    names = ("statement", "rows_inserted", "rows_updated", "rows_deleted", "files")
    return {name: shown[0][name] for name in names}


@pytest.mark.every_spark
def test_statements_have_the_rows_and_the_reports_of_a_session(
    door: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    by_door, by_session = f"{database}.by_door", f"{database}.by_session"
    for name in (by_door, by_session):
        create(client, name, {"id": "int", "v": "string"}, {"k": "int"})
    door.sql("CREATE TEMPORARY VIEW changed AS SELECT 2 AS id, 'changed' AS v, 1 AS k")
    session = AcidSession(door, hms.uri)
    for statement in STATEMENTS:
        shown = shown_figures(door.sql(statement.format(t=by_door)))
        assert shown == figures(session.sql(statement.format(t=by_session))), statement
        if "DROP" not in statement:
            assert rows(door.table(by_door)) == rows(door.table(by_session)), statement
    assert client.get_tables(database) == ["t"]
    door.sql(f"CREATE TABLE {database}.n (id int) TBLPROPERTIES ('transactional' = 'true')")
    assert rows(door.table(f"{database}.n")) == []
    session.close()


def test_a_statement_runs_once(door: SparkSession, database: str) -> None:
    statement = f"UPDATE {database}.t SET v = concat(v, '!') WHERE id = 1"
    door.sql(f"EXPLAIN {statement}").collect()
    updated = door.sql(f"SELECT v FROM {database}.t WHERE id = 1")
    assert rows(updated) == [("one",)]
    report = door.sql(statement)
    for _ in range(2):
        assert [row["rows_updated"] for row in report.collect()] == [1]
    assert report.select("rows_updated").where("rows_updated > 0").count() == 1


@NEEDS_SPARK_4_1
def test_parameters_have_values(door: SparkSession, database: str) -> None:
    parameters = door.sql(f"UPDATE {database}.t SET v = :v WHERE id = :id", {"v": "new", "id": 2})
    assert [row["rows_updated"] for row in parameters.collect()] == [1]
    assert rows(door.table(f"{database}.t").select("v")) == [("new",), ("one",), ("three",)]


@pytest.mark.every_spark
def test_a_query_reads_all_names_in_one_transaction(
    door: SparkSession, client: MetastoreClient, database: str
) -> None:
    create(client, f"{database}.u", {"id": "int"})
    door.sql(f"INSERT INTO {database}.u VALUES (2), (3)")
    door.sql(f"CREATE TEMPORARY VIEW small AS SELECT id, v FROM {database}.t WHERE id < 3")
    collect_garbage(door, client)
    frame = door.sql(f"""
        WITH late AS (SELECT * FROM {database}.t WHERE k = 1)
        SELECT late.id, small.v, {database}.t.v FROM late JOIN small USING (id)
        JOIN {database}.t ON {database}.t.id = late.id
        WHERE late.id IN (SELECT id FROM {database}.u)
    """)
    open_txns = [txn for txn in left_behind(client) if isinstance(txn, TxnInfo)]
    # Spark 3.5 reads a view in transactions of its own.
    assert len(open_txns) == 1 or VERSION < SPARK_4_0
    door.sql(f"DELETE FROM {database}.u WHERE id = 2")
    assert rows(frame) == [(2, "two", "two")]


@pytest.mark.every_spark
def test_frames_are_appended_and_replace_partitions(door: SparkSession, database: str) -> None:
    name = f"{database}.t"
    new = door.range(8, 10).selectExpr("'new' AS v", "CAST(id AS int) AS id", "2 AS k")
    new.writeTo(name).append()
    new.selectExpr("id + 10", "v", "2").write.insertInto(name)
    assert rows(door.table(name).where("k = 2")) == [
        (8, "new", 2), (9, "new", 2), (18, "new", 2), (19, "new", 2)
    ]  # fmt: skip
    new.limit(1).writeTo(name).overwritePartitions()
    door.table(name).where("id = 3").selectExpr("id", "'over'", "k").write.insertInto(name, True)
    assert rows(door.table(name)) == [(1, "one", 0), (3, "over", 1), (8, "new", 2)]
    door.range(1).selectExpr("20 AS id", "'w' AS v", "2 AS k").writeTo(name).overwrite(
        f.col("k") == 2
    )
    assert rows(door.table(name)) == [(1, "one", 0), (3, "over", 1), (20, "w", 2)]


@NEEDS_SPARK_4_0
def test_frames_are_saved_and_merged(door: SparkSession, database: str) -> None:
    name = f"{database}.t"
    door.sql(f"INSERT OVERWRITE {name} VALUES (1, 'one', 0), (3, 'over', 1), (20, 'w', 2)")
    door.sql(f"DELETE FROM {name} WHERE id = 2")
    new = door.range(8, 10).selectExpr("'new' AS v", "CAST(id AS int) AS id", "2 AS k")
    new.limit(1).selectExpr("id + 13 AS id", "v", "0 AS k").write.mode("append").saveAsTable(name)
    assert rows(door.table(name)) == [(1, "one", 0), (3, "over", 1), (20, "w", 2), (21, "new", 0)]
    source = new.selectExpr("id + 12 AS id", "v", "k").alias("s")
    merge = source.mergeInto(name, f.expr("t.id = s.id")).whenMatched(f.expr("t.k = 2"))
    merge.update({"v": f.concat("t.v", f.lit("!"))}).whenNotMatchedBySource(
        f.expr("t.id = 3")
    ).delete().merge()
    assert rows(door.table(name)) == [(1, "one", 0), (20, "w!", 2), (21, "new", 0)]
    evolving = source.mergeInto(name, f.expr("t.id = s.id")).withSchemaEvolution()
    with pytest.raises(AnalysisException, match="adds no columns"):
        evolving.whenMatched().delete().merge()
    new.limit(1).write.mode("overwrite").saveAsTable(name)
    assert rows(door.table(name)) == [(8, "new", 2)]


@pytest.mark.every_spark
def test_new_tables_of_frames_are_transactional_by_their_property(
    door: SparkSession, client: MetastoreClient, database: str
) -> None:
    frame = door.range(2).selectExpr("int(id) AS id", r"'it\'s' AS v", "int(id % 2) AS k")
    writer = frame.writeTo(f"{database}.w").tableProperty("transactional", "true")
    writer.using("orc").tableProperty("note", "it's").partitionedBy(f.col("k")).create()
    table = client.get_table(TableRef(database, "w"))
    assert [key.name for key in table.partition_keys] == ["k"]
    assert (table.kind, table.parameters["note"]) == (TableKind.FULL_ACID, "it's")
    with pytest.raises(AnalysisException, match="is there already"):
        writer.create()
    frame.limit(1).writeTo(f"{database}.w").append()
    assert len(rows(door.table(f"{database}.w"))) == 3
    other = frame.writeTo(f"spark_catalog.{database}.n").tableProperty("transactional", "true")
    if VERSION >= SPARK_4_0:
        writer.replace()
        assert rows(door.table(f"{database}.w")) == [(0, "it's", 0), (1, "it's", 1)]
        writer.createOrReplace()
        other.createOrReplace()
    else:
        with pytest.raises(AnalysisException, match="REPLACE TABLE AS SELECT"):
            writer.replace()
        other.create()
    frame.write.option("transactional", "true").bucketBy(2, "id").saveAsTable(f"{database}.b")
    assert client.get_table(TableRef(database, "b")).num_buckets == 2
    if VERSION >= SPARK_4_0:
        with pytest.raises(AnalysisException, match="partitioned by columns"):
            frame.writeTo(f"{database}.y").tableProperty("transactional", "true").partitionedBy(
                f.years("v")
            ).create()
    saved = frame.write.option("transactional", "true")
    saved.partitionBy("k").saveAsTable(f"{database}.s")
    if VERSION >= SPARK_4_0:
        saved.mode("ignore").saveAsTable(f"{database}.s")
        saved.mode("append").saveAsTable(f"{database}.s")
        assert len(rows(door.table(f"{database}.s"))) == 4
    door.sql(
        f"CREATE TABLE {database}.q USING orc TBLPROPERTIES ('transactional' = 'true')"
        " AS WITH c AS (VALUES (1), (2)) SELECT count(*) AS n FROM c"
    )
    assert rows(door.table(f"{database}.q")) == [(2,)]
    property = "TBLPROPERTIES ('transactional' = 'true')"
    door.sql(f"CREATE TABLE {database}.o (id int) USING ORC {property}")
    assert client.get_table(TableRef(database, "o")).kind is TableKind.FULL_ACID
    assert client.get_tables(database) == ["b", "n", "o", "q", "s", "t", "w"]


def test_the_catalog_of_spark_may_be_named(door: SparkSession, database: str) -> None:
    name = f"SPARK_CATALOG . `{database}`.t"
    door.sql(f"INSERT INTO {name} SELECT 4, 'spark_catalog.d', k FROM {name} WHERE id = 3")
    door.sql(f"DELETE FROM {name} WHERE id < 3 -- of {name}")
    door.table(f"spark_catalog.{database}.t").writeTo(f"spark_catalog.{database}.t").append()
    assert rows(door.sql(f"SELECT id, v FROM {name}")) == [
        *[(3, "three")] * 2, *[(4, "spark_catalog.d")] * 2
    ]  # fmt: skip
    statement = f"ALTER TABLE spark_catalog.{database}.t FROBNICATE x"
    column = statement.index("FROBNICATE") + 1
    with pytest.raises(AnalysisException, match=f"Line 1, column {column}"):
        door.sql(statement)


EXPLAINED = ("", " EXTENDED", " FORMATTED", " COST")


def test_an_explanation_runs_nothing(door: SparkSession, database: str) -> None:
    for mode in EXPLAINED:
        for statement in (
            f"DELETE FROM {database}.t WHERE id = 1",
            f"DROP TABLE {database}.t",
            f"MERGE INTO {database}.t t USING {database}.t s ON t.id = s.id WHEN MATCHED THEN DELETE",
            f"INSERT INTO {database}.t {ROWS}",
        ):
            ((plan,),) = rows(door.sql(f"/* why? */ explain{mode}\n{statement}"))
            assert f"AcidCommand {statement}" in plan or mode == " FORMATTED", plan
            assert "Error" not in plan
    ((plan,),) = rows(door.sql(f"EXPLAIN SELECT * FROM {database}.t"))
    assert "FileScan hiveacid" in plan
    assert len(rows(door.table(f"{database}.t"))) == 3


@pytest.mark.every_spark
def test_questions_about_the_metastore_are_answered_as_by_spark(
    door: SparkSession, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    door.sql(f"COMMENT ON TABLE {name} IS 'a note'")
    session = AcidSession(door, client)
    session.sql(f"CREATE VIEW {database}.w AS SELECT id FROM {name}")
    keys = [("# Partition Information", "", ""), ("k", "int", "")]
    columns = [("id", "int", None), ("v", "string", None), ("k", "int", None), *keys]

    def asked(text: str) -> list[Row]:
        return [tuple(row) for row in door.sql(text).collect()]

    assert {("default",), (database,)} <= {*asked("SHOW DATABASES")}
    assert asked(f"SHOW DATABASES LIKE '{database}'") == [(database,)]
    assert asked(f"SHOW TABLES IN {database}") == [(database, "t", False), (database, "w", False)]
    assert asked(f"SHOW TABLES FROM spark_catalog.{database} LIKE 't*'") == [(database, "t", False)]
    assert asked(f"SHOW VIEWS IN {database}") == [(database, "w", False)]
    assert asked(f"SHOW PARTITIONS {name}") == [("k=0",), ("k=1",)]
    assert asked(f"SHOW PARTITIONS {name} PARTITION (k = 1)") == [("k=1",)]
    assert asked(f"SHOW COLUMNS IN {name}") == [("id",), ("v",), ("k",)]
    assert ("comment", "a note") in asked(f"SHOW TBLPROPERTIES {name}")
    assert asked(f"DESCRIBE {name}") == columns
    assert asked(f"desc table spark_catalog.{name}") == columns
    extended = asked(f"DESCRIBE EXTENDED {name}")
    assert extended[: len(columns)] == columns
    assert {("# Detailed Table Information", "", ""), ("kind", "full_acid", "")} <= {*extended}
    assert ("Namespace Name", database) in asked(f"DESCRIBE DATABASE {database}")
    ((definition,),) = asked(f"SHOW CREATE TABLE {name}")
    door.sql(f"DROP TABLE {name}")
    door.sql(definition)
    assert asked(f"DESCRIBE {name}") == columns
    assert door.sql("SHOW LOCKS").columns[0] == "lockid"


def test_a_database_of_the_metastore_is_used(
    door: SparkSession, client: MetastoreClient, database: str
) -> None:
    door.sql(f"USE spark_catalog.{database}")
    assert door.catalog.currentDatabase() == database
    door.sql("UPDATE t SET v = 'used' WHERE id = 1")
    door.sql("CREATE TEMPORARY VIEW mine AS SELECT v FROM t WHERE id = 1")
    assert rows(door.sql("SELECT * FROM mine")) == [("used",)]
    door.sql("CREATE TABLE plain USING parquet AS SELECT id FROM t")
    shown = [tuple(row) for row in door.sql("SHOW TABLES").collect()]
    assert shown == [("", "mine", True), (database, "plain", False), (database, "t", False)]
    # Spark's own answers about its own tables.
    assert rows(door.sql("DESCRIBE plain")) == [("id", "int", None)]
    assert rows(door.sql("DESCRIBE mine")) == [("v", "string", None)]
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        door.sql("USE nowhere")


def test_databases_are_made_in_the_metastore(
    door: SparkSession, client: MetastoreClient, database: str
) -> None:
    other = f"{database}_other"
    door.sql(f"CREATE DATABASE {other}")
    assert other in client.get_databases()
    door.sql(f"USE {other}")
    door.sql("CREATE TABLE n TBLPROPERTIES ('transactional' = 'true') AS SELECT 1 AS id")
    assert rows(door.table(f"{other}.n")) == [(1,)]
    door.sql("USE default")
    door.sql(f"DROP DATABASE {other} CASCADE")
    assert other not in client.get_databases()
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        door.sql(f"USE {other}")


def test_versions_are_named_in_the_syntax_of_spark(door: SparkSession, database: str) -> None:
    name = f"{database}.t"
    door.sql(f"DELETE FROM {name} WHERE id < 3")
    assert rows(door.sql(f"SELECT id FROM {name} VERSION AS OF 1")) == [(1,), (2,), (3,)]
    assert rows(door.sql(f"SELECT id FROM {name} TIMESTAMP AS OF current_timestamp()")) == [(3,)]
    both = door.sql(f"SELECT a.id FROM {name} VERSION AS OF 1 a LEFT ANTI JOIN {name} b USING (id)")
    assert rows(both) == [(1,), (2,)]
    for version, text in (("VERSION AS OF 9", "9"), ("TIMESTAMP AS OF '2001-01-01'", "2001-01-01")):
        with pytest.raises(AnalysisException, match=text) as raised:
            door.sql(f"SELECT id FROM {name} {version}")
        assert condition_of(raised.value).startswith("HIVE_ACID_VERSION_")


def test_sessions_have_their_own_views_databases_and_tables_of_spark(
    door: SparkSession, spark: SparkSession, hms: EmbeddedMetastore, database: str
) -> None:
    other = hiveacid.install(spark.newSession(), hms.uri)
    for session, id in ((door, 1), (other, 2)):
        session.sql(f"CREATE TEMPORARY VIEW mine AS SELECT {id} AS id, 'm{id}' AS v, 0 AS k")
        session.sql(f"MERGE INTO {database}.t t USING mine m ON t.id = m.id"
                    " WHEN MATCHED THEN UPDATE SET v = m.v")  # fmt: skip
    assert rows(other.table(f"{database}.t").select("v")) == [("m1",), ("m2",), ("three",)]
    door.sql(f"USE {database}")
    assert rows(door.sql("SELECT id FROM t")) == [(1,), (2,), (3,)]
    door.sql("CREATE TABLE plain (id int) USING parquet")
    door.sql("INSERT INTO plain SELECT id FROM t")
    assert rows(door.sql("SELECT * FROM plain")) == [(1,), (2,), (3,)]
    door.sql("CREATE TEMPORARY VIEW t AS SELECT 'view' AS what")
    assert rows(door.sql("SELECT * FROM t")) == [("view",)]
    assert rows(door.sql(f"SELECT count(*) FROM {database}.t")) == [(3,)]
    # Spark's own error.
    with pytest.raises(Py4JJavaError, match="Unexpected table relation"):
        door.sql("DELETE FROM t WHERE what = 'view'")
    door.sql("DROP TABLE plain")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(f"{database}.t")


def test_errors_are_those_of_spark_with_the_texts_of_this_package(
    door: SparkSession, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for statement, text, condition, state in (
        (
            f"DELETE FROM {database}.t WHERE nope = 1",
            "an unknown column",
            "UNKNOWN_COLUMN",
            "42703",
        ),
        (f"DELETE FROM {database}.t", "all_rows", "SQL_ERROR", "42601"),
        (
            f"MERGE INTO {database}.t USING missing.s ON TRUE WHEN MATCHED THEN DELETE",
            "missing.s",
            "TABLE_NOT_FOUND",
            "42P01",
        ),
        (f"UPDATE {database}.t SET id = 1 + WHERE id = 1", "Line 1", "SQL_ERROR", "42601"),
        (
            f"UPDATE {database}.t SET id = :id WHERE id = 1",
            "The parameter :id has no value",
            "SQL_ERROR",
            "42601",
        ),
    ):
        with pytest.raises(AnalysisException, match=re.escape(text)) as raised:
            door.sql(statement)
        assert "Traceback" not in str(raised.value)
        assert condition_of(raised.value) == f"HIVE_ACID_{condition}"
        assert raised.value.getSqlState() == state
    assert "Traceback" not in capfd.readouterr().err


@NEEDS_SPARK_4_1
def test_statements_in_a_script_of_spark_keep_their_names_or_are_refused(
    door: SparkSession, database: str
) -> None:
    for insert in (
        f"INSERT INTO {database}.t (k, v, id) SELECT 5, 'x', 6",
        f"INSERT INTO {database}.t PARTITION (k = 5) SELECT 6, 'x'",
        f"INSERT INTO {database}.t BY NAME SELECT 5 AS k, 6 AS id, 'x' AS v",
    ):
        with pytest.raises(PySparkException, match="would access the transactional table"):
            door.sql(f"BEGIN {insert}; END")
    assert rows(door.sql(f"SELECT count(*) FROM {database}.t")) == [(3,)]
    with pytest.raises(Py4JJavaError, match="LABELS_MISMATCH"):
        door.sql(f"BEGIN a: BEGIN INSERT INTO {database}.t SELECT 6, 'x', 5; END b; END")
    door.sql(f"BEGIN INSERT INTO {database}.t SELECT 6, 'x', 5; END")
    assert rows(door.sql(f"SELECT * FROM {database}.t WHERE id = 6")) == [(6, "x", 5)]


def test_streams_are_refused(door: SparkSession, database: str, tmp_path: Any) -> None:
    name, text = f"{database}.t", "Spark would access the transactional table"
    with pytest.raises(PySparkException, match=text):
        door.readStream.table(name)
    rate = door.readStream.format("rate").load().writeStream
    with pytest.raises(PySparkException, match=text):
        rate.option("checkpointLocation", str(tmp_path)).toTable(name)
    assert rows(door.sql(f"SELECT count(*) FROM {name}")) == [(3,)]


def test_other_processes_of_the_machine_cannot_ask(door: SparkSession) -> None:
    port = door.sparkContext._gateway.get_callback_server().get_listening_port()
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"c\np0\napply\nsread\ne\n")
        with contextlib.suppress(ConnectionError):
            assert not stranger.recv(100).startswith(b"!y")


def called(job: Job, procedure: str = "run") -> str:
    text = to_json(job).replace("\\", "\\\\").replace("'", "\\'")
    return f"CALL hiveacid.{procedure}('{text}')"


def test_a_job_runs_once_and_returns_its_report(door: SparkSession, database: str) -> None:
    name = f"{database}.t"
    job = UpdateJob(target=name, set={"v": r"'it\'s $x'"}, where="id = 2", run_token="run")
    door.sql(f"EXPLAIN {called(job)}").collect()
    report = door.sql(called(job))
    for _ in range(2):
        assert [row["rows_updated"] for row in report.collect()] == [1]
    # By the run token.
    (row,) = door.sql(called(job, "report")).collect()
    assert json.loads(row["report"])["already_done"]
    assert (2, "it's $x", 1) in rows(door.table(name))
    compaction = door.sql(called(CompactJob(target=name, type="major"))).collect()
    assert "compacted" in {row["outcome"] for row in compaction}
    script = ScriptJob.of([job, DeleteJob(target=name, where="id = 3"), CompactJob(target=name)])
    steps = door.sql(called(script)).collect()
    assert [row["rows_deleted"] for row in steps if row["statement"] == "delete"] == [1]


def test_a_job_means_the_same_in_each_session(door: SparkSession, database: str) -> None:
    door.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    job = UpdateJob(target=f"{database}.t", set={"v": "current_timezone()"}, all_rows=True)
    door.sql(called(job))
    assert {row[1] for row in rows(door.table(f"{database}.t"))} == {"UTC"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"metastore": MetastoreOptions(uris="thrift://other:9083")}, "names a metastore"),
        ({"checks": [Passes(function="os:getcwd")]}, "os:getcwd.* is a function of Python"),
        ({"source": PathSource("file:///etc/passwd", "csv")}, "file of the server of Spark"),
        ({"source": PathSource("/etc/passwd", "csv")}, "file of the server of Spark"),
        ({"target": ""}, "target"),
        ({"checks": [RowCount(max=1)]}, "2 rows"),
    ],
)
def test_a_refused_job_changes_nothing(
    door: SparkSession, database: str, changes: dict[str, Any], text: str
) -> None:
    source = QuerySource("SELECT 8 AS id, 'new' AS v, 0 AS k UNION ALL SELECT 9, 'new', 0")
    job = replace(InsertJob(target=f"{database}.t", source=source), **changes)
    with pytest.raises((PySparkException, Py4JJavaError), match=text):
        door.sql(called(job))
    (row,) = door.sql(called(job, "report")).collect()
    error = json.loads(row["report"])["error"]
    assert re.search(text, error["message"])
    assert not error["retryable"]
    assert len(rows(door.table(f"{database}.t"))) == 3


def test_a_malformed_call_is_an_error_of_its_statement(door: SparkSession) -> None:
    for call, text in (
        ("CALL hiveacid.run('{}')", "job.job must be one of"),
        ("CALL hiveacid.run('no')", "not JSON"),
        ("CALL hiveacid.start('{}')", "Expected RUN"),
        (called(StageJob(change=DeleteJob(target="d.t", where="id = 1"))), "more than figures"),
    ):
        with pytest.raises(AnalysisException, match=text):
            door.sql(call)
