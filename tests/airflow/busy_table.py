"""A busy table with two consumers that are killed, and the changes that they should have copied.

The operators are the real ones; Spark runs in the process of the test. A killed run sends nothing
more to the metastore and cleans nothing up, like a dead process.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid import AcidTable, ChangesSource, HiveAcidChangesOperator, QuerySource
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure
from airflow_hiveacid.operators.job import HiveAcidJobOperator
from hiveacid.errors import TransactionAborted
from hiveacid.jobs import CleanJob, CompactJob, InsertJob, mirror_job
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.records.consumers import Consumer
from hiveacid.rules.names import Delta, TableRef
from hiveacid.spark.run import run
from hiveacid.upkeep.table_cleaning import clean
from tests.cli.acid_files import write_events
from tests.engine.acid_tables import create
from tests.places import place_of

COLUMNS = {"id": "int", "v": "string"}
BEFORE, AFTER = "before the cursor", "after the cursor"
# The point where a consumer is killed, or overtaken by another run of it.
PLACES = [
    *((phase, edge) for phase in list(Phase)[:8] for edge in ("enter", "leave")),
    *((BEFORE, "enter"), (AFTER, "enter")) * 2,
]


class Killed(BaseException):
    """An exception that no code of this package catches."""


class _At(PhaseObserver):
    def __init__(self, place: tuple[str, str], action: Callable[[], None]) -> None:
        self._place, self._action = place, action

    def enter(self, phase: Phase) -> None:
        self._reach(phase, "enter")

    def leave(self, phase: Phase, seconds: float) -> None:
        self._reach(phase, "leave")

    def _reach(self, phase: Phase, edge: str) -> None:
        if (phase, edge) == self._place:
            self._place = ("", "")
            self._action()


@dataclass
class BusyTable:
    """The table, its consumers, and a model of the changes that they have to copy.

    Attributes:
        rows: The content of the table.
        changes: Every change that was committed: id, value, kind and write id.
        kills: The number of killed runs of consumers.
        consumers: Its consumers, "log" and "mirror" or one of them.
    """

    spark: Any
    client: MetastoreClient
    database: str
    random: Random
    consumers: Sequence[str] = ("log", "mirror")
    rows: dict[int, str] = field(default_factory=dict)
    changes: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    kills: int = 0

    def __post_init__(self) -> None:
        self.table, self.log, self.copy = (
            f"{self.database}.{name}" for name in ("busy", "log", "copy")
        )
        create(self.client, self.table, COLUMNS)
        create(self.client, self.log, COLUMNS | {"change": "string", "version": "bigint"})
        create(self.client, self.copy, COLUMNS)
        self._late: list[tuple[int, int]] = []
        self._dead = False
        self._struck: list[PhaseObserver] = []
        self._at_cursor: dict[str, Callable[[], None]] = {}

    @contextmanager
    def in_process(self) -> Iterator[None]:
        """Let operators run their jobs here, and let those be killed."""
        really_end, really_advance = LiveTransaction.abort, Consumer.advance

        def submit(operator: Any, job: Any, context: Any) -> Any:
            observers, self._struck = self._struck, []
            return run(self.spark, job, observers).to_dict()

        def abort(txn: LiveTransaction, reason: str) -> None:
            if not self._dead:
                really_end(txn, reason)
            elif txn._heartbeat is not None:
                txn._heartbeat.stop()

        def advance(consumer: Consumer, version: int) -> None:
            self._at_cursor.pop(BEFORE, _nothing)()
            really_advance(consumer, version)
            self._at_cursor.pop(AFTER, _nothing)()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HiveAcidJobOperator, "_run", submit)
            patch.setattr(LiveTransaction, "abort", abort)
            patch.setattr(Consumer, "advance", advance)
            yield

    # Operations on the table

    def write(self) -> None:
        """Change some rows, or none."""
        kinds = ["insert", "insert", "update", "delete", "nothing", "late", "aborted"]
        kind = self.random.choice(kinds)
        with AcidTable(self.table, self.client.options, spark=self.spark, run_in="spark") as table:
            if kind == "insert":
                # Those of other engines are negative.
                new = max((0, *self.rows)) + 1
                report = table.append(self.spark.sql(f"SELECT {new} id, 'new' v"))
                self._changed(report, ("insert", new, "new"))
            elif kind == "update" and self.rows:
                id_ = self.random.choice(list(self.rows))
                old, new_value = self.rows[id_], f"{self.rows[id_]}!"
                report = table.update({"v": f"'{new_value}'"}, f"id = {id_}")
                self._changed(report, ("delete", id_, old), ("insert", id_, new_value))
            elif kind == "delete" and self.rows:
                id_ = self.random.choice(list(self.rows))
                self._changed(table.delete(f"id = {id_}"), ("delete", id_, self.rows[id_]))
            elif kind == "late":
                # Its write id is lower than those of writers that commit before it.
                self._late.append(self.begin())
            elif kind == "aborted":
                self.client.abort_txn(self.begin()[0])
            else:
                table.delete("id = 0")

    def end_late(self) -> None:
        """End the old open transactions: some with a row, some without, some by an abort."""
        for txn, write_id in self._late:
            end = self.random.choice(["row", "nothing", "abort"])
            if end == "abort":
                # Without a row: the metastore soon forgets those that were aborted without a lock.
                self.client.abort_txn(txn)
                continue
            if end == "row":
                self._insert(write_id, -write_id, "late")
            try:
                self.client.commit_txn(txn)
            except TransactionAborted:
                continue  # It took too long.
            if end == "row":
                self.rows[-write_id] = "late"
                self.changes[-write_id, "late", "insert", write_id] += 1
        self._late.clear()

    def begin(self) -> tuple[int, int]:
        """A transaction of another engine, with its write id."""
        txn = self.client.open_txn("user", "host", None)
        return txn, self.client.allocate_write_id(txn, TableRef.parse(self.table))

    def _insert(self, write_id: int, id_: int, value: str) -> None:
        """Insert a row like another engine."""
        folder = self.client.get_table(TableRef.parse(self.table)).folder
        row = pa.array(
            [{"id": id_, "v": value}], pa.struct([("id", pa.int32()), ("v", pa.string())])
        )
        delta = place_of(folder) / Delta(write_id, write_id, 0).name
        write_events(delta / "bucket_00000", [(write_id, 0, write_id)], row)
        (delta / "_orc_acid_version").write_text("2")

    def maintain(self) -> None:
        """Compact one of the tables, and clean it, after the timeout of killed transactions."""
        self._time_out()
        self.compact_and_clean()

    def compact_and_clean(self) -> None:
        """Compact one of the tables, and clean it; unread changes must remain."""
        name = self.random.choice([self.table, self.table, self.log, self.copy])
        type_ = self.random.choice(["minor", "major"])
        options = {"target": name, "metastore": self.client.options}
        run(self.spark, CompactJob(**options, type=type_))
        clean(self.client, CleanJob(**options, retention="0"))

    def _time_out(self) -> None:
        """Abort the transactions of killed runs, as a metastore does after some minutes."""
        for txn in self.client.get_open_txns_info():
            if txn.txn_id not in dict(self._late) and self.table in txn.host:
                with suppress(TransactionAborted):
                    self.client.abort_txn(txn.txn_id)

    def _changed(self, report: Any, *changes: tuple[str, int, str]) -> None:
        (write_id,) = report.write_ids.values()
        for change, id_, value in changes:
            self.changes[id_, value, change, write_id] += 1
            if change == "insert":
                self.rows[id_] = value
            else:
                del self.rows[id_]

    # Its consumers

    def consume(self, name: str) -> Any:
        """Run a consumer's task to its end."""
        return self._operator(name).execute(_context())

    def kill(self, name: str) -> None:
        """Run a consumer's task, which is killed somewhere if it comes there."""

        def die() -> None:
            self._dead = True
            raise Killed

        try:
            self._strike(die)
            self.consume(name)
        except Killed:
            self.kills += 1
        finally:
            self._dead = False
            self._forget()

    def overtake(self, name: str) -> None:
        """Run a consumer's task, and another run of it in the middle; one of them may fail."""

        def another() -> None:
            self._forget()
            self.consume(name)

        self._strike(another)
        with suppress(HiveAcidTaskFailure):
            self.consume(name)
        self._forget()

    def catch_up(self) -> None:
        """Let the consumers come to the end."""
        self.end_late()
        for name in self.consumers:
            while self.consume(name)["changes"]:
                pass

    def problems(self) -> list[str]:
        """Return the errors in the copies."""
        told = {"log": (self.log, self.changes), "mirror": (self.copy, Counter(self.rows.items()))}
        problems = []
        for name in self.consumers:
            table, wanted = told[name]
            copied = Counter(self._read(table))
            problems += [f"{name} lacks {row}" for row in (wanted - copied).elements()]
            problems += [f"{name} has too much: {row}" for row in (copied - wanted).elements()]
        return problems

    def _read(self, name: str) -> list[tuple[Any, ...]]:
        with AcidTable(name, self.client.options, spark=self.spark, run_in="spark") as table:
            return [tuple(row) for row in table.to_df().collect()]

    def job(self, name: str) -> Any:
        """Return the job of a consumer."""
        job: Any = mirror_job(self.table, self.copy, ["id"])
        if name == "log":
            changed = ChangesSource(self.table, after="0")
            sql = "SELECT id, v, _change_type AS change, _write_id AS version FROM changed"
            job = InsertJob(target=self.log, source=QuerySource(sql, {"changed": changed}))
        return replace(job, metastore=self.client.options, lock_wait_seconds=20)

    def _operator(self, name: str) -> HiveAcidChangesOperator:
        return HiveAcidChangesOperator(task_id=name, consumer=name, job=self.job(name))

    def _strike(self, action: Callable[[], None]) -> None:
        place = self.random.choice(PLACES)
        if place[0] in (BEFORE, AFTER):
            self._at_cursor[place[0]] = action
        else:
            self._struck = [_At(place, action)]

    def _forget(self) -> None:
        self._struck, self._at_cursor = [], {}


def live_through(busy: BusyTable, kills: int) -> None:
    """Let things happen to a table and its consumers until as many runs were killed."""
    with busy.in_process():
        # Cleanings keep changes for a consumer from its first run on.
        for name in busy.consumers:
            busy.consume(name)
        while busy.kills < kills:
            for _ in range(busy.random.randrange(1, 3)):
                busy.write()
            name = busy.random.choice(busy.consumers)
            (busy.kill if busy.random.random() < 0.8 else busy.overtake)(name)
            if busy.random.random() < 0.4:
                busy.maintain()
            if busy.random.random() < 0.4:
                busy.end_late()
        busy.catch_up()


def _context() -> Any:
    ti = SimpleNamespace(
        dag_id="d",
        run_id="r",
        task_id="t",
        map_index=-1,
        try_number=1,
        xcom_push=lambda key, value: None,
        xcom_pull=lambda **_: None,
    )
    return {"ti": ti, "task": SimpleNamespace(outlets=[], inlets=[])}


def _nothing() -> None:
    """Go on."""
