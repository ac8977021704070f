"""A statement of a transaction with staged files, and the events for its published files."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, Self

from pyspark.sql import SparkSession

from hiveacid.errors import CorruptFile, UserError
from hiveacid.jobs.reports.report import TableReport
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.metastore.write_events import AddedFile, AddedFiles, add_write_events
from hiveacid.progress import Phase
from hiveacid.rules.conflicts import WriteKind, kind_of
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.write.context import Counts, WriteContext
from hiveacid.spark.write.statement import Statement
from hiveacid.spark.write.table_output import TableOutput
from hiveacid.spark.write.taken_folders import TakenFolders
from hiveacid.storage.filesystems import keeps_checksums
from hiveacid.storage.threads import in_threads


@dataclass(frozen=True)
class Part:
    """A statement of the transaction whose files are staged.

    Attributes:
        statement: The statement.
        context: The context that the statement ran in.
        counts: The numbers of changed rows.
        column_mapping: The mapping of the columns of the rewritten rows, if another mapping would
            read other values.
    """

    statement: Statement
    context: WriteContext
    counts: Counts
    column_mapping: str | None

    @property
    def output(self) -> TableOutput:
        """The staged output."""
        return self.context.output

    @property
    def name(self) -> str:
        """The full name of the table."""
        return self.ref.full_name

    @property
    def ref(self) -> TableRef:
        """The table."""
        return self.statement.table.ref

    @property
    def overwrites(self) -> bool:
        """Whether the statement replaces rows without reading them."""
        return self.statement.operation is Operation.OVERWRITE

    @property
    def kind(self) -> WriteKind:
        """The kind of the write, for the conflict matrix."""
        return kind_of(self.statement.operation)

    def moved_to(self, txn: Transaction) -> Self:
        """Return the same part as work of another transaction."""
        output = self.output.moved_to(txn)
        return replace(self, context=replace(self.context, txn=txn, output=output))

    def detached(self, taken: TakenFolders) -> Self:
        """Return the part without an owning transaction; see ``TableOutput.detached``."""
        return replace(self, context=replace(self.context, output=self.output.detached(taken)))

    def restaged_in(self, txn: Transaction) -> Self:
        """Assign a part from ``detached`` to a transaction."""
        output = self.output.restaged_in(txn)
        made = replace(self, context=replace(self.context, txn=txn, output=output))
        made.check_counts()
        return made

    def check_counts(self) -> None:
        """Compare the statement's row counts with the contents of its files.

        Raises:
            CorruptFile: They differ.
        """
        output, counts = self.output, self.counts
        wanted = (counts.inserted + counts.updated, counts.updated + counts.deleted)
        if wanted != (output.rows, output.deletes):
            raise CorruptFile(
                f"The statement made {wanted[0]} rows and {wanted[1]} deletes, its files hold "
                f"{output.rows} and {output.deletes}.",
                remedy="Nothing was published; run the job again.",
            )

    def report(self) -> TableReport:
        """Return the report on the table's changes."""
        return TableReport(
            table=self.name,
            rows_inserted=self.counts.inserted,
            rows_updated=self.counts.updated,
            rows_deleted=self.counts.deleted,
            files=self.output.files,
            bytes=self.output.size,
            partitions=tuple(self.output.partitions),
            column_mapping=self.column_mapping,
        )


def require_published_together(parts: Sequence[Part]) -> None:
    """Refuse parts that must not be published, once the written partitions are known.

    Raises:
        PartitionsMoved: A statement has written partitions that are not locked.
        UserError: Two statements write the same partition, and one of them overwrites it: the rows
            of the other statement would be lost.
    """
    for part in parts:
        part.context.require_locked(part.output.partitions)
    for one, other in combinations(parts, 2):
        if one.name != other.name or not (one.overwrites or other.overwrites):
            continue
        shared = one.output.partition_names & other.output.partition_names
        if shared:
            where = min(name or "the whole table" for name in shared)
            raise UserError(
                f"{one.name}: {where} is overwritten and written at the same time by two "
                "statements of one transaction.",
                remedy="Write all its rows by the one statement that overwrites.",
            )


def send_write_events(client: MetastoreClient, txn: Transaction, parts: Sequence[Part]) -> None:
    """Report the published files to the metastore's listeners, if it has any.

    Args:
        client: The metastore.
        txn: The transaction that is about to commit.
        parts: The statements of the transaction.
    """
    if not any(part.output.staged for part in parts) or not client.listeners.want_events:
        return
    with parts[0].context.phases(Phase.REGISTER, "the write events"):
        for ref, table in {part.ref: part.statement.table for part in parts}.items():
            write_id = txn.write_ids[ref.full_name]
            added = _added([part for part in parts if part.ref == ref])
            add_write_events(client, table, txn.txn_id, write_id, added)


def _added(parts: Sequence[Part]) -> list[AddedFiles]:
    """The files of one table's statements: one event for each written partition."""
    partitions: dict[str | None, HivePartition | None] = {}
    files: dict[str | None, list[AddedFile]] = defaultdict(list)
    for part in parts:
        for folder, _ in part.output.staged:
            partitions[folder.name] = folder.partition
        for partition, file in _files(part):
            files[partition].append(file)
    return [AddedFiles(partitions[name], each) for name, each in files.items()]


def _files(part: Part) -> Iterator[tuple[str | None, AddedFile]]:
    output = part.output
    named = [
        (folder.name, name, f"{directory}/{file}")
        for (folder, name), directory in zip(output.staged, output.directories, strict=True)
        for file in output.file_names(folder, name)
    ]
    locations = [location for _, _, location in named]
    checksums = in_threads(partial(_checksum, part.statement.spark), locations)
    for (partition, directory, location), checksum in zip(named, checksums, strict=True):
        yield partition, AddedFile(location, directory, checksum)


def _checksum(spark: SparkSession, location: str) -> str:
    if not keeps_checksums(location):
        return ""
    with translated_spark_errors(f"Reading the checksum of {location}"):
        java: Any = spark.sparkContext
        path = java._jvm.org.apache.hadoop.fs.Path(location)
        file_system = path.getFileSystem(java._jsc.hadoopConfiguration())
        checksum = file_system.getFileChecksum(path)
        return "" if checksum is None else bytes(checksum.getBytes()).hex()
