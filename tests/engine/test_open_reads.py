"""How long the transactions of frames stay open, and that no program waits for itself."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid import register_views
from hiveacid.api.table import AcidTable
from hiveacid.errors import LockTimeout, TableReplaced, TransactionAborted
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.transport import Connection
from hiveacid.metastore.txn.heartbeat import is_of_this_process
from hiveacid.parser.script import to_script
from hiveacid.rules.names import TableRef
from hiveacid.spark.python import frames as frame_reads
from hiveacid.spark.python.registered_tables import read_together
from hiveacid.spark.run import run
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import ONLY_HIVE4, create, left_behind
from tests.metastore_calls import counted_calls
from tests.proxy import Proxy
from tests.spark_versions.versions import NEEDS_SPARK_4_0
from tests.unused_reads import end_unused_reads
from tests.versions import REAL

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
AT_ONCE = WriteOptions(lock_wait_seconds=0)

PROGRAM = """
import subprocess, sys
from airflow_hiveacid import AcidTable, HiveAcidDataSource, MetastoreOptions
from hiveacid.writes.statement import WriteOptions
from hiveacid.metastore.client import MetastoreClient
from pyspark.sql import SparkSession

uri, name, *more = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

def opened():
    return AcidTable(name, uri, options=WriteOptions(lock_wait_seconds=0))

def rows(*ids):
    return spark.createDataFrame([(each,) for each in ids], "id int")

orders = opened()
orders.truncate()
orders.append(rows(1, 2, 3))
before = orders.to_df()
assert before.count() == 3
opened().overwrite(rows(4, 5))
after = opened().to_df().where("id > 4")
assert after.count() == 1
changes = orders.changes(orders.detail().newest_version)
orders.merge(rows(5, 6), "t.id = s.id").when_not_matched_insert_all().execute()
assert orders.to_df().count() == 3
if more:
    # A later program overwrites what this one still has in its variables.
    del before, after, changes
    subprocess.run([sys.executable, __file__, uri, name], check=True)
kept = orders.to_df()
with MetastoreClient(MetastoreOptions(uris=uri)) as client:
    assert client.show_locks(orders.ref)
    spark.stop()
    assert client.show_locks(orders.ref) == []
