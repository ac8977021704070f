"""Streams of files: every row once, after any failure of the driver and of its checkpoint."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import CheckFailed, PositionMismatch, StreamOvertaken, UnknownColumn
from hiveacid.jobs.checks import Holds, InRange
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.sources import BatchSource, QuerySource, TableSource
from hiveacid.jobs.stream_job import StreamProgress
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import FAULT_VARIABLE, InjectedFault, PhaseObserver
from hiveacid.records.stream_places import StreamPlaces, stream_states
from hiveacid.rules.names import TableRef
from hiveacid.spark.streaming import StreamRun
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create, folder
from tests.streams.stream_case import BATCH, StreamCase

FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


class Told(PhaseObserver):
    """A stream's reports on its batches."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.batches: list[StreamProgress] = []
        self._then = then

    def batch(self, progress: object) -> None:
        assert isinstance(progress, StreamProgress)
        self.batches.append(progress)
        self._then()


@pytest.mark.parametrize(
    "hms",
    ["fake 4.0.1", pytest.param("fake 3.1.3", marks=pytest.mark.streams)],
    indirect=True,
)
def test_a_stream_appends_and_upserts_each_batch_in_one_transaction(stream: StreamCase) -> None:
    stream.arrive((1, "a"), (2, "b"), (1, "c"))
    stream.arrive((2, "gone"), (3, "d"))
    told = Told()
    report = stream.run(observers=[told])
    assert stream.problems() == []
    assert (report.batches, report.last_batch, report.rows) == (2, 1, 5)
    assert (report.rows_inserted, report.rows_deleted) == (8, 1)
    assert report.ended == "no more rows"
    assert [(batch.batch_id, batch.rows) for batch in told.batches] == [(0, 3), (1, 2)]
    for batch in told.batches:
        assert batch.write_ids.keys() == {stream.events, stream.newest}
    stream.arrive((1, "e"))
    report = stream.run()
    assert stream.problems() == []
    assert (report.batches, report.last_batch, report.rows, report.rows_updated) == (1, 2, 1, 1)
    assert stream.run().batches == 0
    (state,) = stream_states(Storage.of(str(folder_of(stream))))
    assert (state.name, state.tables) == ("feed", (stream.events, stream.newest))
    assert (state.ended, state.batches, state.error) == ("no more rows", 0, None)
    # The last batch was reported by the run before.
    assert state.last is not None
    assert (state.last.batch_id, state.last.rows) == (2, 1)
    assert state.last.committed_at is not None
    assert state.last.committed_at <= state.started_at <= state.told_at


