"""Maintenance of many tables in one process."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hiveacid.errors import (
    AccessRefused,
    HiveAcidError,
    InvalidJob,
    MetastoreUnreachable,
    TableNotFound,
)
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import (
    CleanJob,
    CompactJob,
    Maintenance,
    MaintenanceReport,
    versions_in_words,
)
from hiveacid.jobs.report import Report
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.cleaning import RETENTION
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy, WorkerLimits
from hiveacid.rules.compaction_rank import READS_PROPERTY
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.upkeep.compaction.warehouse import JobObserver, WarehouseMaintainer
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.compaction.written_table import WrittenTable, expected_rows, twelve_deltas
from tests.engine.definitions import replace_definition
from tests.metastore_calls import counted_calls

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
TOKEN = "d/r/t/-1"


@pytest.fixture
def make(client: MetastoreClient, database: str) -> Callable[[str], WrittenTable]:
    return lambda name: twelve_deltas(client, f"{database}.{name}")


def maintain(
    client: MetastoreClient,
    *tables: str,
    jobs: JobObserver | None = None,
    observers: tuple[PhaseObserver, ...] = (),
    **more: Any,
) -> MaintenanceReport:
    maintenance = Maintenance(tables=tables, **more)
    maintenance.validate()
    with WorkerScheduler() as scheduler:
        return WarehouseMaintainer(scheduler, client, maintenance, observers, jobs, TOKEN).run()


def test_all_tables_of_a_pattern_are_compacted_and_cleaned(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    tables = [make(name) for name in ("a", "b", "c")]
    idle = WrittenTable.create(client, f"{database}.idle")
    idle.insert(1)
    client.create_table(
        HiveTable.new(TableRef(database, "s"), [HiveColumn("id", "int")], kind=TableKind.NOT_ACID)
    )
    report = maintain(client, f"{database}.*")
    assert (report.surveyed, report.error, report.skipped, report.on_spark) == (4, None, (), ())
    assert [each.table for each in report.tables] == [str(table.ref) for table in tables]
    for table, done in zip(tables, report.tables, strict=True):
        assert done.compacted == 1
        assert done.removed >= 12
        assert done.bytes_read > done.bytes_written > 0
        assert table.rows() == expected_rows()
        assert len(table.directories()) == 1
    assert idle.directories() == ["delta_0000001_0000001_0000"]
    again = maintain(client, f"{database}.*")
    assert (again.tables, again.skipped) == ((), ())


def test_more_tables_need_no_more_lists_of_all_locations(
    client: MetastoreClient, make: Callable[[str], WrittenTable]
) -> None:
    lists = []
    for names in ("a", "bcd"):
        tables = [str(make(name).ref) for name in names]
        with counted_calls() as calls:
            report = maintain(client, *tables)
        assert sum(each.removed >= 12 for each in report.tables) == len(tables)
        lists.append(calls["get_all_databases"])
    assert lists == [1, 1]


def test_a_broken_table_fails_alone(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    broken, intact = make("a"), make("b")
    next(broken.root.rglob("bucket_00000")).write_bytes(b"no ORC file")
    before = broken.directories()
    report = maintain(client, f"{database}.*")
    first, second = sorted(report.tables, key=lambda each: each.table)
    assert first.error is not None
    assert (first.error.id, first.compacted) == ("CorruptFile", 0)
    assert (second.error, second.compacted) == (None, 1)
    assert broken.directories() == before
    assert intact.rows() == expected_rows()
    assert report.error is not None
    assert f"1 of 2 tables failed ({broken.ref})" in report.error.message
    assert client.show_locks(broken.ref) == []


def test_work_beyond_the_budget_is_reported_and_runs_next_time(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    names = {str(make(name).ref) for name in ("a", "b")}
    first = maintain(client, f"{database}.*", budget=Budget(max_partitions=1))
    (done,), (left,) = first.tables, first.skipped
    assert {done.table, left.table} == names
    assert "budget of 1 partition is used up" in left.reason
    (then,) = maintain(client, f"{database}.*", budget=Budget(max_partitions=1)).tables
    assert then.table == left.table


def test_a_budget_selects_the_tables_that_are_read_most(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    tables = [make(name) for name in ("a", "b", "c")]

    def read(reads: int, raw: Any) -> None:
        raw.parameters[READS_PROPERTY] = str(reads)

    # The tables differ only in how often they are read.
    for table, reads in zip(tables, (24, 2400, 240), strict=True):
        replace_definition(client, table.ref, partial(read, reads))
    report = maintain(client, f"{database}.*", budget=Budget(max_partitions=1))
    assert [each.table for each in report.tables] == [str(tables[1].ref)]
    assert {each.table for each in report.skipped} == {str(tables[0].ref), str(tables[2].ref)}


def test_work_beyond_the_limits_of_the_worker_is_left_for_spark(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    table = make("a")
    before = table.directories()
    report = maintain(client, f"{database}.a", worker=WorkerLimits(max_encoded_bytes=1))
    ((need,),) = report.on_spark
    assert (need.table, need.partition, need.type) == (str(table.ref), None, "major")
    assert report.summary == (
        "tables: 1 surveyed, partitions: 0 compacted, 1 left for Spark, 0 B removed"
    )
    assert report.error is None
    assert table.directories() == before


def test_directories_that_readers_needed_are_removed_later(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    table = make("a")
    reader = client.open_txn("tests", "localhost", None)
    (done,) = maintain(client, f"{database}.*").tables
    assert done.compacted == 1
    assert len(table.directories()) > 1
    client.commit_txn(reader)
    (then,) = maintain(client, f"{database}.*").tables
    assert (then.compacted, len(table.directories())) == (0, 1)
    assert then.removed > 0
    assert table.rows() == expected_rows()


def test_earlier_versions_survive_a_maintenance_by_default(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    table = make("a")

    def without_property(raw: Any) -> None:
        del raw.parameters[RETENTION]

    replace_definition(client, table.ref, without_property)
    (done,) = maintain(client, f"{database}.*").tables
    assert (done.compacted, done.removed, done.oldest_version) == (1, 0, 0)
    assert done.bytes_retained > 0
    assert "All versions can be read. " in versions_in_words(done)
    assert len(table.directories()) == 13
    earlier = TableScan(str(table.ref), client.options, as_of_write_id=1).to_arrow()
    assert earlier.column("id").to_pylist() == [*range(50)]
    assert maintain(client, f"{database}.*").tables == ()


class Recorded(JobObserver):
    """Records the jobs, and refuses those of one table."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.ended: list[tuple[str, str, str | None]] = []

    def begin(self, job: Job) -> None:
        if job.target == self.refused:
            raise AccessRefused(f"{job.target} is refused.")

    def end(
        self, job: Job, report: Report | None, error: HiveAcidError | None, seconds: float
    ) -> None:
        self.ended.append((job.tag, job.target, None if error is None else type(error).__name__))


