"""A run is applied once, regardless of its earlier attempts and of their leftovers."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import ANY

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import (
    AnswerLost,
    CommitUncertain,
    NewerRecord,
    TransactionAborted,
    UnprovenRun,
)
from hiveacid.jobs import codec
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.report import CompactReport, RunReport
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.records.proofs import digest_of
from hiveacid.records.run_notes import RunNote
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import LARGEST_NOTE, TableIdentity, TableRef
from hiveacid.rules.write_ids import ValidTxnList
from hiveacid.spark.run import run
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create, folder, rows_of
from tests.fakes.metastore import FakeMetastore
from tests.observers import At

FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


class Killed(BaseException):
    """The process is gone: nothing is undone."""


class Events:
    """A table, and a run that inserts the row 1."""

    def __init__(
        self, spark: Any, client: MetastoreClient, table: Any, wait_to_forget: Callable[[], None]
    ) -> None:
        self.spark, self.client, self.wait_to_forget = spark, client, wait_to_forget
        self.job = InsertJob(
            target=table.ref.full_name,
            source=QuerySource(sql="SELECT 1 AS id"),
            metastore=client.options,
            run_token="d/r/t/-1",
        )
        self.notes = folder(table) / "_hiveacid_runs"

    def insert(self, *observers: At) -> RunReport:
        report = run(self.spark, self.job, observers)
        assert isinstance(report, RunReport)
        return report

    def append(self, number: int) -> None:
        source = QuerySource(sql=f"SELECT {number} AS id")
        run(self.spark, replace(self.job, source=source, run_token=f"d/{number}/t/-1"))

    def look_after(self) -> None:
        """Write, compact and clean, after which version 4 knows no more who was aborted."""
        self.append(2)
        self.append(3)
        options = {"target": self.job.target, "metastore": self.client.options}
        report = run(self.spark, CompactJob(**options, type="major"))
        assert isinstance(report, CompactReport)
        assert [result.outcome for result in report.partitions] == ["compacted"]
        reports = [clean(self.client, CleanJob(**options, retention="0")) for _ in range(2)]
        if self.forgets:
            assert [len(report.requests_cleaned) for report in reports] == [1, 0]
            self.wait_to_forget()

    @property
    def forgets(self) -> bool:
        """Return whether the metastore forgets aborts without Hive's own cleaner."""
        return self.client.features.has_queue

    def ids(self) -> list[int]:
        with AcidTable(
            self.job.target, self.client.options, spark=self.spark, run_in="spark"
        ) as opened:
            return [row[0] for row in rows_of(opened.to_df())]

    def names(self) -> set[str]:
        """Return the names of the notes on the run, without the identity of the run."""
        assert self.job.token is not None
        digest = digest_of(self.job.token)
        names = (path.name for path in self.notes.glob("*"))
        return {name.removeprefix(digest) for name in names if name.startswith(digest)}


@pytest.fixture
def events(
    spark: Any, hms: Any, client: MetastoreClient, database: str, eventually: Callable[..., None]
) -> Events:
    # Other tests may have left aborts on the same metastore that are never cleaned.
    before = client.get_open_txns().high_watermark

    def nothing_is_aborted() -> bool:
        if isinstance(hms, FakeMetastore):
            hms.keep_house()
        answer = client.get_open_txns()
        txns = ValidTxnList.from_open_txns(
            answer.high_watermark, answer.open_txns, answer.aborted_bits
        )
        return not any(txn_id > before for txn_id in txns.aborted)

    table = create(client, f"{database}.events", {"id": "int"})
    wait = partial(eventually, "the aborts are forgotten", nothing_is_aborted)
    return Events(spark, client, table, wait)


