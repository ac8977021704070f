"""Writers that overlap under the policy strict: all cells of its matrix, without Spark.

What a writer leaves in folders is put there by hand, with a note like that of a job; the
transactions, the locks and the commits are those of the metastore.
"""

import json
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.conflicts import WriteKind, succeeds
from airflow_hiveacid.acid.locks import MetastoreVersion, Operation, TableRef, Target
from airflow_hiveacid.acid.names import METADATA_FILE, SIDECAR_FILE, Base, Delta
from airflow_hiveacid.engine.write.overlaps import Overlaps
from airflow_hiveacid.errors import AlreadyCompacting, LockTimeout, OverlapRefused
from airflow_hiveacid.metastore.catalog import HivePartition
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.compaction.compaction_transaction import CompactionTransaction
from airflow_hiveacid.metastore.compaction.queue import READY_FOR_CLEANING, CompactionQueue
from airflow_hiveacid.metastore.txn.transaction import Transaction
from tests.fakes.metastore import REAL_AND_FAKE

OVERWRITE, APPEND, CHANGE, MINOR, MAJOR = WriteKind
COMPACTIONS = {MINOR, MAJOR}
DAYS = ("day=1", "day=2")
ONE, TWO = DAYS
OPERATIONS = {
    OVERWRITE: Operation.OVERWRITE,
    APPEND: Operation.INSERT,
    CHANGE: Operation.MERGE,
}
FAKES = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
# The real ones take their time for each of a hundred cells.
FAKES_AND_REAL = pytest.mark.parametrize(
    "hms",
    [
        "fake 4.0.1",
        "fake 3.1.3",
        *[pytest.param(real, marks=pytest.mark.conflicts) for real in ("4.0.1", "3.1.3")],
    ],
    indirect=True,
)
CELLS = [
    pytest.param(first, later, id=f"{first}_before_{later}")
    for first in WriteKind
    for later in WriteKind
]


def meet_at_the_locks(first: WriteKind, later: WriteKind) -> bool:
    """Whether one of two writers of a partition has to wait for the other one."""
    pair = {first, later}
    return OVERWRITE in pair or pair == {CHANGE} or pair <= COMPACTIONS


@dataclass(eq=False)
class Writer:
    """A job, from the moment that it begins: a transaction, directories, a commit."""

    client: MetastoreClient
    ref: TableRef
    kind: WriteKind
    partitions: Collection[str]
    token: str = "orders/nightly/load/-1"
    strict: bool = True
    rebalances: bool = False
    at_work: bool = False
    watch: Overlaps = field(init=False)
    txn: Transaction | CompactionTransaction = field(init=False)

    def __post_init__(self) -> None:
        watch = Overlaps.since_now(self.client, self.token, 0, [self.ref])
        self.watch = watch.compacting(self.ref, DAYS) if self.kind in COMPACTIONS else watch

    def begin(self) -> Self:
        if self.kind in COMPACTIONS:
            (partition,) = self.partitions
            type_ = CompactionType.REBALANCE if self.rebalances else CompactionType(self.kind.value)
            self.txn = CompactionTransaction(
                self.client, self.ref, partition, type_, lock_wait_seconds=0
            )
        else:
            target = Target(self.ref, OPERATIONS[self.kind], True, [*self.partitions])
            self.txn = Transaction(self.client, targets=[target], lock_wait_seconds=0)
        self.txn.__enter__()
        self.at_work = True
        return self

    def commit(self) -> None:
        """Leave directories and commit, or be refused."""
        try:
            if self.kind in COMPACTIONS:  # On Hive 3 the directory is the commit.
                self._require_none()
                self._publish()
                assert isinstance(self.txn, CompactionTransaction)
                self.txn.record(self.txn.write_ids.high_watermark)
            else:
                self._publish()
                self._require_none()
            self.txn.commit()
        finally:
            self.at_work = False
            self.txn.__exit__(None, None, None)

    def abort(self) -> None:
        self.at_work = False
        self.txn.abort("a test")

    def run(self) -> None:
        self.begin().commit()

    def nothing_new(self) -> bool:
        """Whether a compaction finds what another one has left."""
        folders = self.client.get_partitions(self.ref, [*self.partitions])
        return any(
            (Path(folder.folder.removeprefix("file:")) / directory.name).exists()
            for folder in folders
            for directory in self._directories()
        )

    def _require_none(self) -> None:
        if self.strict:
            written = [(self.ref, self.kind, self.partitions)]
            self.watch.require_none_at_commit(self.txn, written)

    def _publish(self) -> None:
        note: dict[str, object] = {
            "run_token": self.token,
            "user": "ann",
            "time": "2026-03-01T12:00:00+00:00",
        }
        for partition in self.client.get_partitions(self.ref, [*self.partitions]):
            root = Path(partition.folder.removeprefix("file:"))
            if self.kind in COMPACTIONS:
                there = sorted(path.name for path in root.glob("*_*") if path.is_dir())
                note |= {"format": 1, "replaces": there, "aborted": []}
            for directory in self._directories():
                path = root / directory.name
                path.mkdir(parents=True)
                (path / SIDECAR_FILE).write_text(json.dumps(note))
                if self.kind is MAJOR and self.client.version is MetastoreVersion.HMS3:
                    (path / METADATA_FILE).write_text('{"dataFormat":"compacted"}')
                if not isinstance(self.txn, CompactionTransaction):
                    self.txn.own(lambda path=path: remove(path), str(path))

    def _directories(self) -> Iterator[Base | Delta]:
        if isinstance(self.txn, CompactionTransaction):
            last, txn = self.txn.write_ids.high_watermark, self.txn.visibility_txn
            yield Base(last, txn) if self.kind is MAJOR else Delta(1, last, None, txn)
            return
        own = self.txn.write_ids[self.ref.full_name]
        if self.kind is OVERWRITE:
            yield Base(own)
            return
        yield Delta(own, own, 0)
        if self.kind is CHANGE:
            yield Delta(own, own, 0, is_delete=True)


