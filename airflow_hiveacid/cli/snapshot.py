"""Opening what a command looks at: its directories, and what one reader sees of them."""

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from airflow_hiveacid.acid import names
from airflow_hiveacid.acid.directory import AcidDirectory, FileStatus, Rules
from airflow_hiveacid.acid.locks import MetastoreVersion, TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.acid.versions import AsOf
from airflow_hiveacid.acid.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.cli import target
from airflow_hiveacid.errors import NotTransactional, UserError
from airflow_hiveacid.listing import read_state
from airflow_hiveacid.maintenance.table_history import version_of
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.transaction import Transaction
from airflow_hiveacid.storage import Storage

PartitionValue = str | int | float | bool | None

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True)
class PartitionDirectory:
    """One directory with a base and deltas: a partition, or a table without partitions."""

    name: str | None
    values: Mapping[str, PartitionValue]
    storage: Storage


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
        kind: Whether rows have ids.
        columns: The names of the table's columns; None takes those of every file as they are.
        now: What a new reader sees of the table's writes, if an earlier version is read.
    """

    title: str
    partitioned: bool
    partitions: Sequence[PartitionDirectory]
    write_ids: ValidWriteIdList | CompactorWriteIdList
    txns: ValidTxnList | None
    rules: Rules
    strict: bool
    kind: TableKind = TableKind.FULL_ACID
    columns: Sequence[str] | None = None
    now: ValidWriteIdList | None = None

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
def open_snapshot(arguments: argparse.Namespace) -> Iterator[VisibleTable]:
    """Find the directories and the snapshot that the arguments ask for.

    A table by name is read inside a read transaction with a lock, which keeps every cleaner away
    from its files for as long as the context lasts.
    """
    if arguments.table and not arguments.path:
        ref = TableRef.parse(arguments.table)
        with (
            closing(MetastoreClient(target.metastore(arguments))) as client,
            snapshot_of(client, ref, arguments.rules, arguments.as_of) as snapshot,
        ):
            yield snapshot
    elif arguments.path and not arguments.table:
        if arguments.as_of:
            raise UserError("The versions of a bare directory are said by --write-ids.")
        if not arguments.write_ids:
            raise UserError(
                "A bare directory needs a snapshot.",
                remedy="Add --write-ids, for example 'db.t:5:9223372036854775807::'.",
            )
        yield _snapshot_of_path(arguments)
    else:
        raise UserError("Say which table: DB.TABLE with --metastore, or --path with --write-ids.")


def _snapshot_of_path(arguments: argparse.Namespace) -> VisibleTable:
    compactor = arguments.write_id_kind == "compactor"
    kind = CompactorWriteIdList if compactor else ValidWriteIdList
    path = arguments.path
    root = Storage.of(path if _SCHEME.match(path) else os.path.abspath(path))
    partitioned = _is_partition_folder(root)
    partitions = _find_partitions(root, ()) if partitioned else [PartitionDirectory(None, {}, root)]
    return VisibleTable(
        title=root.location,
        partitioned=partitioned,
        partitions=partitions,
        write_ids=kind.parse(arguments.write_ids),
        txns=ValidTxnList.parse(arguments.txns) if arguments.txns else None,
        rules=arguments.rules or Rules.HIVE4,
        strict=arguments.rules is None,
    )


def _is_partition_folder(storage: Storage) -> bool:
    """Whether a directory holds partitions, and not the files of one."""
    children = [name for name in storage.list_directories() if not names.is_hidden(name)]
    return any(_is_partition_name(name) for name in children) and not any(
        names.parse_directory(name) for name in children
    )


def _is_partition_name(name: str) -> bool:
    return "=" in name and not names.is_hidden(name)


def _find_partitions(storage: Storage, path: tuple[str, ...]) -> list[PartitionDirectory]:
    partitions = []
    for name in sorted(filter(_is_partition_name, storage.list_directories())):
        child = Storage.of(f"{storage.location.rstrip('/')}/{name}")
        if _is_partition_folder(child):
            partitions += _find_partitions(child, (*path, name))
        else:
            whole = "/".join((*path, name))
            partitions.append(
                PartitionDirectory(whole, dict(names.parse_partition_name(whole)), child)
            )
    return partitions


@contextmanager
def snapshot_of(
    client: MetastoreClient,
    ref: TableRef,
    rules: Rules | None = None,
    as_of: AsOf | None = None,
) -> Iterator[VisibleTable]:
    """Read a table inside a transaction; see ``open_snapshot``.

    Args:
        client: The metastore.
        ref: The table.
        rules: Whose reading applies; None is the metastore's version, without its mistakes.
        as_of: Which version is read; None is the newest.

    Raises:
        NotTransactional: There is nothing to see in such a table.
    """
    table = client.get_table(ref)
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{ref.full_name} is not a transactional table.")
    with Transaction(client, reads=[ref]) as txn:
        hive3 = client.version is MetastoreVersion.HMS3
        now = txn.snapshot.write_ids[ref.full_name]
        yield VisibleTable(
            title=ref.full_name,
            partitioned=bool(table.partition_keys),
            partitions=_partitions_of_table(client, table),
            write_ids=version_of(client, ref, as_of, now),
            txns=txn.snapshot.txns,
            rules=rules or (Rules.HIVE3 if hive3 else Rules.HIVE4),
            strict=rules is None,
            kind=table.kind,
            columns=[column.name for column in table.columns],
            now=now,
        )


def _partitions_of_table(client: MetastoreClient, table: HiveTable) -> list[PartitionDirectory]:
    if not table.partition_keys:
        return [PartitionDirectory(None, {}, Storage.of(table.location or ""))]
    return [
        PartitionDirectory(
            partition.name,
            {
                key.name: _typed(value, key.type)
                for key, value in zip(table.partition_keys, partition.values, strict=True)
            },
            Storage.of(partition.location or ""),
        )
        for partition in client.get_partitions(table.ref)
    ]


def _typed(value: str | None, hive_type: str) -> PartitionValue:
    """Give a partition value, which the metastore keeps as text, the JSON type of its column."""
    if value is None:
        return None
    if hive_type in ("tinyint", "smallint", "int", "bigint"):
        return int(value)
    if hive_type in ("float", "double"):
        return float(value)
    return value.lower() == "true" if hive_type == "boolean" else value