"""


@pytest.fixture
def table(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> AcidTable:
    create(client, f"{database}.t", {"id": "int"})
    acid = AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark", options=AT_ONCE)
    acid.append(_rows(spark, 1, 2, 3))
    return acid


def _rows(spark: SparkSession, *ids: int) -> Any:
    return spark.createDataFrame([(each,) for each in ids], "id int")


def _readers(client: MetastoreClient, table: AcidTable) -> int:
    end_unused_reads()
    return len({lock.txn_id for lock in client.show_locks(table.ref)})


@FAKE
def test_a_read_ends_with_its_last_frame(table: AcidTable, client: MetastoreClient) -> None:
    frame = table.to_df()
    chosen = frame.where("id > 1").groupBy().count()
    changes = table.changes(0)
    del frame
    gc.collect()
    assert _readers(client, table) == 1
    del changes
    gc.collect()
    assert _readers(client, table) == 1
    assert chosen.first()[0] == 2
    del chosen
    gc.collect()
    assert left_behind(client) == []


@pytest.mark.parametrize("hms", [*REAL, "fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_frames_share_a_read_until_the_table_changes(
    table: AcidTable, hms: EmbeddedMetastore, client: MetastoreClient, spark: SparkSession
) -> None:
    told_at_its_end = pytest.raises(TransactionAborted)  # That one of the reads was aborted.
    with told_at_its_end, table:
        assert table.to_df().count() == 3
        with counted_calls() as calls:
            assert table.to_df("id > 1").count() == 2
            assert table.changes(0).count() == 3
        assert not calls.keys() & {"open_txns", "lock", "commit_txn", "abort_txn"}
        assert _readers(client, table) == 1
        AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark").append(_rows(spark, 7))
        assert table.to_df().count() == table.to_df().count() == 4
        assert _readers(client, table) == 2
        table.compact("major")
        # The next frame reads what was compacted.
        assert table.to_df().count() == 4
        assert _readers(client, table) == 3
        (*_, newest) = sorted(lock.txn_id or 0 for lock in client.show_locks(table.ref))
        client.abort_txn(newest)
        assert table.to_df().count() == 4
        (*_, after) = sorted(lock.txn_id or 0 for lock in client.show_locks(table.ref))
    assert after > newest
    assert left_behind(client) == []


@FAKE
def test_frames_of_another_definition_do_not_share_a_read(
    table: AcidTable, hms: EmbeddedMetastore, client: MetastoreClient, spark: SparkSession
) -> None:
    before = table.to_df()
    run(spark, _script("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", table, hms))
    after = table.to_df()
    assert before.count() == after.count() == 3
    assert _readers(client, table) == 2
    client.drop_table(table.ref)
    create(client, table.ref.full_name, {"id": "int"})
    AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark").append(_rows(spark, 8))
    assert [row.id for row in table.to_df().collect()] == [8]
    # Nobody knows whether the earlier frames were computed before the table was replaced.
    with pytest.raises(TableReplaced, match="dropped and created again"):
        table.close()
    assert left_behind(client) == []


@FAKE
def test_no_frame_prolongs_a_read_for_ever(
    table: AcidTable, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_reads, "_LONGEST_SHARED_SECONDS", -1)
    frame = table.to_df()
    (first,) = client.show_locks(table.ref)
    frame = table.to_df()
    assert _readers(client, table) == 1
    assert first.txn_id not in {lock.txn_id for lock in client.show_locks(table.ref)}
    del frame


@FAKE
def test_a_thousand_frames_need_few_connections(
    table: AcidTable, hms: EmbeddedMetastore, spark: SparkSession, eventually: Callable[..., None]
) -> None:
    """Also those of many tables, and of a table that changes all the time."""
    with closing(Proxy(hms)) as proxy:
        frames, tables = [], []
        for number in range(30):
            tables.append(AcidTable(table.ref.full_name, proxy.uri, spark=spark, run_in="spark"))
            frames.append(tables[-1].to_df())
            frames.append(
                AcidTable(table.ref.full_name, proxy.uri, spark=spark, run_in="spark").to_df()
            )
            if number % 10 == 0:
                table.append(_rows(spark, 4))
            frames.append(table.to_df())
        eventually("few are open", lambda: proxy.open <= 10)
        assert proxy.most_open < 20
        names = [each.name for each in threading.enumerate()]
        assert names.count(f"heartbeats at {proxy.uri}") == 1
        assert [frame.count() for frame in (frames[0], frames[-1])] == [3, 6]
        for each in (*tables, table):
            each.close()
        del each, frames, tables
        end_unused_reads()
        gc.collect()
        eventually("none is open", lambda: proxy.open == 0)


@FAKE
def test_a_frame_that_is_collected_during_a_call_does_not_call_the_metastore_there(
    table: AcidTable, client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames: list[Any] = [table.to_df()]
    frames.append(frames)  # Only the garbage collector finds it.
    callers: list[tuple[str, bool]] = []
    invoke = Connection.invoke

    def collect(connection: Connection, call: Any, *arguments: Any, **options: Any) -> Any:
        callers.append((call.name, threading.current_thread() is threading.main_thread()))
        if call.name == "get_all_databases":
            frames.clear()
            gc.collect()
        return invoke(connection, call, *arguments, **options)

    monkeypatch.setattr(Connection, "invoke", collect)
    client.get_databases()
    assert [call for call, is_here in callers if is_here] == ["get_all_databases"]
    assert left_behind(client) == []
    assert ("commit_txn", False) in callers


@FAKE
def test_a_with_statement_keeps_all_reads_until_its_end(
    table: AcidTable, client: MetastoreClient
) -> None:
    with table:
        assert table.to_df().count() == 3
        gc.collect()
        assert _readers(client, table) == 1
    assert left_behind(client) == []


@FAKE
def test_closing_a_table_ends_the_reads_of_its_frames(
    table: AcidTable, client: MetastoreClient
) -> None:
    frame = table.to_df()
    table.close()
    assert left_behind(client) == []
    assert frame.count() == 3


@FAKE
def test_the_reads_of_frames_end_before_spark_is_stopped(
    table: AcidTable, client: MetastoreClient, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_at_stop: list[int] = []
    stop = lambda: open_at_stop.append(_readers(client, table))  # noqa: E731
    monkeypatch.setattr(spark.sparkContext, "stop", stop)
    frames = [
        table.to_df(),
        AcidTable(table.ref.full_name, client.options, spark=spark, run_in="spark").to_df(),
    ]
    assert _readers(client, table) == len(frames)
    spark.sparkContext.stop()
    assert open_at_stop == [0]


@FAKE
def test_a_read_that_fails_leaves_no_transaction(table: AcidTable, client: MetastoreClient) -> None:
    with pytest.raises(Exception, match="nope"):
        table.to_df("nope = 1")
    assert left_behind(client) == []


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_an_exclusive_lock_ends_the_reads_of_this_process_on_its_table(
    table: AcidTable, hms: EmbeddedMetastore, client: MetastoreClient, spark: SparkSession
) -> None:
    name, database = table.ref.full_name, table.ref.database
    create(client, f"{database}.other", {"id": "int"})
    other = AcidTable(f"{database}.other", hms.uri, spark=spark, run_in="spark")
    kept = other.to_df()
    for change in (
        lambda: AcidTable(name, hms.uri, spark=spark, run_in="spark", options=AT_ONCE).overwrite(
            _rows(spark, 1, 2)
        ),
        lambda: run(spark, _script("TRUNCATE TABLE t", table, hms)),
        lambda: run(spark, _script("ALTER TABLE t ADD COLUMNS (v int)", table, hms)),
        lambda: run(spark, _script("DROP TABLE t", table, hms)),
    ):
        frame = table.to_df()
        views = register_views(hms.uri, {"v": name}, spark=spark.newSession())
        change()
        assert [lock.table for lock in client.show_locks()] == [other.ref]
        views.close()
    assert frame.schema.names == ["id", "v"]
    assert kept.count() == 0
    other.close()
    assert left_behind(client) == []


def _script(sql: str, table: AcidTable, hms: EmbeddedMetastore) -> Any:
    script = to_script(sql, table.ref.database)
    return type(script)(
        target=script.target,
        statements=script.statements,
        metastore=hms.options,
        lock_wait_seconds=0,
    )


@FAKE
def test_the_error_states_that_a_program_waits_for_itself(
    table: AcidTable,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/load.py", "--all"])
    with read_together([table.ref.full_name], hms.uri, spark=spark):
        (lock,) = client.show_locks(table.ref)
        with pytest.raises(
            LockTimeout, match=rf"Transaction {lock.txn_id} belongs to this process"
        ):
            table.overwrite(_rows(spark, 4))
        assert is_of_this_process(client, lock.txn_id)
        assert lock.agent_info is not None
        program, process, number = lock.agent_info.split(":")
        assert (program, process, len(number)) == (
            "load.py",
            str(os.getpid()),
            12,
        )
    assert not is_of_this_process(client, lock.txn_id)
    assert not is_of_this_process(client, None)


@FAKE
def test_a_child_process_does_not_end_the_reads_of_its_parent(
    table: AcidTable, client: MetastoreClient
) -> None:
    frame = table.to_df()
    if (child := os.fork()) == 0:
        del frame
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert _readers(client, table) == 1
    table.close()


@pytest.mark.server
@NEEDS_SPARK_4_0
@FAKE
def test_a_program_without_with_never_waits_for_itself_and_leaves_nothing_open(
    hms: EmbeddedMetastore, client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    name = TableRef(database, "t").full_name
    create(client, name, {"id": "int"})
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), hms.uri, name, "again"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert left_behind(client) == []
