"""The processes of a soak test: each repeats one kind of work, and a successor completes lost work."""

import json
import os
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import psutil

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.records.consumers import Consumer
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.tables.scan.table_scan import TableScan
from tests.clocks import set_clock_of_process
from tests.faults.rows import DELETED, Row, change, write_source
from tests.faults.without_spark import carry_out

ACCOUNTS, EVENTS = "accounts", "events"
_RETRIES = 200
# Each writer has a range of ids of its own.
_IDS = 1000


@dataclass(frozen=True)
class Place:
    """The environment of the processes.

    Attributes:
        metastore: The metastore.
        database: The database of the tables.
        folder: The folder of their journals.
        writers: The number of writers.
        rows: The most rows in the partition of a writer, which changes at most a fifth of them at a
            time, and the rows of a batch.
        test: The process of the test.
    """

    metastore: MetastoreOptions
    database: str
    folder: Path
    writers: int
    rows: int = 40
    test: int = field(default_factory=os.getpid)

    def table(self, name: str) -> str:
        """Return the full name of a table."""
        return f"{self.database}.{name}"

    @property
    def over(self) -> Path:
        """The file that ends all processes."""
        return self.folder / "over"


@dataclass
class Actor(ABC):
    """A process that repeats steps.

    Attributes:
        place: The environment.
        number: Its number among those of its kind.
    """

    kind: ClassVar[str]
    place: Place
    number: int

    def __post_init__(self) -> None:
        self.name = f"{self.kind}-{self.number}"
        self._journal = self.place.folder / f"{self.name}.jsonl"

    @property
    def is_orphan(self) -> bool:
        """Whether the test has ended without ending this process."""
        # The parent of this process is a server that forks processes, and may survive the test.
        return not psutil.pid_exists(self.place.test)

    @abstractmethod
    def step(self) -> None:
        """Do one work."""

    def record(self, **what: Any) -> None:
        """Append a line to the journal; written lines survive a kill."""
        with self._journal.open("a") as journal:
            journal.write(json.dumps(what) + "\n")

    def recorded(self) -> list[dict[str, Any]]:
        """Return the lines of the journal, without one that a kill has cut off."""
        if not self._journal.exists():
            return []
        lines = self._journal.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def retried(self, job: Job) -> Any:
        """Run a job until it succeeds, as Airflow does with the same run token."""
        for attempt in range(_RETRIES):
            try:
                return carry_out(job)
            except HiveAcidError as error:
                self.record(failed=type(error).__name__, message=str(error)[:300])
                if attempt == _RETRIES - 1 or self.is_orphan:
                    raise
        raise AssertionError