def test_an_observer_sees_every_job_and_may_refuse_it(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    refused, permitted = make("a"), make("b")
    before = refused.directories()
    jobs = Recorded(str(refused.ref))
    report = maintain(client, f"{database}.*", jobs=jobs, parallel=1)
    assert sorted(jobs.ended) == [
        (CleanJob.tag, str(permitted.ref), None),
        (CompactJob.tag, str(refused.ref), "AccessRefused"),
        (CompactJob.tag, str(permitted.ref), None),
    ]
    assert refused.directories() == before
    assert report.error is not None
    assert report.error.id == "AccessRefused"


class Stopper(PhaseObserver):
    """Stops the maintenance in the middle of its first compaction."""

    def __init__(self) -> None:
        self.maintainer: WarehouseMaintainer | None = None
        self.tokens: tuple[str, ...] = ()

    def enter(self, phase: Phase) -> None:
        assert self.maintainer is not None
        if phase is Phase.WRITE and not self.tokens:
            self.tokens = self.maintainer.tokens
            self.maintainer.stop()


def test_a_stop_ends_the_table_at_work_and_begins_no_other(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    tables = {str(table.ref): table for table in (make("a"), make("b"))}
    before = {name: table.directories() for name, table in tables.items()}
    stopper = Stopper()
    maintenance = Maintenance(tables=[f"{database}.*"], parallel=1)
    with WorkerScheduler() as scheduler:
        maintainer = WarehouseMaintainer(scheduler, client, maintenance, [stopper], run_token=TOKEN)
        stopper.maintainer = maintainer
        report = maintainer.run()
    (stopped,) = report.tables
    assert stopped.error is not None
    assert stopped.error.id == "JobFailed"
    assert stopper.tokens == CleanJob(target=stopped.table, run_token=TOKEN).tokens
    assert maintainer.tokens == ()
    for name, table in tables.items():
        assert table.directories() == before[name]
        assert client.show_locks(table.ref) == []
        assert find_open_transactions(client, *stopper.tokens) == []
        assert table.rows() == expected_rows()


def test_a_refused_table_is_not_surveyed(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    refused, permitted = make("a"), make("b")

    class Refusing(Recorded):
        def admit(self, table: TableRef) -> None:
            if table == refused.ref:
                raise AccessRefused(f"{table} is refused.")

    jobs = Refusing()
    report = maintain(client, f"{database}.*", jobs=jobs)
    first, second = report.tables
    assert first.error is not None
    assert (first.table, first.error.id) == (str(refused.ref), "AccessRefused")
    assert (second.table, second.compacted) == (str(permitted.ref), 1)
    assert {target for _, target, _ in jobs.ended} == {str(permitted.ref)}


def test_the_loss_of_the_metastore_ends_the_maintenance(
    client: MetastoreClient, database: str, make: Callable[[str], WrittenTable]
) -> None:
    make("a"), make("b")

    class Lost(Recorded):
        def begin(self, job: Job) -> None:
            raise MetastoreUnreachable("No metastore answers.")

    jobs = Lost()
    with pytest.raises(MetastoreUnreachable):
        maintain(client, f"{database}.*", jobs=jobs, parallel=1)
    assert len(jobs.ended) == 1


def test_a_missing_table_is_an_error_only_if_it_is_named(
    client: MetastoreClient, database: str
) -> None:
    assert maintain(client, f"{database}.*").tables == ()
    (missing,) = maintain(client, f"{database}.nope").tables
    assert missing.error is not None
    assert missing.error.id == TableNotFound.__name__


@pytest.mark.parametrize(
    "invalid",
    [
        {"tables": ()},
        {"tables": "a.*"},
        {"tables": ("nodatabase",)},
        {"tables": ("a.*",), "parallel": 0},
        {"tables": ("a.*",), "lock_wait_seconds": -1},
        {"tables": ("a.*",), "policy": CompactionPolicy(quiet_hours="late")},
    ],
)
def test_an_invalid_setting_is_refused(hms: object, invalid: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        Maintenance(**invalid).validate()
