"""The choice between the worker and Spark, and the forecast that it is based on."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hiveacid.errors import InvalidJob, SparkNeeded
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.report import (
    CompactReport,
    ErrorReport,
    PartitionReport,
    RunReport,
    ScriptReport,
)
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.parser.script import to_jobs
from hiveacid.progress import PhaseObserver
from hiveacid.rules.compaction import CompactionType, Forecast
from hiveacid.rules.compaction_policy import WorkerLimits
from hiveacid.rules.schema import TableKind
from hiveacid.spark import compaction as engine_table
from hiveacid.upkeep.compaction.placement import compact, forecast, why_spark
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.worker.script import joined_script, rest_of_script, run_script_in_worker
from tests.compaction.written_table import WrittenTable, expected_rows, twelve_deltas
from tests.contract.compactions import needs_pools
from tests.faults.without_spark import NoSpark

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
MINOR, MAJOR, REBALANCE = CompactionType
NOTHING = WorkerLimits(max_copied_bytes=0, max_encoded_bytes=0, max_delete_events=0)


@pytest.fixture
def create(client: MetastoreClient, database: str) -> Callable[..., WrittenTable]:
    return lambda *kind: WrittenTable.create(client, f"{database}.t", *kind)


def predicted(table: WrittenTable, type_: CompactionType) -> Forecast:
    client, described = table.client, table.client.get_table(table.ref)
    return forecast(client.features, described, None, type_, Snapshot.take(client, [table.ref]))


def test_a_forecast_counts_what_is_copied_and_what_is_encoded(
    create: Callable[..., WrittenTable],
) -> None:
    table = create()
    first = table.insert(*range(3000))
    assert predicted(table, MAJOR) == Forecast()  # There is nothing to compact.
    for id_ in range(4000, 4004):
        table.insert(id_)
    major = predicted(table, MAJOR)
    assert (major.copied_bytes, major.delete_events) == (0, 0)
    assert major.encoded_bytes > 0  # All stripes are tiny, and become one.
    table.delete((first, 3))
    assert predicted(table, MAJOR).delete_events == 1
    minor = predicted(table, MINOR)
    assert minor.copied_bytes > 0
    assert minor.spark_reason is None


def test_a_forecast_of_an_insert_only_table_copies_everything(
    create: Callable[..., WrittenTable],
) -> None:
    table = create(TableKind.INSERT_ONLY)
    table.insert(1), table.insert(2)
    copied = sum(len(content) for content in table.files().values())
    assert predicted(table, MAJOR) == Forecast(copied_bytes=copied)
    table.insert(3, codec="zstd")
    assert "codec" in (predicted(table, MAJOR).spark_reason or "")


def test_a_forecast_says_what_requires_spark(create: Callable[..., WrittenTable]) -> None:
    table = create()
    table.insert(1), table.insert(2)
    assert "sorted" in (predicted(table, REBALANCE).spark_reason or "")
    table.insert_in_disorder()
    assert "Bucket 0 must be sorted" in (predicted(table, MAJOR).spark_reason or "")


@pytest.mark.parametrize(
    ("work", "limits", "reason"),
    [
        (Forecast(copied_bytes=10, encoded_bytes=10, delete_events=10), WorkerLimits(), None),
        (Forecast(copied_bytes=2), WorkerLimits(max_copied_bytes=1), "2 B to copy (limit 1 B)."),
        (Forecast(encoded_bytes=2), NOTHING, "2 B to encode (limit 0 B)."),
        (Forecast(delete_events=1), NOTHING, "1 delete events (limit 0)."),
        (Forecast(spark_reason="It must."), WorkerLimits(), "It must."),
        (
            Forecast(encoded_bytes=1, encoded_rows=3),
            WorkerLimits(max_encoded_rows=2),
            "3 rows to encode (limit 2).",
        ),
        (
            Forecast(encoded_bytes=1, encoded_values=10**9),
            WorkerLimits(),
            "120 s of processor time (limit 60 s).",
        ),
        (
            Forecast(encoded_bytes=22_000_000, delete_events=10**6),
            WorkerLimits(max_core_seconds=1),
            "3 s of processor time (limit 1 s).",
        ),
    ],
)
def test_limits(hms: object, work: Forecast, limits: WorkerLimits, reason: str | None) -> None:
    assert work.excess(limits) == reason


def test_the_worker_takes_work_within_its_limits(client: MetastoreClient, database: str) -> None:
    table = twelve_deltas(client, f"{database}.t")
    job = CompactJob(target=str(table.ref), metastore=client.options)
    for each in (job, replace(job, type="major"), replace(job, type="minor")):
        assert why_spark(client, each) is None
        reason = why_spark(client, replace(each, worker=NOTHING))
        assert reason is not None
        assert "limit 0" in reason
        # One who insists gets it.
        assert why_spark(client, replace(each, worker=NOTHING, run_in="worker")) is None
    assert "run_in='spark'" in (why_spark(client, replace(job, run_in="spark")) or "")
    assert "sorted" in (why_spark(client, replace(job, type="rebalance")) or "")


def test_a_small_file_with_many_rows_is_too_much_for_the_worker(
    client: MetastoreClient, database: str
) -> None:
    table = WrittenTable.create(client, f"{database}.t")
    first = table.insert(*[7] * 300_000)
    table.insert(8)
    table.delete((first, 3))
    assert sum(map(len, table.files().values())) < 50_000
    job = CompactJob(target=str(table.ref), type="major", metastore=client.options)
    assert why_spark(client, job) is None
    for limits, reason in (
        (WorkerLimits(max_encoded_rows=300_000), "300001 rows to encode (limit 300000)."),
        (WorkerLimits(max_core_seconds=0.2), "0.252 s of processor time (limit 0.2 s)."),
        (WorkerLimits(max_delete_events=0), "1 delete events (limit 0)."),
    ):
        assert why_spark(client, replace(job, worker=limits)) == reason
    # Its stripes are copied, for which their rows do not count.
    only_copied = WrittenTable.create(client, f"{database}.u")
    only_copied.insert(*[7] * 300_000), only_copied.insert(*[7] * 300_000)
    job = replace(job, target=str(only_copied.ref), worker=WorkerLimits(max_encoded_rows=1))
    assert why_spark(client, job) is None


def test_a_rebalance_in_the_worker_is_refused(hms: object) -> None:
    with pytest.raises(InvalidJob, match="rebalance"):
        CompactJob(target="db.t", type="rebalance", run_in="worker").validate()


@needs_pools
def test_requests_in_the_queue_are_weighed_too(client: MetastoreClient, database: str) -> None:
    table = twelve_deltas(client, f"{database}.t")
    queue = CompactionQueue(client)
    assert queue.request(table.ref, None, MAJOR, pool=None).accepted
    job = CompactJob(target=str(table.ref), mode="serve", metastore=client.options)
    assert why_spark(client, job) is None
    assert "limit 0" in (why_spark(client, replace(job, worker=NOTHING)) or "")
    # The oldest request of a pool is served first, also that of another table.
    other = twelve_deltas(client, f"{database}.u")
    assert queue.request(other.ref, None, REBALANCE, pool=None).accepted
    assert "rebalance" in (why_spark(client, job) or "")
    with pytest.raises(SparkNeeded, match="rebalance"):
        why_spark(client, replace(job, run_in="worker"))


def test_partitions_that_need_spark_after_all_are_left_to_it(
    client: MetastoreClient, database: str
) -> None:
    table = twelve_deltas(client, f"{database}.t")
    job = CompactJob(target=str(table.ref), metastore=client.options)
    needs_it = ErrorReport.of(SparkNeeded("It must be sorted."))
    outcomes = [("p=1", "compacted", None), ("p=2", "failed", needs_it), ("p=3", "skipped", None)]
    first = [
        PartitionReport(
            table=str(table.ref), partition=name, outcome=outcome, reason="", error=error
        )
        for name, outcome, error in outcomes
    ]
    seen = []

    def in_worker(_: CompactJob) -> CompactReport:
        return CompactReport(target=str(table.ref), partitions=tuple(first))

    def on_spark(job: CompactJob, reason: str) -> CompactReport:
        seen.append((job.partitions, job.run_in))
        done = replace(first[1], outcome="compacted", error=None)
        return CompactReport(target=str(table.ref), partitions=(done,))

    report = compact(client, job, in_worker, on_spark)
    assert seen == [(("p=2",), "spark")]
    assert [(each.partition, each.outcome) for each in report.partitions] == [
        ("p=1", "compacted"),
        ("p=3", "skipped"),
        ("p=2", "compacted"),
    ]
    assert report.error is None
    # One that must not run on Spark stays as it is.
    assert compact(client, replace(job, run_in="worker"), in_worker, on_spark).partitions == tuple(
        first
    )


@pytest.mark.parametrize("run_token", ["d/r/t/-1", None])
def test_a_script_that_ends_on_spark_reports_the_statements_of_both(
    client: MetastoreClient, database: str, run_token: str | None
) -> None:
    one, two = WrittenTable.create_partitions(client, f"{database}.t", "p=1", "p=2")
    one.insert(1), one.insert(2)
    two.insert(3), two.insert_in_disorder()
    jobs = to_jobs(
        f"ALTER TABLE {one.ref} UNSET TBLPROPERTIES IF EXISTS ('b'); ALTER TABLE {one.ref} COMPACT 'major';"
        f" ALTER TABLE {one.ref} UNSET TBLPROPERTIES IF EXISTS ('a')"
    )
    script = replace(ScriptJob.of(jobs), metastore=client.options, run_token=run_token)
    with WorkerScheduler() as scheduler:
        in_worker = run_script_in_worker(client, script, scheduler)
    found = rest_of_script(script, in_worker)
    assert found is not None
    rest, reason = found
    assert "sorted" in reason
    assert [*rest.runs()] == [*script.runs()][1:]
    skipped = PartitionReport(
        table=str(one.ref), partition="p=1", outcome="skipped", reason="There is one base."
    )
    compacted = replace(skipped, partition="p=2", outcome="compacted", rows=3)
    statements = [
        CompactReport(target=str(one.ref), partitions=(skipped, compacted)),
        RunReport(job="table_properties", target=str(one.ref)),
    ]
    on_spark = ScriptReport.of(str(one.ref), statements)
    report = joined_script(in_worker, on_spark)
    first, second, third = (statement.report for statement in report.statements)
    assert (first, third) == (in_worker.statements[0].report, statements[1])
    assert isinstance(second, CompactReport)
    assert [(each.partition, each.outcome, each.rows) for each in second.partitions] == [
        ("p=1", "compacted", 2),
        ("p=2", "compacted", 3),
    ]
    assert report.error is None


class Notes(PhaseObserver):
    """The notes of a run."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_beside_a_running_spark_the_driver_takes_small_inputs_only(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(engine_table, "INLINE_BYTES", limit)
    table, notes = twelve_deltas(client, f"{database}.t"), Notes()
    job = CompactJob(target=str(table.ref), type="major")
    (done,) = engine_table.compact_table(NoSpark, client, job, [notes]).partitions  # type: ignore[arg-type]
    assert done.outcome == "compacted"
    assert any(text.startswith("On Spark: ") for text in notes.texts) is (limit == 1)
    assert table.rows() == expected_rows()
