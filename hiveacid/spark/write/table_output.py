"""Output of one statement of a transaction: staged in hidden folders, then published.

This module contains the part that all kinds of tables share; the kind determines the file contents.
"""

import dataclasses
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import DataError, InsertOnlyTable
from hiveacid.metastore.catalog import HivePartition, HiveTable, layout_of
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import (
    SIDECAR_FILE,
    Base,
    Delta,
    holds_deletes,
    parse_partition_name,
    split_location,
)
from hiveacid.rules.notes import WrittenFile, directory_note, only_write_id, replacing
from hiveacid.rules.partitions import equal_partitions, have_one_text
from hiveacid.rules.schema import BucketLayout
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.files import PartitionFiles
from hiveacid.spark.write.flat_rows import AcidRowFiles, FlatRows, FlatRowsWriter, RowFiles
from hiveacid.spark.write.redistribution import redistributed
from hiveacid.spark.write.staged_work import OutputFolder, StagedWork, TakenFolders
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import list_files, read_notes, read_state
from hiveacid.storage.staging import (
    FlatFile,
    Folder,
    NewFile,
    StagedDirectories,
    StagedFile,
    staged_file,
)


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


@dataclass
class TableOutput(StagedWork):
    """Everything that one statement of a transaction writes into its table.

    Attributes:
        spark: The session.
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

    spark: SparkSession
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
        # The staged inputs, to stage them again with another write id.
        self._taken: list[tuple[Sequence[Sequence[FlatFile]], bool, int | None]] = []
        self._deleted: list[tuple[DataFrame | pa.Table, Sequence[PartitionFiles]]] = []
        self.read_from: dict[str | None, frozenset[str]] = {}

    def locate(self, partitions: Sequence[HivePartition], *, are_new: bool = False) -> None:
        """Record the folders of partitions: a partition is written to the folder it is read from.

        Args:
            partitions: Some partitions.
            are_new: Whether they must still be added to the metastore.
        """
        for partition in partitions:
            below = split_location(self.table.folder, partition.folder)
            folder = OutputFolder(partition.name, *below, partition, are_new)
            self._folders.setdefault(partition.name, folder)

    def write_rows(self, frame: DataFrame, *, replace: bool = False) -> None:
        """Stage the rows of a frame, one file for each file that Spark writes.

        Args:
            frame: The table's columns and partition columns, in their types.
            replace: Whether the rows become a base, which hides all earlier rows, or a delta.
        """
        flat = self.write_flat(frame, replace=replace)
        self.take([(file,) for file in flat.files], replace=replace)

    def write_flat(
        self,
        frame: DataFrame,
        *,
        has_fate: bool = False,
        scattered: bool = False,
        replace: bool = False,
        written: str | None = None,
        layout: BucketLayout | None = None,
    ) -> FlatRows:
        """Write rows by Spark that may be staged later.

        Args:
            frame: The table's columns, other columns that the table does not take, and its
                partition columns.
            has_fate: Whether the frame has the column FATE, which separates rows.
            scattered: Whether the rows may come in small parts from many tasks.
            replace: See ``write_rows``.
            written: See ``FlatRowsWriter.write_rows``.
            layout: The distribution of rows over files; None means the layout of the table.
        """
        self._flat_folders += 1
        folder = self._stage_below(self.table.folder).folder(f"flat{self._flat_folders}")
        layout = layout or layout_of(self.table)
        files = self._row_files(replace)
        writer = FlatRowsWriter(self.spark, self.table, files, layout, self.rules)
        return writer.write_rows(
            frame, folder, has_fate=has_fate, scattered=scattered, written=written
        )

    def take(
        self,
        groups: Sequence[Sequence[FlatFile]],
        *,
        replace: bool = False,
        width: int | None = None,
    ) -> None:
        """Stage files that Spark has written.

        Args:
            groups: Files of one partition and bucket that become one file. They are added to the
                existing partition with equal values, if any.
            replace: See ``write_rows``.
            width: The number of leading columns that belong to the table; None means all.
        """
        names = [*dict.fromkeys(group[0].partition for group in groups)]
        self._locate(names)
        if not replace:
            self._require_folders(names)
        write = partial(self.write_flat, replace=replace)
        groups = redistributed(self.spark, self.table, groups, self._folders, write)
        self._taken.append((groups, replace, width))
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
        with translated_spark_errors(f"Writing rows for {self.table.ref.full_name}"):
            finished = self._finish(new_files, width) if new_files else []
        for target, file in zip(folders, finished, strict=True):
            if file.rows:
                self._keep(target, directory, file)
            else:
                self._stage_below(target.root).keep(file)
        if replace:
            self.write_empty_bases(self._with_equal(names)[len(names) :])

    def write_deletes(
        self, keys: DataFrame | pa.Table, partitions: Sequence[PartitionFiles]
    ) -> None:
        """Stage delete events.

        Args:
            keys: Unique row ids that are not deleted yet.
            partitions: The partitions that the partition numbers in the keys refer to.

        Raises:
            InsertOnlyTable: The table cannot hold delete events.
        """
        raise InsertOnlyTable(f"{self.table.ref.full_name} is insert-only: nothing can be deleted.")

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
            self._keep(folder, directory, file.made(0, 0, size))

    def record_read(self, partitions: Sequence[PartitionFiles]) -> None:
        """Record the directories and original files that rows are read from."""
        for each in partitions:
            known = self.read_from.get(each.name, frozenset())
            self.read_from[each.name] = known | each.read_from

    def moved_to(self, txn: Transaction) -> Self:
        """Return the same output as work of another transaction, without reading anything again.

        Args:
            txn: The transaction. If it has the write id that the files were staged with, the files
                are kept; otherwise they are made again from the files that Spark has written.
        """
        moved = dataclasses.replace(self, txn=txn, staged={})
        moved._folders = dict(self._folders)
        moved.read_from = self.read_from
        if moved.write_id == self.write_id:
            moved.staged = dict(self.staged)
            moved._taken = [*self._taken]
            return moved
        for groups, replace, width in self._taken:
            moved.take(groups, replace=replace, width=width)
        for keys, partitions in self._deleted:
            moved.write_deletes(keys, partitions)
        return moved

    def detached(self, taken: TakenFolders) -> Self:
        """Detach the output from its aborted transaction.

        Rows are kept in the files that Spark has written, delete events in the staged files.

        Args:
            taken: Takes over the hidden folders of the files.

        Raises:
            StorageError: A cleaner has already removed the files.
        """
        kept = dataclasses.replace(self, txn=taken.txn, staged={})
        # New partitions may exist by now.
        kept._folders = {name: each for name, each in self._folders.items() if not each.is_new}
        kept.read_from = self.read_from
        found: list[tuple[OutputFolder, str, StagedFile]] = []
        for (folder, name), files in self.staged.items():
            if holds_deletes(name):
                staged = self._stage_below(folder.root)
                ready = staged.withdraw(f"{folder.path}/{name}".lstrip("/"))
                for file in files:
                    path = f"{ready}/{self._file_name(file.bucket)}"
                    at = path if staged.storage.exists(path) else file.path
                    found.append((folder, name, dataclasses.replace(file, path=at, upload=None)))
            elif not any(file.rows for file in files):
                kept.staged[folder, name] = []
        # The paths change after all files are in the hidden folder.
        for folder, name, file in found:
            moved = dataclasses.replace(file, path=taken.path(folder.root, file.path))
            kept.staged.setdefault((folder, name), []).append(moved)
        kept._taken = [
            ([[taken.flat(file) for file in group] for group in groups], replace, width)
            for groups, replace, width in self._taken
        ]
        return kept

    def restaged_in(self, txn: Transaction) -> Self:
        """Assign the output from ``detached`` to a transaction with its own write id.

        Args:
            txn: The transaction.
        """
        made = dataclasses.replace(self, txn=txn, staged={})
        made._folders, made.read_from = dict(self._folders), self.read_from
        for groups, replace, width in self._taken:
            made.take(groups, replace=replace, width=width)
        made.restamp_deletes(self.staged_deletes())
        empty = [folder.name for (folder, name) in self.staged if not holds_deletes(name)]
        if empty:
            made.write_empty_bases(empty)
        return made

    def restamp_deletes(self, files: Mapping[OutputFolder, Sequence[StagedFile]]) -> None:
        """Stage earlier staged delete events again, with the write id of this transaction.

        Args:
            files: The staged files, by folder.
        """
        if files:
            raise InsertOnlyTable(f"{self.table.ref.full_name} is insert-only.")

    def discard(self) -> None:
        """Remove staged files that are not needed any more."""
        for staged in self._staged_below.values():
            staged.remove()

    def seal(self) -> None:
        """Verify all staged files, and collect what the notes of their directories state of them.

        Raises:
            CorruptFile: The report of a task differs from the contents of its file.
        """
        bases = [folder for folder, name in self.staged if name.startswith("base_")]
        replaced = dict(zip(bases, in_threads(self._replaced, bases), strict=True))
        for (folder, name), files in self.staged.items():
            staged = self._stage_below(folder.root)
            for file in files:
                if file.is_readable:
                    self._verify(staged.storage, file)
            facts = replaced[folder] if name.startswith("base_") else {}
            layout = layout_of(self.table, folder.partition)
            if layout is not None and not holds_deletes(name):
                facts = facts | layout.to_note()
            named = [(self._file_name(file.bucket), file) for file in files]
            directory = SealedDirectory(
                final=f"{folder.path}/{name}".lstrip("/"),
                files=named,
                written=[WrittenFile(name, file.rows, file.bytes) for name, file in named],
                facts=facts,
                unread=[file for file in files if not file.is_readable],
            )
            self._sealed.append((staged, directory))

    def publish(self, sidecar: Mapping[str, Any]) -> None:
        """Publish the sealed files, each directory by one rename.

        Args:
            sidecar: The content of the hidden note about the transaction in every directory.
        """
        for staged, directory in self._sealed:
            note = directory_note({**sidecar, **directory.facts}, directory.written)
            notes = {**self.SIDE_FILES, SIDECAR_FILE: note}
            staged.complete(directory.final, directory.files, notes)
        for staged, directory in self._sealed:
            staged.publish(directory.final)
            for file in directory.unread:
                self._verify(staged.storage, file)
        # Not earlier: after a failed commit, a second one may need the files that Spark wrote.
        self.txn.own_temporarily(self.discard, "what was staged")

    @abstractmethod
    def _row_files(self, replace: bool) -> RowFiles | AcidRowFiles:
        """The writer of Spark's row files."""

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

    def _replaced(self, folder: OutputFolder) -> dict[str, Any]:
        """Describe the replaced files: older versions are readable while all of them exist."""
        rules = Rules.of(self.client.version)
        storage = Storage.of("/".join(filter(None, [folder.root.rstrip("/"), folder.path])))
        seen = self.txn.snapshot
        write_ids = seen.write_ids[self.table.ref.full_name]
        try:
            files = list_files(storage, missing_ok=True)
            state = read_state(storage, files, write_ids, seen.txns, rules=rules)
            several = [name for name in state.deltas if only_write_id(name) is None]
            notes = read_notes(storage, state, several)
        except DataError:
            # A damaged partition can be overwritten, but older versions are not readable later.
            return {}
        read = [*filter(None, [state.base]), *state.originals, *state.deltas]
        return replacing(read, write_ids, notes)

    def _locate(self, names: Sequence[str | None]) -> None:
        """Locate existing and future partitions; an existing one with equal values is used."""
        wanted = [name for name in names if name not in self._folders]
        if None in wanted:
            self._folders[None] = OutputFolder(None, self.table.folder, "")
        named = [name for name in wanted if name is not None]
        existing = self.client.get_partitions(self.table, named) if named else []
        self.locate(existing)
        for name, equal in self._equal(
            [each for each in named if each not in self._folders]
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
        return [*dict.fromkeys([*names, *(each for found in equal.values() for each in found)])]

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
        known = [folder for folder in map(self._folders.__getitem__, names) if not folder.is_new]
        locations = ["/".join(filter(None, (folder.root, folder.path))) for folder in known]
        for location in dict.fromkeys(locations):
            Storage.of(location).require_folder()

    def _stage_below(self, location: str) -> StagedDirectories:
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
        return self._stage_below(folder.root).folder(f"out/{final}", final, is_read=is_read)

    def _keep(self, folder: OutputFolder, directory: Base | Delta, file: StagedFile) -> None:
        """Register a file for publication."""
        self._stage_below(folder.root).keep(file)
        self.staged.setdefault((folder, directory.name), []).append(file)
