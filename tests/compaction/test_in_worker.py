"""Compactions without Spark: the same files by every way, and none of Java and Spark."""

from collections import Counter
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import CompactReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.tail import OrcTail
from hiveacid.parser.script import to_jobs
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import LocalStorage
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.compaction.written_table import WrittenTable, expected_rows, twelve_deltas
from tests.contract.compactions import needs_pools

FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
Made = Callable[..., WrittenTable]


@pytest.fixture
def make(client: MetastoreClient, database: str) -> Made:
    names = iter("abcdefgh")
    # ISA-L compresses the same bytes differently in about one of 150 processes.
    return lambda: twelve_deltas(client, f"{database}.{next(names)}", codec="none")


def compact(table: WrittenTable, type_: str, *, pool: bool = False, **more: Any) -> CompactReport:
    job = CompactJob(target=str(table.ref), type=type_, run_in="worker", **more)
    with WorkerScheduler(2, 0 if pool else 1 << 30) as scheduler:
        return TableCompactor(scheduler, table.client, job).run()


@FAKE
@pytest.mark.parametrize("type_", ["minor", "major"])
def test_other_processes_write_the_same_files(make: Made, type_: str) -> None:
    tables = [make(), make()]
    for table, pool in zip(tables, (False, True), strict=True):
        (done,) = compact(table, type_, pool=pool).partitions
        assert done.outcome == "compacted", done
        assert done.proof is not None
        assert done.proof.rows_written + done.proof.rows_deleted == 550
        assert table.rows() == expected_rows()
        table.clean()
        assert len(table.directories()) == len(done.published)
    inline, pooled = (table.files() for table in tables)
    assert inline == pooled
    assert inline


@FAKE
@pytest.mark.parametrize("stated", ["SNAPPY", "ZSTD"])
def test_rows_get_the_codec_that_the_table_states_if_its_hive_can_read_it(
    client: MetastoreClient, database: str, stated: str
) -> None:
    table = twelve_deltas(client, f"{database}.t")
    (job,) = to_jobs(f"ALTER TABLE {table.ref} SET TBLPROPERTIES ('orc.compress' = '{stated}')")
    run_ddl(client, job)
    (done,) = compact(table, "major").partitions
    assert done.outcome == "compacted", done
    (base,) = table.root.glob("base_*/bucket_00000")
    with base.open("rb") as source:
        codec = OrcTail.read(source).codec
    # None is unknown: the owner of the table has stated it.
    readable = stated != "ZSTD" or client.features.reads_zstd is not False
    assert codec is (Codec[stated] if readable else Codec.ZLIB)
    assert table.rows() == expected_rows()


@FAKE
def test_insert_only_files_are_joined(client: MetastoreClient, database: str) -> None:
    table = WrittenTable.create(client, f"{database}.t", TableKind.INSERT_ONLY)
    for number in range(12):
        table.insert(2 * number, 2 * number + 1)
    (done,) = compact(table, "major").partitions
    assert (done.outcome, done.stripes_copied, done.rows) == ("compacted", 12, 24)
    table.clean()
    assert table.directories() == list(done.published)
    assert table.rows() == list(range(24))


@FAKE4
@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
def test_what_only_spark_can_do_is_refused_and_leaves_nothing(
    client: MetastoreClient, database: str, kind: TableKind
) -> None:
    table = WrittenTable.create(client, f"{database}.t", kind)
    table.insert(1), table.insert(2, codec="zstd")
    if kind is TableKind.FULL_ACID:
        table.insert_in_disorder()
    before = table.directories()
    (done,) = compact(table, "major").partitions
    assert done.error is not None
    assert (done.outcome, done.error.id) == ("failed", "SparkNeeded")
    assert "run_in='spark'" in done.error.remedy
    assert table.directories() == before
    assert [path.name for path in table.root.iterdir() if path.name.startswith("_tmp")] == []
    assert client.show_locks(table.ref) == []


@FAKE
def test_a_partition_of_nothing_but_empty_files_gets_an_empty_base(
    client: MetastoreClient, database: str
) -> None:
    table = WrittenTable.create(client, f"{database}.t", TableKind.INSERT_ONLY)
    for _ in range(2):
        table.insert()
    (done,) = compact(table, "major").partitions
    assert (done.outcome, done.rows) == ("compacted", 0)
    table.insert(5)
    assert table.rows() == [5]


# Under a lock instead of the queue, a minor compaction with deletes becomes a major one.
@FAKE4
@pytest.mark.parametrize("type_", [pytest.param("minor", marks=needs_pools), "major"])
def test_files_are_opened_a_few_times_however_many_they_are(
    client: MetastoreClient, database: str, type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = WrittenTable.create(client, f"{database}.t")
    for number in range(30):
        write_id = table.insert(2 * number, 2 * number + 1)
        table.delete((write_id, 0))
    opened: list[tuple[str, BinaryIO]] = []
    at_once: list[int] = []
    open_input = LocalStorage.open_input

    def counted(storage: LocalStorage, path: str) -> BinaryIO:
        file = open_input(storage, path)
        opened.append((path, file))
        at_once.append(sum(not file.closed for _, file in opened))
        return file

    monkeypatch.setattr(LocalStorage, "open_input", counted)
    (done,) = compact(table, type_).partitions
    assert (done.outcome, done.rows) == ("compacted", 30 if type_ == "major" else 60)
    counts = Counter(path for path, _ in opened if path.endswith("/bucket_00000"))
    # Once for the proof, once for the plan, and once for the rows.
    assert len(counts) >= 60
    assert max(counts.values()) <= 3
    assert max(at_once) <= 4
    monkeypatch.undo()
    assert table.rows() == list(range(1, 60, 2))


@FAKE
@pytest.mark.parametrize("run_in", ["auto", "worker"])
def test_commands_without_java_and_spark(
    make: Made, run_in: str, hiveacid_without_java: Callable[..., dict[str, Any]]
) -> None:
    table, hiveacid = make(), hiveacid_without_java
    (planned,) = hiveacid("plan", str(table.ref))["partitions"]
    assert (planned["type"], planned["forecast"]["spark_reason"]) == ("major", None)
    assert planned["run_in"] == "worker"
    (done,) = hiveacid("compact", str(table.ref), "--run-in", run_in)["partitions"]
    assert (done["outcome"], done["type"], done["rows"]) == ("compacted", "major", 548)
    assert len(hiveacid("clean", str(table.ref))["removed"]) >= 12
    assert table.rows() == expected_rows()
    assert table.directories() == done["published"]


@FAKE
def test_a_small_compaction_by_a_program_starts_no_spark(
    make: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make()
    monkeypatch.setattr(AcidTable, "_spark", property(lambda _: pytest.fail("Spark was started")))
    with AcidTable(str(table.ref), table.client.options) as acid:
        (done,) = acid.compact("major").partitions
    assert (done.outcome, done.rows) == ("compacted", 548)
    assert table.rows() == expected_rows()