@pytest.fixture
def killed(events: Events, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Have an attempt of the run killed when it enters a phase; its transaction."""
    begun: list[Transaction] = []
    leave = Transaction.__exit__

    def without_undoing(txn: Transaction, kind: Any, error: Any, traceback: Any) -> None:
        if kind is Killed:
            begun.append(txn)
        else:
            leave(txn, kind, error, traceback)

    def die() -> None:
        raise Killed

    def kill(phase: Phase) -> int:
        with pytest.raises(Killed):
            events.insert(At(phase, die))
        return begun[-1].txn_id

    monkeypatch.setattr(Transaction, "__exit__", without_undoing)
    yield kill
    for txn in begun:
        assert txn._heartbeat is not None
        txn._heartbeat.stop()


def test_a_run_that_never_committed_is_not_taken_for_applied_when_its_abort_is_forgotten(
    events, killed
):
    txn_id = killed(Phase.COMMIT)
    events.client.abort_txn(txn_id)
    events.look_after()
    with pytest.raises(TransactionAborted):
        events.client.commit_txn(txn_id)
    assert not events.insert().already_done
    assert events.ids() == [1, 2, 3]


@FAKES
def test_a_commit_that_failed_leaves_no_note(events, monkeypatch):
    def refuse(_: Any, txn_id: int) -> None:
        raise TransactionAborted(f"Transaction {txn_id} is aborted.")

    with monkeypatch.context() as patch:
        patch.setattr(MetastoreClient, "commit_txn", refuse)
        with pytest.raises(TransactionAborted):
            events.insert()
    assert events.names() == set()
    assert not events.insert().already_done


@FAKES
def test_a_writer_aborted_during_a_pause_reports_no_commit(events, monkeypatch):
    """The question is lost, and until the driver asks again everything is cleaned and forgotten."""

    def lose(client: MetastoreClient, txn_id: int) -> None:
        monkeypatch.undo()
        client.abort_txn(txn_id)
        events.look_after()
        raise AnswerLost("The connection is gone.")

    monkeypatch.setattr(MetastoreClient, "commit_txn", lose)
    with pytest.raises(CommitUncertain if events.forgets else TransactionAborted):
        events.insert()
    assert events.ids() == [2, 3]
    assert not events.insert().already_done
    assert events.ids() == [1, 2, 3]


@FAKES
def test_without_evidence_the_outcome_is_not_guessed(events, killed, monkeypatch):
    """Some other cleaner has removed the directories, and let the abort be forgotten."""
    events.client.abort_txn(killed(Phase.COMMIT))
    note = next(events.notes.glob("*"))
    content = note.read_bytes()
    events.look_after()
    note.write_bytes(content)
    if not events.forgets:
        assert not events.insert().already_done
        return
    with pytest.raises(UnprovenRun, match=note.name) as unproven:
        events.insert()
    assert "delete the note" in unproven.value.remedy
    assert events.ids() == [2, 3]
    note.unlink()
    assert not events.insert().already_done
    assert events.ids() == [1, 2, 3]


def test_an_unmarked_commit_is_proved_by_its_directory(events, killed):
    txn_id = killed(Phase.COMMIT)
    events.client.commit_txn(txn_id)
    assert events.names() == {f".{txn_id}.json"}
    again = events.insert()
    assert again.already_done
    assert again.txn_id == txn_id
    assert events.names() == {f".{txn_id}.committed.json"}


@FAKES
@pytest.mark.parametrize("where", ["{}//p=x/", "{}2//p=x"])
def test_a_redundant_slash_in_a_location_does_not_hide_the_proof(
    spark, hms, client, database, where
):
    table = create(client, f"{database}.t", {"id": "int"}, {"p": "string"})
    partition = HivePartition.new(table, ["x"])
    partition.raw.sd.location = where.format(table.folder)
    client.add_partitions(table.ref, [partition])
    source = QuerySource(sql="SELECT 1 AS id, 'x' AS p")
    job = InsertJob(
        target=table.ref.full_name, source=source, run_token="d/r/t/-1", metastore=client.options
    )
    first = run(spark, job)
    (mark,) = (folder(table) / "_hiveacid_runs").iterdir()
    mark.rename(mark.with_name(mark.name.replace(".committed", "")))  # As if it was killed before.
    assert run(spark, job) == replace(first, already_done=True, seconds=ANY, warnings=ANY)  # type: ignore[call-arg]
    assert mark.exists()


@FAKES
def test_a_cleaning_marks_notes_before_it_removes_their_proof(events, killed):
    events.client.commit_txn(killed(Phase.COMMIT))
    events.look_after()
    assert events.insert().already_done
    assert events.ids() == [1, 2, 3]


@FAKES
def test_a_committed_run_is_known_as_one_however_the_table_is_looked_after(events):
    first = events.insert()
    events.look_after()
    again = events.insert()
    assert again.already_done
    assert again.write_ids == first.write_ids


@FAKES
def test_a_late_try_does_not_spoil_the_note_of_the_one_that_committed(events):
    committed: list[RunReport] = []
    with pytest.raises(TransactionAborted):
        events.insert(At(Phase.PUBLISH, lambda: committed.append(events.insert())))
    again = events.insert()
    assert again.already_done
    assert again.txn_id == committed[0].txn_id
    assert events.ids() == [1]


@FAKES
def test_a_try_that_is_committing_is_not_taken_for_applied_by_its_rival(events, killed):
    """The second one aborts it first, so that only the second one is applied."""
    txn_id = killed(Phase.COMMIT)
    assert events.insert().txn_id > txn_id
    with pytest.raises(TransactionAborted):
        events.client.commit_txn(txn_id)
    assert events.ids() == [1]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"run_tok',
        b"[1, 2]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": 1}',
        b" " * (2 << 20),
        '{"run_token": "TOKEN", "write_id": 1, "txn_id": 7, "report": []}',
    ],
    ids=range(8),
)
@FAKES
def test_garbage_about_transactions_to_come_is_no_proof(events, content):
    events.append(2)
    digest = _write_garbage(events, content, ".{}.json", 10**16, 10**17)
    (events.notes / f"{digest}.{10**15}.json").mkdir()
    assert not events.insert().already_done
    assert events.insert().already_done
    assert events.ids() == [1, 2]


@pytest.mark.parametrize("write_id", [-5, 999999])
@FAKES
def test_a_forged_note_without_a_write_is_no_proof(events, write_id):
    events.append(2)
    assert events.job.token is not None
    note = RunNote(
        run_token=events.job.token,
        txn_id=7,
        write_id=write_id,
        identity=events.client.get_table(TableRef.parse(events.job.target)).identity,
        report=RunReport(job="insert", target="t", files=1),
    )
    _write_garbage(events, codec.to_bytes(note), ".{}.json", 7)
    assert not events.insert().already_done
    assert events.insert().already_done
    assert events.ids() == [1, 2]


def _write_garbage(events: Events, content: bytes | str, name: str, *txns: int) -> str:
    """Write files with the names of notes on the run; the digest in these names."""
    assert events.job.token is not None
    if isinstance(content, str):
        content = content.replace("TOKEN", events.job.token).replace("TABLE", events.job.target)
        content = content.encode()
    digest = digest_of(events.job.token)
    events.notes.mkdir(exist_ok=True)
    for txn in txns:
        (events.notes / f"{digest}{name.format(txn)}").write_bytes(content)
    return digest


@FAKES
def test_a_mark_whose_note_and_directories_are_gone_is_for_a_person(events):
    events.insert()
    (note,) = events.notes.glob(f"{digest_of(events.job.token)}*")
    note.write_bytes(b"")
    for directory in events.notes.parent.glob("delta_*"):
        shutil.rmtree(directory)
    with pytest.raises(UnprovenRun, match="its note is unreadable"):
        events.insert()


@FAKES
@pytest.mark.parametrize("change", [{"format": 2}, {"condition": 1}])
def test_a_note_of_a_newer_version_is_refused_and_kept(events, change):
    """To take it for garbage would be to apply its run a second time."""
    events.insert()
    (note,) = events.notes.glob(f"{digest_of(events.job.token)}*")
    note.write_text(json.dumps(json.loads(note.read_text()) | change))
    for path in (note, note.with_name(note.name.replace(".committed", ""))):
        note = note.rename(path)
        with pytest.raises(NewerRecord, match="has the format"):
            events.insert()
    os.utime(note, (0, 0))
    events.append(2)
    report = clean(events.client, CleanJob(target=events.job.target, retention="0"))
    assert note.exists()
    assert [kept.reason for kept in report.kept if kept.path.endswith(note.name)] == [
        "A newer version of this package decides on it."
    ]
    assert events.ids() == [1, 2]


@FAKES
def test_a_run_ends_only_what_it_has_begun_on_its_own_tables(events, database):
    """As when two Airflows have DAGs of the same ids."""
    other = replace(events.job, target=f"{database}.other")
    create(events.client, other.target, {"id": "int"})
    targets = [Target(TableRef.parse(other.target), Operation.INSERT)]
    with Transaction(events.client, targets=targets, run_token=other.token) as txn:
        events.insert()
        txn.commit()


def test_a_note_on_a_hundred_thousand_partitions_is_small_enough_to_be_read():
    partitions = tuple(f"day=2026-11-20/region={number:06d}" for number in range(100_000))
    report = RunReport(job="insert", target="a.b", partitions=partitions, files=7)
    identity = TableIdentity(created=1)
    note = RunNote(run_token="r", txn_id=1, write_id=1, identity=identity, report=report)
    content = codec.to_bytes(note.shortened)
    assert len(content) <= LARGEST_NOTE
    read = codec.read_obligation(RunNote, content, "note")
    assert (read.report.files, read.report.partitions) == (7, ())
