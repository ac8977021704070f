"""Erasures: no byte of a key is left when there is a certificate, and there is none before."""

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from hiveacid.erasure import delays, rows, steps
from hiveacid.erasure.keys import KeyHolder, KeySet
from hiveacid.erasure.requests import Eraser
from hiveacid.erasure.search import Listing, TableSearch
from hiveacid.errors import (
    InvalidJob,
    LockTimeout,
    SharedLocation,
    TransactionAborted,
    UnsupportedTable,
)
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.erase_job import EraseJob, EraseReport
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.report import CleanReport
from hiveacid.jobs.sources import PathSource, QuerySource, TableSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import WORKING, CompactionQueue, QueuedCompaction
from hiveacid.metastore.table_rules import located
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseClock
from hiveacid.records.consumers import Consumer
from hiveacid.records.erasures import ErasureFolder
from hiveacid.records.mirror_notes import MirrorNote, write_mirror_note
from hiveacid.rules.names import TableRef
from hiveacid.tables.statistics import analyze
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.run import change_rows
from tests.erasure.persons import INSERT_ONLY, KEYS, LAYOUTS, Warehouse
from tests.erasure.remnants import remnants
from tests.fakes.metastore import FakeMetastore
from tests.faults.driver import drive
from tests.faults.effects import Kind, Strike
from tests.golden_versions import adopted
from tests.observers import At
from tests.rows import unordered_rows_of
from tests.versions import REAL

EACH = pytest.mark.parametrize("hms", REAL, indirect=True)
FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


# The numbers of Hive for DIRECT_V2 and DICTIONARY_V2.
_ENCODINGS = {"plain": 2, "direct": 2, "dictionary": 3}


@pytest.fixture
def warehouse(client: MetastoreClient, database: str, tmp_path: Path) -> Warehouse:
    return Warehouse(client, database, tmp_path)


# What is done if a step fails


@FAKE
def test_the_error_of_a_later_step_states_that_the_rows_are_deleted(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
):
    warehouse.fill("plain", 30)
    kept = [row for row in warehouse.rows() if row["who"] not in KEYS]

    def abort_cleaning() -> None:
        [lock] = warehouse.client.show_locks(TableRef.parse(warehouse.t))
        assert lock.txn_id is not None
        warehouse.client.abort_txn(lock.txn_id)

    def clean_asleep(client: MetastoreClient, job: CleanJob, **options: Any) -> CleanReport:
        asleep = PhaseClock([At(Phase.SNAPSHOT, abort_cleaning)])
        return clean(client, job, phases=asleep if not job.dry_run else None)

    with monkeypatch.context() as patched:
        patched.setattr(steps, "clean", clean_asleep)
        with pytest.raises(TransactionAborted) as failed:
            warehouse.erase()
    deleted = warehouse.client.get_open_txns().high_watermark
    [named] = re.findall(
        r"were deleted, by transaction (\d+): they are invisible", str(failed.value)
    )
    assert int(named) < deleted
    assert "Nothing of it is visible" not in str(failed.value)
    assert "Nothing of this transaction is visible" in str(failed.value)
    assert sorted(warehouse.rows(), key=str) == sorted(kept, key=str)
    report = warehouse.erase()
    warehouse.require_erased(report)
    certificate = warehouse.certificate()
    assert certificate is not None
    assert certificate["transactions"] == [int(named)]


# No byte is left


@EACH
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_byte_of_a_key_is_left(warehouse: Warehouse, layout: str):
    warehouse.fill(layout)
    before = warehouse.rows()
    assert warehouse.left() == {*KEYS}
    analyze(warehouse.client, AnalyzeJob(target=warehouse.t))
    if layout in _ENCODINGS:
        assert warehouse.encodings() == {_ENCODINGS[layout]}
    report = warehouse.erase()
    warehouse.require_erased(report)
    assert report.rows_deleted == sum(row["who"] in KEYS for row in before)
    kept = [row for row in before if row["who"] not in KEYS]
    assert sorted(warehouse.rows(), key=str) == sorted(kept, key=str)
    assert warehouse.erase().certificate == report.certificate


