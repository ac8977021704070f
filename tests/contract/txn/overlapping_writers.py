"""Writers that overlap, without Spark: transactions, and directories put there by hand."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import (
    READY_FOR_CLEANING,
    CompactionQueue,
    CompactionTransaction,
)
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.overlaps import Overlaps
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.locks import Operation, Target, WriteKind
from hiveacid.rules.names import METADATA_FILE, SIDECAR_FILE, Base, Delta, TableRef

OVERWRITE, APPEND, CHANGE, MINOR, MAJOR = WriteKind
COMPACTIONS = {MINOR, MAJOR}
DAYS = ("day=1", "day=2")
ONE, TWO = DAYS
OPERATIONS = {
    OVERWRITE: Operation.OVERWRITE,
    APPEND: Operation.INSERT,
    CHANGE: Operation.MERGE,
}


def meet_at_the_locks(first: WriteKind, later: WriteKind) -> bool:
    """Return whether one of two writers of a partition has to wait for the other one."""
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
        """Return whether a compaction finds the leftovers of another one."""
        folders = self.client.get_partitions(self.client.get_table(self.ref), [*self.partitions])
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
        for partition in self.client.get_partitions(
            self.client.get_table(self.ref), [*self.partitions]
        ):
            root = Path(partition.folder.removeprefix("file:"))
            if self.kind in COMPACTIONS:
                there = sorted(path.name for path in root.glob("*_*") if path.is_dir())
                note |= {"format": 1, "replaces": there, "aborted": []}
            for directory in self._directories():
                path = root / directory.name
                path.mkdir(parents=True)
                (path / SIDECAR_FILE).write_text(json.dumps(note))
                if self.kind is MAJOR and not self.client.features.hides_compactions:
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


def settle(client: MetastoreClient, table: TableRef) -> None:
    """Let the queue take the next request of a compaction, and leave the directories alone."""
    queue = CompactionQueue(client)
    for day in DAYS:
        for entry in queue.show(table, day):
            if entry.state == READY_FOR_CLEANING:
                queue.cleaned(entry)
