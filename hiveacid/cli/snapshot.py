"""A table as the arguments of a command ask for it: by name, or a bare directory."""

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

from hiveacid.cli import target
from hiveacid.errors import UserError
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules import names
from hiveacid.rules.directory import Rules
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from hiveacid.storage.folder import Storage
from hiveacid.tables.scan.visible_table import PartitionDirectory, VisibleTable, snapshot_of

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


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
            snapshot_of(client, ref, _rules(arguments), arguments.as_of) as snapshot,
        ):
            yield snapshot
    elif arguments.path and not arguments.table:
        if arguments.as_of:
            raise UserError("The versions of a bare directory are given by --write-ids.")
        if not arguments.write_ids:
            raise UserError(
                "A bare directory needs a snapshot.",
                remedy="Add --write-ids, for example 'db.t:5:9223372036854775807::'.",
            )
        yield _snapshot_of_path(arguments)
    else:
        raise UserError("Name a table: DB.TABLE with --metastore, or --path with --write-ids.")


def _snapshot_of_path(arguments: argparse.Namespace) -> VisibleTable:
    compactor = arguments.write_id_kind == "compactor"
    kind = CompactorWriteIdList if compactor else ValidWriteIdList
    path = arguments.path
    # The user of the command names the folder.
    root = Storage.of(Location(path if _SCHEME.match(path) else os.path.abspath(path)))
    partitioned = _is_partition_folder(root)
    partitions = _find_partitions(root, ()) if partitioned else [PartitionDirectory(None, {}, root)]
    return VisibleTable(
        title=root.location,
        partitioned=partitioned,
        partitions=partitions,
        write_ids=kind.parse(arguments.write_ids),
        txns=ValidTxnList.parse(arguments.txns) if arguments.txns else None,
        rules=_rules(arguments) or Rules.HIVE4,
        strict=arguments.rules is None,
    )


def _rules(arguments: argparse.Namespace) -> Rules | None:
    return None if arguments.rules is None else Rules(arguments.rules)


def _is_partition_folder(storage: Storage) -> bool:
    """Whether a directory contains partitions instead of the files of one."""
    children = [name for name in storage.list_directories() if not names.is_hidden(name)]
    return any(_is_partition_name(name) for name in children) and not any(
        names.parse_directory(name) for name in children
    )


def _is_partition_name(name: str) -> bool:
    return "=" in name and not names.is_hidden(name)


def _find_partitions(storage: Storage, path: tuple[str, ...]) -> list[PartitionDirectory]:
    partitions = []
    for name in sorted(filter(_is_partition_name, storage.list_directories())):
        child = Storage.of(below(storage.location, name))
        if _is_partition_folder(child):
            partitions += _find_partitions(child, (*path, name))
        else:
            whole = "/".join((*path, name))
            partitions.append(
                PartitionDirectory(whole, dict(names.parse_partition_name(whole)), child)
            )
    return partitions