def remove(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


@pytest.fixture
def writer(client: MetastoreClient, table: TableRef) -> Callable[..., Writer]:
    made = client.get_table(table)
    client.add_partitions(
        table, [HivePartition.new(made, [name.partition("=")[2]]) for name in DAYS]
    )

    def make(kind: WriteKind, *partitions: str, **more: object) -> Writer:
        return Writer(client, table, kind, partitions or (ONE,), **more)

    for _ in range(2):
        make(APPEND, *DAYS).run()
    return make


@FAKES_AND_REAL
@pytest.mark.parametrize(
    "where",
    [
        pytest.param(ONE, id="the_same_partition"),
        pytest.param(TWO, id="another_partition", marks=pytest.mark.conflicts),
    ],
)
@pytest.mark.parametrize(("first", "later"), CELLS)
def test_a_cell(client, table, writer, first, later, where):
    job = writer(later, token="orders/nightly/merge/-1")
    other = writer(first, where)
    if where == ONE and meet_at_the_locks(first, later):
        other.run()
        if {first, later} <= COMPACTIONS:
            # Else the request in the queue would refuse the next one, whatever the policy.
            settle(client, table)
        job.begin()
    else:
        job.begin()
        other.run()
    if where == TWO or succeeds(first, later):
        job.commit()
    else:
        with pytest.raises(OverlapRefused) as refused:
            job.commit()
        said = str(refused.value)
        assert f"({first} before {later})" in said
        assert "Airflow task load of DAG orders, run nightly" in said
        assert "Airflow task merge of DAG orders" in said
        assert f"in {ONE}" in said
        assert said.endswith("run it again on what the other one wrote.")
    assert client.show_locks() == []


HMS4S = pytest.mark.parametrize(
    "hms", ["fake 4.0.1", pytest.param("4.0.1", marks=pytest.mark.conflicts)], indirect=True
)
POLICIES = pytest.mark.parametrize("strict", [True, False], ids=["strict", "hive"])


@HMS4S
@POLICIES
@pytest.mark.parametrize(
    ("first", "later"),
    [
        pytest.param(first, later, id=f"{first}_before_{later}".replace("major", "rebalance"))
        for first in WriteKind
        for later in WriteKind
        if MAJOR in (first, later)
    ],
)
def test_a_cell_with_a_rebalance(client, table, writer, first, later, strict):
    job = writer(later, strict=strict, rebalances=later is MAJOR)
    other = writer(first, strict=strict, rebalances=first is MAJOR)
    if meet_at_the_locks(first, later) or CHANGE in (first, later):
        other.run()
        if {first, later} <= COMPACTIONS:
            settle(client, table)
        job.begin()
    else:
        job.begin()
        other.run()
    if not strict or succeeds(first, later):
        job.commit()
    else:
        with pytest.raises(OverlapRefused, match=f"{first} before {later}"):
            job.commit()
    assert client.show_locks() == []


@HMS4S
@POLICIES
def test_beside_a_rebalance_appends_succeed_and_changes_wait(client, writer, strict):
    rebalance = writer(MAJOR, strict=strict, rebalances=True).begin()
    with pytest.raises(LockTimeout):
        writer(CHANGE, strict=strict).run()
    writer(CHANGE, TWO, strict=strict).run()
    writer(APPEND, strict=strict).run()
    if strict:
        with pytest.raises(OverlapRefused, match="append before major"):
            rebalance.commit()
    else:
        rebalance.commit()
    writer(CHANGE, strict=strict).run()
    assert client.show_locks() == []


@HMS4S
@POLICIES
def test_a_rebalance_waits_for_changes_and_for_no_append(client, writer, strict):
    append = writer(APPEND, strict=strict).begin()
    change = writer(CHANGE, strict=strict).begin()
    with pytest.raises(LockTimeout):
        writer(MAJOR, strict=strict, rebalances=True).run()
    writer(MAJOR, TWO, strict=strict, rebalances=True).run()
    change.commit()
    rebalance = writer(MAJOR, strict=strict, rebalances=True)
    if strict:
        append.abort()
    rebalance.run()
    if not strict:
        append.commit()
    assert client.show_locks() == []


@REAL_AND_FAKE
def test_of_two_who_are_about_to_commit_one_waits_until_the_other_has(client, table, writer):
    one, two = writer(APPEND).begin(), writer(APPEND).begin()
    one.txn.commit_alone([table], 0)
    with pytest.raises(LockTimeout, match=r"EXCLUSIVE on .*#commits held since"):
        two.commit()
    assert two.txn.warnings == []
    three = writer(APPEND)
    one.commit()
    with pytest.raises(OverlapRefused):
        three.run()
    assert client.show_locks() == []


@REAL_AND_FAKE
def test_who_dies_before_the_commit_holds_nobody_up(client, table, writer):
    dead = writer(APPEND).begin()
    dead.txn.commit_alone([table], 0)
    client.abort_txn(dead.txn.txn_id)
    writer(APPEND).run()
    dead.abort()


@FAKES
def test_what_was_open_when_the_job_began_counts_once_it_is_committed(writer):
    other = writer(APPEND).begin()
    job = writer(CHANGE).begin()
    other.commit()
    with pytest.raises(OverlapRefused, match="append before change"):
        job.commit()


@FAKES
def test_what_was_aborted_meanwhile_does_not_count(writer):
    job = writer(CHANGE).begin()
    writer(APPEND).begin().abort()
    job.commit()


@FAKES
def test_the_rows_that_a_compaction_took_over_since_count_as_somebodys(client, table, writer):
    job = writer(APPEND)
    writer(CHANGE).run()
    writer(MAJOR).run()
    (partition,) = client.get_partitions(table, [ONE])
    for path in Path(partition.folder.removeprefix("file:")).glob("*delta_*"):
        remove(path)
    with pytest.raises(OverlapRefused, match=r"write id 3 in day=1, somebody whose rows base_"):
        job.run()


@FAKES
def test_a_compaction_of_what_was_there_is_nobodys_change(client, table, writer):
    job = writer(APPEND)
    writer(MAJOR).run()
    job.run()


@FAKES
@pytest.mark.parametrize("note", ["", "[]", '{"operation": ["x"], "run_token": 1, "user": {}}'])
def test_a_note_that_makes_no_sense_changes_no_decision(client, table, writer, note):
    job = writer(APPEND).begin()
    writer(CHANGE).run()
    (partition,) = client.get_partitions(table, [ONE])
    for path in Path(partition.folder.removeprefix("file:")).glob(f"*delta_*/{SIDECAR_FILE}"):
        path.write_text(note)
    with pytest.raises(OverlapRefused, match="change before append"):
        job.commit()


@FAKES
@pytest.mark.parametrize(
    "seed", [0, 1, *[pytest.param(more, marks=pytest.mark.conflicts) for more in range(2, 6)]]
)
def test_random_writers_are_refused_exactly_where_the_matrix_says_so(client, table, writer, seed):
    """Jobs that begin, work and commit in any order, against a list of who committed when."""
    dice = random.Random(seed)
    now, committed = 0, []
    jobs: list[tuple[Writer, int]] = []
    for _ in range(60):
        now += 1
        step = dice.random()
        if step < 0.4 and len(jobs) < 4:
            kind = dice.choice(list(WriteKind))
            days = (
                [dice.choice(DAYS)]
                if kind in COMPACTIONS
                else dice.sample(DAYS, dice.choice([1, 2]))
            )
            jobs.append((writer(kind, *days), now))
            continue
        if not jobs:
            continue
        job, began = dice.choice(jobs)
        if not job.at_work:
            try:
                job.begin()
            except (LockTimeout, AlreadyCompacting):
                jobs.remove((job, began))
            continue
        jobs.remove((job, began))
        if step > 0.9:
            job.abort()
            continue
        if job.kind in COMPACTIONS and job.nothing_new():
            job.abort()
            continue
        refused = any(
            began < at and not succeeds(kind, job.kind) and {*days} & {*job.partitions}
            for kind, days, at in committed
        )
        try:
            job.commit()
        except OverlapRefused:
            assert refused, (job.kind, job.partitions, committed)
        else:
            assert not refused, (job.kind, job.partitions, committed)
            committed.append((job.kind, job.partitions, now))
            if job.kind in COMPACTIONS:
                settle(client, table)
    for job, _ in jobs:
        if job.at_work:
            job.abort()
    assert len(committed) > 3


def settle(client: MetastoreClient, table: TableRef) -> None:
    """Let the queue take the next request of a compaction, and leave the directories alone."""
    queue = CompactionQueue(client)
    for day in DAYS:
        for entry in queue.show(table, day):
            if entry.state == READY_FOR_CLEANING:
                queue.cleaned(entry)