class Planned(Actor):
    """An actor whose works depend only on its number, so that a successor repeats the last one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._dice = Random(f"{self.name}")
        self._next = 0
        done = sum("done" in line for line in self.recorded())
        for _ in range(done):
            self.plan()

    def step(self) -> None:
        """Run the next job, with a run token of its own."""
        number = self._next
        job = self.plan()
        report = self.retried(job)
        self.record(
            done=number, rows=report.rows_inserted + report.rows_updated + report.rows_deleted
        )

    def plan(self) -> Job:
        """Return the next job, and apply it to the model."""
        source = self.place.folder / f"{self.name}.json"
        job = replace(
            self._job(source),
            metastore=self.place.metastore,
            run_token=f"soak/{self.name}/{self._next}",
            lock_wait_seconds=20,
        )
        self._next += 1
        return job

    @abstractmethod
    def _job(self, source: Path) -> Any:
        """Return the next job, whose source may be a file, and apply it to the model."""

    @abstractmethod
    def rows(self) -> Sequence[Row]:
        """The rows of its model."""


class Writer(Planned):
    """Changes the rows of one partition by all statements."""

    kind = "writer"

    def __post_init__(self) -> None:
        self._model: list[Row] = []
        super().__post_init__()

    def rows(self) -> Sequence[Row]:
        """The rows of its partition."""
        return self._model

    def _job(self, source: Path) -> Any:
        dice, target = self._dice, self.place.table(ACCOUNTS)
        known = sorted(row.id for row in self._model)
        base, most = self.number * _IDS, self.place.rows // 5
        free = sorted({*range(base, base + self.place.rows)} - {*known})
        kind = dice.choice(["insert", "update", "delete", "merge", "merge"])
        some = dice.sample(known, min(len(known), dice.randint(1, most)))
        new = dice.sample(free, min(len(free), dice.randint(1, most)))
        listed = f"id IN ({', '.join(map(str, some))})"
        value = f"{self._next}"
        job: Any
        if kind == "update" and some:
            job = UpdateJob(target=target, set={"v": f"'{value}'"}, where=listed)
        elif kind == "delete" and some:
            job = DeleteJob(target=target, where=listed)
        elif kind == "insert" and new:
            job = InsertJob(target=target, source=write_source(source, self._made(new, value)))
        else:
            deleted = self._made(some[: most // 4], DELETED)
            rows = [*deleted, *self._made([*some[most // 4 :], *new], value)]
            job = MergeJob(
                target=target,
                source=write_source(source, rows),
                on="t.id = s.id AND t.p = s.p",
                when=(
                    MatchedDelete(condition=f"s.v = '{DELETED}'"),
                    MatchedUpdate(set={"v": "s.v"}),
                    NotMatchedInsert(),
                ),
            )
        self._model = change(job, self._model).of(self._model)
        return job

    def _made(self, ids: Sequence[int], value: str) -> list[Row]:
        return [Row(each, value, str(self.number)) for each in ids]


class Appender(Planned):
    """Appends batches of new rows, as a stream does; each tenth one replaces all rows."""

    kind = "appender"

    def __post_init__(self) -> None:
        self._model: list[Row] = []
        super().__post_init__()

    def rows(self) -> Sequence[Row]:
        """The rows since the last batch that has replaced all."""
        return self._model

    def _job(self, source: Path) -> Any:
        ids = range(self._next * self.place.rows, (self._next + 1) * self.place.rows)
        rows = [Row(each, str(self._next), str(self.number)) for each in ids]
        job = InsertJob(
            target=self.place.table(EVENTS),
            source=write_source(source, rows),
            overwrite=self._next % 10 == 9,
        )
        self._model = change(job, self._model).of(self._model)
        return job


class House(Actor):
    """Compacts and cleans the tables."""

    kind = "house"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._dice = Random()

    def step(self) -> None:
        """Run one compaction or one cleaning."""
        table = self.place.table(self._dice.choice([ACCOUNTS, ACCOUNTS, EVENTS]))
        kind = self._dice.choice(["minor", "major", "clean", "clean"])
        options: dict[str, Any] = {
            "target": table,
            "metastore": self.place.metastore,
            "lock_wait_seconds": 5,
            # The next work of a successor ends the transaction of a killed one.
            "run_token": f"soak/{self.name}",
        }
        job = (
            CleanJob(**options, retention="0")
            if kind == "clean"
            else CompactJob(**options, type=kind)
        )
        try:
            carry_out(job)
        except HiveAcidError as error:
            self.record(failed=type(error).__name__, message=str(error)[:300])
        else:
            self.record(maintained=kind)
        time.sleep(0.2)


class Copier(Actor):
    """Consumes the changes of a table: reads the copied version and the newest one, and compares.

    The old version must have exactly the rows that it had when it was the newest one.
    """

    kind = "copier"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._copy = self.place.folder / f"{self.name}.copy"
        self._client = MetastoreClient(self.place.metastore)

    def step(self) -> None:
        """Copy the changes since the last step."""
        try:
            self._follow()
        except HiveAcidError as error:
            self.record(failed=type(error).__name__, message=str(error)[:300])
        time.sleep(0.1)

    def _follow(self) -> None:
        table = self.place.table(ACCOUNTS)
        consumer = Consumer(self._client, table, self.name, [f"file:{self._copy}"])
        if consumer.after is None:
            consumer.begin(consumer.newest)
            self._keep(consumer.newest, self._rows(consumer.newest))
            consumer.advance(consumer.newest)
            return
        version, copied = json.loads(self._copy.read_text())
        if (newest := consumer.newest) <= version:
            return
        before, after = self._rows(version), self._rows(newest)
        if before != copied:
            self.record(wrong=version, copied=copied, read=before)
            raise AssertionError(f"Version {version} has changed.")
        changed = len({*map(tuple, before)} ^ {*map(tuple, after)})
        self._keep(newest, after)
        consumer.advance(newest)
        self.record(copied=newest, rows=changed)

    def _rows(self, version: int) -> list[list[Any]]:
        scan = TableScan(self.place.table(ACCOUNTS), self.place.metastore, as_of_write_id=version)
        return sorted([row["id"], row["v"], row["p"]] for row in scan.to_arrow().to_pylist())

    def _keep(self, version: int, rows: Sequence[Any]) -> None:
        new = self._copy.with_suffix(".new")
        new.write_text(json.dumps([version, rows]))
        new.replace(self._copy)


KINDS: Mapping[str, type[Actor]] = {kind.kind: kind for kind in (Writer, Appender, House, Copier)}


def act(kind: str, number: int, place: Place) -> None:
    """Repeat the steps of an actor in a process until all end, or until the test has ended."""
    output = os.open(place.folder / f"{kind}-{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    set_clock_of_process(f"{kind} {number}")
    try:
        actor = KINDS[kind](place, number)
        actor.step()  # A process that was killed at the end leaves a lock, for which the others wait.
        while not place.over.exists() and not actor.is_orphan:
            actor.step()
    except BaseException:
        traceback.print_exc()
        raise


def tables(place: Place) -> list[TableRef]:
    """The tables of a soak test."""
    return [TableRef(place.database, name) for name in (ACCOUNTS, EVENTS)]
