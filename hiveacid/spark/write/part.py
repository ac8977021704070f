"""A statement of a transaction with staged files, and the events for its published files."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, Self

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import CorruptFile, OverlapRefused, UserError
from hiveacid.jobs.report import TableReport
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.metastore.write_events import AddedFile, AddedFiles, add_write_events
from hiveacid.progress import Phase
from hiveacid.records.overlaps import committed_since, read_note, writers_in
from hiveacid.rules.locks import (
    Finished,
    Operation,
    WriteKind,
    describe_renumbered,
    describe_shared_rows,
    kind_of,
)
from hiveacid.rules.names import Delta, TableRef, parse_directory, parse_file
from hiveacid.rules.notes import trace_row_ids
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.acid_snapshot import PARTITION, WRITE_ID, Ids, are_in, read_events
from hiveacid.spark.read.files import AcidFile, KeyRange, PartitionFiles
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.write.staged_work import OutputFolder, TakenFolders
from hiveacid.spark.write.statement import Counts, Statement, WriteContext
from hiveacid.spark.write.table_output import TableOutput
from hiveacid.storage.filesystems import in_threads, keeps_checksums
from hiveacid.storage.folder import Storage
from hiveacid.storage.staging import StagedFile


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


# Row-level validation of a change that was prepared concurrently, under the policy rows.
#
# The change was prepared on one snapshot and is about to be committed on a later one, under the
# lock that excludes all other changes. In between, others may have committed. The change is valid
# if the row ids that it names still identify the same rows, no other change has deleted one of
# these rows, and a merge would have matched no new row.


@dataclass(frozen=True)
class RowOverlaps:
    """Concurrent commits between the snapshot of a change and its commit.

    Attributes:
        client: The metastore.
        by: A description of the job's user and run.
        since: The snapshot that the change was prepared on.
        txn: The transaction that commits the change and excludes other changes.
    """

    client: MetastoreClient
    by: str
    since: Snapshot
    txn: Transaction

    def require_none(self, part: Part) -> None:
        """Make sure that a change is still valid.

        Args:
            part: The staged change.

        Raises:
            OverlapRefused: Others have changed a row of the change, written a row that the change
                would have matched, or renumbered rows.
        """
        write_ids = self.txn.snapshot.write_ids[part.name]
        new = committed_since(self.since.write_ids[part.name], write_ids)
        new -= {self.txn.write_ids[part.name]}
        # Also without concurrent writes: a rebalance assigns new row ids.
        for folder, files in part.output.staged_deletes().items():
            if deleted := self._count_deleted(part, folder, files, new):
                names = [folder.name]
                raise self._refusal(part, names, new, f"{deleted} of the rows that it changes")
        if new and part.statement.depends_on_new_rows:
            self._require_no_new_match(part, new)

    def require_same_row_ids(self, part: Part, partition: PartitionFiles) -> frozenset[str]:
        """Make sure that row ids which a statement has read still identify the same rows.

        Args:
            part: The statement.
            partition: The current files of a partition.

        Returns:
            The directories that compactions have replaced since they were read.

        Raises:
            OverlapRefused: The rows may have new row ids, or the files that were read are
                unknown.
        """
        read = part.output.read_from.get(partition.name, frozenset())
        note = partial(read_note, Storage.of(partition.location))
        trace = trace_row_ids(read, partition.read_from, note)
        is_unknown = not read and any(
            folder.name == partition.name for folder in part.output.staged_deletes()
        )
        if trace.unproven or is_unknown:
            raise OverlapRefused(
                describe_renumbered(part.name, partition.name, part.kind, self.by, trace.unproven)
            )
        return trace.replaced

    def _count_deleted(
        self,
        part: Part,
        folder: OutputFolder,
        files: Sequence[StagedFile],
        new: Collection[int],
    ) -> int:
        """Count the rows that the change deletes and others have deleted since."""
        partitions = [] if folder.partition is None else [folder.partition]
        now = TableReader(self.client, self.txn).acid_snapshot(part.statement.table, partitions)
        (partition,) = now.partitions
        replaced = self.require_same_row_ids(part, partition)
        mine = read_events([(0, _as_acid(folder, file)) for file in files], now.write_ids)[:3]
        deletes = [*partition.deletes, *self._compacted_deletes(part, partition, replaced, new)]
        candidates = [file for file in deletes if _may_have(file, new)]
        own = _key_range(mine)
        events = []
        for file, tail in zip(candidates, now.tails.of(candidates), strict=True):
            keys = KeyRange.of(tail)
            if keys is None or keys.may_share(own):
                events.append((0, file))
        theirs = read_events(events, now.write_ids)[:3]
        return int(are_in(theirs, mine).sum())

    def _compacted_deletes(
        self, part: Part, partition: PartitionFiles, replaced: Collection[str], new: Collection[int]
    ) -> Iterator[AcidFile]:
        """List the delete events of some write ids that compactions have applied to rows.

        Raises:
            OverlapRefused: A cleaner has removed them.
        """
        storage = Storage.of(partition.location)
        for name in sorted(replaced):
            directory = parse_directory(name)
            if not isinstance(directory, Delta) or not directory.is_delete:
                continue
            if not any(own in directory.write_ids for own in new):
                continue
            listed = storage.list_files(name, missing_ok=True)
            if not listed:
                what = f"rows of {name}, which has been compacted and removed,"
                raise self._refusal(part, [partition.name], new, what)
            for file in listed:
                if data := parse_file(file.path):
                    path = f"{partition.location.rstrip('/')}/{name}/{file.path}"
                    yield AcidFile(path, directory, data.bucket, file.size, exact=False)

    def _require_no_new_match(self, part: Part, new: Collection[int]) -> None:
        """Make sure that the change would not have matched a new row."""
        context, statement = part.context, part.statement
        names: Sequence[str] = ()
        if statement.table.partition_keys:
            locked = context.locks
            names = context.partition_names() if locked is None else locked
        partitions = self.client.get_partitions(statement.table, names) if names else []
        reader = TableReader(self.client, self.txn)
        snapshot = reader.acid_snapshot(statement.table, partitions)
        added = [_only_new(partition, new) for partition in snapshot.partitions]
        if not any(partition.inserts for partition in added):
            return
        is_new = F.col(WRITE_ID).isin(sorted(new))
        for number, partition in enumerate(snapshot.partitions):
            if partition.name not in part.output.read_from:
                is_new |= F.col(PARTITION) == number
            elif added[number].inserts:
                # An ordered rebalance assigns existing write ids to new rows.
                self.require_same_row_ids(part, partition)
        rows = replace(snapshot, partitions=added).rows(context.spark).where(is_new)
        with translated_spark_errors(f"Comparing {part.name} with concurrent writes"):
            met = statement.would_act_on(context, rows)
        if met:
            touched = [each.name for each in added if each.inserts]
            raise self._refusal(part, touched, new, "a row that it would have met")

    def _refusal(
        self, part: Part, names: Collection[str | None], new: Collection[int], what: str
    ) -> OverlapRefused:
        finished = list(self._finished(part.ref, names, new))
        return OverlapRefused(describe_shared_rows(part.name, part.kind, self.by, what, finished))

    def _finished(
        self, table: TableRef, names: Collection[str | None], new: Collection[int]
    ) -> Iterator[Finished]:
        yield from writers_in(self.client, table, names, new, self.txn.snapshot.txns)


def _as_acid(folder: OutputFolder, file: StagedFile) -> AcidFile:
    path = f"{Storage.of(folder.root).location.rstrip('/')}/{file.path}"
    return AcidFile(path, None, file.bucket, file.bytes, exact=True)


def _key_range(ids: Sequence[Ids]) -> KeyRange:
    if not len(ids[0]):
        return KeyRange(0)
    write_ids, buckets, rows = ((int(part.min()), int(part.max())) for part in ids)
    return KeyRange(len(ids[0]), write_ids, buckets, rows)


def _only_new(partition: PartitionFiles, new: Collection[int]) -> PartitionFiles:
    return replace(
        partition, inserts=tuple(file for file in partition.inserts if _may_have(file, new))
    )


def _may_have(file: AcidFile, write_ids: Collection[int]) -> bool:
    """Whether a file may contain rows or events of some write ids."""
    directory = file.directory
    return directory is not None and any(own in directory.write_ids for own in write_ids)
