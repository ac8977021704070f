"""The plan of a compaction of one partition: which files it reads, and what it makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hiveacid.metastore.catalog import HivePartition, HiveTable, clustering_columns
from hiveacid.rules.compaction import CompactionPlan, CompactionType, plan_compaction
from hiveacid.rules.directory import AcidDirectory, FileStatus, Rules
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.names import Base, Delta, parse_directory
from hiveacid.rules.schema import TableKind
from hiveacid.rules.trino import Misread
from hiveacid.rules.write_ids import CompactorWriteIdList, Range, ValidTxnList
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import DataFile, data_files, list_files, read_state


@dataclass(frozen=True, slots=True)
class PlannedCompaction:
    """A plan and the files behind it.

    Attributes:
        plan: The plan.
        state: The directories of the partition.
        files: The listing that the state was made from.
        warnings: Why the plan is of another type than requested.
    """

    plan: CompactionPlan
    state: AcidDirectory
    files: Sequence[FileStatus]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans compactions of one partition, without writing.

    Attributes:
        table: The table.
        partition: The partition; None for a table without partitions.
        version: The version of the metastore.
        write_ids: The write ids that may be merged.
        txns: The transactions whose directories are visible.
    """

    table: HiveTable
    partition: HivePartition | None
    version: MetastoreVersion
    write_ids: CompactorWriteIdList
    txns: ValidTxnList

    @property
    def storage(self) -> Storage:
        """The folder of the partition."""
        folder = self.table.folder if self.partition is None else self.partition.folder
        return Storage.of(folder.rstrip("/"))

    @property
    def is_flat(self) -> bool:
        """Whether the files hold plain rows."""
        return self.table.kind is TableKind.INSERT_ONLY

    @property
    def clustered(self) -> bool:
        """Whether the partition, or the table without partitions, has buckets."""
        return bool(clustering_columns(self.table, self.partition))

    def plan(self, type_: CompactionType) -> PlannedCompaction:
        """Choose the directories to replace and their replacements.

        Args:
            type_: The requested type.

        Raises:
            NothingToCompact: The compaction would have no effect.
        """
        files = list_files(self.storage)
        rules = Rules.of(self.version)
        state = read_state(self.storage, files, self.write_ids, self.txns, rules=rules)
        hidden = self.version.hides_compactions
        warnings: list[str] = []
        if self.is_flat:
            if not hidden and type_ is CompactionType.MINOR:
                # Insert-only rows cannot be filtered: a concurrent reader would see rows of write
                # ids that are open for the reader. A reader skips a base that is not completely
                # visible to it.
                warnings.append(
                    "Hive 3 cannot hide a delta of several write ids from concurrent readers: "
                    "the compaction became a major one."
                )
                type_ = CompactionType.MAJOR
            # By Hive 3's rules a compactor receives aborted directories: for other tables, it drops
            # their rows individually.
            dead = [
                name for name in state.deltas if self.aborted(parse_directory(name)) is Range.ALL
            ]
            live = tuple(name for name in state.deltas if name not in dead)
            state = replace(state, deltas=live, aborted=(*state.aborted, *dead))
        plan = self._choose(state, type_, files)
        if not hidden and plan.deletes is not None:
            # Two directories cannot appear at once, and Hive 3 has no transaction to hide them
            # in between: a concurrent reader would miss rows, or see deleted ones again.
            warnings.append(
                "A minor compaction of inserts and deletes makes two directories, which Hive 3"
                " cannot be shown at once: it became a major one."
            )
            plan = self._choose(state, CompactionType.MAJOR, files)
        elif plan.copies:
            warnings.append(
                f"{plan.copies[0]} is of a compaction that was not committed, and Trino would"
                " read it beside a new delta of the same rows: the compaction became a major one."
            )
            plan = self._choose(state, CompactionType.MAJOR, files)
        return PlannedCompaction(plan, state, files, tuple(warnings))

    def aborted(self, directory: Base | Delta | None) -> Range:
        """Whether all, some or no write ids of a directory are aborted; compactions drop these."""
        if not isinstance(directory, Delta):
            return Range.NONE
        extent = (directory.min_write_id, directory.max_write_id)
        return self.write_ids.range_aborted(*extent)

    def acid_files(self, planned: PlannedCompaction) -> list[DataFile]:
        """The files of a full ACID table that are replaced."""
        chosen = frozenset(planned.plan.inputs)
        return [
            file
            for file in data_files(self.storage, planned.state)
            # Not the directory's canonical name: other engines may spell it differently.
            if (file.path if file.directory is None else file.path.partition("/")[0]) in chosen
            # Hive 3 also includes directories of aborted writes, and filters their rows
            # individually.
            and self.aborted(file.directory) is not Range.ALL
        ]

    def flat_files(self, planned: PlannedCompaction) -> list[FileStatus]:
        """The files of an insert-only table that are replaced, in reading order."""
        plan, state = planned.plan, planned.state
        chosen = frozenset(plan.inputs)
        names = [name for name in (state.base, *state.deltas) if name in chosen]
        originals = [file for file in state.files("") if file.path in chosen]
        files = originals + [file for name in names if name for file in state.files(name)]
        return [file for file in files if file.size > 0]

    def _choose(
        self, state: AcidDirectory, type_: CompactionType, files: Sequence[FileStatus]
    ) -> CompactionPlan:
        return plan_compaction(
            state,
            type_,
            files,
            flat=self.is_flat,
            misread=Misread.of(state, self.write_ids),
            one_by_one=not self.version.hides_compactions,
        )
