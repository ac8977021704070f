"""What a write needs from the engine that evaluates its rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.jobs.checks import Check, QueryCheck, RowCheck
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.names import TableRef
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


@dataclass(frozen=True)
class Written:
    """What a transaction has written into one table, published but not visible to others.

    Attributes:
        table: The table.
        partitions: The names of the written partitions.
        directories: The published directories, by their full paths.
    """

    table: HiveTable
    partitions: Sequence[str] = ()
    directories: frozenset[str] = frozenset()

    def has(self, path: str) -> bool:
        """Whether a file is one of the published ones."""
        return path.rpartition("/")[0] in self.directories


@dataclass(frozen=True)
class Violations:
    """Rows that violate a check.

    Attributes:
        count: Their number.
        shown: Some of them.
    """

    count: int
    shown: Sequence[Mapping[str, Any]] = ()


class CheckEvaluator(ABC):
    """Evaluates the checks of one write by the means of an engine."""

    @abstractmethod
    def prepare(self, tables: Mapping[str, HiveTable], checks: Sequence[Check]) -> list[TableRef]:
        """Refuse invalid checks before any work, and return the transactional tables they read.

        Args:
            tables: The targets of the statements, by their full names.
            checks: The checks, each with its table.
        """

    @abstractmethod
    def begin(self, txn: Transaction, tables: Mapping[str, Written]) -> None:
        """Read as a transaction whose files are published.

        Args:
            txn: The transaction.
            tables: What it has written, by the full names of the tables.
        """

    @abstractmethod
    def count(self, table: Written) -> int:
        """Count all rows of a table."""

    @abstractmethod
    def violating_rows(self, table: Written, checks: Sequence[RowCheck]) -> list[Violations]:
        """Evaluate conditions, which all are for the written rows, or all for the whole table."""

    @abstractmethod
    def returned_rows(self, check: QueryCheck) -> Violations:
        """Evaluate a check of several rows."""

    @abstractmethod
    def arrow(self, table: Written) -> pa.Table:
        """Return the written rows, with the names of their columns in lower case."""

    @abstractmethod
    def frame(self, table: Written) -> Any:
        """Return the written rows as a frame of Spark."""


class RowEngine(ABC):
    """Evaluates the rows of statements; everything else in a write is independent of it."""

    @abstractmethod
    def running(self, subject: str, group: str | None = None) -> AbstractContextManager[None]:
        """Run a statement or its preparation, and end all its work after an error.

        Args:
            subject: Its name, for the engine's own records.
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
        self, subject: str, stage: Callable[[NewFile], StagedFile], files: Sequence[NewFile]
    ) -> Sequence[StagedFile]:
        """Make the final files of a table by a function that other processes may run.

        Args:
            subject: The name of the work, at the beginning of error messages.
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
    def checks(self, client: MetastoreClient) -> CheckEvaluator:
        """Return an evaluator of the checks of one write."""

    @abstractmethod
    def checksum(self, location: str) -> str:
        """Return the checksum of a file that its file system keeps, or an empty text."""
