"""Compaction of one partition, or of a table without partitions, in a transaction."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NoReturn

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    DirectoryMissing,
    HiveAcidError,
    InvalidJob,
    MetastoreCallFailed,
    NothingToCompact,
    SparkNeeded,
    UnknownColumn,
    UnsupportedMetastore,
    UnsupportedTable,
)
from hiveacid.jobs import codec
from hiveacid.jobs.report import CompactionProof, PartitionReport
from hiveacid.metastore.catalog import HivePartition, HiveTable, clustering_columns, require_orc
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionTransaction
from hiveacid.metastore.table_rules import require_same_definition
from hiveacid.progress import Phase, PhaseClock
from hiveacid.records.overlaps import Overlaps
from hiveacid.records.proofs import note_readers
from hiveacid.rules.cleaning import ReaderNote
from hiveacid.rules.compaction import (
    Balance,
    CompactionPlan,
    CompactionType,
    Tally,
    plan_compaction,
    require_no_deletes,
)
from hiveacid.rules.directory import AcidDirectory, FileStatus, Rules
from hiveacid.rules.features import Features
from hiveacid.rules.locks import WriteKind
from hiveacid.rules.names import (
    CONVERTED_BASE,
    METADATA_FILE,
    SIDECAR_FILE,
    Base,
    Delta,
    parse_directory,
)
from hiveacid.rules.notes import WrittenFile, directory_note, only_write_id, replacing, taken_over
from hiveacid.rules.row_id import MAX_WRITER_ID
from hiveacid.rules.schema import Array, Map, SortColumn, Struct, TableKind, Union, parse_type
from hiveacid.rules.trino import Misread
from hiveacid.rules.write_ids import CompactorWriteIdList, Range, ValidTxnList
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import (
    DataFile,
    DirectorySizes,
    check_notes,
    data_files,
    list_files,
    read_notes,
    read_state,
)
from hiveacid.storage.staging import (
    Folder,
    HiddenFolders,
    StagedDirectories,
    StagedFile,
    staged_file,
)
from hiveacid.upkeep.compaction.scheduling import COPIED_WHILE_ENCODED, Inline, Scheduler, Tasks

# The row order that a rebalance writes


# The amount that one task sorts easily.
_BYTES_OF_A_FILE = 256 << 20


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The sort order of rows, and the maximum number of files.

    Attributes:
        by: The columns to sort by, as ``SortColumn.parse`` takes them; without columns, rows keep
            their order.
        files: The maximum number of files; by default it depends on the size.
    """

    by: Sequence[str] = ()
    files: int | None = None

    def count(self, size: int) -> int:
        """Maximum number of files for a size in bytes."""
        return min(max(1, self.files or -(-size // _BYTES_OF_A_FILE)), MAX_WRITER_ID)

    def require_possible(self, table: HiveTable, features: Features) -> None:
        """Make sure that the rows of a table can be sorted in this order.

        Raises:
            InvalidJob: One of the columns has a type that cannot be sorted.
            UnknownColumn: The table lacks one of the columns.
            UnsupportedMetastore: The metastore cannot isolate concurrent changes from the
                rebalance.
            UnsupportedTable: The values of rows determine their files, or the order has no benefit.
        """
        name = table.ref.full_name
        if table.kind is not TableKind.INSERT_ONLY:
            _require_own_row_ids(table, features)
        types = {column.name.lower(): parse_type(column.type) for column in table.columns}
        sort_columns = [SortColumn.parse(text).name.lower() for text in self.by]
        if unknown_columns := [column for column in sort_columns if column not in types]:
            raise UnknownColumn(f"{name} has no column {', '.join(unknown_columns)} to sort by.")
        if nested := [
            column
            for column in sort_columns
            if isinstance(types[column], Array | Map | Struct | Union)
        ]:
            raise InvalidJob(
                f"{name} cannot be sorted by {', '.join(nested)}: only columns of simple types have"
                " statistics."
            )
        if self.by and table.format.is_text:
            refuse_sorted_text(name)


def refuse_sorted_text(name: str) -> NoReturn:
    """Refuse to sort rows that are stored as text.

    Raises:
        UnsupportedTable: Always.
    """
    raise UnsupportedTable(
        f"{name} is kept as text, which has no statistics that an order makes better.",
        remedy="Make it a major compaction.",
    )


def _require_own_row_ids(table: HiveTable, features: Features) -> None:
    """Make sure that rows can be given new row ids."""
    if not features.rebalances:
        raise UnsupportedMetastore(
            "Rows that get other row ids must appear together with the commit that others are checked"
            " against, and this metastore has no transactions for that (rebalances:"
            f" {features.reasons['rebalances'].text}).",
            remedy="Overwrite the partition with its own rows, sorted, while nobody changes it; or"
            " make it a major compaction.",
        )
    require_no_buckets(table)


def require_no_buckets(table: HiveTable, partition: HivePartition | None = None) -> None:
    """Refuse to assign new row ids where buckets determine the file of a row.

    Raises:
        UnsupportedTable: The partition, or without one the table itself, has buckets.
    """
    if clustering_columns(table, partition):
        subject = str(table.ref) if partition is None else f"{table.ref}/{partition.name}"
        raise UnsupportedTable(
            f"{subject} has buckets, which determine the file of each row: it cannot be rebalanced.",
            remedy="Make it a major compaction.",
        )


# The plan of a compaction of one partition: the files that it reads, and its output


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

    @property
    def size(self) -> int:
        """The size of the files that are replaced."""
        names = frozenset(self.plan.inputs)
        return sum(file.size for file in self.files if file.path.partition("/")[0] in names)


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans compactions of one partition, without writing.

    Attributes:
        table: The table.
        partition: The partition; None for a table without partitions.
        features: The features of the metastore.
        write_ids: The write ids that may be merged.
        txns: The transactions whose directories are visible.
        owner: The table as the owner of its folders; null for a forecast.
    """

    table: HiveTable
    partition: HivePartition | None
    features: Features
    write_ids: CompactorWriteIdList
    txns: ValidTxnList
    owner: TableOfFolder | None

    @property
    def storage(self) -> Storage:
        """The folder of the partition."""
        folder = self.table.folder if self.partition is None else self.partition.folder
        return Storage.of(folder)

    @property
    def name(self) -> str:
        """The table and the partition, for messages."""
        name = self.table.ref.full_name
        return name if self.partition is None else f"{name}/{self.partition.name}"

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
        files = list_files(self.storage, self.owner)
        rules = Rules.of(self.features.hides_compactions)
        state = read_state(self.storage, files, self.write_ids, self.txns, rules=rules)
        hides_compactions = self.features.hides_compactions
        warnings: list[str] = []
        if self.is_flat:
            if not hides_compactions and type_ is CompactionType.MINOR:
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
        if not hides_compactions and plan.deletes is not None:
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

    def acid_files(self, compaction: PlannedCompaction) -> list[DataFile]:
        """The files of a full ACID table that are replaced."""
        input_names = frozenset(compaction.plan.inputs)
        return [
            file
            for file in data_files(self.storage, compaction.state)
            # Not the directory's canonical name: other engines may spell it differently.
            if (file.path if file.directory is None else file.path.partition("/")[0]) in input_names
            # Hive 3 also includes directories of aborted writes, and filters their rows
            # individually.
            and self.aborted(file.directory) is not Range.ALL
        ]

    def flat_files(self, compaction: PlannedCompaction) -> list[FileStatus]:
        """The files of an insert-only table that are replaced, in reading order."""
        plan, state = compaction.plan, compaction.state
        input_names = frozenset(plan.inputs)
        names = [name for name in (state.base, *state.deltas) if name in input_names]
        originals = [file for file in state.files("") if file.path in input_names]
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
            one_by_one=not self.features.hides_compactions,
        )


# A smaller partition is written by one task if others wait for the processes, too.
_SMALL_BYTES = 16 << 20
# The work on a partition without rows, as a number of bytes to encode.
_EFFORT_OF_A_PARTITION = 2 << 20
_COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'


@dataclass
class PartitionCompactor(ABC):
    """Writes the files of one compaction. The kind of table determines their contents.

    It can be sent to another process, which returns it with its results.

    Attributes:
        planner: The planner of the compaction.
        compaction: The plan.
        hidden: The folders of the files until they are published.
        visibility_txn: The transaction in the names of the new directories; 0 for none.
        order: The row order that a rebalance writes.
        noted_rows: The number of rows that the replaced files should have, if their directories
            have notes.
        phases: Receives notes.
        kept: The files that were written.
        bytes_read: The size of the replaced files.
        stripes_copied: The number of ORC stripes that were copied unchanged.
        stripes_encoded: The number of ORC stripes that were rewritten.
        rows: The balance of the rows.
        events: The balance of the delete events that are kept.
        values: The rewritten rows, with all their values.
    """

    planner: Planner
    compaction: PlannedCompaction
    hidden: HiddenFolders
    visibility_txn: int
    order: RowOrder
    noted_rows: Mapping[str, int]
    phases: PhaseClock
    kept: list[StagedFile] = field(default_factory=list)
    bytes_read: int = 0
    stripes_copied: int = 0
    stripes_encoded: int = 0
    rows: Balance = field(default_factory=Balance)
    events: Balance = field(default_factory=Balance)
    values: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.table = self.planner.table
        self.partition = self.planner.partition
        self.storage = self.planner.storage
        self.tasks: Tasks
        self._staged: dict[Base | Delta, list[StagedFile]] = {}

    @classmethod
    @abstractmethod
    def require_possible(cls, planner: Planner, order: RowOrder) -> None:
        """Refuse a partition that this compactor cannot compact."""

    def run(self, tasks: Tasks) -> None:
        """Write the files, and prove that they contain what they should.

        Args:
            tasks: Runs the parts of the work.
        """
        self.tasks = tasks
        self.write(self.compaction)

    @abstractmethod
    def write(self, compaction: PlannedCompaction) -> None:
        """Write the files of the new directories into ``self.folder(...)``, and ``keep`` them."""

    @abstractmethod
    def write_empty(self, sink: Any) -> int:
        """Write a file without rows and return its size."""

    @abstractmethod
    def file_name(self, number: int) -> str:
        """The name of a published file."""

    def side_files(self, directory: Base | Delta) -> dict[str, bytes]:
        """The hidden files of a new directory, by their names."""
        hides_compactions = self.planner.features.hides_compactions
        return (
            {METADATA_FILE: _COMPACTED}
            if isinstance(directory, Base) and not hides_compactions
            else {}
        )

    def layout_note(
        self, plan: CompactionPlan, notes: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the part of a new directory's note on the distribution of its rows over files."""
        return {}

    @property
    def effort_of_copying(self) -> int:
        """The work of copying all files of the input, or of counting their rows; see ``Tasks``."""
        # From a store, processes copy while others wait for it.
        size = self.compaction.size
        return size // COPIED_WHILE_ENCODED if self.storage.is_local else size

    @property
    def name(self) -> str:
        """The table and the partition, for messages."""
        return self.planner.name

    @property
    def proof(self) -> CompactionProof:
        """The counts of rows and events that were read and written."""
        return CompactionProof(
            rows_read=self.rows.read.rows,
            rows_deleted=self.rows.deleted.rows,
            rows_aborted=self.rows.aborted.rows,
            rows_written=self.rows.written.rows,
            rows_digest=f"{self.rows.written.digest:016x}",
            events_read=self.events.read.rows,
            events_aborted=self.events.aborted.rows,
            events_repeated=self.events.repeated.rows,
            events_written=self.events.written.rows,
            events_digest=f"{self.events.written.digest:016x}",
            rows_encoded=self.values.rows,
            values_digest=f"{self.values.digest:016x}",
        )

    def folder(self, name: str) -> Folder:
        """A folder that no reader lists, removed at the end of the transaction."""
        return self.hidden.folder(name)

    def output(self, directory: Base | Delta) -> Folder:
        """The folder for the files of a new directory until they are proved and published."""
        return self.hidden.folder("out", self.name_of(directory), is_read=True)

    def name_of(self, directory: Base | Delta) -> str:
        """The name of a new directory."""
        return replace(directory, visibility_txn=self.visibility_txn).name

    def keep(self, directory: Base | Delta, file: StagedFile) -> None:
        """Register a file for publication if it contains rows or delete events."""
        self.kept.append(file)
        if file.rows:
            self._staged.setdefault(directory, []).append(file)

    def keep_empty(self, directory: Base | Delta) -> None:
        """Register a file without rows for publication."""
        with staged_file(self.output(directory), self.file_name(0)) as file:
            size = self.write_empty(file.sink)
        empty_file = file.result(0, 0, size)
        self.kept.append(empty_file)
        self._staged[directory] = [empty_file]

    @property
    def new_directories(self) -> Sequence[Base | Delta]:
        """The directories that files are registered for."""
        return tuple(self._staged)

    def staged(self, directory: Base | Delta) -> list[StagedFile]:
        """The files to be published in a directory."""
        return list(self._staged.get(directory, ()))

    def keeps(self, directory: Base | Delta) -> bool:
        """Whether a file is registered for publication in a directory."""
        return directory in self._staged


def written(compactor: PartitionCompactor) -> PartitionCompactor:
    """Write the files of a small compaction in one task."""
    compactor.run(Inline())
    return compactor


# The compaction of one partition within a transaction, from the plan to the published files.


@dataclass(frozen=True, slots=True)
class Compactors:
    """The circumstances that the compactions of a job have in common.

    Attributes:
        scheduler: Runs the tasks.
        client: The metastore.
        kind: The class that writes the files.
        overlaps: Concurrent commits since the job began; None disables the check.
        run_token: The token of the run, for the note.
        run_id: The run of the DAG, if the token does not contain it.
    """

    scheduler: Scheduler
    client: MetastoreClient
    kind: type[PartitionCompactor]
    overlaps: Overlaps | None = None
    run_token: str | None = None
    run_id: str | None = None


class PartitionCompaction:
    """The compaction of one partition, or of a table without partitions, in a transaction."""

    def __init__(
        self,
        compactors: Compactors,
        table: HiveTable,
        partition: HivePartition | None,
        txn: CompactionTransaction,
        phases: PhaseClock,
        order: RowOrder,
    ) -> None:
        """Describe the compaction.

        Args:
            compactors: The circumstances.
            table: The table.
            partition: The partition; None for a table without partitions.
            txn: The transaction, entered.
            phases: Receives the phases.
            order: The row order that a rebalance writes.
        """
        self._scheduler = compactors.scheduler
        self._client = compactors.client
        self._kind = compactors.kind
        self._overlaps = compactors.overlaps
        self._origin = {"run_token": compactors.run_token, "run_id": compactors.run_id}
        self._table = table
        self._partition = partition
        self._txn = txn
        self._phases = phases
        self._order = order
        self._warnings: list[str] = []
        self._ready: list[str] = []
        self._published: list[str] = []
        self._bytes_written = 0
        self._input_facts: dict[str, Any] = {}
        self._planner = Planner(
            table,
            partition,
            txn.features,
            txn.write_ids,
            txn.txns,
            TableOfFolder.of(table, txn),
        )
        self._storage = self._planner.storage
        self._compactor: PartitionCompactor

    @cached_property
    def _directories(self) -> StagedDirectories:
        """The new directories, hidden until they are published."""
        return StagedDirectories(self._storage.location, self._txn, self._table.identity)

    def prepare(self, type_: CompactionType, companions: int = 0) -> None:
        """Write all files, and complete the new directories without publishing them.

        Args:
            type_: The requested type; on Hive 3, a major compaction may run instead.
            companions: The number of other partitions that are compacted at the same time.

        Raises:
            NothingToCompact: The compaction would have no effect.
            TableReplaced: The table or the partition was replaced, moved, or dropped meanwhile.
        """
        try:
            self._prepare(type_, companions)
        except (DirectoryMissing, NothingToCompact, MetastoreCallFailed):
            # The reason may be that the partition was dropped since it was listed.
            self._require_same_table()
            raise

    def _prepare(self, type_: CompactionType, companions: int) -> None:
        with self._phases(Phase.READ, "the directories"):
            self._compactor = compactor = self._plan(type_)
        plan = compactor.compaction.plan
        with (
            self._phases(Phase.WRITE, "the compacted files"),
            self._scheduler.tasks(
                f"{self._txn.txn_id}-{self._planner.name}",
                f"{plan.type} {self._planner.name}",
                compactor.compaction.size,
            ) as tasks,
        ):
            self._compactor = compactor = self._written(compactor, tasks, companions)
        self._txn.check_alive()
        with self._phases(Phase.REGISTER, "what was compacted"):
            self._register(compactor.compaction, type_)
        with self._phases(Phase.PUBLISH, "the files"):
            self._ready = [
                self._complete(plan, directory) for directory in compactor.new_directories
            ]

    def _plan(self, type_: CompactionType) -> PartitionCompactor:
        """Choose the directories to replace, and take over the facts of their notes."""
        if not self._txn.features.hides_compactions and not self._storage.renames_at_once:
            raise UnsupportedTable(
                f"{self._planner.name} is on an object store, where a base appears file by file."
                " Only Hive Metastore 4 hides it until it is complete.",
                remedy="Let Hive compact the table.",
            )
        require_orc(self._table, self._partition)
        self._kind.require_possible(self._planner, self._order)
        compaction = self._planner.plan(type_)
        self._warnings += compaction.warnings
        plan, state = compaction.plan, compaction.state
        notes = read_notes(self._storage, state, _directories(plan))
        compactor = self._kind(
            replace(self._planner, owner=None),
            compaction,
            self._directories.hidden,
            self._txn.visibility_txn,
            self._order,
            check_notes(self._storage, state, notes),
            self._phases,
        )
        times_without_note = self._unnoted(
            [name for name in _directories(plan) if name not in notes]
        )
        self._input_facts = {
            **replacing(plan.inputs, self._txn.write_ids, notes),
            **taken_over(notes, self._table.ref.full_name, times_without_note),
            **compactor.layout_note(plan, notes),
        }
        return compactor

    def _written(
        self, compactor: PartitionCompactor, tasks: Tasks, companions: int
    ) -> PartitionCompactor:
        """Write the files: of a small partition beside many others in one task."""
        effort = (companions + 1) * (compactor.effort_of_copying + _EFFORT_OF_A_PARTITION)
        try:
            if (
                companions
                and compactor.compaction.size < _SMALL_BYTES
                and not compactor.hidden.has_uploads
            ):
                # The clock belongs to this process.
                task = replace(compactor, phases=PhaseClock())
                (compactor_with_files,) = tasks.run(written, [task], effort=effort)
                return compactor_with_files
        except SparkNeeded:
            self._phases.note(f"Compacting {self._planner.name} in parts")
        compactor.run(tasks)
        for file in compactor.kept:
            self._directories.keep(file)
        return compactor

    def _register(self, compaction: PlannedCompaction, requested: CompactionType) -> None:
        """Record the compaction in the metastore, and refuse what others have done meanwhile.

        Raises:
            OverlapRefused: The policy strict does not let both succeed.
            SnapshotMoved: Delete events refer to rows that a rebalance gives other ids.
        """
        # A table that was never written may have original files to compact. To the metastore a
        # 0 means every write id, and the metastore would forget aborted ones.
        partition = None if self._partition is None else self._partition.name
        self._txn.record(self._txn.write_ids.high_watermark or CONVERTED_BASE, partition)
        rebalanced = compaction.plan.type is CompactionType.REBALANCE
        if rebalanced and self._table.kind is TableKind.FULL_ACID:
            # Engines that take no lock may have changed rows in the meantime.
            now = list_files(self._storage, self._planner.owner)
            require_no_deletes(_names(now) - _names(compaction.files))
        # On Hive 3 the rename is the commit. The check uses the requested type, even if another
        # type ran.
        self._require_no_overlap(requested)

    def report(self, reason: str) -> PartitionReport:
        """Describe the committed compaction.

        Args:
            reason: The reason for the compaction.
        """
        compactor, plan = self._compactor, self._compactor.compaction.plan
        return PartitionReport(
            table=self._table.ref.full_name,
            partition=None if self._partition is None else self._partition.name,
            type=plan.type.value,
            outcome="compacted",
            reason=reason,
            txn_id=self._txn.txn_id,
            published=tuple(self._published),
            replaced=plan.inputs,
            rows=compactor.rows.written.rows,
            deletes=compactor.events.written.rows,
            proof=compactor.proof,
            bytes_read=compactor.bytes_read,
            bytes_written=self._bytes_written,
            stripes_copied=compactor.stripes_copied,
            stripes_encoded=compactor.stripes_encoded,
            seconds=self._phases.seconds,
            warnings=(*self._txn.warnings, *self._warnings),
        )

    def _require_no_overlap(self, type_: CompactionType) -> None:
        """Refuse a commit that conflicts with commits of others since the job began.

        Raises:
            OverlapRefused: The policy strict does not let both succeed.
        """
        if self._overlaps is None:
            return
        partition = None if self._partition is None else self._partition.name
        writer = WriteKind.MINOR if type_ is CompactionType.MINOR else WriteKind.MAJOR
        writes = [(self._table.ref, writer, [partition])]
        self._overlaps.require_none_at_commit(self._txn, writes)

    def publish(self) -> None:
        """Publish the new directories, each by one rename.

        The table and its partitions must have been compared just before.

        Raises:
            TableReplaced: The table or the partition was replaced, moved, or dropped meanwhile.
        """
        hides_compactions = self._txn.features.hides_compactions
        try:
            with self._phases(Phase.PUBLISH, "the files"):
                for final in self._ready:
                    # On Hive 3 this is the commit: readers may need the directory from now on.
                    self._directories.publish(final, for_good=not hides_compactions)
                    self._published.append(final)
                self._directories.remove()
        except (DirectoryMissing, MetastoreCallFailed):
            if not self._published:
                self._require_same_table()
            raise

    def _complete(self, plan: CompactionPlan, directory: Base | Delta) -> str:
        """Complete a new directory and return its name."""
        compactor = self._compactor
        final = compactor.name_of(directory)
        named_files = [
            (compactor.file_name(file.bucket), file) for file in compactor.staged(directory)
        ]
        self._bytes_written += sum(file.bytes for _, file in named_files)
        files = [WrittenFile(name, file.rows, file.bytes) for name, file in named_files]
        notes = compactor.side_files(directory) | {SIDECAR_FILE: self._sidecar(plan, files)}
        self._directories.complete(final, named_files, notes)
        return final

    def _require_same_table(self) -> None:
        """Make sure that the table is still the same before publication."""
        partitions = [] if self._partition is None else [self._partition]
        require_same_definition(self._client, self._table, partitions)

    def _unnoted(self, names: Sequence[str]) -> dict[int, float]:
        """The times of files whose writers leave no note, by write id."""
        write_ids = {
            name: write_id for name in names if (write_id := only_write_id(name)) is not None
        }
        if not write_ids:
            return {}
        times: dict[int, float] = {}
        written = DirectorySizes.of(self._storage.location).written
        for name, write_id in write_ids.items():
            time = written.get(name)
            if time is not None and self._txn.write_ids.is_valid(write_id):
                times[write_id] = max(times.get(write_id, 0), time / 1e9)
        return times

    def _sidecar(self, plan: CompactionPlan, files: Sequence[WrittenFile]) -> bytes:
        note = {
            "operation": plan.type.value,
            **{name: value for name, value in self._origin.items() if value is not None},
            "txn_id": self._txn.txn_id,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "user": os.environ.get("USER", ""),
            "proof": codec.encode(self._compactor.proof),
            "seconds": self._phases.seconds,
            **self._input_facts,
        }
        return directory_note(note, files)

    def discard(self) -> None:
        """Remove the files of a compaction that leaves its transaction, if none is published."""
        self._directories.remove()

    def remember(self, readers: ReaderNote) -> None:
        """Note the readers of the replaced directories, which the cleaner could also find out.

        Args:
            readers: The readers after the commit.
        """
        try:
            for final in self._published:
                note_readers(readers, self._storage, final)
        except HiveAcidError as error:
            self._warnings.append(f"Cleaning will take a run more: {error}")


def _names(files: Sequence[FileStatus]) -> set[str]:
    """The directories that contain files."""
    return {file.path.partition("/")[0] for file in files if "/" in file.path}


def _directories(plan: CompactionPlan) -> list[str]:
    """The replaced directories, without original files, which are in no writer's directory."""
    return [name for name in plan.inputs if parse_directory(name) is not None]
