"""The isolation of readers and writers of one table, on real metastores of both versions."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import LockTimeout
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import LockState
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.rules.names import TableRef
from hiveacid.writes.statement import WriteOptions
from tests.observers import At

Row = tuple[int, int, str]

OLD: list[Row] = [(1, 10, "mon"), (2, 20, "mon"), (3, 30, "tue"), (4, 40, "wed"), (8, 80, "thu")]
COLUMNS = [HiveColumn("id", "bigint"), HiveColumn("v", "int")]
DAY = [HiveColumn("day", "string")]
# Longer than anything takes that does not hang.
WAIT_SECONDS = 120


@pytest.fixture
def frame(spark: SparkSession) -> Callable[..., DataFrame]:
    def make(*rows: Row) -> DataFrame:
        return spark.createDataFrame(rows, "id bigint, v int, day string")

    return make


@pytest.fixture
def opened(
    spark: SparkSession, hms: EmbeddedMetastore, database: str
) -> Iterator[Callable[..., AcidTable]]:
    """Open a table as a job or a session of its own would; by default it never waits for locks."""
    with ExitStack() as tables:

        def make(*observers: At, wait: float = 0, name: str = "events") -> AcidTable:
            options = WriteOptions(lock_wait_seconds=wait)
            full_name = f"{database}.{name}"
            table = AcidTable(
                full_name,
                hms.uri,
                spark=spark,
                run_in="spark",
                options=options,
                observers=observers,
            )
            return tables.enter_context(table)

        yield make


@pytest.fixture
def table(
    client: MetastoreClient,
    database: str,
    opened: Callable[..., AcidTable],
    frame: Callable[..., DataFrame],
) -> TableRef:
    ref = TableRef(database, "events")
    client.create_table(HiveTable.new(ref, COLUMNS, partition_keys=DAY))
    opened().append(frame(*OLD))
    return ref


@pytest.fixture
def rows(opened: Callable[..., AcidTable], table: TableRef) -> Callable[[], list[Row]]:
    """Return the rows of a new reader."""

    def read() -> list[Row]:
        with opened() as reader:
            return collected(reader.to_df())

    return read


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def somebody_waits(
    client: MetastoreClient, table: TableRef, eventually: Callable[..., None]
) -> Callable[[], None]:
    def wait() -> None:
        def waiting() -> bool:
            return bool(client.show_locks(queue_of(table))) or any(
                lock.state is LockState.WAITING for lock in client.show_locks(table)
            )

        eventually("a writer waits for a lock", waiting)

    return wait


def collected(frame: DataFrame) -> list[Row]:
    return sorted(tuple(row) for row in frame.collect())


def merge(table: AcidTable, source: DataFrame | TableSource) -> RunReport:
    """Add the source's values to those of the same id; a null deletes, an unknown id is new."""
    return (
        table.merge(source, "t.day = s.day AND t.id = s.id")
        .when_matched_delete("s.v IS NULL")
        .when_matched_update({"v": "t.v + s.v"})
        .when_not_matched_insert_all()
        .execute()
    )


def test_a_reader_sees_all_of_a_merge_or_nothing(opened, frame, table, rows):
    reader, frames = opened(), {}

    def begin(name: str) -> Callable[[], Any]:
        return lambda: frames.setdefault(name, reader.to_df())

    begin("before")()
    during = [At(phase, begin(phase.value)) for phase in (Phase.WRITE, Phase.COMMIT)]
    report = merge(
        opened(*during), frame((1, 5, "mon"), (3, None, "tue"), (5, 50, "wed"), (6, 60, "fri"))
    )
    assert report.partitions == ("day=fri", "day=mon", "day=tue", "day=wed")
    begin("after")()

    new = [(1, 15, "mon"), OLD[1], OLD[3], (5, 50, "wed"), (6, 60, "fri"), OLD[4]]
    assert {name: collected(frame) for name, frame in frames.items()} == {
        "before": OLD,
        "write": OLD,
        "commit": OLD,
        "after": new,
    }


@pytest.mark.parametrize("phase", [Phase.PUBLISH, Phase.COMMIT])
def test_an_aborted_merge_leaves_nothing(client, opened, frame, table, rows, phase):
    def fail() -> None:
        raise ZeroDivisionError

    folder = Path(client.get_table(table).location.removeprefix("file:"))
    before = files_and_acid_directories(folder)
    source = frame((1, 5, "mon"), (3, None, "tue"), (6, 60, "fri"))
    with pytest.raises(ZeroDivisionError):
        merge(opened(At(phase, fail)), source)

    assert files_and_acid_directories(folder) == before
    assert rows() == OLD
    assert client.show_locks(table) == []


def files_and_acid_directories(folder: Path) -> set[str]:
    """All but partition folders: a partition without rows may stay."""
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return {path for path in paths if not path.rpartition("/")[2].startswith("day=")}


