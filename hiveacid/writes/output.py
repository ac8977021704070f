"""Output of one statement of a transaction: staged in hidden folders, then published."""

import dataclasses
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Self, TypeVar

import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, DataError, StorageError, UnsupportedTable, WrongTableKind
from hiveacid.metastore.catalog import HivePartition, HiveTable, layout_of, require_unsorted
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import write_empty_file
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.directory import Rules
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import (
    ACID_VERSION_FILE,
    SIDECAR_FILE,
    Base,
    BucketFile,
    Delta,
    OriginalFile,
    holds_deletes,
    parse_partition_name,
    split_location,
    staging_txn,
)
from hiveacid.rules.notes import WrittenFile, directory_note, only_write_id, replacing
from hiveacid.rules.partitions import equal_partitions, have_one_text
from hiveacid.rules.row_id import MAX_WRITER_ID
from hiveacid.rules.schema import BucketLayout
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.filesystems import THREADS, in_threads, translated_os_errors
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import HiddenFolder, TableOfFolder
from hiveacid.storage.listing import list_files, read_notes, read_state
from hiveacid.storage.new_folders import require_unused_partitions
from hiveacid.storage.staging import (
    FlatFile,
    Folder,
    NewFile,
    StagedDirectories,
    StagedFile,
    by_delete_file,
    delete_stager,
    reported_file,
    row_stager,
    staged_file,
)
from hiveacid.tables.row_format import RowFormat
from hiveacid.tables.visible_files import AcidFile, PartitionFiles, read_events
from hiveacid.writes.engine import FlatTarget, RowEngine

# Stages sorted delete events, and reports the files.
T = TypeVar("T")
DeleteStager = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_EVENT_COLUMNS = ["partition", "bucket_number", "write_id", "bucket", "row"]
# Files of rows that become one file each.
Groups = Sequence[Sequence[FlatFile]]
# Files of the engine, with ``replace`` and ``width`` of ``take``.
TakenFiles = tuple[Groups, bool, int | None]


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The folder of a partition, or of a table without partitions, that gets new directories.

    Attributes:
        name: The partition's name; ``None`` for a table without partitions.
        root: The location that staged files can be renamed within.
        path: The folder below it; empty if it is the location itself.
        partition: The partition; ``None`` for a table without partitions.
        is_new: Whether the partition must be added to the metastore first.
    """

    name: str | None
    root: Location
    path: str
    partition: HivePartition | None = field(default=None, compare=False)
    is_new: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class SealedDirectory:
    """A directory whose files are verified.

    Attributes:
        final: Its path, below the root of its folder.
        files: Its files by their names in it.
        written: The files, as its note lists them.
        facts: The facts that its note states beside those about the transaction.
        unread: The files that can be read, and verified, only after they are published.
    """

    final: str
    files: Sequence[tuple[str, StagedFile]]
    written: Sequence[WrittenFile]
    facts: Mapping[str, Any]
    unread: Sequence[StagedFile]


@dataclass(frozen=True)
class TakenFolders:
    """Renames hidden folders of a lost transaction to the name of an active transaction.

    Any cleaner may remove the folders of the lost transaction at any time. The renamed folders are
    removed when the active transaction ends.

    Attributes:
        txn: The active transaction.
    """

    txn: Transaction
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def flat(self, file: FlatFile) -> FlatFile:
        """One of the engine's files at its new path."""
        return dataclasses.replace(file, path=self.path(file.root, file.path))

    def path(self, root: Location, path: str) -> str:
        """The new path of a file; its folder is taken over with all its contents.

        Args:
            root: The folder that contains the hidden folder.
            path: The path below it, which begins with the hidden folder.

        Raises:
            StorageError: A cleaner has already removed the hidden folder.
        """
        name, _, path_inside = path.partition("/")
        if (root, name) not in self._names:
            if staging_txn(name) is None:
                raise StorageError(f"{root}/{name} is no hidden folder.")
            folder = HiddenFolder.until_the_end_of(self.txn, root)
            folder.storage.rename(name, folder.name)
            self._names[root, name] = folder.name
        return f"{self._names[root, name]}/{path_inside}"