@FAKE4
@pytest.mark.parametrize(
    "fault",
    [pytest.param("publish:raise:after", marks=pytest.mark.streams), "commit:raise:after"],
)
def test_a_batch_that_failed_anywhere_is_applied_once_by_the_next_run(
    stream: StreamCase, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    job = InsertJob(target=stream.events, source=BATCH)
    stream.arrive((1, "a"))
    stream.run(job)
    stream.arrive((2, "b"))
    with monkeypatch.context() as patch:
        patch.setenv(FAULT_VARIABLE, fault)
        with pytest.raises(InjectedFault):
            stream.run(job)
    stream.arrive((3, "c"))
    report = stream.run(job)
    assert report.batches == 2
    assert stream.rows(stream.events) == stream.every


@FAKE4
def test_checks_apply_to_each_batch(stream: StreamCase, client: MetastoreClient) -> None:
    rejected = f"{stream.database}.rejected"
    columns = {"id": "bigint", "v": "string", "failed_checks": "string", "run": "string"}
    create(client, rejected, columns)
    job = InsertJob(
        target=stream.events,
        source=BATCH,
        checks=[InRange(column="id", min=1, severity="quarantine")],
        quarantine=rejected,
    )
    negative = Holds(sql="v <> 'odd'", table=stream.events)
    stream.arrive((1, "a"), (-1, "b"))
    stream.arrive((2, "odd"))
    with pytest.raises(CheckFailed, match=r"holds.*odd"):
        stream.run(job, checks=[negative])
    assert stream.rows(stream.events) == [(1, "a")]
    assert [row[:3] for row in stream.rows(rejected)] == [(-1, "b", "in_range(id)")]
    # The second batch is tried again, and the first is not applied again.
    assert stream.run(job).batches == 1
    assert stream.rows(stream.events) == [(1, "a"), (2, "odd")]
    assert len(stream.rows(rejected)) == 1


@FAKE4
def test_a_lost_or_old_checkpoint_is_an_error_unless_the_job_resets_the_query(
    stream: StreamCase,
) -> None:
    job = InsertJob(target=stream.events, source=BATCH)
    copy = stream.folder / "copy"
    stream.arrive((1, "a"))
    query_id = stream.run(job).query_id
    shutil.copytree(stream.checkpoint, copy)
    stream.arrive((2, "b"))
    stream.run(job)
    shutil.rmtree(stream.checkpoint)
    stream.arrive((3, "c"))
    with pytest.raises(PositionMismatch, match=f"batch 1 of query {query_id}.*is not there"):
        stream.run(job)
    assert not stream.checkpoint.exists()
    copy.rename(stream.checkpoint)
    with pytest.raises(PositionMismatch, match="only to batch 0: it is an old copy"):
        stream.run(job, reset_query=query_id)
    assert stream.rows(stream.events) == [(1, "a"), (2, "b")]
    shutil.rmtree(stream.checkpoint)
    for file in ("000000", "000001"):
        (stream.feed / f"{file}.json").unlink()
    anew = stream.run(job, reset_query=query_id)
    assert (anew.batches, anew.last_batch) == (1, 0)
    assert stream.rows(stream.events) == stream.every
    # The setting for one loss does not apply to the next one.
    shutil.rmtree(stream.checkpoint)
    with pytest.raises(PositionMismatch, match=f"query {anew.query_id}"):
        stream.run(job, reset_query=query_id)


@FAKE4
def test_a_driver_that_wakes_up_late_applies_nothing_any_more(
    stream: StreamCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has gone on meanwhile, and even the note on the batch is gone."""
    job = stream.job(InsertJob(target=stream.events, source=BATCH))
    metastore = job.metastore
    assert metastore is not None
    stream.arrive((1, "a"))
    sleepy = StreamRun(stream.spark, job, metastore)
    asleep = sleepy._apply

    def wake_up_late(*batch: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("hiveacid.spark.streaming._NOTES_KEPT", 0)
            other = StreamRun(stream.spark, job, metastore)
            other._place = StreamPlaces(sleepy._storage, job.name).read()
            other._apply(*batch)
        assert not list((folder_of(stream) / "_hiveacid_runs").glob("*.json"))
        asleep(*batch)

    monkeypatch.setattr(sleepy, "_apply", wake_up_late)
    with pytest.raises(StreamOvertaken, match="Batch 0 of query"):
        sleepy.run()
    assert stream.rows(stream.events) == stream.every


@FAKE4
def test_notes_on_old_batches_are_removed_from_every_table(
    stream: StreamCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hiveacid.spark.streaming._NOTES_KEPT", 1)
    for number in range(3):
        stream.arrive((number, "a"))
    tables = stream.events, stream.newest
    assert stream.run(*(InsertJob(target=table, source=BATCH) for table in tables)).batches == 3
    for table in tables:
        notes = folder_of(stream, table) / "_hiveacid_runs"
        assert len(list(notes.glob("*.json"))) == 1


@FAKE4
def test_the_note_on_the_last_batch_outlives_every_cleaning(
    stream: StreamCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a batch that was applied just before a kill would be applied once more much later."""
    job = InsertJob(target=stream.events, source=BATCH)
    stream.arrive((1, "a"))
    with monkeypatch.context() as patch:
        patch.setattr(StreamRun, "_move_on", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stream.run(job)
    options = {"target": stream.events, "metastore": stream.client.options}
    clean(stream.client, CleanJob(**options, keep_notes_days=0, retention="0"))
    assert stream.run(job).already_done
    assert stream.rows(stream.events) == stream.every
    stream.arrive((2, "b"))
    stream.run(job)
    clean(stream.client, CleanJob(**options, keep_notes_days=0, retention="0"))
    assert not list((folder_of(stream) / "_hiveacid_runs").glob("*.json"))


@pytest.mark.streams
@FAKE4
def test_a_stream_ends_between_two_batches_when_it_is_asked_to(stream: StreamCase) -> None:
    job = InsertJob(target=stream.events, source=BATCH)
    places = StreamPlaces(Storage.of(str(folder_of(stream))), "feed")
    for number in range(3):
        stream.arrive((number, "x"))
    report = stream.run(job, trigger="1 s", observers=[Told(places.ask_to_stop)])
    assert report.ended == "asked to"
    assert len(stream.rows(stream.events)) == report.batches
    assert stream.run(job).batches == 3 - report.batches
    assert stream.rows(stream.events) == stream.every


@pytest.mark.streams
@FAKE4
def test_a_batch_can_be_joined_with_tables_and_an_error_in_a_statement_is_reported(
    stream: StreamCase,
) -> None:
    stream.insert(7, "seven")
    joined = QuerySource(
        "SELECT b.id, concat(e.v, '-', b.v) AS v FROM b JOIN e ON b.id = e.id",
        {"b": BatchSource(), "e": TableSource(stream.events)},
    )
    stream.arrive((7, "x"), (8, "y"))
    report = stream.run(InsertJob(target=stream.newest, source=joined), run_for="1 h")
    assert stream.rows(stream.newest) == [(7, "seven-x")]
    assert report.rows == 2
    wrong = QuerySource("SELECT id, w FROM b", {"b": BatchSource()})
    stream.arrive((9, "z"))
    with pytest.raises(UnknownColumn, match="w"):
        stream.run(InsertJob(target=stream.newest, source=wrong))


def folder_of(stream: StreamCase, table: str | None = None) -> Path:
    return folder(stream.client.get_table(TableRef.parse(table or stream.events)))
