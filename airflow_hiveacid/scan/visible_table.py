"""A table as one reader sees it: its directories, and which writes of theirs count."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # noqa: TID253

from airflow_hiveacid.acid.directory import AcidDirectory, FileStatus, Rules
from airflow_hiveacid.acid.locks import MetastoreVersion, TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.acid.versions import AsOf
from airflow_hiveacid.acid.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.errors import NotTransactional, UnsupportedTable
from airflow_hiveacid.listing import DataFile, list_files, read_state
from airflow_hiveacid.maintenance.table_history import version_of
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.scan.columns import TableColumns
from airflow_hiveacid.scan.orc_file import OrcFile
from airflow_hiveacid.scan.parquet_file import ParquetFile
from airflow_hiveacid.scan.visible_rows import RowBatch, visible_rows
from airflow_hiveacid.storage import Storage


@dataclass(frozen=True)
class PartitionDirectory:
    """One directory with a base and deltas: a partition, or a table without partitions.

    Attributes:
        name: The partition's name, as the metastore escapes it.
        values: The texts of its keys; None is Hive's null.
        storage: Its folder.
        format: Of its files.
    """

    name: str | None
    values: Mapping[str, str | None]
    storage: Storage
    format: StorageFormat = StorageFormat.ORC


@dataclass(frozen=True)
class VisibleTable:
    """The directories of one table, and what one reader may see of them.

    Attributes:
        title: What messages call the table.
        partitioned: Whether it has partition keys.
        partitions: Its directories.
        write_ids: Which writes the reader sees.
        txns: Which compactions the reader sees; None is all.
        rules: Whose reading applies.
        strict: Whether what those rules read wrongly is an error.
        table: What the metastore says of it; None is a bare directory of a full ACID table, whose
            files are taken as they are.
        now: What a new reader sees of the table's writes, if an earlier version is read.
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

    @property
    def kind(self) -> TableKind:
        """Whether rows have ids."""
        return TableKind.FULL_ACID if self.table is None else self.table.kind

    def rows(
        self, partition: PartitionDirectory, wanted: TableColumns
    ) -> Iterator[tuple[RowBatch | None, pa.RecordBatch]]:
        """Read the rows of one directory of a table that the metastore knows.

        Yields:
            The rows as the files have them, with their row ids if there are any, and as the table has.

        Raises:
            UnsupportedTable: Its files hold lines of text.
        """
        assert self.table is not None
        keys = wanted.values(partition.values)
        names = [column.name for column in wanted.columns]
        if self.kind is TableKind.FULL_ACID:
            state = self.state(partition, list_files(partition.storage))
            known = [column.name for column in self.table.columns]
            for batch in visible_rows(
                partition.storage,
                state,
                self.write_ids,
                self.rules,
                names,
                known,
                bucketed=self.table.num_buckets > 0,
            ):
                yield batch, wanted.batch(batch.columns, keys)
            return
        for read in self._flat_files(partition):
            for rows in read(names):
                yield None, wanted.batch(rows, keys)

    def _flat_files(
        self, partition: PartitionDirectory
    ) -> Iterator[Callable[[Sequence[str]], Iterator[pa.RecordBatch]]]:
        """What reads each file of a directory of an insert-only table."""
        assert self.table is not None
        if partition.format.is_text:
            raise UnsupportedTable(
                f"{self.title} keeps its rows as lines of text.",
                remedy="Read it with AcidTable(...).to_df(), or as a source of `hiveacid sql`.",
            )
        storage = partition.storage
        state = self.state(partition, list_files(storage))
        known = [column.name for column in self.table.columns]
        for directory in ("", *filter(None, (state.base,)), *state.deltas):
            for file in state.files(directory):
                if not file.size:  # Not even a file of ORC or Parquet.
                    continue
                if partition.format is StorageFormat.PARQUET:
                    yield ParquetFile(storage, file.path).batches
                else:
                    data = DataFile(file.path, file.size, None, None, raw=True)
                    yield OrcFile(storage, data, known).flat

    def state(self, partition: PartitionDirectory, files: Sequence[FileStatus]) -> AcidDirectory:
        """Sort out one directory's files by this snapshot."""
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
    """Read a table inside a read transaction, which keeps every cleaner away from its files.

    Args:
        client: The metastore.
        ref: The table.
        rules: Whose reading applies; None is the metastore's version, without its mistakes.
        as_of: Which version is read; None is the newest.
        partitions: Chooses among the names of all partitions; None takes all.

    Raises:
        NotTransactional: There is nothing to see in such a table.
    """
    table = client.get_table(ref)
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{ref.full_name} is not a transactional table.")
    with Transaction(client, reads=[ref]) as txn:
        hive3 = client.version is MetastoreVersion.HMS3
        now = txn.snapshot.write_ids[ref.full_name]
        names = None
        if partitions is not None and table.partition_keys:
            names = partitions(table, client.get_partition_names(ref))
        yield VisibleTable(
            title=ref.full_name,
            partitioned=bool(table.partition_keys),
            partitions=_partitions_of_table(client, table, names),
            write_ids=version_of(client, ref, as_of, now),
            txns=txn.snapshot.txns,
            rules=rules or (Rules.HIVE3 if hive3 else Rules.HIVE4),
            strict=rules is None,
            table=table,
            now=now,
        )


def _partitions_of_table(
    client: MetastoreClient, table: HiveTable, names: Sequence[str] | None
) -> list[PartitionDirectory]:
    if not table.partition_keys:
        return [_directory_of(table, None)]
    return [_directory_of(table, each) for each in client.get_partitions(table.ref, names)]


def _directory_of(table: HiveTable, partition: HivePartition | None) -> PartitionDirectory:
    stored: Any = table.raw if partition is None else partition.raw
    return PartitionDirectory(
        name=None if partition is None else partition.name,
        values={
            key.name: value
            for key, value in zip(
                table.partition_keys, () if partition is None else partition.values, strict=False
            )
        },
        storage=Storage.of((table.location if partition is None else partition.location) or ""),
        format=StorageFormat.of(stored.sd.serdeInfo.serializationLib, table.ref.full_name),
    )
