"""The versions of a history's table: their rows, differences, and restores."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import LockTimeout, VersionGone, VersionUnknown
from hiveacid.jobs.report import PartitionDifference, RunReport
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.directory import Rules
from hiveacid.rules.row_id import RowId, decode_bucket
from hiveacid.rules.write_ids import Range, ValidWriteIdList
from hiveacid.spark.read.changes import ChangeReader
from hiveacid.spark.session import scan_session
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.writes.statement import WriteOptions
from tests.histories.random_table import RandomTable
from tests.histories.table_model import Change, Row, RowAddress, Step, row_of, value_of
from tests.histories.writers import Writers


@dataclass(frozen=True)
class Version:
    """A version as users ask for it.

    Attributes:
        asked: A write id or a time; None is the newest version.
        seen: The committed write ids that it shows.
        open: The write ids without a known fate, if it is a reader's.
    """

    asked: int | datetime | None
    seen: Set[int]
    open: Sequence[int] = ()

    @property
    def number(self) -> int:
        """The write id that it is numbered by."""
        return self.asked if isinstance(self.asked, int) else max(self.seen)


class Versions:
    """Checks earlier states of a table, and restores them, at random.

    Attributes:
        of_readers: The views of readers, the earliest first.
    """

    def __init__(
        self, table: RandomTable, writers: Writers, spark: SparkSession, random: Random
    ) -> None:
        self.of_readers: list[ValidWriteIdList] = []
        self._table = table
        self._model = table.model
        self._writers = writers
        self._spark = spark
        self._random = random
        # The committed write ids at the last cleaning that removed files of versions, and the last
        # write id that could be compacted.
        self._cleaned: Set[int] = frozenset()
        self._compacted = 0

    def remember(self, seen: ValidWriteIdList) -> None:
        """Record the view of a reader."""
        self.of_readers.append(seen)

    def clean(self) -> None:
        """Record that a cleaner removes files that only versions before the newest need."""
        self._cleaned = frozenset(self._model.committed)
        now = self._now()
        self._compacted = min(now.high_watermark, now.min_open_write_id - 1)

    def rows(self, version: Version) -> Mapping[RowAddress, Row]:
        """Return its rows."""
        return self._model.seen(version.seen)

    @contextmanager
    def perhaps_gone(self, *versions: Version) -> Iterator[None]:
        """Check some versions; one may be unavailable if there is a reason for it."""
        try:
            yield
        except VersionGone:
            if not any(map(self._may_be_gone, versions)):
                raise
            self._table.note("a version is gone")

    def _may_be_gone(self, version: Version) -> bool:
        """Return whether it is older than a cleaning, or than an overwrite.

        Hive's overwrites do not record the replaced directories.
        """
        changes = self._model.changes.values()
        overwrites = {change.write_id for change in changes if change.replaces}
        # Of an aborted write the metastore may have forgotten that it was no version.
        behind = self._now().range_valid(version.number + 1, self._compacted)
        return (
            not self._cleaned | overwrites <= version.seen
            or behind is not Range.NONE
            or any(own <= self._compacted for own in version.open)
        )

    def of_reader(self, seen: ValidWriteIdList) -> Version:
        """Return the view of a reader."""
        committed = frozenset(filter(seen.is_valid, self._model.committed))
        return Version(seen.high_watermark, committed, seen.open)

    def numbered(self, write_id: int) -> Version:
        """The version of a number, or of an aborted one."""
        seen = frozenset(own for own in self._model.committed if own <= write_id)
        return Version(write_id, seen)

    def _now(self) -> ValidWriteIdList:
        newest = Snapshot.take(self._table.client, [self._table.ref])
        return newest.write_ids[self._table.ref.full_name]

    # Looks

    def check_changes_of_readers(self, then: int, later: int) -> None:
        """Check the changes between the views of two readers.

        Args:
            then: The number of the first one.
            later: The number of the other one.
        """
        before, after = self.of_readers[then], self.of_readers[later]
        table = self._table.client.get_table(self._table.ref)
        partitions = self._table.client.get_partitions(table) if table.partition_keys else []
        rules = Rules.HIVE4 if self._table.is_hive4 else Rules.HIVE3
        net = self._random.random() < 0.5
        seen = self.of_reader(before), self.of_reader(after)
        with (
            Transaction(self._table.client, reads=[table.ref]) as txn,
            self.perhaps_gone(*seen),
        ):
            now, session = txn.snapshot.write_ids[table.ref.full_name], scan_session(self._spark)
            versions = (before, after, now, txn.snapshot.txns)
            owner = TableOfFolder.of(table, txn)
            reader = ChangeReader(session, table, owner, *versions, rules)
            self._check_changes(reader.changes(partitions, net=net), *seen, net=net)

    def check_changes(self) -> None:
        """Check the reported changes between two versions."""
        first, second = self._version(), self._version(or_newest=True)
        if second.asked is not None and second.seen < first.seen:
            first, second = second, first
        net = self._random.random() < 0.5
        assert first.asked is not None
        with self._acid() as acid, self.perhaps_gone(first, second):
            try:
                rows = acid.changes(first.asked, second.asked, net=net)
            except VersionUnknown:
                assert not first.seen <= second.seen or first.number > second.number
            else:
                assert first.seen <= second.seen
                self._check_changes(rows, first, second, net=net)

    def check_difference(self) -> None:
        """Check the number of rows in each partition that only one of two versions has."""
        first, second = self._version(), self._version(or_newest=True)
        assert first.asked is not None
        with self._acid() as acid, self.perhaps_gone(first, second):
            try:
                told = acid.diff(first.asked, second.asked)
            except VersionUnknown:
                assert not first.seen <= second.seen
                assert not second.seen <= first.seen
            else:
                rows, others = self.rows(first).keys(), self.rows(second).keys()
                assert told == _difference(rows, others)

    def _check_changes(self, rows: DataFrame, then: Version, later: Version, *, net: bool) -> None:
        steps = self._model.steps(then.seen, later.seen)
        if net:
            kept = {"insert": self.rows(later), "delete": self.rows(then)}
            steps = [step for step in steps if step.address in kept[step.kind]]
        wanted = {step[:3]: step.row for step in steps}
        told = [_told(row.asDict(recursive=True)) for row in rows.collect()]
        counted, expected = Counter(step[:3] for step in told), Counter(wanted.keys())
        assert sorted(expected - counted) == [], "changes are missing"
        assert sorted(counted - expected) == [], "reported changes are wrong, or duplicate"
        assert [step[:3] for step in told if step.row != wanted[step[:3]]] == [], "rows differ"

    def _version(self, *, or_newest: bool = False) -> Version:
        """Some version that has a number or a time, or perhaps the newest one without."""
        committed, kind = frozenset(self._model.committed), self._random.random()
        if or_newest and kind < 0.2:
            return Version(None, committed)
        times = self._writers.times()
        if kind < 0.45 and (known := sorted(committed & times.keys())):
            time = times[self._random.choice(known)]
            # The others have only the times of their files, which are of today.
            seen = {own for own in committed & times.keys() if times[own] <= time}
            return Version(time, seen | {0})
        return self.numbered(self._random.randint(0, self._now().high_watermark))

    def _acid(self) -> AcidTable:
        return AcidTable(
            self._table.ref.full_name,
            self._table.client.options,
            spark=self._spark,
            run_in="spark",
            options=WriteOptions(lock_wait_seconds=0),
        )

    # Restores

    def restore(self) -> None:
        """Some version is restored, or there is a reason why not, and nothing has happened."""
        version, before = self._version(), self._paths()
        assert version.asked is not None
        with self._acid() as acid, self.perhaps_gone(version):
            try:
                plans = self._random.random() < 0.3
                planned = acid.restore(version.asked, dry_run=True) if plans else None
                assert self._paths() == before
                report = acid.restore(version.asked)
            except LockTimeout:
                self._table.note("a restore had to wait and gave up")
            else:
                self._check_restored(version, report, planned or report)
                return
        assert self._paths() == before

    def _check_restored(self, version: Version, report: RunReport, planned: RunReport) -> None:
        """Make sure that the difference was written and nothing else, and take it over."""
        change = self._written(report.write_ids[self._table.ref.full_name])
        restored, current = self.rows(version), self._model.rows
        self._table.note(f"{version.asked} is restored by write id {change.write_id}")
        assert change.deletes == current.keys() - restored.keys()
        back = {own: row for own, row in restored.items() if own not in current}
        assert _values(change.inserts) == _values(back)
        partitions = {own.partition for own in change.deletes | back.keys()}
        for told in (report, planned):
            assert (told.rows_inserted, told.rows_deleted) == (len(back), len(change.deletes))
            assert {*told.partitions} == partitions - {None}
        self._model.commit(change)
        assert _values(self._model.rows) == _values(restored)
        # Also a restore that changes nothing has an entry.
        self._writers.notes[change.write_id] = {
            "user": os.environ.get("USER") or None,
            "report": {"rows_inserted": len(back), "rows_deleted": len(change.deletes)},
        }

    def _written(self, write_id: int) -> Change:
        """Return the content of a write's files, read without code of this package."""
        change = Change(write_id)
        for partition, folder in self._table.folders.items():
            for path in folder.glob(f"*_{write_id:07d}_{write_id:07d}_*/[!._]*"):
                is_delete = path.parent.name.startswith("delete_delta_")
                assert is_delete or path.parent.name.startswith("delta_"), path
                events = orc.read_table(path).to_pylist()
                assert events, f"{path} is empty"
                for event in events:
                    key = RowId(event["originalTransaction"], event["bucket"], event["rowId"])
                    address = RowAddress(partition, key)
                    assert event["currentTransaction"] == write_id
                    assert path.name.startswith(f"bucket_{decode_bucket(key.bucket).writer_id:05d}")
                    assert address not in change.deletes | change.inserts.keys()
                    if is_delete:
                        change.deletes.add(address)
                    else:
                        assert key.write_id == write_id
                        change.inserts[address] = row_of(event["row"])
        return change

    def _paths(self) -> set[Path]:
        return {path for folder in self._table.folders.values() for path in folder.rglob("*")}


def _told(values: dict[str, Any]) -> Step:
    """Return a change as it was reported."""
    kind, write_id = values.pop("_change_type"), values.pop("_write_id")
    key, partition = values.pop("_row_id"), values.pop("p", None)
    address = RowAddress(
        None if partition is None else f"p={partition}",
        RowId(key["writeid"], key["bucketid"], key["rowid"]),
    )
    return Step(kind, write_id, address, row_of(values))


def _difference(rows: Set[RowAddress], others: Set[RowAddress]) -> tuple[PartitionDifference, ...]:
    """Return the number of rows of each partition that are only among the others, and only among
    the first."""
    added = Counter(address.partition for address in others - rows)
    gone = Counter(address.partition for address in rows - others)
    differ = sorted(added.keys() | gone.keys(), key=str)
    return tuple(PartitionDifference(name, added[name], gone[name]) for name in differ)


def _values(rows: Mapping[RowAddress, Row]) -> Counter[tuple[str | None, Any]]:
    """Return the rows of each partition, regardless of their row ids."""
    return Counter((address.partition, value_of(row)) for address, row in rows.items())
