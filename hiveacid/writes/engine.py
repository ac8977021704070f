"""What a write needs from the engine that evaluates its rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.schema import BucketLayout
from hiveacid.storage.staging import FlatFile, Folder, NewFile, StagedFile
from hiveacid.tables.visible_files import FilesReader


@dataclass(frozen=True, slots=True)
class FlatTarget:
    """Where an engine writes rows in files without row ids, which a table takes later.

    Attributes:
        table: The table.
        codec: The compression of the files.
        for_base: Whether the rows are for a base, or for a delta.
        rules: The constraints that the rows must satisfy; None if no rows are written.
        folder: A folder of its own.
    """

    table: HiveTable
    codec: str
    for_base: bool
    rules: WriteRules | None
    folder: Folder


class RowEngine(ABC):
    """Evaluates the rows of statements; everything else in a write is independent of it."""

    @abstractmethod
    def running(self, what: str, group: str | None = None) -> AbstractContextManager[None]:
        """Run a statement or its preparation, and end all its work after an error.

        Args:
            what: Its name, for the engine's own records.
            group: Identifies its work while its files are staged.
        """

    @abstractmethod
    def reader(
        self, client: MetastoreClient, reading: Transaction, table: HiveTable, txn: Transaction
    ) -> FilesReader:
        """Return a reader for the statements of one transaction.

        Args:
            client: The metastore.
            reading: The transaction whose snapshot is read.
            table: The table whose folder stores rows that several statements read.
            txn: The transaction that these rows belong to.
        """

    @abstractmethod
    def finish(
        self, what: str, stage: Callable[[NewFile], StagedFile], files: Sequence[NewFile]
    ) -> Sequence[StagedFile]:
        """Make the final files of a table by a function that other processes may run.

        Args:
            what: The name of the work, at the beginning of error messages.
            stage: Makes one file.
            files: At least one file.
        """

    @abstractmethod
    def rewrite(
        self, files: Sequence[FlatFile], layout: BucketLayout, target: FlatTarget
    ) -> Sequence[FlatFile]:
        """Write the rows of files again, distributed by another layout.

        Args:
            files: Files that the engine has written.
            layout: The layout.
            target: The place of the new files.
        """

    @abstractmethod
    def checksum(self, location: str) -> str:
        """Return the checksum of a file that its file system keeps, or an empty text."""
