"""A table as one reader sees it: its directories, and their visible writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedTable, WrongTableKind
from hiveacid.metastore.catalog import (
    HivePartition,
    HiveTable,
    StorageFormat,
    clustering_columns,
    require_orc,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.table_history import version_of
from hiveacid.rules.directory import AcidDirectory, FileStatus, Rules
from hiveacid.rules.names import TableRef, is_hidden_path
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import AsOf, CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import DataFile, list_files, read_state
from hiveacid.tables.scan.table_part import TablePart


@dataclass(frozen=True)
class PartitionDirectory:
    """One directory with a base and deltas: a partition, or a table without partitions.

    Attributes:
        name: The partition's name, as the metastore escapes it.
        values: The texts of its keys; null for Hive's null.
        storage: Its folder.
        format: The format of its files.
        clustered: Whether it has buckets.
    """

    name: str | None
    values: Mapping[str, str | None]
    storage: Storage
    format: StorageFormat = StorageFormat.ORC
    clustered: bool = False


@dataclass(frozen=True)
class VisibleTable:
    """The directories of one table, with the visibility for one reader.

    Attributes:
        title: The name of the table in messages.
        partitioned: Whether it has partition keys.
        partitions: Its directories.
        write_ids: The write ids that the reader sees.
        txns: The compactions that the reader sees; by default all.
        rules: The engine whose reading rules apply.
        strict: Whether data that those rules read incorrectly is an error.
        table: The metastore's definition; missing for a bare directory of a full ACID table, whose
            files are read as stored.
        now: The write ids that a new reader sees, if an earlier version is read.
        txn: The transaction of the read, whose end verifies it; missing for a bare directory.
        owner: The table as the owner of its folders; missing for a bare directory.
    """

    title: str
    partitioned: bool
    partitions: Sequence[PartitionDirectory]
    write_ids: ValidWriteIdList | CompactorWriteIdList
    txns: ValidTxnList | None
    rules: Rules
    strict: bool
    table: HiveTable | None = None
    now: ValidWriteIdList | None = None
    txn: Transaction | None = None
    owner: TableOfFolder | None = None

    @property
    def kind(self) -> TableKind:
        """The kind of the table, which determines whether rows have ids."""
        return TableKind.FULL_ACID if self.table is None else self.table.kind

    def part(self, partition: PartitionDirectory) -> TablePart:
        """Return one directory of a table in the metastore.

        Raises:
            UnsupportedTable: Its files hold lines of text.
        """
        assert self.table is not None
        storage, values = partition.storage, partition.values
        state = self.state(partition, self.files(partition))
        return TablePart.of(
            self.table,
            values,
            partition.format,
            storage,
            state,
            self.write_ids,
            self.rules,
            clustered=partition.clustered,
        )

    def verify(self) -> None:
        """Verify the listings until now, before rows leave the read; see ``Transaction.verify``."""
        if self.txn is not None:
            self.txn.verify()

    def files(self, partition: PartitionDirectory) -> list[FileStatus]:
        """List everything in one directory; see ``list_files``."""
        return list_files(partition.storage, self.owner)

    def state(self, partition: PartitionDirectory, files: Sequence[FileStatus]) -> AcidDirectory:
        """Classify one directory's files by this snapshot."""
        return read_state(
            partition.storage,
            files,
            self.write_ids,
            self.txns,
            rules=self.rules,
            strict=self.strict,
            now=self.now,
            flat=self.kind is TableKind.INSERT_ONLY,
        )


@contextmanager
def snapshot_of(
    client: MetastoreClient,
    ref: TableRef,
    rules: Rules | None = None,
    as_of: AsOf | None = None,
    partitions: Callable[[HiveTable, Sequence[str]], Sequence[str]] | None = None,
) -> Iterator[VisibleTable]:
    """Read a table inside a read transaction, which prevents cleaners from removing its files.

    The end of the ``with`` statement verifies the read: its result must not be used before,
    except after ``VisibleTable.verify``.

    Args:
        client: The metastore.
        ref: The table.
        rules: The engine whose reading rules apply; by default the metastore's version, without its
            bugs.
        as_of: The version to read; by default the newest.
        partitions: Selects from the names of all partitions; by default all.

    Raises:
        WrongTableKind: The table is not transactional.
        TableReplaced: The table was replaced meanwhile.
        TransactionAborted: The metastore has aborted the read.
    """
    table = existing_table(client, ref)
    if table.kind is TableKind.NOT_ACID:
        raise WrongTableKind(f"{ref.full_name} is not a transactional table.")
    with Transaction(client, reads=[ref]) as txn:
        current = txn.definitions.current(table)
        yield see_table(client, txn, current, rules, as_of, partitions)


def see_table(
    client: MetastoreClient,
    txn: Transaction,
    table: HiveTable,
    rules: Rules | None = None,
    as_of: AsOf | None = None,
    partitions: Callable[[HiveTable, Sequence[str]], Sequence[str]] | None = None,
) -> VisibleTable:
    """Return the view that a transaction has of a table; see ``snapshot_of``.

    Raises:
        TableReplaced: The table differs from its definition before the transaction.
    """
    table, ref = txn.definitions.confirmed(table), table.ref
    now = txn.snapshot.write_ids[ref.full_name]
    names = None
    if partitions is not None and table.partition_keys:
        names = partitions(table, client.get_partition_names(ref))
    return VisibleTable(
        title=ref.full_name,
        partitioned=bool(table.partition_keys),
        partitions=_partitions_of_table(client, table, names),
        write_ids=now if as_of is None else version_of(client, ref, as_of, now),
        txns=txn.snapshot.txns,
        rules=rules or Rules.of(client.features.hides_compactions),
        strict=rules is None,
        table=table,
        now=now,
        txn=txn,
        owner=TableOfFolder.of(table, txn),
    )


def plain_parts(client: MetastoreClient, table: HiveTable) -> Iterator[TablePart]:
    """List the current files of a plain table of ORC or Parquet, one part for each partition.

    Raises:
        UnsupportedTable: The files of a partition hold lines of text.
    """
    for directory in _partitions_of_table(client, table, None):
        if directory.format.is_text:
            raise UnsupportedTable(f"A partition of {table.ref} keeps its rows as lines of text.")
        files = directory.storage.list_files(recursive=True, missing_ok=True)
        yield TablePart(
            location=directory.storage.location,
            values=directory.values,
            format=directory.format,
            files=tuple(
                DataFile(file.path, file.size, None, None, raw=True)
                for file in files
                if file.size and not is_hidden_path(file.path)
            ),
            full_acid=False,
            clustered=False,
            columns=table.mapped_columns,
            write_ids=ValidWriteIdList(None, 0),
            rules=Rules.of(client.features.hides_compactions),
        )


def _partitions_of_table(
    client: MetastoreClient, table: HiveTable, names: Sequence[str] | None
) -> list[PartitionDirectory]:
    if not table.partition_keys:
        return [_directory_of(table, None)]
    return [_directory_of(table, partition) for partition in client.get_partitions(table, names)]


def _directory_of(table: HiveTable, partition: HivePartition | None) -> PartitionDirectory:
    require_orc(table, partition)
    definition: Any = table.raw if partition is None else partition.raw
    return PartitionDirectory(
        name=None if partition is None else partition.name,
        values={
            key.name: value
            for key, value in zip(
                table.partition_keys, () if partition is None else partition.values, strict=False
            )
        },
        storage=Storage.of(table.folder if partition is None else partition.folder),
        format=StorageFormat.of(definition.sd.serdeInfo.serializationLib, table.ref.full_name),
        clustered=bool(clustering_columns(table, partition)),
    )
