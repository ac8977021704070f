"""Clients of Spark's servers, which know nothing of this package."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.locks import DataOperation, LockComponent, LockLevel, LockType
from tests.door import servers
from tests.door.jdbc import Jdbc
from tests.door.servers import CONNECT, REFUSED, THRIFT, Server, by_beeline, by_connect
from tests.door.sqlalchemy_client import by_sqlalchemy
from tests.engine.acid_tables import create, left_behind
from tests.spark_versions.versions import NEEDS_SPARK_4_0

# Spark's own client of the metastore cannot speak to version 4.
pytestmark = [pytest.mark.server, pytest.mark.parametrize("hms", ["3.1.3"], indirect=True)]

# Statements with the rows that they return; of reports, what is before the number of files.
CORPUS: tuple[tuple[str, list[list[str]]], ...] = (
    (
        "CREATE TABLE {d}.n (id int) TBLPROPERTIES ('transactional' = 'true')",
        [["create_table", "{d}.n", "0", "0", "0"]],
    ),
    (
        "CREATE TABLE {d}.i (id int) TBLPROPERTIES"
        " ('transactional' = 'true', 'transactional_properties' = 'insert_only')",
        [["create_table", "{d}.i", "0", "0", "0"]],
    ),
    ("DESCRIBE {d}.i", [["id", "int", "NULL"]]),
    ("DROP TABLE {d}.i", [["drop_table", "{d}.i", "0", "0", "0"]]),
    ("INSERT INTO {d}.t VALUES (1, 'one'), (2, 'two')", [["insert", "{d}.t", "2", "0", "0"]]),
    ("CREATE TEMPORARY VIEW s AS SELECT 2 AS id, 'new' AS v UNION ALL SELECT 3, NULL", []),
    (
        "MERGE INTO {d}.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
        " WHEN NOT MATCHED THEN INSERT *",
        [["merge", "{d}.t", "1", "1", "0"]],
    ),
    ("SELECT * FROM {d}.t ORDER BY id", [["1", "one"], ["2", "new"], ["3", "NULL"]]),
    ("SELECT * FROM {d}.t VERSION AS OF 1 ORDER BY id", [["1", "one"], ["2", "two"]]),
    (
        "SELECT (SELECT max(id) FROM {d}.t), (SELECT count(*) FROM {d}.t VERSION AS OF 1)",
        [["3", "2"]],
    ),
    ("UPDATE {d}.t SET v = 'x' WHERE id = 3", [["update", "{d}.t", "0", "1", "0"]]),
    ("DELETE FROM {d}.t WHERE id = 1", [["delete", "{d}.t", "0", "0", "1"]]),
    ("USE {d}", []),
    ("SELECT v FROM t WHERE id = 3", [["x"]]),
    ("CREATE VIEW {d}.w AS SELECT id FROM {d}.t WHERE v = 'x'", []),
    ("SELECT * FROM w", [["3"]]),
    ("CREATE TABLE {d}.p USING parquet AS SELECT id FROM t", []),
    ("SELECT count(*) FROM p", [["2"]]),
    ("ALTER TABLE {d}.t COMPACT 'major'", [["{d}.t", "NULL", "major", "compacted"]]),
    ("SELECT count(*) FROM {d}.t", [["2"]]),
)
ERRORS = (
    ("DELETE FROM {d}.t WHERE nope = 1", "HIVE_ACID_UNKNOWN_COLUMN", "42703"),
    ("INSERT INTO {d}.t SELECT id, v FROM {d}.nope", "HIVE_ACID_TABLE_NOT_FOUND", "42P01"),
    ("UPDATE {d}.t SET id = 1 + WHERE id = 1", "HIVE_ACID_SQL_ERROR", "42601"),
)
# After a "=": what only a client of Python writes.
COLUMNS = "=spark.createDataFrame([spark.table('{d}.t').columns], ['a', 'b'])"
FRAMES = (
    (COLUMNS, [["id", "v"]]),
    ("=spark.range(7, 9).selectExpr('int(id) id', \"'f' v\").writeTo('{d}.t').append()", []),
    ("=spark.range(9, 10).selectExpr('int(id) id', \"'f' v\").write.insertInto('{d}.t')", []),
    (
        "=spark.range(7, 8).selectExpr('int(id) id', \"'m' v\").alias('s').mergeInto('{d}.t',"
        " F.expr('t.id = s.id')).whenMatched(F.expr(\"s.v = 'm'\")).updateAll().merge()",
        [],
    ),
    (
        "=spark.range(8, 9).selectExpr('int(id) id', \"'o' v\").writeTo('{d}.t')"
        ".overwrite(F.col('id') >= 8)",
        [],
    ),
    ("SELECT * FROM {d}.t WHERE id > 6 ORDER BY id", [["7", "m"], ["8", "o"]]),
    (
        "=spark.range(1).selectExpr('int(id) id', \"'a' v\").write.mode('append')"
        ".saveAsTable('{d}.t')",
        [],
    ),
    ("SELECT count(*) FROM {d}.t", [["5"]]),
    (
        "=spark.range(1).selectExpr('int(id) id', \"'r' v\").write.mode('overwrite')"
        ".saveAsTable('{d}.t')",
        [],
    ),
    ("SELECT * FROM {d}.t", [["0", "r"]]),
)


@pytest.fixture
def server(
    request: pytest.FixtureRequest,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    eventually: Callable[..., None],
) -> Iterator[Server]:
    create(client, f"{database}.t", {"id": "int", "v": "string"})
    server = Server(request.param, hms, tmp_path)
    eventually("the server accepts connections", server.accepts, 120)
    yield server
    server.stop()


def beginning(answer: servers.Rows | str, expected: servers.Rows) -> servers.Rows | str:
    """The part of an answer that is as wide as expected."""
    if isinstance(answer, str):
        return answer
    return [row[: len(expected[0])] if expected else row for row in answer]


@pytest.mark.parametrize(
    ("server", "run", "frames"),
    [
        (THRIFT, by_beeline, ()),
        pytest.param(CONNECT, by_connect, FRAMES, marks=NEEDS_SPARK_4_0),
    ],
    indirect=["server"],
    ids=["thrift", "connect"],
)
def test_clients_change_and_read_tables_as_their_users(
    server: Server,
    client: MetastoreClient,
    database: str,
    eventually: Callable[..., None],
    run: Callable[[Server, str, list[str]], list[servers.Rows | str]],
    frames: tuple[tuple[str, servers.Rows], ...],
) -> None:
    corpus = [
        (text.format(d=database), [[cell.format(d=database) for cell in row] for row in rows])
        for text, rows in CORPUS + frames
    ]
    refused = [(text.format(d=database), *parts) for text, *parts in ERRORS]
    answers = run(server, "anna", [text for text, *_ in (*corpus, *refused)])
    for (text, expected), answer in zip(corpus, answers, strict=False):
        assert beginning(answer, expected) == expected, text
    for (text, condition, state), answer in zip(refused, answers[len(corpus) :], strict=True):
        assert condition in answer, text
        assert run is by_beeline or f"SQLSTATE {state}" in answer, text
        assert "Traceback" not in answer, text
    statements = [f"INSERT INTO {database}.n VALUES (1)", f"SELECT * FROM {database}.n"]
    for answer in run(server, REFUSED, statements):
        assert "HIVE_ACID_ACCESS_REFUSED" in answer
        assert f"spark:{REFUSED} may not" in answer
    if run is by_connect:
        # Connect analyzes it before it names a user.
        (answer,) = run(server, "bert", [COLUMNS.format(d=database)])
        assert "HIVE_ACID_ACCESS_REFUSED" in answer
    if run is by_beeline:
        # Other plans of Connect are never run, and end with the next collection of garbage.
        eventually("all reads have ended", lambda: left_behind(client) == [])
    assert "Traceback" not in server.log()


@pytest.mark.parametrize("server", [THRIFT], indirect=True)
def test_sqlalchemy_finds_changes_and_reads_tables(server: Server, database: str) -> None:
    answer = by_sqlalchemy(server, "anna", database)
    assert "HIVE_ACID_UNKNOWN_COLUMN" in answer.pop("error")
    assert answer == {
        "exists": True,
        "columns": ["id", "v"],
        "reflected": ["id", "v"],
        "merged": 1,
        "rows": [[1, "it's"], [2, "new"]],
    }


def cancelled_by_jdbc(server: Server, text: str, is_running: Callable[[], None]) -> str:
    """Run a statement and cancel it; return the error."""
    jdbc = Jdbc()
    session = jdbc.connect(server, "anna")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(session.run, text)
        is_running()
        session.cancel()
        error = waiting.exception(60)
    jdbc.stop()
    return str(error)


def cancelled_by_connect(server: Server, text: str, is_running: Callable[[], None]) -> str:
    """Run a statement and interrupt its session; return the error."""
    program = (
        "import sys, threading\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()\n"
        "thread = threading.Thread(target=spark.sql, args=sys.argv[2:])\n"
        "thread.start()\n"
        "input()\n"
        "spark.interruptAll()\n"
        "thread.join()\n"
    )
    url = f"sc://127.0.0.1:{server.port}/;user_id=anna"
    with subprocess.Popen(
        [sys.executable, "-c", program, url, text], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as waiting:
        is_running()
        _, error = waiting.communicate(b"\n", timeout=60)
    return error.decode()


@pytest.mark.parametrize(
    ("server", "cancelled", "error", "run"),
    [
        (THRIFT, cancelled_by_jdbc, "Query was cancelled", by_beeline),
        pytest.param(
            *(CONNECT, cancelled_by_connect, "OPERATION_CANCELED", by_connect),
            marks=NEEDS_SPARK_4_0,
        ),
    ],
    indirect=["server"],
    ids=["thrift", "connect"],
)
def test_a_cancelled_statement_leaves_no_transaction_and_no_lock(
    server: Server,
    client: MetastoreClient,
    database: str,
    eventually: Callable[..., None],
    cancelled: Callable[[Server, str, Callable[[], None]], str],
    error: str,
    run: Callable[[Server, str, list[str]], list[servers.Rows | str]],
) -> None:
    # Spark notices that a task is cancelled after a thousand rows of a range.
    endless = (
        f"INSERT INTO {database}.t SELECT int(id), 'x' FROM range(1000000000000) WHERE id % 7 = 8"
    )
    runs = partial(eventually, "its transaction is open", lambda: left_behind(client) != [])
    assert error in cancelled(server, endless, runs)
    eventually("the transaction is aborted", lambda: left_behind(client) == [])

    exclusive = LockComponent(
        type=LockType.EXCLUSIVE,
        level=LockLevel.TABLE,
        database=database,
        table="t",
        partition=None,
        operation=DataOperation.NO_TXN,
        is_transactional=False,
        is_dynamic_partition_write=False,
    )
    held = client.lock([exclusive], None, "other", "host", "agent")
    waits = partial(eventually, "it waits for its lock", lambda: len(client.show_locks()) > 1)
    assert error in cancelled(server, f"DELETE FROM {database}.t WHERE id = 1", waits)
    eventually("only the other lock is left", lambda: len(left_behind(client)) == 1)
    client.unlock(held.lock_id)
    assert run(server, "anna", [f"SELECT count(*) FROM {database}.t"]) == [[["0"]]]
