"""Staged files of a statement, by the directories that they will be in, and their totals."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hiveacid.errors import StorageError
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import holds_deletes, staging_txn
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import HiddenFolder
from hiveacid.storage.new_folders import require_unused_partitions
from hiveacid.storage.staging import FlatFile, StagedFile


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
    root: str
    path: str
    partition: HivePartition | None = field(default=None, compare=False)
    is_new: bool = field(default=False, compare=False)


class StagedWork(ABC):
    """Totals of the staged files.

    Attributes:
        client: The metastore.
        table: The table.
        txn: The transaction.
        staged: The files, by the folder and the name of the directory that they will be published
            in.
    """

    client: MetastoreClient
    table: HiveTable
    txn: Transaction
    staged: dict[tuple[OutputFolder, str], list[StagedFile]]

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
    def directories(self) -> list[str]:
        """The paths of the directories that get files."""
        return [
            "/".join(filter(None, [folder.root.rstrip("/"), folder.path, name]))
            for folder, name in self.staged
        ]

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
        replaced = {
            folder.name: self.write_id
            for folder, name in self.staged
            if folder.name is not None and name.startswith("base_")
        }
        require_unused_partitions(self.client, table, new, replaced, self.write_id)
        for partition in new:
            Storage.of(partition.folder).take_place()
        return new

    @property
    def located(self) -> list[HivePartition]:
        """The partitions that get files, as they were when they were located."""
        partitions = {folder.name: folder.partition for folder, _ in self.staged}
        return [partition for partition in partitions.values() if partition is not None]

    @abstractmethod
    def _file_name(self, bucket: int) -> str:
        """The name that a file is published under."""


# Hidden folders that one transaction takes over from another


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
        """One of Spark's files at its new path."""
        return replace(file, path=self.path(file.root, file.path))

    def path(self, root: str, path: str) -> str:
        """The new path of a file; its folder is taken over with all its contents.

        Args:
            root: The folder that contains the hidden folder.
            path: The path below it, which begins with the hidden folder.

        Raises:
            StorageError: A cleaner has already removed the hidden folder.
        """
        name, _, rest = path.partition("/")
        if (root, name) not in self._names:
            folder = HiddenFolder.until_the_end_of(self.txn, root)
            if staging_txn(name) is None:
                raise StorageError(f"{root}/{name} is no hidden folder.")
            folder.storage.rename(name, folder.name)
            self._names[root, name] = folder.name
        return f"{self._names[root, name]}/{rest}"