@dataclass
class TableOutput(ABC):
    """Everything that one statement of a transaction writes into its table.

    Attributes:
        engine: The engine that evaluates the rows.
        client: The metastore.
        table: The table.
        txn: The transaction.
        codec: The compression of the files.
        statement: The number of the statement within the transaction.
        rules: The constraints that rows must satisfy; None if no rows are written.
        staged: The files, by the folder and the name of the directory that they will be published
            in.
        read_from: The directories and original files that rows of each partition were read from. A
            missing partition was not read, or the files that were read are unknown.
    """

    # Published beside the files of every directory.
    SIDE_FILES: ClassVar[Mapping[str, bytes]] = {}

    engine: RowEngine
    client: MetastoreClient
    table: HiveTable
    txn: Transaction
    codec: str
    statement: int = 0
    rules: WriteRules | None = None
    staged: dict[tuple[OutputFolder, str], list[StagedFile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # By the existing and by the canonical names of partitions.
        self._folders: dict[str | None, OutputFolder] = {}
        self._known: Sequence[str] | None = None
        self._staged_below: dict[str, StagedDirectories] = {}
        self._sealed: list[tuple[StagedDirectories, SealedDirectory]] = []
        self._flat_folders = 0
        # To stage them again with another write id.
        self.taken: Sequence[TakenFiles] = ()
        self.read_from: dict[str | None, frozenset[str]] = {}

    def locate(self, partitions: Sequence[HivePartition], *, are_new: bool = False) -> None:
        """Record the folders of partitions: a partition is written to the folder it is read from.

        Args:
            partitions: Some partitions.
            are_new: Whether they must still be added to the metastore.
        """
        for partition in partitions:
            root, path = split_location(self.table.folder, partition.folder)
            folder = OutputFolder(partition.name, root, path, partition, are_new)
            self._folders.setdefault(partition.name, folder)

    def flat_target(self, *, replace: bool = False) -> FlatTarget:
        """Return a place for rows that the engine writes before ``take``.

        Args:
            replace: Whether the rows become a base, which hides all earlier rows, or a delta.
        """
        self._flat_folders += 1
        folder = self._stage_below(self.table.folder).folder(f"flat{self._flat_folders}")
        return FlatTarget(self.table, self.codec, replace, self.rules, folder)

    def take(
        self,
        groups: Sequence[Sequence[FlatFile]],
        *,
        replace: bool = False,
        width: int | None = None,
    ) -> None:
        """Stage files that the engine has written.

        Args:
            groups: Files of one partition and bucket that become one file. They are added to the
                existing partition with equal values, if any.
            replace: See ``flat_target``.
            width: The number of leading columns that belong to the table; None means all.
        """
        names = [*dict.fromkeys(group[0].partition for group in groups)]
        self._locate(names)
        if not replace:
            self._require_folders(names)
        groups = self._redistributed(groups, replace)
        self.taken = [*self.taken, (groups, replace, width)]
        directory = Base(self.write_id) if replace else self._delta()
        folders: list[OutputFolder] = []
        new_files: list[NewFile] = []
        numbers: Counter[str | None] = Counter()
        for group in groups:
            partition, bucket = group[0].partition, group[0].bucket
            target = self._folders[partition]
            number = numbers[partition] if bucket is None else bucket
            numbers[partition] += 1
            folders.append(target)
            new_files.append(NewFile(tuple(group), self._staging_folder(target, directory), number))
        finished = self._finish(new_files, width) if new_files else []
        for target, file in zip(folders, finished, strict=True):
            if file.rows:
                self._keep(target, directory, file)
            else:
                self._stage_below(target.root).keep(file)
        if replace:
            self.write_empty_bases(self._with_equal(names)[len(names) :])

    def write_deletes(self, keys: pa.Table, partitions: Sequence[PartitionFiles]) -> None:
        """Stage delete events.

        Args:
            keys: Unique row ids that are not deleted yet, at least one: the partition's number, the
                bucket number, the write id, the bucket property, and the row number, sorted.
            partitions: The partitions that the numbers refer to.

        Raises:
            WrongTableKind: The table cannot hold delete events.
        """
        stage = self.delete_stager(partitions)

        def stage_one(file: pa.Table) -> list[dict[str, Any]]:
            return [row for report in stage(file.to_batches()) for row in report.to_pylist()]

        with translated_os_errors(self.table.folder):
            reports = in_threads(stage_one, by_delete_file(keys))
        self.keep_deletes([row for file in reports for row in file], partitions)

    def delete_stager(self, partitions: Sequence[PartitionFiles]) -> DeleteStager:
        """Return a function that stages sorted delete events; other processes may run it.

        Args:
            partitions: See ``write_deletes``.

        Raises:
            WrongTableKind: The table cannot hold delete events.
        """
        raise WrongTableKind(f"{self.table.ref.full_name} is insert-only: nothing can be deleted.")

    def keep_deletes(
        self, reports: Iterable[Mapping[str, Any]], partitions: Sequence[PartitionFiles]
    ) -> None:
        """Register the files of delete events for publication.

        Args:
            reports: The reports of ``delete_stager``.
            partitions: See ``write_deletes``.
        """
        self.record_read(partitions)
        for row in reports:
            folder = self._folders[partitions[row["partition"]].name]
            self._keep(folder, self._delta(is_delete=True), reported_file(row))

    def write_empty_bases(self, names: Sequence[str | None]) -> None:
        """Stage a base without rows for each partition that an overwrite leaves empty.

        These are the given partitions, and others with equal values, like k=1.5 and k=1.50. The base
        contains a file without rows, because Trino ignores a directory without a file.
        """
        directory = Base(self.write_id)
        names = self._with_equal(names)
        self._locate(names)
        for name in names:
            folder = self._folders[name]
            if (folder, directory.name) in self.staged:
                continue
            staging = self._staging_folder(folder, directory)
            with staged_file(staging, self._file_name(0)) as file:
                size = self._write_empty(file.sink)
            self._keep(folder, directory, file.result(0, 0, size))

    def record_read(self, partitions: Sequence[PartitionFiles]) -> None:
        """Record the directories and original files that rows are read from."""
        for partition in partitions:
            paths = self.read_from.get(partition.name, frozenset())
            self.read_from[partition.name] = paths | partition.read_from

    def of(self, txn: Transaction) -> Self:
        """Return the same output as work of another transaction, without evaluating rows again.

        Args:
            txn: The transaction. If it has the write id that the files were staged with, the files
                are kept; otherwise they are made again from the files of the engine and from the
                staged delete events, by copying bytes.
        """
        output = dataclasses.replace(self, txn=txn, staged={})
        output._folders, output.read_from = dict(self._folders), self.read_from
        if output.write_id == self.txn.write_ids.get(self.table.ref.full_name):
            output.staged, output.taken = dict(self.staged), self.taken
            return output
        for groups, replace, width in self.taken:
            output.take(groups, replace=replace, width=width)
        output._restamp_deletes(self.staged_deletes())
        if self.emptied:
            output.write_empty_bases(self.emptied)
        return output

    def detached(self, folders: TakenFolders) -> Self:
        """Detach the output from its transaction.

        Rows are kept in the files that the engine has written, delete events in the staged files.

        Args:
            folders: Takes over the hidden folders of the files.

        Raises:
            StorageError: A cleaner has already removed the files.
        """
        output = dataclasses.replace(self, txn=folders.txn, staged={})
        output._folders, output.read_from = dict(self._folders), self.read_from
        deletes: dict[OutputFolder, list[StagedFile]] = {}
        for (folder, name), files in self.staged.items():
            if holds_deletes(name):
                folder_below = self._stage_below(folder.root)
                ready = folder_below.withdraw(f"{folder.path}/{name}".lstrip("/"))
                for file in files:
                    path = f"{ready}/{self._file_name(file.bucket)}"
                    current_path = path if folder_below.storage.exists(path) else file.path
                    moved_file = dataclasses.replace(file, path=current_path, upload=None)
                    deletes.setdefault(folder, []).append(moved_file)
        # The paths change after all files are in the hidden folder.
        output.restore(
            [
                ([[folders.flat(file) for file in group] for group in groups], replace, width)
                for groups, replace, width in self.taken
            ],
            {
                folder.name: [
                    dataclasses.replace(file, path=folders.path(folder.root, file.path))
                    for file in files
                ]
                for folder, files in deletes.items()
            },
            self.emptied,
        )
        return output

    def restore(
        self,
        taken: Sequence[TakenFiles],
        deletes: Mapping[str | None, Sequence[StagedFile]],
        emptied: Sequence[str | None],
    ) -> None:
        """Continue with the files of a detached output, for ``of``.

        Args:
            taken: The files of the engine.
            deletes: The staged delete events, by partition.
            emptied: The partitions that an overwrite leaves empty.

        Raises:
            UnsupportedTable: Rows of a partition would be deleted that does not exist.
        """
        self.taken = taken
        self._locate([*deletes, *emptied])
        # The write id in the names of directories is replaced with that of the transaction.
        for name, files in deletes.items():
            if self._folders[name].is_new:
                raise UnsupportedTable(f"{self.table.ref.full_name} has no partition {name}.")
            directory = Delta(1, 1, self.statement, is_delete=True)
            self.staged[self._folders[name], directory.name] = [*files]
        for name in emptied:
            self.staged[self._folders[name], Base(1).name] = []
        # New partitions may exist by the time of the transaction.
        self._folders = {
            name: output_folder
            for name, output_folder in self._folders.items()
            if not output_folder.is_new
        }

    def discard(self) -> None:
        """Remove staged files that are not needed any more."""
        for folder_below in self._staged_below.values():
            folder_below.remove()

    def seal(self) -> None:
        """Verify all staged files, and collect what the notes of their directories state of them.

        Raises:
            CorruptFile: The report of a task differs from the contents of its file.
        """
        bases = [folder for folder, name in self.staged if name.startswith("base_")]
        facts_of_bases = dict(zip(bases, in_threads(self._replaced, bases), strict=True))
        readable = [
            (self._stage_below(folder.root).storage, file)
            for (folder, _), files in self.staged.items()
            for file in files
            if file.is_readable
        ]
        _in_threads_if_many(lambda staged: self._verify(*staged), readable)
        for (folder, name), files in self.staged.items():
            folder_below = self._stage_below(folder.root)
            facts = facts_of_bases[folder] if name.startswith("base_") else {}
            layout = layout_of(self.table, folder.partition)
            if layout is not None and not holds_deletes(name):
                facts = facts | layout.to_note()
            named_files = [(self._file_name(file.bucket), file) for file in files]
            directory = SealedDirectory(
                final=f"{folder.path}/{name}".lstrip("/"),
                files=named_files,
                written=[WrittenFile(name, file.rows, file.bytes) for name, file in named_files],
                facts=facts,
                unread=[file for file in files if not file.is_readable],
            )
            self._sealed.append((folder_below, directory))

    def publish(self, sidecar: Mapping[str, Any]) -> None:
        """Publish the sealed files, each directory by one rename.

        Args:
            sidecar: The content of the hidden note about the transaction in every directory.
        """

        def complete(sealed: tuple[StagedDirectories, SealedDirectory]) -> None:
            folder_below, directory = sealed
            note = directory_note({**sidecar, **directory.facts}, directory.written)
            notes = {**self.SIDE_FILES, SIDECAR_FILE: note}
            folder_below.complete(directory.final, directory.files, notes)

        # The disk flushes notes that many threads write together.
        _in_threads_if_many(complete, self._sealed)
        for folder_below, directory in self._sealed:
            folder_below.publish(directory.final)
            for file in directory.unread:
                self._verify(folder_below.storage, file)
        # Not earlier: after a failed commit, a second one may need the files of the engine.
        self.txn.own_temporarily(self.discard, "what was staged")

    @property
    def write_id(self) -> int:
        """The write id of the transaction on the table."""
        return self.txn.write_ids[self.table.ref.full_name]

    @property
    def rows(self) -> int:
        """Number of rows that will be added."""
        return sum(
            f.rows
            for (_, name), files in self.staged.items()
            if not holds_deletes(name)
            for f in files
        )

    @property
    def deletes(self) -> int:
        """Number of delete events that will be added."""
        return sum(
            f.rows for (_, name), files in self.staged.items() if holds_deletes(name) for f in files
        )

    @property
    def files(self) -> int:
        """Number of files that will be added."""
        return sum(len(files) for files in self.staged.values())

    @property
    def size(self) -> int:
        """Total size of the files."""
        return sum(file.bytes for files in self.staged.values() for file in files)

    @property
    def partitions(self) -> list[str]:
        """The names of the partitions that get files."""
        return sorted(name for name in self.partition_names if name is not None)

    @property
    def directories(self) -> list[Location]:
        """The paths of the directories that get files."""
        return [below(folder.root, folder.path, name) for folder, name in self.staged]

    def file_names(self, folder: OutputFolder, directory: str) -> list[str]:
        """The names that the files of one directory are published under."""
        return [self._file_name(file.bucket) for file in self.staged[folder, directory]]

    @property
    def partition_names(self) -> set[str | None]:
        """The names of the partitions that get files; None for a table without partitions."""
        return {folder.name for folder, _ in self.staged}

    def staged_deletes(self) -> dict[OutputFolder, Sequence[StagedFile]]:
        """The files of delete events, by the folders of their partitions."""
        return {
            folder: files for (folder, name), files in self.staged.items() if holds_deletes(name)
        }

    @property
    def emptied(self) -> list[str | None]:
        """The partitions that an overwrite leaves empty."""
        return [
            folder.name
            for (folder, name), files in self.staged.items()
            if not holds_deletes(name) and not any(file.rows for file in files)
        ]

    def take_new_partitions(self, table: HiveTable) -> list[HivePartition]:
        """Create the folders of new partitions, which the metastore then leaves unchanged.

        Args:
            table: The current definition of the table, which may have got columns since the
                partitions were located.

        Returns:
            The partitions that the metastore does not have yet, with the columns of the table.

        Raises:
            UnsupportedTable: A folder has files that would become visible.
        """
        names = {folder.name for folder, _ in self.staged if folder.is_new}
        new = [
            HivePartition.new(table, partition.values)
            for partition in self.located
            if partition.name in names
        ]
        write_ids = {
            folder.name: self.write_id
            for folder, name in self.staged
            if folder.name is not None and name.startswith("base_")
        }
        require_unused_partitions(self.client, table, new, write_ids, self.write_id)
        for partition in new:
            Storage.of(partition.folder).take_place()
        return new

    @property
    def located(self) -> list[HivePartition]:
        """The partitions that get files, as they were when they were located."""
        partitions = {folder.name: folder.partition for folder, _ in self.staged}
        return [partition for partition in partitions.values() if partition is not None]

    @property
    def _what(self) -> str:
        return f"Writing rows for {self.table.ref.full_name}"

    @abstractmethod
    def _file_name(self, bucket: int) -> str:
        """The name that a file is published under."""

    @abstractmethod
    def _finish(self, files: Sequence[NewFile], width: int | None) -> Sequence[StagedFile]:
        """Make the final files of the table, below their folders."""

    @abstractmethod
    def _write_empty(self, sink: Any) -> int:
        """Write a file without rows and return its size."""

    @abstractmethod
    def _verify(self, storage: Storage, file: StagedFile) -> None:
        """Compare the report of a task with the contents of its file.

        Raises:
            CorruptFile: They differ.
        """

    def _restamp_deletes(self, files: Mapping[OutputFolder, Sequence[StagedFile]]) -> None:
        """Stage earlier staged delete events again, with the write id of this transaction."""
        if files:
            raise WrongTableKind(f"{self.table.ref.full_name} is insert-only.")

    def _redistributed(self, groups: Groups, replace: bool) -> Groups:
        """Redistribute rows for partitions whose layout differs from their table's.

        An engine writes all rows by the layout of the table, before the partitions of the rows are
        known. The metastore also stores a layout for each partition, which does not change when the
        layout of the table is altered.

        Raises:
            TypeMismatch: A partition is clustered by a column that the table lacks.
            UnsupportedTable: A partition is sorted inside of its buckets.
        """
        layouts: dict[str | None, BucketLayout | None] = {}
        for name in {group[0].partition for group in groups}:
            partition = self._folders[name].partition
            require_unsorted(self.table, partition)
            layouts[name] = layout_of(self.table, partition)
        fitting: list[Sequence[FlatFile]] = []
        files_by_layout: dict[BucketLayout, list[FlatFile]] = {}
        for group in groups:
            layout = layouts[group[0].partition]
            if group[0].layout == layout:
                fitting.append(group)
            elif layout is None:
                # Any file may hold any row.
                alike = (dataclasses.replace(file, bucket=None, layout=None) for file in group)
                fitting.append([*alike])
            else:
                files_by_layout.setdefault(layout, []).extend(group)
        for layout, files in files_by_layout.items():
            target = self.flat_target(replace=replace)
            fitting += [(file,) for file in self.engine.rewrite(files, layout, target)]
        return fitting

    def _replaced(self, folder: OutputFolder) -> dict[str, Any]:
        """Describe the replaced files: older versions are readable while all of them exist."""
        rules = Rules.of(self.client.features.hides_compactions)
        storage = Storage.of(below(folder.root, folder.path))
        snapshot = self.txn.snapshot
        write_ids = snapshot.write_ids[self.table.ref.full_name]
        try:
            owner = TableOfFolder.of(self.table, self.txn)
            files = list_files(storage, owner, missing_ok=True)
            state = read_state(storage, files, write_ids, snapshot.txns, rules=rules)
            merged_deltas = [name for name in state.deltas if only_write_id(name) is None]
            notes = read_notes(storage, state, merged_deltas)
        except DataError:
            # A damaged partition can be overwritten, but older versions are not readable later.
            return {}
        read = [*filter(None, [state.base]), *state.originals, *state.deltas]
        return replacing(read, write_ids, notes)

    def _locate(self, names: Sequence[str | None]) -> None:
        """Locate existing and future partitions; an existing one with equal values is used."""
        missing_names = [name for name in names if name not in self._folders]
        if None in missing_names:
            self._folders[None] = OutputFolder(None, self.table.folder, "")
        partition_names = [name for name in missing_names if name is not None]
        existing = (
            self.client.get_partitions(self.table, partition_names) if partition_names else []
        )
        self.locate(existing)
        for name, equal in self._equal(
            [name for name in partition_names if name not in self._folders]
        ).items():
            if equal and equal[0] != name:
                self._locate(equal[:1])
                self._folders[name] = self._folders[equal[0]]
            else:
                # Only its place counts here: it is described again when it is added.
                values = [value for _, value in parse_partition_name(name)]
                self.locate([HivePartition.new(self.table, values)], are_new=True)

    def _with_equal(self, names: Sequence[str | None]) -> list[str | None]:
        """Append the existing partitions whose values equal those of some partitions."""
        equal = self._equal([name for name in names if name is not None])
        return [
            *dict.fromkeys(
                [
                    *names,
                    *(equal_name for equal_names in equal.values() for equal_name in equal_names),
                ]
            )
        ]

    def _equal(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The existing partitions whose values equal those of some partitions, by their names."""
        types = self.table.key_types
        if not names or have_one_text(types.values()):
            return {name: [] for name in names}
        if self._known is None:
            self._known = self.client.get_partition_names(self.table.ref)
        return equal_partitions(names, self._known, types)

    def _require_folders(self, names: Sequence[str | None]) -> None:
        """Refuse to add rows where the earlier ones are lost."""
        folders = [folder for folder in map(self._folders.__getitem__, names) if not folder.is_new]
        locations = [below(folder.root, folder.path) for folder in folders]
        for location in dict.fromkeys(locations):
            Storage.of(location).require_folder()

    def _stage_below(self, location: Location) -> StagedDirectories:
        """The staging area for directories that will appear below a location."""
        if location not in self._staged_below:
            self._staged_below[location] = StagedDirectories(
                location, self.txn, self.table.identity
            )
        return self._staged_below[location]

    def _delta(self, *, is_delete: bool = False) -> Delta:
        return Delta(self.write_id, self.write_id, self.statement, is_delete=is_delete)

    def _staging_folder(
        self, folder: OutputFolder, directory: Base | Delta, *, is_read: bool = False
    ) -> Folder:
        """The staging folder for the files of a directory."""
        final = f"{folder.path}/{directory.name}".lstrip("/")
        return self._stage_below(folder.root).folder("out", final, is_read=is_read)

    def _keep(self, folder: OutputFolder, directory: Base | Delta, file: StagedFile) -> None:
        """Register a file for publication."""
        self._stage_below(folder.root).keep(file)
        self.staged.setdefault((folder, directory.name), []).append(file)


# Files that a transaction adds to a full ACID table: rows with row ids, and delete events


# Files whose total size is below this limit are made in this process: faster than a Spark task.
LOCAL_BYTES = 64 << 20


class AcidOutput(TableOutput):
    """Everything that one statement of a transaction writes into a full ACID table."""

    SIDE_FILES: ClassVar[Mapping[str, bytes]] = {ACID_VERSION_FILE: b"2"}

    def delete_stager(self, partitions: Sequence[PartitionFiles]) -> DeleteStager:
        """Return a function that stages sorted delete events; see the base class."""
        self._locate([partition.name for partition in partitions])
        directory = self._delta(is_delete=True)
        folders = [self._folders[partition.name] for partition in partitions]
        staging = [self._staging_folder(folder, directory, is_read=True) for folder in folders]
        return delete_stager(staging, self.write_id, orc_row_types(self.table), self.codec)

    def _restamp_deletes(self, files: Mapping[OutputFolder, Sequence[StagedFile]]) -> None:
        directory = self._delta(is_delete=True)
        row_types = orc_row_types(self.table)
        every = [(folder, file) for folder in files for file in files[folder]]

        def restamp(entry: tuple[OutputFolder, StagedFile]) -> StagedFile:
            folder, file = entry
            delete_file = AcidFile(
                below(folder.root, file.path), None, file.bucket, file.bytes, exact=True
            )
            ids = read_events([delete_file], self.txn.snapshot.write_ids[self.table.ref.full_name])
            numbers = [pa.repeat(0, len(ids.rows)), pa.repeat(file.bucket, len(ids.rows))]
            batch = pa.record_batch([*numbers, *map(pa.array, ids)], _EVENT_COLUMNS)
            staging = [self._staging_folder(folder, directory, is_read=True)]
            stage = delete_stager(staging, self.write_id, row_types, self.codec)
            (row,) = (row for report in stage([batch]) for row in report.to_pylist())
            return reported_file(row)

        with translated_os_errors(self.table.folder):
            stamped_files = in_threads(restamp, every)
        for (folder, _), file in zip(every, stamped_files, strict=True):
            self._keep(folder, directory, file)

    def _finish(self, files: Sequence[NewFile], width: int | None) -> Sequence[StagedFile]:
        """Assign row ids to the rows, file by file."""
        if max(file.bucket for file in files) > MAX_WRITER_ID:
            raise UnsupportedTable(
                f"Too many tasks wrote rows of one partition of {self.table.ref.full_name}; "
                f"Hive knows {MAX_WRITER_ID + 1} writers.",
                remedy="Coalesce the source into fewer Spark partitions.",
            )
        stage = row_stager(self.write_id, self.statement, orc_row_types(self.table), width)
        if sum(file.bytes for file in files) <= LOCAL_BYTES:
            with translated_os_errors(self.table.folder):
                return in_threads(stage, files)
        return self.engine.finish(self._what, stage, files)

    def _write_empty(self, sink: Any) -> int:
        return write_empty_file(sink, orc_row_types(self.table), codec=self.codec).bytes

    def _file_name(self, bucket: int) -> str:
        return BucketFile(bucket).name

    def _verify(self, storage: Storage, file: StagedFile) -> None:
        with storage.open_input(file.path) as source:
            tail = OrcTail.read(source)
        if tail.rows != file.rows or not tail.is_acid:
            raise CorruptFile(
                f"{storage.location}/{file.path} has {tail.rows} rows, "
                f"its task reported {file.rows}.",
                remedy="Nothing was published; run the job again.",
            )


def _in_threads_if_many(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Apply a function to items; threads for a few would take longer."""
    if len(items) > THREADS:
        in_threads(work, items)
        return
    for item in items:
        work(item)


# Files that a transaction adds to an insert-only table: plain rows in the table's format


class InsertOnlyOutput(TableOutput):
    """Everything that one statement of a transaction writes into an insert-only table."""

    def _locate(self, names: Sequence[str | None]) -> None:
        super()._locate(names)
        ours = RowFormat.of(self.table)
        for folder in map(self._folders.__getitem__, names):
            partition = folder.partition
            if partition is None or folder.is_new:
                continue
            theirs = RowFormat.of(self.table, partition)
            if theirs.format is not ours.format or (ours.format.is_text and theirs != ours):
                raise UnsupportedTable(
                    f"The partition {partition.name} of {self.table.ref.full_name} has another "
                    "format or other columns than the table: Hive would misread new files.",
                    remedy="Alter the partition first, as ALTER TABLE ... CASCADE does.",
                )

    def _finish(self, files: Sequence[NewFile], width: int | None) -> Sequence[StagedFile]:
        """Copy the files to their staging folders and count their rows."""
        return self.engine.finish(self._what, RowFormat.of(self.table).stager(), files)

    def _write_empty(self, sink: Any) -> int:
        return RowFormat.of(self.table).write_empty(sink)

    def _file_name(self, bucket: int) -> str:
        return OriginalFile(bucket, 0).name

    def _verify(self, storage: Storage, file: StagedFile) -> None:
        with storage.open_input(file.path) as source:
            size = source.seek(0, 2)
        if size != file.bytes:
            raise CorruptFile(
                f"{storage.location}/{file.path} has {size} bytes, its task reported {file.bytes}.",
                remedy="Nothing was published; run the job again.",
            )
