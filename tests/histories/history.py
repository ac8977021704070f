"""The random history of one table, and what its readers see all along."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from airflow_hiveacid.acid.errors import LockTimeout
from airflow_hiveacid.acid.locks import (
    DataOperation,
    LockComponent,
    LockLevel,
    LockType,
    MetastoreVersion,
    Operation,
    TableRef,
    lock_components,
)
from airflow_hiveacid.acid.names import Base, Delta, partition_name
from airflow_hiveacid.engine.compact import TableCompactor
from airflow_hiveacid.jobs.cleaning import CleanJob
from airflow_hiveacid.jobs.compaction import CompactJob
from airflow_hiveacid.jobs.report import PartitionCompaction
from airflow_hiveacid.maintenance.clean import clean
from airflow_hiveacid.metastore.answers import LockState
from airflow_hiveacid.metastore.catalog import Column, HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.queue import CompactionQueue
from airflow_hiveacid.metastore.snapshot import Snapshot
from airflow_hiveacid.metastore.transaction import Transaction
from tests.histories.data_files import (
    COLUMNS,
    FileStyle,
    make_directory,
    write_deletes,
    write_rows,
)
from tests.histories.reader import Reader, problems_of_output
from tests.histories.table_model import Change, Place, TableModel

_MOST_READERS = 3
_MOST_WRITERS = 2
_WHO = ("somebody", "host", None)

# What happens next, and how often.
_STEPS = {
    "insert": 6,
    "change": 8,
    "stream": 2,
    "overwrite": 1,
    "finish": 3,
    "open_reader": 3,
    "open_reader_in_between": 3,
    "close_reader": 2,
    "minor": 3,
    "major": 2,
    "clean": 2,
    "keep_house": 1,
}


@dataclass
class _Writer:
    """A transaction that has written its files and is not yet over."""

    change: Change
    commit: Callable[[], None]
    abort: Callable[[], None]
    directories: Sequence[Path]


class History:
    """One table that random things happen to, one after the other.

    Attributes:
        log: What has happened, to be shown when something turns out wrong.
        compactions: What the compactions reported.
    """

    def __init__(
        self,
        seed: int,
        client: MetastoreClient,
        spark: SparkSession,
        database: str,
        keep_house: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the table.

        Args:
            seed: Decides everything.
            client: The metastore.
            spark: Where compactions run.
            database: Where the table goes.
            keep_house: What the metastore does by itself from time to time, done now.
        """
        self.log: list[str] = []
        self.compactions: list[PartitionCompaction] = []
        self._random = random = Random(seed)
        self._client = client
        self._spark = spark
        self._keep_house = keep_house
        self._is_4 = client.version is MetastoreVersion.HMS4
        self._ref = TableRef(database, f"t{seed}")
        self._values: list[str | None] = random.choice(
            [[None], [None], ["1", "2"], ["1", "2", "3"]]
        )
        self._num_buckets = random.choice([-1, 1, 2])
        self._writes_large_rows = random.random() < 0.25
        self._create()
        self._model = TableModel()
        self._readers: list[tuple[Transaction, Reader]] = []
        self._writers: list[_Writer] = []
        self._rows_written = 0
        self._note(f"{len(self._folders)} folders, {self._num_buckets} buckets, {client.version}")

    def run(self, steps: int) -> None:
        """Let some things happen, then end all that is open and clean up."""
        try:
            for _ in range(steps):
                (step,) = self._random.choices(list(_STEPS), list(_STEPS.values()))
                getattr(self, f"_{step}")()
            while self._writers:
                self._finish()
            while self._readers:
                self._close_reader()
            self._clean()
            # The first cleaning after somebody else's overwrite only remembers when it saw it.
            self._clean()
            self._check_tidiness()
        finally:
            for writer in self._writers:
                writer.abort()
            for txn, _ in self._readers:
                txn.abort("the history is over")

    def _check_tidiness(self) -> None:
        """With nobody in its way a cleaner leaves nothing to be done."""
        assert self._new_reader().unread() == []
        assert self._client.show_locks(self._ref) == []
        if self._is_4:
            assert CompactionQueue(self._client).live(self._ref) == []

    # Writers

    def _insert(self) -> None:
        self._write(Operation.INSERT)

    def _change(self) -> None:
        self._write(self._random.choice([Operation.UPDATE, Operation.DELETE, Operation.MERGE]))

    def _write(self, operation: Operation, *, goes_on: bool = False) -> None:
        """One transaction of one or several statements in some partitions."""
        if len(self._writers) >= _MOST_WRITERS:
            return self._finish()
        partitions = self._some_partitions()
        names = [name for name in partitions if name is not None]
        txn = Transaction(
            self._client,
            operation=operation,
            target=self._ref,
            partitioned=bool(names),
            partitions=names or None,
            lock_wait_seconds=0,
        )
        try:
            txn.__enter__()
        except LockTimeout:
            return self._note(f"{operation} had to wait and gave up")
        change = Change(txn.write_id)
        written: list[Path] = []
        for statement in range(self._random.choice([1, 1, 1, 2])):
            for partition in partitions:
                written += self._write_statement(operation, statement, partition, change)
        abort = partial(txn.abort, "the history wants it")
        writer = _Writer(change, txn.commit, abort, written)
        self._begun(f"{operation}", writer, goes_on=goes_on)

    def _write_statement(
        self, operation: Operation, statement: int, partition: str | None, change: Change
    ) -> list[Path]:
        folder, style = self._folders[partition], self._style()
        extent = (change.write_id, change.write_id, statement)
        directories = []
        if operation is not Operation.INSERT and (victims := self._victims(partition, change)):
            delta = Delta(*extent, is_delete=True)
            write_deletes(folder, delta, [place.row_id for place in victims], style)
            directories.append(folder / delta.name)
            for place in victims:
                # What is inserted and deleted by one transaction was never there.
                change.inserts.pop(place, None)
                change.deletes.add(place)
        if operation is not Operation.DELETE:
            delta = Delta(*extent)
            for bucket in self._some_buckets():
                rows = {change.write_id: style.rows(self._random, *self._new_rows(style))}
                keys = write_rows(folder, delta, bucket, rows, style)
                change.inserts |= {Place(partition, key): row for key, row in keys.items()}
            directories.append(folder / delta.name)
        return directories

    def _victims(self, partition: str | None, change: Change) -> list[Place]:
        """Some rows to delete; now and then one that somebody has deleted already."""
        seen = [place for place in self._model.rows if place.partition == partition]
        seen = [place for place in seen if place not in change.deletes]
        seen += [place for place in change.inserts if place.partition == partition]
        gone = [place for place in self._model.deleted_by if place.partition == partition]
        share = self._random.choice([0.05, 0.3, 1.0])
        chosen = [place for place in seen if self._random.random() < share]
        if gone and self._random.random() < 0.15:
            chosen.append(self._random.choice(gone))
        return sorted(set(chosen))

    def _stream(self) -> None:
        """A streaming writer: one file of several transactions, each with a fate of its own."""
        (partition,) = self._random.sample(list(self._folders), 1)
        txns = [self._client.open_txn(*_WHO) for _ in range(self._random.randint(2, 4))]
        write_ids = [self._client.allocate_write_id(txn, self._ref) for txn in txns]
        names = None if partition is None else [partition]
        components = lock_components(
            self._client.version, Operation.INSERT, self._ref, names is not None, names
        )
        if not all(self._lock(components, txn) for txn in txns):
            for txn in txns:
                self._client.abort_txn(txn)
            return self._note("a stream had to wait and gave up")
        changes = {write_id: Change(write_id) for write_id in write_ids}
        folder, style = self._folders[partition], self._style()
        delta = Delta(write_ids[0], write_ids[-1])
        for bucket in self._some_buckets():
            rows = {
                write_id: style.rows(self._random, *self._new_rows(style)) for write_id in write_ids
            }
            for key, row in write_rows(folder, delta, bucket, rows, style).items():
                changes[key.write_id].inserts[Place(partition, key)] = row
        self._note(f"stream of {delta.name} in {partition}")
        for txn, change in zip(txns, changes.values(), strict=True):
            writer = _Writer(
                change,
                partial(self._client.commit_txn, txn),
                partial(self._client.abort_txn, txn),
                [],
            )
            self._writers.append(writer)
            if self._random.random() < 0.8:
                self._end(writer)

    def _overwrite(self) -> None:
        """INSERT OVERWRITE as Hive does it: version 4 lets readers stay."""
        while self._writers:
            self._finish()
        # Version 3 locks everybody out; and what its overwrite leaves when it is aborted, or what
        # of it is there before it commits, makes its readers fail, so neither is ever seen.
        while self._readers and not self._is_4:
            self._close_reader()
        partitions = self._some_partitions()
        txn = self._client.open_txn(*_WHO)
        write_id = self._client.allocate_write_id(txn, self._ref)
        if not self._lock([self._exclusive(partition) for partition in partitions], txn):
            self._client.abort_txn(txn)
            return self._note("an overwrite had to wait and gave up")
        change = Change(write_id, replaces=tuple(partitions))
        base = Base(write_id)
        for partition in partitions:
            folder, style = self._folders[partition], self._style()
            make_directory(folder, base)
            for bucket in self._some_buckets() if self._random.random() < 0.8 else ():
                rows = {write_id: style.rows(self._random, *self._new_rows(style))}
                keys = write_rows(folder, base, bucket, rows, style)
                change.inserts |= {Place(partition, key): row for key, row in keys.items()}
        commit = partial(self._client.commit_txn, txn)
        abort = partial(self._client.abort_txn, txn)
        directories = [self._folders[partition] / base.name for partition in partitions]
        writer = _Writer(change, commit, abort, directories)
        self._begun(f"overwrite of {partitions}", writer)
        if not self._is_4 and writer in self._writers:
            self._end(writer)

    def _exclusive(self, partition: str | None) -> LockComponent:
        return LockComponent(
            type=LockType.EXCL_WRITE if self._is_4 else LockType.EXCLUSIVE,
            level=LockLevel.TABLE if partition is None else LockLevel.PARTITION,
            database=self._ref.database,
            table=self._ref.name,
            partition=partition,
            operation=DataOperation.UPDATE,
            is_transactional=True,
            is_dynamic_partition_write=False,
        )

    def _lock(self, components: Sequence[LockComponent], txn: int) -> bool:
        return self._client.lock(components, txn, *_WHO).state is LockState.ACQUIRED

    def _begun(self, what: str, writer: _Writer, *, goes_on: bool = False) -> None:
        names = [f"{path.parent.name}/{path.name}" for path in writer.directories]
        self._note(f"{what}, write id {writer.change.write_id}: {', '.join(names)}")
        self._writers.append(writer)
        if not goes_on and self._random.random() < 0.7:
            self._end(writer)

    def _finish(self) -> None:
        if self._writers:
            self._end(self._random.choice(self._writers))

    def _end(self, writer: _Writer) -> None:
        if self._random.random() < 0.75:
            self._commit(writer)
        else:
            self._abort(writer)

    def _commit(self, writer: _Writer) -> None:
        self._writers.remove(writer)
        writer.commit()
        self._model.commit(writer.change)
        self._note(f"{writer.change.write_id} commits")

    def _abort(self, writer: _Writer) -> None:
        self._writers.remove(writer)
        is_overwrite = bool(writer.change.replaces)
        cleans_up = self._random.random() < 0.3 or (is_overwrite and not self._is_4)
        for directory in writer.directories if cleans_up else ():
            shutil.rmtree(directory, ignore_errors=True)
        writer.abort()
        fate = " and removes its files" if cleans_up else ""
        self._note(f"{writer.change.write_id} aborts{fate}")

    # Readers

    def _open_reader(self) -> None:
        if len(self._readers) >= _MOST_READERS:
            return self._close_reader()
        txn = Transaction(
            self._client, operation=Operation.SELECT, reads=[self._ref], lock_wait_seconds=0
        )
        try:
            txn.__enter__()
        except LockTimeout:
            return self._note("a reader had to wait and gave up")
        self._note(f"reader {txn.txn_id} comes")
        reader = self._new_reader(txn.snapshot)
        self._readers.append((txn, reader))
        reader.check()

    def _open_reader_in_between(self) -> None:
        """Of two writers the younger one commits, then a reader comes, then the older one commits."""
        while self._writers:
            self._finish()
        for _ in range(2):
            self._write(Operation.INSERT, goes_on=True)
        older, younger = self._writers
        self._commit(younger)
        self._open_reader()
        self._commit(older)

    def _close_reader(self) -> None:
        if self._readers:
            txn, reader = self._readers.pop(self._random.randrange(len(self._readers)))
            reader.check()
            txn.__exit__(None, None, None)
            self._note(f"reader {txn.txn_id} goes")

    def _check_everybody(self) -> None:
        """Every open reader sees what it saw, and a new one what is committed."""
        for _, reader in self._readers:
            reader.check()
        self._new_reader().check()

    def _new_reader(self, snapshot: Snapshot | None = None) -> Reader:
        return Reader(
            self._client.version,
            snapshot or Snapshot.take(self._client, [self._ref]),
            self._ref,
            self._folders,
            self._model.snapshot(),
        )

    # Compactors and cleaners

    def _minor(self) -> None:
        self._compact("minor")

    def _major(self) -> None:
        self._compact("major")

    def _compact(self, type_: str) -> None:
        """Compact some partitions, which have probably changed since the last time."""
        self._insert()
        self._change()
        names = [name for name in self._some_partitions() if name is not None]
        job = CompactJob(
            target=self._ref.full_name,
            metastore=self._client.options,
            partitions=names or None,
            type=type_,
            lock_wait_seconds=0,
        )
        report = TableCompactor(self._spark, self._client, job).run()
        for done in report.partitions:
            self._note(
                f"{type_} of {done.partition}: {done.outcome}, {', '.join(done.published)};"
                f" {done.reason}"
            )
        for done in report.partitions:
            assert done.outcome != "failed", done.error
            assert done.warnings == () or not self._is_4
            for name in done.published:
                folder = self._folders[done.partition] / name
                assert problems_of_output(folder, done.partition, self._model) == []
        self.compactions += report.partitions
        self._check_everybody()

    def _clean(self) -> None:
        job = CleanJob(target=self._ref.full_name, metastore=self._client.options)
        report = clean(self._client, job)
        self._note(f"cleaned {', '.join(each.path for each in report.removed)}")
        assert report.warnings == ()
        self._check_everybody()

    # What the others need

    def _create(self) -> None:
        partitioned = self._values != [None]
        keys = [Column("p", "string")] if partitioned else []
        bucketed = {"bucket_columns": ["k"], "num_buckets": self._num_buckets}
        table = HiveTable.new(
            self._ref,
            [Column(*column) for column in COLUMNS.items()],
            partition_keys=keys,
            **(bucketed if self._num_buckets > 0 else {}),
        )
        self._client.create_table(table)
        table = self._client.get_table(self._ref)
        if partitioned:
            partitions = [HivePartition.new(table, [value]) for value in self._values]
            self._client.add_partitions(self._ref, partitions)
        root = Path(table.folder.removeprefix("file:"))
        self._folders: Mapping[str | None, Path] = {None: root}
        if partitioned:
            names = [partition_name(["p"], [value]) for value in self._values]
            self._folders = {name: root / name for name in names}

    def _some_partitions(self) -> list[str | None]:
        everything = list(self._folders)
        return sorted(self._random.sample(everything, self._random.randint(1, len(everything))))

    def _some_buckets(self) -> list[int]:
        buckets = range(max(1, self._num_buckets))
        # Without buckets the files of an insert are numbered by the tasks that write them.
        if self._num_buckets < 0:
            buckets = range(self._random.choice([1, 1, 2]))
        return sorted(self._random.sample(buckets, self._random.randint(1, len(buckets))))

    def _style(self) -> FileStyle:
        large = self._writes_large_rows and self._random.random() < 0.4
        attempt = self._is_4 and self._random.random() < 0.3
        return FileStyle.random(self._random, large=large, attempt=attempt)

    def _new_rows(self, style: FileStyle) -> tuple[int, int]:
        count = self._random.choice([5, 9] if style.large else [1, 3, 8, 20, 45])
        self._rows_written += count
        return self._rows_written - count, count

    def _note(self, text: str) -> None:
        self.log.append(text)
