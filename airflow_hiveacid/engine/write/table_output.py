"""What one statement of a transaction adds to its table: staged out of sight, then published.

This is the half that all kinds of tables share; what goes into a file is up to the kind.
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

from airflow_hiveacid.acid.bucket_layout import BucketLayout
from airflow_hiveacid.acid.constraints import WriteRules
from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.acid.names import SIDECAR_FILE, Base, Delta, parse_partition_name
from airflow_hiveacid.acid.sidecar import WrittenFile, directory_note, replacing
from airflow_hiveacid.acid.write_facts import only_write_id
from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.read.files import PartitionFiles
from airflow_hiveacid.engine.write.flat_rows import AcidRowFiles, FlatRows, FlatRowsWriter
from airflow_hiveacid.engine.write.redistribution import redistributed
from airflow_hiveacid.engine.write.row_files import RowFiles
from airflow_hiveacid.engine.write.staged_directories import StagedDirectories
from airflow_hiveacid.engine.write.staged_files import (
    FlatFile,
    Folder,
    NewFile,
    StagedFile,
    staged_file,
)
from airflow_hiveacid.engine.write.staged_work import OutputFolder, StagedWork, holds_deletes
from airflow_hiveacid.engine.write.taken_folders import TakenFolders
from airflow_hiveacid.errors import DataError, InsertOnlyTable
from airflow_hiveacid.layout.listing import list_files, read_notes, read_state
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.storage_rules import layout_of
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.storage.folder import Storage


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
        rules: The constraints that rows have to meet; None if no rows are written.
        staged: The files, by the folder and the name of the directory that they will be
            published in.
        read_from: The directories and original files that rows of each partition were read from.
            A partition that is missing was not read, or it is unknown what was read.
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
        self._folders: dict[str | None, OutputFolder] = {}
        self._staged_below: dict[str, StagedDirectories] = {}
        self._flat_folders = 0
        # What was staged, so that it can be staged once more with another write id.
        self._taken: list[tuple[Sequence[Sequence[FlatFile]], bool, int | None]] = []
        self._deleted: list[tuple[DataFrame | pa.Table, Sequence[PartitionFiles]]] = []
        self.read_from: dict[str | None, frozenset[str]] = {}

    def locate(self, partitions: Sequence[HivePartition], *, are_new: bool = False) -> None:
        """Learn where partitions are: what is read in a folder is written there, too.

        Args:
            partitions: Some partitions.
            are_new: Whether they have yet to be added to the metastore.
        """
        root = self.table.folder.rstrip("/")
        for partition in partitions:
            location = partition.folder
            inside = location.startswith(f"{root}/")
            below = (root, location[len(root) + 1 :]) if inside else (location, "")
            folder = OutputFolder(partition.name, *below, partition, are_new)
            self._folders.setdefault(partition.name, folder)

    def write_rows(self, frame: DataFrame, *, replace: bool = False) -> None:
        """Stage the rows of a frame, a file for each of Spark's.

        Args:
            frame: The table's columns and partition columns, in their types.
            replace: Whether they become a base, which hides all earlier rows, or a delta.
        """
        flat = self.write_flat(frame, replace=replace)
        self.take([(file,) for file in flat.files], replace=replace)

    def write_flat(
        self,
        frame: DataFrame,
        *,
        fated: bool = False,
        scattered: bool = False,
        replace: bool = False,
        written: str | None = None,
        layout: BucketLayout | None = None,
    ) -> FlatRows:
        """Let Spark write rows that may be staged later on.

        Args:
            frame: The table's columns, others that it gets nothing of, and its partition columns.
            fated: Whether there is the column FATE, to keep rows apart by it.
            scattered: Whether the rows may come in small parts from many tasks.
            replace: See ``write_rows``.
            written: See ``FlatRowsWriter.write_rows``.
            layout: The distribution of rows over files; None is that of the table.
        """
        self._flat_folders += 1
        folder = self._stage_below(self.table.folder).folder(f"flat{self._flat_folders}")
        layout = layout or layout_of(self.table)
        files = self._row_files(replace)
        writer = FlatRowsWriter(self.spark, self.table, files, layout, self.rules)
        return writer.write_rows(frame, folder, fated=fated, scattered=scattered, written=written)

    def take(
        self,
        groups: Sequence[Sequence[FlatFile]],
        *,
        replace: bool = False,
        width: int | None = None,
    ) -> None:
        """Stage what Spark has written.

        Args:
            groups: Files of one partition, and of one bucket, that become one.
            replace: See ``write_rows``.
            width: How many columns belong to the table, from the first on; None is all.
        """
        self._locate([*dict.fromkeys(group[0].partition for group in groups)])
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
        with spark_errors_as_ours(f"Writing rows for {self.table.ref.full_name}"):
            finished = self._finish(new_files, width) if new_files else []
        for target, file in zip(folders, finished, strict=True):
            if file.rows:
                self._keep(target, directory, file)
            else:
                self._stage_below(target.root).keep(file)

    def write_deletes(
        self, keys: DataFrame | pa.Table, partitions: Sequence[PartitionFiles]
    ) -> None:
        """Stage delete events.

        Args:
            keys: The row ids, each once, none of them deleted before.
            partitions: What the numbers of partitions in the keys stand for.

        Raises:
            InsertOnlyTable: The table cannot hold any.
        """
        raise InsertOnlyTable(f"{self.table.ref.full_name} is insert-only: nothing can be deleted.")

    def write_empty_bases(self, names: Sequence[str | None]) -> None:
        """Stage a base without rows wherever an overwrite leaves none.

        It holds a real file of no rows, because Trino does not see a directory without one.
        """
        directory = Base(self.write_id)
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
        """Record which directories and original files rows are read from."""
        for each in partitions:
            known = self.read_from.get(each.name, frozenset())
            self.read_from[each.name] = known | each.read_from

    def moved_to(self, txn: Transaction) -> Self:
        """The same as the work of another transaction, which nothing has to be read again for.

        Args:
            txn: The transaction. Where it has the write id that the files were staged with, they
                stay what they are; else they are made once more out of what Spark has written.
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

    def kept_by(self, taken: TakenFolders) -> Self:
        """The same as nobody's work yet, after the transaction that it belonged to was aborted.

        Rows stay in what Spark has written of them, delete events in the files that were staged.

        Args:
            taken: Takes over the hidden folders that the files are in.

        Raises:
            StorageError: A cleaner was there before.
        """
        kept = dataclasses.replace(self, txn=taken.txn, staged={})
        # Those that were new may have been added.
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
        # When all is in its hidden folder, these get other names.
        for folder, name, file in found:
            moved = dataclasses.replace(file, path=taken.path(folder.root, file.path))
            kept.staged.setdefault((folder, name), []).append(moved)
        kept._taken = [
            ([[taken.flat(file) for file in group] for group in groups], replace, width)
            for groups, replace, width in self._taken
        ]
        return kept

    def made_again_in(self, txn: Transaction) -> Self:
        """What ``kept_by`` has made, as the work of a transaction with a write id of its own.

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
        """Stage delete events that were staged before, with the write id of this transaction.

        Args:
            files: Where they are.
        """
        if files:
            raise InsertOnlyTable(f"{self.table.ref.full_name} is insert-only.")

    def discard(self) -> None:
        """Remove what is staged, and not needed any more."""
        for staged in self._staged_below.values():
            staged.remove()

    def publish(self, sidecar: Mapping[str, Any]) -> None:
        """Let the staged files appear, each directory by one rename.

        Args:
            sidecar: What the hidden note about the transaction says in every directory.
        """
        bases = [folder for folder, name in self.staged if name.startswith("base_")]
        replaced = dict(zip(bases, in_threads(self._replaced, bases), strict=True))
        for (folder, name), files in self.staged.items():
            staged = self._stage_below(folder.root)
            for file in files:
                if file.is_readable:
                    self._verify(staged.storage, file)
            named = [(self._file_name(file.bucket), file) for file in files]
            written = [WrittenFile(name, file.rows, file.bytes) for name, file in named]
            told = {**sidecar, **(replaced[folder] if name.startswith("base_") else {})}
            layout = layout_of(self.table, folder.partition)
            told |= {} if layout is None or holds_deletes(name) else layout.to_note()
            notes = {**self.SIDE_FILES, SIDECAR_FILE: directory_note(told, written)}
            final = f"{folder.path}/{name}".lstrip("/")
            staged.complete(final, named, notes)
            staged.publish(final)
            for file in files:
                if not file.is_readable:
                    self._verify(staged.storage, file)
        # Not before: if the commit fails, a second one may need what the files were made of.
        self.txn.own_temporarily(self.discard, "what was staged")

    @abstractmethod
    def _row_files(self, replace: bool) -> RowFiles | AcidRowFiles:
        """How Spark writes the rows."""

    @abstractmethod
    def _finish(self, files: Sequence[NewFile], width: int | None) -> Sequence[StagedFile]:
        """Make the files that the table holds, below the folders that they go into."""

    @abstractmethod
    def _write_empty(self, sink: Any) -> int:
        """Write a file without rows and return its size."""

    @abstractmethod
    def _verify(self, storage: Storage, file: StagedFile) -> None:
        """Compare what a task reported with what its file says.

        Raises:
            CorruptFile: They differ.
        """

    def _replaced(self, folder: OutputFolder) -> dict[str, Any]:
        """What a base puts out of use, so that older versions can be read while all of it is there."""
        rules = Rules.of(self.client.version)
        storage = Storage.of("/".join(filter(None, [folder.root.rstrip("/"), folder.path])))
        seen = self.txn.snapshot
        write_ids = seen.write_ids[self.table.ref.full_name]
        try:
            state = read_state(storage, list_files(storage), write_ids, seen.txns, rules=rules)
            several = [name for name in state.deltas if only_write_id(name) is None]
            notes = read_notes(storage, state, several)
        except DataError:
            # What is damaged can be overwritten, and nobody can read it later on.
            return {}
        read = [*filter(None, [state.base]), *state.originals, *state.deltas]
        return replacing(read, write_ids, notes)

    def _locate(self, names: Sequence[str | None]) -> None:
        """Find out where partitions are, or will be."""
        wanted = [name for name in names if name not in self._folders]
        if None in wanted:
            self._folders[None] = OutputFolder(None, self.table.folder, "")
        named = [name for name in wanted if name is not None]
        existing = self.client.get_partitions(self.table.ref, named) if named else []
        self.locate(existing)
        for name in named:
            if name not in self._folders:
                values = [value for _, value in parse_partition_name(name)]
                self.locate([HivePartition.new(self.table, values)], are_new=True)

    def _stage_below(self, location: str) -> StagedDirectories:
        """Where to stage what will appear below a location."""
        if location not in self._staged_below:
            self._staged_below[location] = StagedDirectories(location, self.txn)
        return self._staged_below[location]

    def _delta(self, *, is_delete: bool = False) -> Delta:
        return Delta(self.write_id, self.write_id, self.statement, is_delete=is_delete)

    def _staging_folder(
        self, folder: OutputFolder, directory: Base | Delta, *, is_read: bool = False
    ) -> Folder:
        """Where the files of a directory wait until it is published."""
        final = f"{folder.path}/{directory.name}".lstrip("/")
        return self._stage_below(folder.root).folder(f"out/{final}", final, is_read=is_read)

    def _keep(self, folder: OutputFolder, directory: Base | Delta, file: StagedFile) -> None:
        """Have a file published."""
        self._stage_below(folder.root).keep(file)
        self.staged.setdefault((folder, directory.name), []).append(file)
