"""A run over two tables that can be killed at each step of its end, without Spark."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.write_jobs import TransactionJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.proofs import digest_of
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from hiveacid.writes import atomic_write
from tests.faults.operations import Tables
from tests.faults.outside import Outsider
from tests.faults.rows import Row
from tests.faults.without_spark import NoSpark, without_spark
from tests.places import place_of

MAIN, OTHER, LATER = Row(1, "main", "a"), Row(2, "other", "b"), Row(3, "later", "b")


class Killed(BaseException):
    """The process is gone: nothing is undone."""


class Load:
    """A run that appends a row to each of two tables; without Spark."""

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        folder.mkdir()
        self.client = client
        self.tables = Tables(client, database, folder)
        self.main, self.other = self.tables.main, self.tables.other
        for ref in (self.main, self.other):
            self.tables.create(ref)
        self.job = self.of([MAIN], [OTHER])

    def of(self, main: Sequence[Row], other: Sequence[Row]) -> TransactionJob:
        statements = self.tables.insert(self.main, main), self.tables.insert(self.other, other)
        return TransactionJob(
            statements=statements, run_token="d/r/t/-1", metastore=self.client.options
        )

    def run(self) -> RunReport:
        with without_spark():
            report = run(NoSpark(), self.job)
        assert isinstance(report, RunReport)
        return report

    def reverse(self) -> None:
        first, second = self.job.statements
        self.job = replace(self.job, statements=(second, first), target=second.target)

    def rows(self, ref: TableRef) -> list[Row]:
        return Outsider(self.client, ref).rows()

    def notes(self, ref: TableRef) -> list[str]:
        """Return the final states of the notes on the run in a table."""
        assert self.job.token is not None
        names = (self.folder(ref) / "_hiveacid_runs").glob(f"{digest_of(self.job.token)}.*")
        return sorted(name.name.partition(".")[2].partition(".")[2] for name in names)

    def folder(self, ref: TableRef) -> Path:
        return place_of(self.client.get_table(ref).folder)

    def created(self, ref: TableRef) -> tuple[int | None, int]:
        raw = self.client.get_table(ref).raw
        return raw.id, raw.createTime

    def create_again(self, ref: TableRef, *, keep_files: bool = False) -> None:
        """Drop a table and create it, with another identity."""
        before = self.created(ref)
        while self.created(ref) == before:  # Version 3.1 has nothing but whole seconds.
            self.client.drop_table(ref, delete_data=not keep_files)
            self.tables.create(ref)

    def abort_a_write(self, ref: TableRef) -> None:
        txn_id = self.client.open_txn("somebody", "host", None)
        self.client.allocate_write_id(txn_id, ref)
        self.client.abort_txn(txn_id)

    def compact_and_clean(self, ref: TableRef) -> None:
        self.tables.run(self.tables.insert(ref, [LATER]))
        self.tables.run(CompactJob(target=str(ref), type="major", parallel=1))
        for _ in range(2):
            self.tables.run(CleanJob(target=str(ref), retention="0"))


@pytest.fixture
def load(client: MetastoreClient, database: str, tmp_path: Path) -> Iterator[Load]:
    yield Load(client, f"{database}_load", tmp_path / "sources")
    client.drop_database(f"{database}_load", cascade=True)


@pytest.fixture
def kill(load: Load, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Kill an attempt of the run in a function of a write, when it is called for the nth time."""
    leave, left = Transaction.__exit__, []

    def without_undoing(txn, kind, error, traceback):
        if kind is not Killed:
            leave(txn, kind, error, traceback)
        elif txn._heartbeat is not None:
            txn._heartbeat.stop()
            left.append(txn)

    def kill_in(name: str, call: int = 1) -> None:
        calls, function = [], getattr(atomic_write, name)

        def die(*arguments):
            calls.append(arguments)
            if len(calls) == call:
                raise Killed
            function(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(atomic_write, name, die)
            patch.setattr(Transaction, "__exit__", without_undoing)
            with pytest.raises(Killed):
                load.run()

    return kill_in
