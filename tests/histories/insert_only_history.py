"""The random history of an insert-only table, and the views of its readers during it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
from pyarrow import orc, parquet
from pyspark.sql import SparkSession

from hiveacid.errors import LockTimeout, VersionGone
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import Base, Delta, TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.versions import as_of_write_id
from hiveacid.rules.write_ids import Range, ValidWriteIdList
from hiveacid.spark.compaction import compact_table
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.upkeep.table_cleaning import clean
from tests.histories.history import may_be_mixed

_FORMATS = (StorageFormat.ORC, StorageFormat.ORC, StorageFormat.PARQUET, StorageFormat.TEXTFILE)


@dataclass
class _Write:
    """The files of one transaction, finished or not."""

    write_id: int
    rows: list[int] = field(default_factory=list)
    replaces: bool = False


class _Reader:
    """A reader of the table as of one moment, without a time limit."""

    def __init__(
        self,
        history: "InsertOnlyHistory",
        snapshot: Snapshot,
        now: ValidWriteIdList | None = None,
    ) -> None:
        self._history = history
        self._now = now
        self._snapshot = snapshot
        self._expected = history.expected(snapshot.write_ids[history.ref.full_name])
        self._files = self._list()

    def check(self) -> None:
        """Read by the files that were chosen in the beginning, and by a new choice."""
        assert _read(self._history.form, self._files) == self._expected, self._files
        try:
            again = self._list()
        except VersionGone:
            # Version 3 cannot hide a new base from a reader who does not see all of it.
            assert not self._history.is_hive4
        else:
            assert _read(self._history.form, again) == self._expected

    def _list(self) -> list[Path]:
        history = self._history
        snapshot = FlatSnapshot.of_insert_only(
            history.client.get_table(history.ref),
            [],
            self._snapshot.write_ids[history.ref.full_name],
            self._snapshot.txns if history.is_hive4 else None,
            Rules.HIVE4 if history.is_hive4 else Rules.HIVE3,
            self._now,
        )
        return [_path(file.path) for _, files in snapshot.files for file in files]


class InsertOnlyHistory:
    """One table that random things happen to, one after the other."""

    def __init__(self, seed: int, client: MetastoreClient, spark: SparkSession) -> None:
        self.client = client
        self.ref = TableRef("db", f"only{seed}")
        self._spark = spark
        self._random = Random(seed)
        # Separate, so that a seed keeps its history when checks are added.
        self._looks = Random(-seed)
        self.form = self._random.choice(_FORMATS)
        columns = [HiveColumn("id", "int")]
        kind = TableKind.INSERT_ONLY
        client.create_table(HiveTable.new(self.ref, columns, kind=kind, format=self.form))
        self._root = _path(client.get_table(self.ref).folder)
        self._root.mkdir(parents=True, exist_ok=True)
        self._committed: list[_Write] = []
        self._open: list[tuple[Transaction, _Write]] = []
        self._readers: list[tuple[Transaction, _Reader]] = []
        self._versions: list[ValidWriteIdList] = []
        # Apart again, for versions that no reader has seen.
        self._more = Random(f"versions {seed}")
        # The committed write ids at the last cleaning that removed files of versions. Up to this
        # write id it could be compacted.
        self._cleaned: set[int] = set()
        self._compacted = 0
        # All of a history takes less time.
        self._retention = Random(f"retention {seed}").choice(["0", "1 h"])
        # Some compactions sort, too.
        self._sorts = Random(f"rebalance {seed}")
        self._rows = 0
        self.log = [f"{self.ref}, {self.form.name}, {client.version}"]

    @property
    def is_hive4(self) -> bool:
        return self.client.features.hides_compactions

    def expected(self, write_ids: ValidWriteIdList) -> list[int]:
        """The rows that a reader has to see."""
        seen = [write for write in self._committed if write_ids.is_valid(write.write_id)]
        base = max((write.write_id for write in seen if write.replaces), default=0)
        return sorted(row for write in seen if write.write_id >= base for row in write.rows)

    def run(self, steps: int) -> None:
        """Run random events, then end all and clean; errors contain the history."""
        happens: dict[Callable[[], None], int] = {
            lambda: self._begin(Operation.INSERT): 8,
            self._overwrite: 1,
            self._end: 6,
            self._come: 3,
            self._go: 2,
            lambda: self._compact("minor"): 3,
            lambda: self._compact("major"): 2,
            self._clean: 2,
        }
        try:
            for _ in range(steps):
                (step,) = self._random.choices(list(happens), list(happens.values()))
                step()
            while self._open:
                self._end()
            self._compact("major")
            while self._readers:
                self._go()
            self._clean()
            self._clean()
            left = [entry.name for entry in self._root.iterdir() if entry.name[0] not in "_."]
            # Without any committed transaction there are none.
            assert left or not self._committed
            assert all(name.startswith(("base_", "delta_")) for name in left)
        except BaseException as error:
            error.add_note("\n".join(self.log))
            raise
        finally:
            for txn, _ in [*self._open, *self._readers]:
                txn.abort("the history is over")

    def _begin(self, operation: Operation) -> None:
        """Write some files, and leave the transaction open."""
        txn = Transaction(
            self.client, targets=[Target(self.ref, operation)], lock_wait_seconds=0, max_restarts=0
        )
        try:
            txn.__enter__()
        except LockTimeout:
            return self.log.append(f"{operation} had to wait and gave up")
        write_id = txn.write_ids[self.ref.full_name]
        write = _Write(write_id, replaces=operation is Operation.OVERWRITE)
        name = Base(write_id).name if write.replaces else Delta(write_id, write_id, 0).name
        for number in range(self._random.randint(1, 3)):
            rows = list(range(self._rows, self._rows + self._random.randint(0, 5)))
            self._rows += len(rows)
            write.rows += rows
            below = self._random.choice(["", "", "HIVE_UNION_SUBDIR_1/"])
            _write(self.form, self._root / name / f"{below}{number:06d}_0", rows)
        self._open.append((txn, write))
        self.log.append(f"{name} of transaction {txn.txn_id} has {write.rows}")

    def _overwrite(self) -> None:
        before = len(self._open)
        self._begin(Operation.OVERWRITE)
        # Version 3 cannot read past a base that is not valid.
        if len(self._open) > before and not self.is_hive4:
            self._end(-1)

    def _end(self, which: int | None = None) -> None:
        """Commit a transaction, or let it fail with all its files in place."""
        if not self._open:
            return
        which = self._random.randrange(len(self._open)) if which is None else which
        txn, write = self._open.pop(which)
        if self._random.random() < 0.3 and (self.is_hive4 or not write.replaces):
            txn.abort("it failed")
            self.log.append(f"{write.write_id} is aborted")
        else:
            txn.commit()
            txn.__exit__(None, None, None)
            self._committed.append(write)
            self.log.append(f"{write.write_id} is committed")
        self._check_everybody()

    def _come(self) -> None:
        txn = Transaction(self.client, reads=[self.ref], lock_wait_seconds=0)
        try:
            txn.__enter__()
        except LockTimeout:
            return self.log.append("a reader had to wait and gave up")
        self._readers.append((txn, _Reader(self, txn.snapshot)))
        self.log.append(f"reader {txn.txn_id} comes")

    def _go(self) -> None:
        if self._readers:
            txn, reader = self._readers.pop(self._random.randrange(len(self._readers)))
            reader.check()
            txn.__exit__(None, None, None)
            self.log.append(f"reader {txn.txn_id} goes")

    def _compact(self, type_: str) -> None:
        sorts = self._sorts.random() < 0.3
        text = self.form is StorageFormat.TEXTFILE
        job = CompactJob(
            target=self.ref.full_name,
            metastore=self.client.options,
            type="rebalance" if sorts else type_,
            order_by=["id"] if sorts and not text else (),
            lock_wait_seconds=0,
        )
        (done,) = compact_table(lambda: self._spark, self.client, job).partitions
        self.log.append(f"{job.type}: {done.outcome}, {', '.join(done.published)}; {done.reason}")
        if done.outcome == "failed":
            assert "wait" in done.reason, done.error  # For an overwrite.
        self._check_everybody()

    def _clean(self) -> None:
        target, metastore = self.ref.full_name, self.client.options
        job = CleanJob(
            target=target, metastore=metastore, lock_wait_seconds=0, retention=self._retention
        )
        try:
            report = clean(self.client, job)
        except LockTimeout:  # An overwrite is running.
            return self.log.append("a cleaner had to wait and gave up")
        gone = [removal.path for removal in report.removed]
        # Of the directories kept for them, only those with rows of several fates are removed
        # nevertheless.
        if any(map(may_be_mixed, gone)) if self._retention == "1 h" else gone:
            self._cleaned = {write.write_id for write in self._committed}
            now = Snapshot.take(self.client, [self.ref]).write_ids[self.ref.full_name]
            self._compacted = min(now.high_watermark, now.min_open_write_id - 1)
        self.log.append(f"cleaned {', '.join(removal.path for removal in report.removed)}")
        self._check_everybody()

    def _check_everybody(self) -> None:
        """Every open reader has its old view, and a new one sees the committed rows."""
        for _, reader in self._readers:
            reader.check()
        snapshot = Snapshot.take(self.client, [self.ref])
        _Reader(self, snapshot).check()
        self._check_versions(snapshot)

    def _check_versions(self, snapshot: Snapshot) -> None:
        """A reader of an earlier version gets its rows, or an error about removed files."""
        now = snapshot.write_ids[self.ref.full_name]
        versions = self._looks.sample(self._versions, min(3, len(self._versions)))
        versions.append(as_of_write_id(now, self._more.randint(0, now.high_watermark)))
        for then in versions:
            try:
                reader = _Reader(self, Snapshot(snapshot.txns, {self.ref.full_name: then}), now)
            except VersionGone:
                if not self._may_be_gone(then, now):
                    raise
            else:
                reader.check()
        self._versions.append(now)

    def _may_be_gone(self, then: ValidWriteIdList, now: ValidWriteIdList) -> bool:
        """Return whether a version is older than a cleaning, or than an overwrite.

        Hive's overwrites do not record the replaced directories.
        """
        overwrites = {write.write_id for write in self._committed if write.replaces}
        # Of an aborted write the metastore may have forgotten that it was no version.
        behind = now.range_valid(then.high_watermark + 1, self._compacted)
        return (
            not all(map(then.is_valid, self._cleaned | overwrites))
            or behind is not Range.NONE
            or any(own <= self._compacted for own in then.open)
        )


def _path(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def _write(form: StorageFormat, path: Path, rows: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": pa.array(rows, pa.int32())})
    if form is StorageFormat.TEXTFILE:
        path.write_text("".join(f"{row}\n" for row in rows))
    elif form is StorageFormat.ORC:
        orc.write_table(table, path)
    else:
        parquet.write_table(table, path)


def _read(form: StorageFormat, paths: list[Path]) -> list[int]:
    ids: list[int] = []
    for path in paths:
        if form is StorageFormat.TEXTFILE:
            ids += map(int, path.read_text().split())
        else:
            table = (orc if form is StorageFormat.ORC else parquet).read_table(path)
            ids += table["id"].to_pylist()
    return sorted(ids)