@EACH
def test_numbers_are_erased_from_rows_and_from_statistics_of_columns(warehouse: Warehouse):
    warehouse.sql("CREATE TABLE t (id bigint, v string) PARTITIONED BY (k int)")
    warehouse.sql("INSERT INTO t VALUES (777777, 'a', 1), (5, 'b', 1), (888888, 'c', 2)")
    analyze(warehouse.client, AnalyzeJob(target=warehouse.t))
    assert warehouse.bounds("id") == {"k=1": (5, 777777), "k=2": (888888, 888888)}
    keys = QuerySource("VALUES (:a), (:b)", params={"a": 777777, "b": 888888})
    report = warehouse.erase(warehouse.job(keys, columns={warehouse.t: "id"}))
    assert report.certificate, report.waits
    assert warehouse.bounds("id") == {"k=1": (5, 5), "k=2": (0, 0)}
    found = set()
    for path in warehouse.place().rglob("bucket_*"):
        if orc.ORCFile(path).nrows and "delete" not in str(path):
            found |= {row["row"]["id"] for row in orc.read_table(path).to_pylist() if row["row"]}
    assert found == {5}


@FAKE4
def test_several_tables_are_erased_by_one_transaction(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    warehouse.sql("CREATE TABLE u (n int, person varchar(50))")
    warehouse.sql(f"INSERT INTO u VALUES (1, '{KEYS[0]}'), (2, 'other')")
    columns = {warehouse.t: "who", f"{warehouse.database}.u": "person"}
    report = warehouse.erase(warehouse.job(columns=columns))
    warehouse.require_erased(report)
    assert warehouse.left("u") == set()
    certificate = warehouse.certificate()
    assert certificate is not None
    assert len(certificate["transactions"]) == 1
    assert [table["rows_deleted"] for table in certificate["tables"]] == [10, 1]
    assert warehouse.rows("u") == [{"n": 2, "person": "other"}]


@FAKE4
def test_keys_that_an_aborted_transaction_has_read_are_not_stored(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
):
    """Such a reader may have found fewer rows than there are."""
    warehouse.sql(f"""
        CREATE TABLE t (who string, id int); CREATE TABLE orders (id bigint, customer int);
        INSERT INTO t VALUES ('{KEYS[0]}', 1); INSERT INTO orders VALUES (777001, 1)
    """)
    d, read = warehouse.database, rows.matching_rows
    job = warehouse.job(columns={warehouse.t: "who", f"{d}.orders": f"customer = {d}.t.id"})

    def aborted(client: MetastoreClient, txn: Transaction, *arguments: Any) -> Iterator[Any]:
        yield from read(client, txn, *arguments)
        client.abort_txn(txn.txn_id)

    with monkeypatch.context() as patch:
        patch.setattr(rows, "matching_rows", aborted)
        with pytest.raises(TransactionAborted):
            warehouse.erase(job)
    record = ErasureFolder(job.folder, None).open(job.request).read()
    assert record is not None
    assert [table.hashes for table in record[1].tables] == ["", ""]
    warehouse.require_erased(warehouse.erase(job))
    assert warehouse.rows("orders") == []


@FAKE
def test_rows_that_have_persons_through_other_tables_are_erased_with_them(warehouse: Warehouse):
    warehouse.sql(f"""
        CREATE TABLE t (who string, id int, code varchar(9));
        CREATE TABLE orders (id bigint, customer int, code string);
        CREATE TABLE items (item string, code string) {INSERT_ONLY};
        INSERT INTO t VALUES ('{KEYS[0]}', 1, 'c-1'), ('other', 2, 'c-2');
        INSERT INTO orders VALUES (777001, 1, 'order-1'), (777002, 2, 'order-2'), (777003, 1, 'order-3');
        INSERT INTO items VALUES ('a', 'order-1'), ('b', 'order-1'), ('c', 'order-2'), ('d', NULL);
        INSERT INTO items VALUES ('e', 'order-3'), ('f', 'order-2')
    """)
    d = warehouse.database
    columns = {
        warehouse.t: "who",
        f"{d}.orders": f"customer = {d}.t.id",
        f"{d}.items": f"code={d}.orders.code",
    }
    planned = warehouse.erase(warehouse.job(columns=columns, dry_run=True))
    assert planned.rows_deleted == 6
    assert planned.partitions == (f"{d}.items", f"{d}.orders", f"{d}.t")
    report = warehouse.erase(warehouse.job(columns=columns))
    warehouse.require_erased(report)
    assert report.rows_deleted == 6
    certificate = warehouse.certificate()
    assert certificate is not None
    assert [len(table["hashes"].split()) for table in certificate["tables"]] == [0, 1, 2]
    assert len(certificate["transactions"]) == 1
    assert warehouse.left("items", ["order-1", "order-3"]) == set()
    assert warehouse.left("orders", ["order-1", "order-3"]) == set()
    assert sorted(row["item"] for row in warehouse.rows("items")) == ["c", "d", "f"]
    assert [row["id"] for row in warehouse.rows("orders")] == [777002]
    assert warehouse.erase(warehouse.job(columns=columns)).certificate == report.certificate


@FAKE4
def test_a_table_that_needs_a_later_one_is_refused(warehouse: Warehouse):
    columns = {f"{warehouse.database}.lines": f"id = {warehouse.t}.id", warehouse.t: "who"}
    with pytest.raises(InvalidJob, match="not before it"):
        warehouse.erase(warehouse.job(columns=columns))


@FAKE4
def test_a_request_whose_delete_was_not_done_continues_without_its_keys(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
):
    warehouse.fill("plain", 30)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def locked(*_: object) -> None:
        raise LockTimeout("It waited 300 s for writer 7.")

    monkeypatch.setattr(steps, "run_statements", killed)
    with pytest.raises(KeyboardInterrupt):
        warehouse.erase()
    monkeypatch.setattr(steps, "run_statements", locked)
    report = warehouse.eraser().advance("r1").report()
    assert [(wait.kind, "writer 7" in wait.reason) for wait in report.waits] == [("writer", True)]
    monkeypatch.undo()
    assert warehouse.eraser().delays("r1") == ()
    assert warehouse.left() == {*KEYS[:10]}
    report = warehouse.eraser().advance("r1").report()
    warehouse.require_erased(report)
    assert report.rows_deleted == 10


GOLDEN = ["plain_crud", "trino_crud", "originals_bucketed", "loaded", "part_dyn", "evolved"]


@pytest.mark.parametrize("name", GOLDEN)
def test_tables_of_hive_and_trino_are_erased(name: str, tmp_path: Path):
    with adopted(name, None, tmp_path) as table:  # type: ignore[arg-type]
        client = table.client

        client, full_name = table.client, f"default.{name}"
        before = unordered_rows_of(client.options.uris, full_name)
        names = sorted({row["name"] for row in before if row["name"]})
        keys = names[: max(1, len(names) // 2)]
        folder = tmp_path / name
        assert remnants(folder, keys)
        path = tmp_path / "keys.json"
        path.write_text("".join(json.dumps({"name": key}) + "\n" for key in keys))
        job = EraseJob(
            request="golden",
            keys=PathSource(f"file:{path}", "json", schema="name string"),
            columns={full_name: "name"},
            folder=f"file:{tmp_path}/erasures",
            retention="0",
            metastore=client.options,
        )
        report = Eraser(client, job.folder).run(job)
        if table.versions.golden.snapshots[-1].txns.open:
            assert {wait.kind for wait in report.waits} == {"reader"}
            for txn in client.get_open_txns().open_txns:
                client.abort_txn(txn)
            report = Eraser(client, job.folder).advance("golden").report()
        assert report.certificate, report.waits
        kept = [row for row in before if row["name"] not in keys]
        assert sorted(unordered_rows_of(client.options.uris, full_name), key=str) == sorted(
            kept, key=str
        )
        for file in (f for f in folder.rglob("*") if f.is_file() and f.read_bytes()[:3] == b"ORC"):
            for row in orc.read_table(file).to_pylist():
                inner = row.get("row", row)
                assert inner is None or inner.get("name", inner.get("_col1")) not in keys, file


# What delays a certificate


def kinds(report: EraseReport) -> set[str]:
    return {wait.kind for wait in report.waits}


@EACH
def test_an_open_reader_delays_the_certificate(warehouse: Warehouse):
    warehouse.fill("partitioned", 30)
    with Transaction(warehouse.client, reads=[TableRef.parse(warehouse.t)]):
        report = warehouse.erase()
        assert kinds(report) == {"reader"}
        assert warehouse.certificate() is None
        assert warehouse.left()
    erasure = warehouse.eraser().advance("r1")
    warehouse.require_erased(erasure.report())


@FAKE4
def test_the_retention_of_versions_delays_the_certificate(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    warehouse.sql("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.retention'='2 days')")
    report = warehouse.erase(warehouse.job(retention=None))
    assert kinds(report) == {"retention"}
    assert "earlier versions need it until" in report.waits[0].reason
    assert warehouse.certificate() is None
    warehouse.sql("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.retention'='0')")
    warehouse.require_erased(warehouse.eraser().advance("r1").report())


@FAKE4
def test_a_consumer_that_has_not_read_the_delete_delays_the_certificate(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    consumer = Consumer(warehouse.client, warehouse.t, "feed", [f"{warehouse.database}.copy"])
    consumer.begin(1)
    report = warehouse.erase()
    assert kinds(report) == {"consumer"}
    assert warehouse.left()
    assert warehouse.certificate() is None
    version = warehouse.eraser().advance("r1").tables[0].write_id
    assert version is not None
    consumer.advance(version)
    warehouse.require_erased(warehouse.eraser().advance("r1").report())
    certificate = warehouse.certificate()
    assert certificate is not None
    assert any("consumer feed" in place["place"] for place in certificate["places"])


@FAKE4
def test_a_mirror_that_is_behind_or_keeps_snapshots_delays_the_certificate(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    mirror = warehouse.folder / "lake" / "orders"
    (mirror / "data").mkdir(parents=True)

    def note(write_ids: str, at: float) -> None:
        table = warehouse.client.get_table(TableRef.parse(warehouse.t))
        known = MirrorNote(
            mirror="lake.orders",
            catalog="default",
            location=f"file:{mirror}",
            table=located(table),
            write_ids=write_ids,
            complete_at=at,
        )
        write_mirror_note(table, known, is_new=False)

    parquet.write_table(pa.table({"who": KEYS}), mirror / "data" / "old.parquet")
    note(f"{warehouse.t}:1:9223372036854775807::", 1.0)
    report = warehouse.erase(warehouse.job(request="r0"))
    assert "does not name the folder" in report.waits[0].reason
    assert warehouse.certificate("r0") is None
    report = warehouse.erase(warehouse.job(mirrors=[f"file:{mirror}"]))
    assert (kinds(report), "has version 1" in report.waits[0].reason) == ({"mirror"}, True)
    note(f"{warehouse.t}:99:9223372036854775807::", 2.0)
    erasure = warehouse.eraser().advance("r1")
    assert "expire the snapshots" in erasure.waits[0].reason
    assert warehouse.certificate() is None
    (mirror / "data" / "old.parquet").unlink()
    warehouse.require_erased(warehouse.eraser().advance("r1").report())


@EACH
def test_a_writer_that_began_before_the_delete_delays_the_certificate(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    client, ref = warehouse.client, TableRef.parse(warehouse.t)
    txn = client.open_txn("u", "h", None)
    client.allocate_write_id(txn, ref)
    report = warehouse.erase()
    assert "writer" in kinds(report)
    assert warehouse.certificate() is None
    client.abort_txn(txn)
    warehouse.require_erased(warehouse.eraser().advance("r1").report())


@FAKE4
def test_rows_that_a_concurrent_writer_commits_after_the_delete_are_deleted_as_well(
    warehouse: Warehouse,
):
    warehouse.fill("plain", 30)
    reports: list[EraseReport] = []
    insert = InsertJob(
        target=warehouse.t,
        source=QuerySource(f"VALUES ('{KEYS[0]}', 0, 'late')"),
        by_position=True,
        run_in="worker",
        metastore=warehouse.client.options,
    )
    erase = At(Phase.PUBLISH, lambda: reports.append(warehouse.erase()))
    with MetastoreClient(warehouse.client.options) as writer:
        change_rows(writer, insert, [erase])
    assert kinds(reports[0]) >= {"writer"}
    assert [row["note"] for row in warehouse.rows() if row["who"] == KEYS[0]] == ["late"]
    report = warehouse.eraser().advance("r1").report()
    warehouse.require_erased(report)
    assert report.rows_deleted == 11


@FAKE
def test_a_compactor_at_work_delays_the_certificate(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
):
    """One of Hive 3 has no transaction, and may have read the rows before the delete."""
    warehouse.fill("plain", 30)
    working = QueuedCompaction(
        id=1, table=TableRef.parse(warehouse.t), partition=None, type="minor", state=WORKING
    )
    queue = type("Queue", (CompactionQueue,), {"live": lambda *_: [working]})
    monkeypatch.setattr(delays, "CompactionQueue", queue)
    report = warehouse.erase()
    assert kinds(report) == {"compaction"}
    assert "request 1 (minor of" in report.waits[0].reason
    assert warehouse.certificate() is None
    assert warehouse.eraser().delays("r1") == report.waits
    monkeypatch.undo()
    warehouse.require_erased(warehouse.eraser().advance("r1").report())


@FAKE4
def test_files_of_aborted_writes_and_staged_changes_count(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    folder = warehouse.place()
    delta = next(path for path in folder.iterdir() if path.name.startswith("delta_0000001"))
    client, ref = warehouse.client, TableRef.parse(warehouse.t)
    txn = client.open_txn("u", "h", None)
    write_id = client.allocate_write_id(txn, ref)
    shutil.copytree(delta, folder / f"delta_{write_id:07}_{write_id:07}_0000")
    client.abort_txn(txn)
    shutil.copytree(delta, folder / ".hive-staging_hive_2026" / "-ext-10000")
    report = warehouse.erase()
    assert kinds(report) == {"file"}
    assert ".hive-staging" in report.waits[0].reason
    shutil.rmtree(folder / ".hive-staging_hive_2026")
    warehouse.require_erased(warehouse.eraser().advance("r1").report())


@FAKE4
@pytest.mark.parametrize("content", [b"ORC", b"ORC" + bytes(99), b"ORC\x80\xff\x05", b"crc\0"])
def test_files_that_cannot_be_decoded_count_as_files_with_keys(
    warehouse: Warehouse, content: bytes
):
    warehouse.fill("plain", 30)
    path = warehouse.place() / "_tmp_old" / "bucket_00000"
    path.parent.mkdir()
    path.write_bytes(content)
    report = warehouse.erase()
    assert kinds(report) == {"file"}
    assert "_tmp_old/bucket_00000" in report.waits[0].reason
    path.unlink()
    warehouse.require_erased(warehouse.eraser().advance("r1").report())


@FAKE4
@pytest.mark.parametrize("name", ["export.csv", "_old/notes.bin", "x.parquet"])
def test_unknown_files_count_as_files_with_keys(warehouse: Warehouse, name: str):
    warehouse.fill("plain", 30)
    report = warehouse.erase()
    assert report.certificate
    path = warehouse.place() / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(KEYS[0])
    report = warehouse.erase(warehouse.job(request="r2"))
    assert kinds(report) == {"file"}
    assert warehouse.certificate("r2") is None
    path.unlink()
    assert warehouse.eraser().advance("r2").certificate


@FAKE4
def test_a_file_that_is_renamed_during_the_search_is_found(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
):
    warehouse.fill("plain", 30)
    table = warehouse.client.get_table(TableRef.parse(warehouse.t))
    search = TableSearch(warehouse.client, KeyHolder.of(table, "who", KeySet.of(b"salt", KEYS)))
    found = search.run()
    held = {Path(file.path).parent.name for file in found.held}
    assert held == {path.name for path in warehouse.place().glob("delta_*")}
    moved = warehouse.place() / min(held)
    look = TableSearch._search

    def move(self: TableSearch, listing: Listing, path: str) -> Any:
        with suppress(FileNotFoundError):  # The files are searched in threads.
            moved.rename(warehouse.place() / "_hidden")
        return look(self, listing, path)

    monkeypatch.setattr(TableSearch, "_search", move)
    again = search.run()
    assert {Path(file.path).parent.name for file in again.held} == {*held - {moved.name}, "_hidden"}
    assert not any(file.problem for file in again.held)


@FAKE4
def test_a_link_is_named_and_not_followed(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    elsewhere = warehouse.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text(KEYS[0])
    (warehouse.place() / "_link").symlink_to(elsewhere)
    report = warehouse.erase()
    assert "symbolic link" in report.waits[0].reason
    (warehouse.place() / "_link").unlink()
    assert warehouse.eraser().advance("r1").certificate


@FAKE4
@pytest.mark.parametrize("change", ["DROP TABLE t", "ALTER TABLE t RENAME TO u"])
def test_a_table_that_was_dropped_or_renamed_is_named(warehouse: Warehouse, change: str):
    warehouse.fill("plain", 30)
    with Transaction(warehouse.client, reads=[TableRef.parse(warehouse.t)]):
        warehouse.erase()
    warehouse.sql(change)
    erasure = warehouse.eraser().advance("r1")
    assert kinds(erasure.report()) == {"table"}
    warehouse.sql(LAYOUTS["plain"])
    assert kinds(warehouse.eraser().advance("r1").report()) == {"table"}
    assert warehouse.certificate() is None


@FAKE4
def test_a_later_insert_of_a_key_is_a_new_row(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    with Transaction(warehouse.client, reads=[TableRef.parse(warehouse.t)]):
        warehouse.erase()
        warehouse.sql(f"INSERT INTO t VALUES ('{KEYS[0]}', 1, 'again')")
        job = CompactJob(target=warehouse.t, type="major", metastore=warehouse.client.options)
        with WorkerScheduler() as scheduler:
            TableCompactor(scheduler, warehouse.client, job).run()
    assert warehouse.eraser().advance("r1").certificate
    certificate = warehouse.certificate()
    assert certificate is not None
    assert certificate["rows_written_later"][warehouse.t] == 1
    assert [row["note"] for row in warehouse.rows() if row["who"] in KEYS] == ["again"]


@EACH
@pytest.mark.parametrize("layout", ["partitioned", "insert-only partitioned"])
def test_of_rows_of_concurrent_writers_those_stay_that_were_written_after_the_delete(
    warehouse: Warehouse, layout: str
):
    warehouse.fill(layout, 30)
    writers, rows, began = 3, 4, Event()

    def write(writer: int) -> dict[int, int]:
        """Insert rows of one person, each in its own transaction; return their write ids."""
        found = {}
        with MetastoreClient(warehouse.client.options) as client:
            for number in range(1000 * writer, 1000 * writer + rows):
                insert = InsertJob(
                    target=warehouse.t,
                    source=QuerySource(
                        f"VALUES ('{KEYS[writer]}', {number}, 'n', {number % 3}),"
                        f" ('another person', {number}, 'n', {number % 3})"
                    ),
                    by_position=True,
                    run_in="worker",
                    metastore=client.options,
                )
                found[number] = change_rows(client, insert).write_ids[warehouse.t]
                began.set()
        return found

    with ThreadPoolExecutor(writers) as pool:
        running = [pool.submit(write, writer) for writer in range(1, writers + 1)]
        assert began.wait(120)
        warehouse.erase()
        written = {number: at for each in running for number, at in each.result().items()}
    assert warehouse.eraser().advance("r1").certificate
    certificate = warehouse.certificate()
    assert certificate is not None
    deleted_by = certificate["tables"][0]["write_id"]
    later = sorted(number for number, at in written.items() if at > deleted_by)
    rows_left = warehouse.rows()
    assert sorted(row["id"] for row in rows_left if row["who"] in KEYS) == later
    others = sorted(row["id"] for row in rows_left if row["who"] == "another person")
    assert others == sorted(written)
    assert certificate["rows_written_later"][warehouse.t] == len(later)


# Refusals


@FAKE4
def test_requests_that_cannot_be_carried_out_are_refused_before_anything_changes(
    warehouse: Warehouse,
):
    warehouse.sql(
        "CREATE TABLE t (who string, d double) PARTITIONED BY (k int); CREATE TABLE flat (who string)"
        f" CLUSTERED BY (who) INTO 2 BUCKETS{INSERT_ONLY}; CREATE TABLE pages (who string)"
        f" STORED AS PARQUET{INSERT_ONLY}; CREATE TABLE twins (who string) PARTITIONED BY (k int)"
        f" {INSERT_ONLY}"
    )
    twins = warehouse.client.get_table(TableRef(warehouse.database, "twins"))
    both = [HivePartition.new(twins, [value]) for value in ("1", "01")]
    warehouse.client.add_partitions(twins.ref, both)
    for columns, error, words in (
        ({warehouse.t: "k"}, UnsupportedTable, "partition key"),
        ({warehouse.t: "d"}, UnsupportedTable, "no keys"),
        ({f"{warehouse.database}.flat": "who"}, UnsupportedTable, "insert-only and bucketed"),
        ({f"{warehouse.database}.pages": "who"}, UnsupportedTable, "stored as PARQUET"),
        ({f"{warehouse.database}.twins": "who"}, UnsupportedTable, "partitions with equal values"),
    ):
        with pytest.raises(error, match=words):
            warehouse.erase(warehouse.job(columns=columns))
    with pytest.raises(SharedLocation):
        warehouse.erase(warehouse.job(folder=f"file:{warehouse.place()}/_erasures"))
    assert not warehouse.requests.exists()


@FAKE4
def test_the_keys_and_tables_of_a_request_never_change(warehouse: Warehouse):
    warehouse.fill("plain", 30)
    warehouse.erase()
    with pytest.raises(InvalidJob, match="keys of the request r1 have changed"):
        warehouse.erase(warehouse.job(warehouse.keys_file(KEYS[:3])))
    with pytest.raises(InvalidJob, match="other tables"):
        warehouse.erase(warehouse.job(columns={warehouse.t: "note"}))


@FAKE4
def test_a_dry_run_changes_nothing_and_names_what_delays_an_erasure(warehouse: Warehouse):
    warehouse.fill("partitioned", 30)
    before = sorted(warehouse.folder.rglob("*"))
    with Transaction(warehouse.client, reads=[TableRef.parse(warehouse.t)]):
        report = warehouse.erase(warehouse.job(warehouse.keys_file(KEYS), dry_run=True))
    assert (report.dry_run, report.rows_deleted, report.certificate) == (True, 10, None)
    assert report.partitions == (f"{warehouse.t}/k=0",)
    assert report.bytes > 0
    assert kinds(report) == {"reader"}
    assert [
        path for path in sorted(warehouse.folder.rglob("*")) if path.name != "keys.json"
    ] == before


# Kills


def test_a_killed_erasure_continues_and_is_applied_once(tmp_path: Path):
    """At some changes, of which a whole run has some hundred; the suite of faults does so at each."""
    counted = _killed(tmp_path / "counted", None)
    assert counted > 60
    for place in range(3, counted, 20):
        _killed(tmp_path / str(place), place)


def test_a_killed_reader_of_a_table_of_keys_does_not_delay_the_certificate(tmp_path: Path):
    for place in range(4):
        _killed(tmp_path / str(place), place, in_table=True)


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_a_kill_at_every_change(tmp_path: Path):
    for place in range(_killed(tmp_path / "counted", None)):
        _killed(tmp_path / str(place), place)


def _killed(folder: Path, place: int | None, *, in_table: bool = False) -> int:
    """Kill an erasure at a change, and run it again; return the number of changes.

    The keys are in a file, or in a table.
    """
    folder.mkdir()
    with (
        FakeMetastore("4.0.1", directory=folder) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database("d")
        warehouse = Warehouse(client, "d", folder)
        warehouse.fill("partitioned", 30)
        job = warehouse.job()
        if in_table:
            values = ", ".join(f"('{key}')" for key in KEYS[:10])
            warehouse.sql(f"CREATE TABLE asked (who string); INSERT INTO asked VALUES {values}")
            job = warehouse.job(TableSource("d.asked"))
        strike = None if place is None else Strike(Kind.KILL, place)
        told = drive(job, folder, strike, str(folder))
        if place is not None:
            assert told.report is None, (place, told)
            if warehouse.certificate() is not None:
                assert warehouse.left() == set()
            told = drive(job, folder, None, str(folder))
        assert told.report is not None, (place, told.error, told.message)
        assert told.report["certificate"], (place, told.report["waits"])
        warehouse.require_erased(warehouse.erase(job))
        assert told.report["rows_deleted"] == 10
        certificate = warehouse.certificate()
        assert certificate is not None
        assert len(certificate["transactions"]) == 1
        assert (warehouse.requests / "r1" / "certificate.txt").exists()
        assert not [txn for txn in client.get_open_txns_info() if txn.state is TxnState.OPEN]
        return len(told.changes)
