"""Changes between two versions of an insert-only table, by directory.

Its rows have no ids: a delta contains the inserts of its write id, and an overwrite deletes all
earlier rows. Compacted directories do not identify write ids, so the replaced directories are read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.metastore.catalog import HivePartition
from hiveacid.rules.directory import AcidDirectory
from hiveacid.rules.names import Delta, parse_directory
from hiveacid.rules.versions import as_of_write_id
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.spark.read.flat_snapshot import (
    FlatFiles,
    FlatSnapshot,
    folder_of,
    plain_files,
)
from hiveacid.spark.read.table_changes import (
    DELETE,
    INSERT,
    ROW_ID_TYPE,
    VERSION,
    ListedPartition,
    TwoVersions,
    as_changes,
)
from hiveacid.spark.rows.file_scan import PART, PlainFile
from hiveacid.spark.spark_versions import from_rows
from hiveacid.storage.threads import in_threads
from hiveacid.tables.scan.differences import TwoReaders, flat_files


@dataclass(frozen=True)
class FlatDifference:
    """The difference between two versions of a partition, or of a table without partitions.

    Attributes:
        partition: The partition; None for a table without partitions.
        before: The files of the earlier version.
        added: The files that only the later version has.
        gone: The files that only the earlier version has.
    """

    partition: HivePartition | None
    before: Sequence[PlainFile]
    added: Sequence[PlainFile]
    gone: Sequence[PlainFile]

    @property
    def name(self) -> str | None:
        """The partition's name; None for a table without partitions."""
        return None if self.partition is None else self.partition.name


@dataclass(frozen=True)
class _Change:
    """Rows that one write id has inserted into a partition, or deleted from it."""

    kind: str
    write_id: int
    files: FlatFiles


@dataclass(frozen=True)
class FlatChangeReader(TwoVersions):
    """The changes of an insert-only table between two versions.

    Attributes:
        snapshots: The snapshots that rows of changes were read from so far.
    """

    snapshots: list[FlatSnapshot] = field(default_factory=list)

    def _frames(
        self, partitions: Sequence[HivePartition | None], *, net: bool
    ) -> Sequence[DataFrame]:
        # With ``net``, a row that an overwrite replaces by an equal row is also a change.
        by_partition = in_threads(partial(self._changes_of, net=net), partitions)
        changes = [change for of_partition in by_partition for change in of_partition]
        kinds = {change.kind for change in changes} or {INSERT}
        return [
            self._frame(kind, [change for change in changes if change.kind == kind])
            for kind in sorted(kinds)
        ]

    def differences(self, partitions: Sequence[HivePartition]) -> list[FlatDifference]:
        """Return the difference between both versions of each partition, by whole files.

        Args:
            partitions: The partitions; empty for a table without partitions.

        Raises:
            VersionGone: One of the versions is not available any more.
        """
        return in_threads(self._difference, self.all_of(partitions))

    def _changes_of(self, partition: HivePartition | None, *, net: bool) -> list[_Change]:
        listed = ListedPartition.of(self, partition, flat=True)
        files = listed.versions.files_between(self.then, self.later)
        read: list[AcidDirectory] = []

        def of(version: ValidWriteIdList) -> AcidDirectory:
            read.append(listed.state(files, version))
            return read[-1]

        def change(kind: str, write_id: int, state: AcidDirectory, names: Sequence[str]) -> None:
            # "" means original files, which precede all directories.
            given = [file for name in names for file in state.files(name)]
            if own := plain_files(listed.storage, given):
                changes.append(_Change(kind, write_id, (partition, own)))

        changes: list[_Change] = []
        seen = self.then
        overwrites = listed.versions.overwrites(self.then, self.later)
        for write_id in overwrites[-1:] if net else overwrites:
            before = of(self.then if net else as_of_write_id(self.later, write_id - 1))
            if not net:
                for own, name in _inserts(before, seen):
                    change(INSERT, own, before, [name])
            # With ``net``, only the rows replaced by the first overwrite are deleted rows.
            change(DELETE, overwrites[0] if net else write_id, before, _names(before))
            seen = as_of_write_id(self.later, write_id)
            after = of(seen)
            change(INSERT, write_id, after, [after.base or ""])
        last = of(self.later)
        for own, name in _inserts(last, seen):
            change(INSERT, own, last, [name])
        listed.check_kept(files, read)
        return changes

    def _difference(self, partition: HivePartition | None) -> FlatDifference:
        storage = folder_of(self.table, partition)
        readers = TwoReaders(self.then, self.later, self.now, self.txns, self.rules)
        before, after = (
            plain_files(storage, flat_files(state)) for state in readers.flat_states(storage)
        )
        earlier, later = set(before), set(after)
        return FlatDifference(
            partition,
            before,
            [file for file in after if file not in earlier],
            [file for file in before if file not in later],
        )

    def _frame(self, kind: str, changes: Sequence[_Change]) -> DataFrame:
        snapshot = FlatSnapshot(self.table, [change.files for change in changes])
        self.snapshots.append(snapshot)
        rows = snapshot.rows(self.spark, numbered=True)
        numbers = [(number, change.write_id) for number, change in enumerate(changes)]
        write_ids = from_rows(self.spark, numbers, f"{PART} int, {VERSION} bigint")
        rows = rows.join(F.broadcast(write_ids), PART)
        no_id = F.lit(None).cast(ROW_ID_TYPE)
        return as_changes(self.table, rows, kind, F.col(VERSION), no_id)


def _names(state: AcidDirectory) -> list[str]:
    return ["", *filter(None, [state.base]), *state.deltas]


def _inserts(state: AcidDirectory, seen: ValidWriteIdList) -> Iterator[tuple[int, str]]:
    """The deltas that a version did not see, each of one write id."""
    for name in state.deltas:
        delta = parse_directory(name)
        assert isinstance(delta, Delta), name
        if not seen.is_valid(delta.max_write_id):
            yield delta.max_write_id, name
