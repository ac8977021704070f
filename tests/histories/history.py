"""The random history of one table, and the views of its readers during it."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from random import Random

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import LockTimeout, VersionUnknown
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.history_entries import HistoryState, later_than
from hiveacid.records.table_history import table_history, version_of
from hiveacid.rules.names import Delta, parse_directory
from hiveacid.rules.versions import as_of_write_id, newest_version, without
from hiveacid.rules.write_ids import AsOf, ValidWriteIdList
from hiveacid.spark.compaction import compact_table
from hiveacid.upkeep.table_cleaning import clean
from tests.histories.random_table import RandomTable
from tests.histories.reader import Reader, problems_of_output
from tests.histories.table_model import Row, RowAddress
from tests.histories.versions import Version, Versions
from tests.histories.writers import Writers

_MOST_READERS = 3
_UNCOMMITTED = (HistoryState.OPEN, HistoryState.ABORTED)


class History:
    """One table that random things happen to, one after the other."""

    def __init__(
        self,
        seed: int,
        client: MetastoreClient,
        spark: SparkSession,
        database: str,
        keep_house: Callable[[], None] = lambda: None,
        *,
        restores: float = 0.0,
    ) -> None:
        """Create the table.

        Args:
            seed: Decides everything.
            client: The metastore.
            spark: The place where compactions run.
            database: The location of the table.
            keep_house: The periodic housekeeping of the metastore, called explicitly.
            restores: The probability of restores of versions, during the history and at its end.
        """
        self._spark = spark
        self._random = Random(seed)
        # Separate, so that a seed keeps its history when checks are added.
        self._looks = Random(-seed)
        self._table = RandomTable(client, database, f"t{seed}", self._random)
        self._writers = writers = Writers(self._table, self._random)
        if self._random.random() < 0.4:
            writers.convert()
        self._readers: list[tuple[Transaction, Reader]] = []
        # Separate again, for the checks of restores.
        self._more = Random(f"versions {seed}")
        self._versions = Versions(self._table, writers, spark, self._more)
        self._restores = self._more.random() < restores
        # All of a history takes less time.
        self._retention = Random(f"retention {seed}").choice(["0", "1 h"])
        self._overwritten = 0
        # The events, and their frequencies.
        self._steps: dict[Callable[[], None], int] = {
            writers.insert: 6,
            writers.change: 8,
            writers.stream: 2,
            self._overwrite: 1,
            self._table.evolve: 1,
            writers.finish: 3,
            self._open_reader: 3,
            self._open_reader_with_hole: 2,
            self._close_reader: 2,
            self._minor: 3,
            self._major: 2,
            self._clean: 2,
            keep_house: 1,
        }

    def run(self, steps: int) -> None:
        """Let some things happen, compact and clean at least once, then end all and clean up.

        Errors contain the history.
        """
        try:
            for _ in range(steps):
                (step,) = self._random.choices(list(self._steps), list(self._steps.values()))
                step()
                if self._restores and self._more.random() < 1 / steps:
                    self._restore()
            self._open_reader_with_hole()
            self._compact(self._random.choice(["minor", "major"]))
            cleans_first = self._more.random() < 0.4
            if not cleans_first:
                self._check_changes()
            self._clean()
            if cleans_first:
                self._check_changes()
            if self._restores:
                self._restore()
            self._writers.finish_all()
            while self._readers:
                self._close_reader()
            self._clean()
            if self._retention != "0":
                self._check_queue()
                self._retention = "0"
            # The first cleaning after a foreign overwrite only records its time.
            self._clean()
            self._check_tidiness()
            if self._table.is_hive4 and self._table.num_buckets < 0:
                self._rebalance()
        except BaseException as error:
            error.add_note("\n".join(self._table.log))
            raise
        finally:
            self._writers.close()
            for txn, _ in self._readers:
                txn.abort("the history is over")

    def _check_tidiness(self) -> None:
        """Without blockers, a cleaner leaves no work."""
        assert self._new_reader().unread() == []
        assert self._table.client.show_locks(self._table.ref) == []
        self._check_queue()

    def _check_queue(self) -> None:
        if self._table.is_hive4:
            assert CompactionQueue(self._table.client).live(self._table.ref) == []

    def _overwrite(self) -> None:
        # Version 3 excludes readers from an overwritten table.
        while self._readers and not self._table.is_hive4:
            self._close_reader()
        self._writers.overwrite()
        newest = Snapshot.take(self._table.client, [self._table.ref])
        self._overwritten = newest.write_ids[self._table.ref.full_name].high_watermark

    def _rebalance(self) -> None:
        """All rows get other row ids; who reads already does not notice, nor do the values change."""
        self._open_reader()
        order = Random(f"rebalance {self._table.ref.name}").choice([(), ("k",), ("k DESC",)])
        target, metastore = self._table.ref.full_name, self._table.client.options
        job = CompactJob(target=target, metastore=metastore, type="rebalance", order_by=order)
        for done in compact_table(lambda: self._spark, self._table.client, job).partitions:
            self._table.note(f"rebalance of {done.partition}: {done.outcome}; {done.reason}")
            assert done.outcome != "failed", done.error
        self._new_reader().check_values()
        self._close_reader()
        clean(self._table.client, CleanJob(target=target, metastore=metastore, retention="0"))
        last = self._new_reader()
        last.check_values()
        assert last.unread() == []

    # Readers

    def _open_reader(self) -> None:
        while len(self._readers) >= _MOST_READERS:
            self._close_reader()
        txn = Transaction(self._table.client, reads=[self._table.ref], lock_wait_seconds=0)
        try:
            txn.__enter__()
        except LockTimeout:
            return self._table.note("a reader had to wait and gave up")
        self._table.note(f"reader {txn.txn_id} comes")
        reader = self._new_reader(txn.snapshot)
        self._readers.append((txn, reader))
        self._versions.remember(txn.snapshot.write_ids[self._table.ref.full_name])
        reader.check()

    def _open_reader_with_hole(self) -> None:
        """Open a reader that does not see all write ids below its high watermark."""
        self._writers.leave_a_hole(self._open_reader)

    def _close_reader(self) -> None:
        if self._readers:
            txn, reader = self._readers.pop(self._random.randrange(len(self._readers)))
            reader.check()
            txn.__exit__(None, None, None)
            self._table.note(f"reader {txn.txn_id} goes")

    def _check_everybody(self) -> None:
        """Every open reader has its old view, and a new one sees the committed rows."""
        for _, reader in self._readers:
            reader.check()
        self._new_reader().check()
        self._check_versions()
        self._check_entries()

    def _check_versions(self) -> None:
        """A reader of an earlier version gets its rows, or an error about removed files."""
        snapshot = Snapshot.take(self._table.client, [self._table.ref])
        now = snapshot.write_ids[self._table.ref.full_name]
        of_readers = self._versions.of_readers
        for then in self._looks.sample(of_readers, min(3, len(of_readers))):
            self._check_version(snapshot, then, self._versions.of_reader(then))
        number = self._more.randint(0, now.high_watermark)
        version = self._versions.numbered(number)
        self._check_version(snapshot, as_of_write_id(now, number), version)
        self._versions.remember(now)

    def _check_version(self, snapshot: Snapshot, then: ValidWriteIdList, version: Version) -> None:
        with self._versions.perhaps_gone(version):
            self._new_reader(snapshot, self._versions.rows(version), then).check()

    def _check_entries(self) -> None:
        """Every write appears once, and its known facts remain known."""
        table = self._table
        snapshot = Snapshot.take(table.client, [table.ref])
        entries = table_history(table.client, table.ref, limit=10**6)
        writes = {entry.write_id: entry for entry in entries if entry.write_id is not None}
        order = [entry.last_write_id for entry in entries]
        assert order == sorted(order, reverse=True)
        assert len(writes) == sum(entry.write_id is not None for entry in entries)
        committed = {own for own, entry in writes.items() if entry.state not in _UNCOMMITTED}
        assert committed <= table.model.committed
        notes = self._writers.notes
        for write_id, entry in writes.items():
            report = notes.get(write_id, {}).get("report", {})
            counts = report.get("rows_inserted"), report.get("rows_deleted")
            assert (entry.rows_inserted, entry.rows_deleted) == counts
            assert entry.user == notes.get(write_id, {}).get("user")
        # No other directory has the rows that an overwrite replaced and a cleaner removed.
        kept = {own for own in notes if own in table.model.committed and own > self._overwritten}
        assert kept <= committed
        times = self._writers.times()
        for write_id in sorted(kept & times.keys())[-1:]:
            time = times[write_id] - timedelta(minutes=1)
            now = snapshot.write_ids[table.ref.full_name]
            later = later_than(time, entries, now)
            # A restored version has the time of the restore.
            expected = {own for own in kept if own >= write_id or own not in times}
            assert expected == kept & set(later)
            version = without(now, later)
            first = min(entry.time for entry in entries if entry.time is not None)
            if newest_version(version) == 0 and time.timestamp() < first:
                with pytest.raises(VersionUnknown, match="and exists since"):
                    version_of(table.client, table.ref, AsOf(time=time), now)
                continue
            # That opens no note of a file that is much older.
            assert version_of(table.client, table.ref, AsOf(time=time), now) == version

    def _check_changes(self) -> None:
        """The changes between two versions are the difference of the earlier and the later view."""
        if self._more.random() < 0.15:
            self._versions.check_difference()
        if self._looks.random() < 0.6:
            return
        then, later = sorted(self._looks.sample(range(len(self._versions.of_readers)), 2))
        if self._more.random() < 0.5:
            self._versions.check_changes()
        else:
            self._versions.check_changes_of_readers(then, later)

    def _restore(self) -> None:
        self._versions.restore()
        self._check_everybody()

    def _new_reader(
        self,
        snapshot: Snapshot | None = None,
        rows: Mapping[RowAddress, Row] | None = None,
        then: ValidWriteIdList | None = None,
    ) -> Reader:
        """A reader of the newest version, or of an earlier one with its rows."""
        snapshot = snapshot or Snapshot.take(self._table.client, [self._table.ref])
        return Reader(
            self._table.client.features.hides_compactions,
            snapshot,
            self._table.ref,
            self._table.folders,
            self._table.model.snapshot() if rows is None else rows,
            then,
        )

    # Compactors and cleaners

    def _minor(self) -> None:
        self._compact("minor")

    def _major(self) -> None:
        self._compact("major")

    def _compact(self, type_: str) -> None:
        """Compact some partitions, which have probably changed since the last time."""
        self._writers.insert()
        self._writers.change()
        names = [name for name in self._table.some_partitions() if name is not None]
        job = CompactJob(
            target=self._table.ref.full_name,
            metastore=self._table.client.options,
            partitions=names or None,
            type=type_,
            lock_wait_seconds=0,
        )
        report = compact_table(lambda: self._spark, self._table.client, job)
        for done in report.partitions:
            self._table.note(
                f"{type_} of {done.partition}: {done.outcome}, {', '.join(done.published)};"
                f" {done.reason}"
            )
        for done in report.partitions:
            assert done.outcome != "failed", done.error
            assert done.warnings == () or not self._table.is_hive4
            for name in done.published:
                folder = self._table.folders[done.partition] / name
                assert problems_of_output(folder, done.partition, self._table.model) == []
        self._check_everybody()

    def _clean(self) -> None:
        job = CleanJob(
            target=self._table.ref.full_name,
            metastore=self._table.client.options,
            retention=self._retention,
        )
        report = clean(self._table.client, job)
        gone = [removal.path for removal in report.removed]
        # Of the directories kept for versions, only those with rows of several fates are removed
        # nevertheless.
        if any(map(may_be_mixed, gone)) if self._retention == "1 h" else gone:
            self._versions.clean()
        self._table.note(f"cleaned {', '.join(removal.path for removal in report.removed)}")
        assert report.warnings == ()
        self._check_everybody()


def may_be_mixed(path: str) -> bool:
    """Return whether a directory may hold rows of several transactions with different fates."""
    parsed = parse_directory(path.rpartition("/")[2])
    return isinstance(parsed, Delta) and len(parsed.write_ids) > 1 and not parsed.visibility_txn