def test_the_second_of_two_merges_of_one_partition_works_on_fresh_data(
    opened, frame, table, rows, pool, somebody_waits
):
    inside, go_on = Event(), Event()

    def hold() -> None:
        inside.set()
        assert go_on.wait(WAIT_SECONDS)

    first = pool.submit(
        merge, opened(At(Phase.WRITE, hold)), frame((1, 5, "mon"), (9, 1, "mon"), (2, None, "mon"))
    )
    assert inside.wait(WAIT_SECONDS)
    second = pool.submit(
        merge, opened(wait=WAIT_SECONDS), frame((1, 7, "mon"), (9, 2, "mon"), (2, 3, "mon"))
    )
    somebody_waits()
    go_on.set()

    one, two = first.result(), second.result()
    assert (one.restarts, one.rows_inserted, one.rows_updated, one.rows_deleted) == (0, 1, 1, 1)
    assert (two.restarts, two.rows_inserted, two.rows_updated, two.rows_deleted) == (0, 1, 2, 0)
    assert rows() == [(1, 22, "mon"), (2, 3, "mon"), *OLD[2:], (9, 3, "mon")]


def test_of_two_merges_of_one_partition_that_do_not_wait_one_wins(opened, frame, table, rows):
    def rival() -> None:
        with pytest.raises(LockTimeout, match=r"held since .* by transaction"):
            merge(opened(), frame((1, 7, "mon"), (9, 2, "mon")))

    merge(opened(At(Phase.WRITE, rival)), frame((1, 5, "mon"), (9, 1, "mon")))
    assert rows() == [(1, 15, "mon"), *OLD[1:], (9, 1, "mon")]


def test_changes_of_different_partitions_run_side_by_side(opened, frame, table, rows, pool):
    meet = Barrier(4)

    def beside() -> AcidTable:
        return opened(At(Phase.WRITE, lambda: meet.wait(WAIT_SECONDS)))

    reports = [
        pool.submit(merge, beside(), frame((1, 5, "mon"), (2, None, "mon"))),
        pool.submit(merge, beside(), frame((3, 5, "tue"), (5, 50, "tue"))),
        pool.submit(beside().update, {"v": "v + 5"}, "day = 'wed'"),
        pool.submit(beside().delete, "day = 'thu' AND v > 0"),
    ]
    # No writer has waited, because a wait would have been an error; none has restarted.
    assert [report.result().restarts for report in reports] == [0, 0, 0, 0]
    assert rows() == [(1, 15, "mon"), (3, 35, "tue"), (4, 45, "wed"), (5, 50, "tue")]


def test_inserts_wait_neither_for_each_other_nor_for_an_update(opened, frame, table, rows, pool):
    meet = Barrier(3)

    def beside() -> AcidTable:
        return opened(At(Phase.WRITE, lambda: meet.wait(WAIT_SECONDS)))

    reports = [
        pool.submit(beside().append, frame((7, 70, "mon"))),
        pool.submit(beside().append, frame((6, 60, "mon"), (9, 90, "fri"))),
        pool.submit(beside().update, {"v": "v + 1"}, all_rows=True),
    ]
    assert [report.result().restarts for report in reports] == [0, 0, 0]
    updated = [(number, v + 1, day) for number, v, day in OLD]
    assert rows() == sorted([*updated, (6, 60, "mon"), (7, 70, "mon"), (9, 90, "fri")])


def test_a_merge_whose_source_has_moved_locks_the_whole_table(
    client, database, opened, frame, table, rows
):
    feed = TableRef(database, "feed")
    client.create_table(HiveTable.new(feed, [*COLUMNS, *DAY]))
    opened(name="feed").append(frame((1, 5, "mon")))

    def move() -> None:
        opened(name="feed").append(frame((3, 5, "tue")))

    locked = []

    def look() -> None:
        locked.append({lock.partition for lock in client.show_locks(table)})

    observers = At(Phase.OPEN, move), At(Phase.SNAPSHOT, look, times=2)
    report = merge(opened(*observers), TableSource(feed.full_name))
    assert locked == [{"day=mon"}, {None}]
    assert report.rows_updated == 2
    assert rows() == [(1, 15, "mon"), OLD[1], (3, 35, "tue"), *OLD[3:]]
    (left,) = client.get_partitions(client.get_table(table), ["day=mon"])
    folder = Path(left.location.removeprefix("file:"))
    deltas = sorted(path.name for path in folder.glob("delta_*"))
    assert len(deltas) == 2, "the first attempt has left something behind"


def test_an_overwrite_waits_for_readers(client, opened, frame, table, rows, pool, somebody_waits):
    # A transaction like that of another process: a write ends the reads of its own process.
    with Transaction(client, reads=[table]) as read:
        before = opened().to_df()
        with pytest.raises(LockTimeout, match=rf"held since .* by transaction {read.txn_id} "):
            opened().overwrite(frame((7, 70, "mon")))

        overwrite = pool.submit(opened(wait=WAIT_SECONDS).overwrite, frame((7, 70, "mon")))
        somebody_waits()
        assert collected(before) == OLD
    assert overwrite.result().partitions == ("day=mon",)
    assert rows() == [*OLD[2:4], (7, 70, "mon"), OLD[4]]
