"""Compaction of one partition, or of a table without partitions, in its own transaction."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NoReturn

from hiveacid.errors import (
    DirectoryMissing,
    HiveAcidError,
    InvalidJob,
    MetastoreCallFailed,
    NothingToCompact,
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
from hiveacid.storage.staging import Folder, StagedDirectories, StagedFile, staged_file
from hiveacid.upkeep.compaction.scheduling import COPIED_WHILE_ENCODED, Scheduler, Tasks

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


_COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'


@dataclass
class PartitionCompactor(ABC):
    """Compacts one partition. The kind of table determines the contents of the files.

    Attributes:
        scheduler: Runs the tasks.
        client: The metastore.
        table: The table.
        partition: The partition; None for a table without partitions.
        compaction: The transaction, entered.
        phases: Receives the phases.
        overlaps: Concurrent commits since the job began; None disables the check.
        order: The row order that a rebalance writes.
        run_token: The token of the run, for the note.
        run_id: The run of the DAG, if the token does not contain it.
        warnings: Problems that did not change the result.
        bytes_read: The size of the replaced files.
        stripes_copied: The number of ORC stripes that were copied unchanged.
        stripes_encoded: The number of ORC stripes that were rewritten.
        noted_rows: The number of rows that the replaced files should have, if their directories
            have notes.
        rows: The balance of the rows.
        events: The balance of the delete events that are kept.
        values: The rewritten rows, with all their values.
    """

    scheduler: Scheduler
    client: MetastoreClient
    table: HiveTable
    partition: HivePartition | None
    compaction: CompactionTransaction
    phases: PhaseClock
    overlaps: Overlaps | None = None
    order: RowOrder = field(default_factory=RowOrder)
    run_token: str | None = None
    run_id: str | None = None
    warnings: list[str] = field(default_factory=list)
    bytes_read: int = 0
    stripes_copied: int = 0
    stripes_encoded: int = 0
    noted_rows: Mapping[str, int] = field(default_factory=dict)
    rows: Balance = field(default_factory=Balance)
    events: Balance = field(default_factory=Balance)
    values: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.planner = Planner(
            self.table,
            self.partition,
            self.compaction.features,
            self.compaction.write_ids,
            self.compaction.txns,
            TableOfFolder.of(self.table, self.compaction),
        )
        self.storage = self.planner.storage
        self.tasks: Tasks
        self._staged: dict[Base | Delta, list[StagedFile]] = {}
        self._published: list[str] = []
        self._size = 0
        self._bytes_written = 0
        self._input_facts: dict[str, Any] = {}

    @cached_property
    def directories(self) -> StagedDirectories:
        """The new directories, hidden until they are published."""
        return StagedDirectories(self.storage.location, self.compaction, self.table.identity)

    @abstractmethod
    def require_possible(self) -> None:
        """Refuse a partition that this compactor cannot compact."""

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
        hides_compactions = self.compaction.features.hides_compactions
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

    def run(self, type_: CompactionType, reason: str) -> PartitionReport:
        """Compact and commit.

        Args:
            type_: The requested type; on Hive 3, a major compaction may run instead.
            reason: The reason for the compaction, for the report.

        Raises:
            NothingToCompact: The compaction would have no effect.
            TableReplaced: The table or the partition was replaced, moved, or dropped meanwhile.
        """
        try:
            return self._run(type_, reason)
        except (DirectoryMissing, NothingToCompact, MetastoreCallFailed):
            # The reason may be that the partition was dropped since it was listed.
            if not self._published:
                self._require_same_table()
            raise

    def _run(self, type_: CompactionType, reason: str) -> PartitionReport:
        with self.phases(Phase.READ, "the directories"):
            compaction = self._plan(type_)
        subject = f"{compaction.plan.type} {self.name}"
        with (
            self.phases(Phase.WRITE, "the compacted files"),
            self.scheduler.tasks(self.compaction.txn_id, subject, self._size) as self.tasks,
        ):
            self.write(compaction)
        self.compaction.check_alive()
        with self.phases(Phase.REGISTER, "what was compacted"):
            self._register(compaction, type_)
        with self.phases(Phase.PUBLISH, "the files"):
            self._publish(compaction.plan)
        self.compaction.commit()
        self._remember()
        return self._report(compaction.plan, reason)

    def _plan(self, type_: CompactionType) -> PlannedCompaction:
        """Choose the directories to replace, and take over the facts of their notes."""
        if not self.compaction.features.hides_compactions and not self.storage.renames_at_once:
            raise UnsupportedTable(
                f"{self.name} is on an object store, where a base appears file by file. Only Hive"
                " Metastore 4 hides it until it is complete.",
                remedy="Let Hive compact the table.",
            )
        require_orc(self.table, self.partition)
        # The partition is compared before the publication, or after a failure.
        require_same_definition(self.client, self.table)
        self.require_possible()
        compaction = self.planner.plan(type_)
        self.warnings += compaction.warnings
        plan, state = compaction.plan, compaction.state
        notes = read_notes(self.storage, state, _directories(plan))
        self.noted_rows = check_notes(self.storage, state, notes)
        times_without_note = self._unnoted(
            [name for name in _directories(plan) if name not in notes]
        )
        self._input_facts = {
            **replacing(plan.inputs, self.compaction.write_ids, notes),
            **taken_over(notes, self.table.ref.full_name, times_without_note),
            **self.layout_note(plan, notes),
        }
        inputs = (f for f in compaction.files if f.path.partition("/")[0] in plan.inputs)
        self._size = sum(file.size for file in inputs)
        return compaction

    def _register(self, compaction: PlannedCompaction, requested: CompactionType) -> None:
        """Record the compaction in the metastore, and refuse what others have done meanwhile.

        Raises:
            OverlapRefused: The policy strict does not let both succeed.
            SnapshotMoved: Delete events refer to rows that a rebalance gives other ids.
        """
        # A table that was never written may have original files to compact. To the metastore a
        # 0 means every write id, and the metastore would forget aborted ones.
        self.compaction.record(self.compaction.write_ids.high_watermark or CONVERTED_BASE)
        rebalanced = compaction.plan.type is CompactionType.REBALANCE
        if rebalanced and self.table.kind is TableKind.FULL_ACID:
            # Engines that take no lock may have changed rows in the meantime.
            now = list_files(self.storage, self.planner.owner)
            require_no_deletes(_names(now) - _names(compaction.files))
        # On Hive 3 the rename is the commit. The check uses the requested type, even if another
        # type ran.
        self._require_no_overlap(requested)

    def _report(self, plan: CompactionPlan, reason: str) -> PartitionReport:
        return PartitionReport(
            table=self.table.ref.full_name,
            partition=None if self.partition is None else self.partition.name,
            type=plan.type.value,
            outcome="compacted",
            reason=reason,
            txn_id=self.compaction.txn_id,
            published=tuple(self._published),
            replaced=plan.inputs,
            rows=self.rows.written.rows,
            deletes=self.events.written.rows,
            proof=self._proof(),
            bytes_read=self.bytes_read,
            bytes_written=self._bytes_written,
            stripes_copied=self.stripes_copied,
            stripes_encoded=self.stripes_encoded,
            seconds=self.phases.seconds,
            warnings=(*self.compaction.warnings, *self.warnings),
        )

    @property
    def effort_of_copying(self) -> int:
        """The work of copying all files of the input, or of counting their rows; see ``Tasks``."""
        # From a store, processes copy while others wait for it.
        return self._size // COPIED_WHILE_ENCODED if self.storage.is_local else self._size

    def _require_no_overlap(self, type_: CompactionType) -> None:
        """Refuse a commit that conflicts with commits of others since the job began.

        Raises:
            OverlapRefused: The policy strict does not let both succeed.
        """
        if self.overlaps is None:
            return
        partition = None if self.partition is None else self.partition.name
        writer = WriteKind.MINOR if type_ is CompactionType.MINOR else WriteKind.MAJOR
        writes = [(self.table.ref, writer, [partition])]
        self.overlaps.require_none_at_commit(self.compaction, writes)

    def _proof(self) -> CompactionProof:
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

    @property
    def name(self) -> str:
        """The table and the partition, for messages."""
        name = self.table.ref.full_name
        return name if self.partition is None else f"{name}/{self.partition.name}"

    def folder(self, name: str) -> Folder:
        """A folder that no reader lists, removed at the end of the transaction."""
        return self.directories.folder(name)

    def output(self, directory: Base | Delta) -> Folder:
        """The folder for the files of a new directory until they are proved and published."""
        return self.directories.folder("out", self._name_of(directory), is_read=True)

    def keep(self, directory: Base | Delta, file: StagedFile) -> None:
        """Register a file for publication if it contains rows or delete events."""
        self.directories.keep(file)
        if file.rows:
            self._staged.setdefault(directory, []).append(file)

    def keep_empty(self, directory: Base | Delta) -> None:
        """Register a file without rows for publication."""
        with staged_file(self.output(directory), self.file_name(0)) as file:
            size = self.write_empty(file.sink)
        empty_file = file.result(0, 0, size)
        self.directories.keep(empty_file)
        self._staged[directory] = [empty_file]

    def staged(self, directory: Base | Delta) -> list[StagedFile]:
        """The files to be published in a directory."""
        return list(self._staged.get(directory, ()))

    def keeps(self, directory: Base | Delta) -> bool:
        """Whether a file is registered for publication in a directory."""
        return directory in self._staged

    def _publish(self, plan: CompactionPlan) -> None:
        """Publish the new directories, each by one rename."""
        hides_compactions = self.compaction.features.hides_compactions
        ready = [self._complete(plan, directory) for directory in self._staged]
        self._require_same_table()
        for final in ready:
            # On Hive 3 this is the commit: readers may need the directory from now on.
            self.directories.publish(final, for_good=not hides_compactions)
            self._published.append(final)
        self.directories.remove()

    def _complete(self, plan: CompactionPlan, directory: Base | Delta) -> str:
        """Complete a new directory and return its name."""
        final = self._name_of(directory)
        named_files = [(self.file_name(file.bucket), file) for file in self._staged[directory]]
        self._bytes_written += sum(file.bytes for _, file in named_files)
        files = [WrittenFile(name, file.rows, file.bytes) for name, file in named_files]
        notes = self.side_files(directory) | {SIDECAR_FILE: self._sidecar(plan, files)}
        self.directories.complete(final, named_files, notes)
        return final

    def _name_of(self, directory: Base | Delta) -> str:
        return replace(directory, visibility_txn=self.compaction.visibility_txn).name

    def _require_same_table(self) -> None:
        """Make sure that the table is still the same before publication."""
        partitions = [] if self.partition is None else [self.partition]
        require_same_definition(self.client, self.table, partitions)

    def _unnoted(self, names: Sequence[str]) -> dict[int, float]:
        """The times of files whose writers leave no note, by write id."""
        write_ids = {
            name: write_id for name in names if (write_id := only_write_id(name)) is not None
        }
        if not write_ids:
            return {}
        times: dict[int, float] = {}
        written = DirectorySizes.of(self.storage.location).written
        for name, write_id in write_ids.items():
            time = written.get(name)
            if time is not None and self.compaction.write_ids.is_valid(write_id):
                times[write_id] = max(times.get(write_id, 0), time / 1e9)
        return times

    def _sidecar(self, plan: CompactionPlan, files: Sequence[WrittenFile]) -> bytes:
        origin = {"run_token": self.run_token, "run_id": self.run_id}
        note = {
            "operation": plan.type.value,
            **{name: value for name, value in origin.items() if value is not None},
            "txn_id": self.compaction.txn_id,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "user": os.environ.get("USER", ""),
            "proof": codec.encode(self._proof()),
            "seconds": self.phases.seconds,
            **self._input_facts,
        }
        return directory_note(note, files)

    def _remember(self) -> None:
        """Note the readers of the replaced directories, which the cleaner could also find out."""
        try:
            for final in self._published:
                note_readers(self.client, self.storage, final, self.table.ref)
        except HiveAcidError as error:
            self.warnings.append(f"Cleaning will take a run more: {error}")


def _names(files: Sequence[FileStatus]) -> set[str]:
    """The directories that contain files."""
    return {file.path.partition("/")[0] for file in files if "/" in file.path}


def _directories(plan: CompactionPlan) -> list[str]:
    """The replaced directories, without original files, which are in no writer's directory."""
    return [name for name in plan.inputs if parse_directory(name) is not None]
