"""The rows of a staged change, for the person who decides whether it is published."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Self

import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.errors import StagedChangeRefused, UnsupportedTable
from hiveacid.jobs.sources import CHANGE, DELETE, INSERT
from hiveacid.jobs.stage_jobs import is_name
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.row_keys.row_id_set import RowIdSet
from hiveacid.records.staged_changes import StagedChangeFolder, StagedRows
from hiveacid.rules.directory import Rules
from hiveacid.rules.location import Location, below
from hiveacid.rules.names import STAGED_CHANGES, TableRef, parse_partition_name
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.listing import DataFile
from hiveacid.tables.locations import require_job_access
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.table_part import TablePart
from hiveacid.tables.scan.visible_table import PartitionDirectory, VisibleTable, see_table
from hiveacid.tables.visible_files import AcidFile, read_events
from hiveacid.writes.staged_change import require_described, require_partition


@dataclass(frozen=True)
class StagedFiles:
    """The files of a staged change in one of its tables, by the names of partitions.

    Attributes:
        table: The table.
        folder: The location of the files.
        inserts: The files of rows.
        deletes: The files of delete events.
        replaced: The partitions whose current rows an overwrite replaces.
    """

    table: HiveTable
    folder: Location
    inserts: Mapping[str | None, Sequence[StagedRows]]
    deletes: Mapping[str | None, Sequence[StagedRows]]
    replaced: frozenset[str | None]

    @classmethod
    def of(cls, table: HiveTable, name: str) -> Self:
        """Find the files of a staged change.

        Args:
            table: The table by its current definition.
            name: The staged change.

        Raises:
            StagedChangeRefused: It is missing or damaged, or the table has changed since then.
        """
        folder = StagedChangeFolder(table)
        if not is_name(name) or (change := folder.find(name)) is None:
            raise StagedChangeRefused(
                f"{table.ref} has no staged change {name}.",
                remedy=f"`hiveacid staged {table.ref}` lists them.",
            )
        folder.require_files(change)
        inserts: dict[str | None, list[StagedRows]] = {}
        deletes: dict[str | None, list[StagedRows]] = {}
        replaced_partitions: set[str | None] = set()
        for statement in change.statements:
            if statement.table.name != table.ref.full_name:
                continue
            require_described(table, statement.table, f"{table.ref}, which the change is for,")
            replaced_partitions.update(statement.emptied)
            for statement_input in statement.inputs:
                for group in statement_input.groups:
                    inserts.setdefault(group.partition, []).extend(group.files)
                    if statement_input.replace:
                        replaced_partitions.add(group.partition)
            for group in statement.deletes:
                deletes.setdefault(group.partition, []).extend(group.files)
        for partition in (*inserts, *deletes, *replaced_partitions):
            require_partition(table, name, partition)
        location = below(table.folder, STAGED_CHANGES, name)
        return cls(table, location, inserts, deletes, frozenset(replaced_partitions))

    @property
    def partitions_with_deletes(self) -> frozenset[str | None]:
        """The partitions whose current rows are deleted, all or some."""
        return self.replaced.union(self.deletes)

    def events(self, partition: str | None) -> list[AcidFile]:
        """Return the files of delete events of a partition."""
        return [
            # Every event counts: the write id in the file is none of the table.
            AcidFile(
                below(self.folder, staged_rows.path),
                None,
                staged_rows.bucket,
                staged_rows.bytes,
                exact=True,
            )
            for staged_rows in self.deletes.get(partition, ())
        ]


def read_staged_rows(
    client: MetastoreClient, ref: TableRef, name: str, limit: int | None = None
) -> pa.Table:
    """Read the rows that a staged change inserts, and the current rows of the table that it deletes.

    Args:
        client: The metastore.
        ref: One of its tables.
        name: The staged change.
        limit: The number of rows after which the rest is left out; by default none.

    Returns:
        The columns of the table, after the kind of change, "insert" or "delete".

    Raises:
        StagedChangeRefused: It is missing or damaged, or the table has changed since then.
        UnsupportedTable: Its files hold lines of text, or a type that does not exist in Arrow.
    """
    require_job_access(client, program_user(), ref)
    files = StagedFiles.of(existing_table(client, ref), name)
    columns = TableColumns(files.table.columns, files.table.partition_keys)
    schema = pa.schema([pa.field(CHANGE, pa.string()), *columns.schema])
    batches: list[pa.RecordBatch] = []
    remaining = sys.maxsize if limit is None else limit
    # Its end verifies the rows, also if the limit is reached before.
    reading = Transaction(client, reads=[ref]) if files.partitions_with_deletes else nullcontext()
    with reading as txn:
        for kind, batch in _changes(client, txn, files, columns):
            if remaining <= 0:
                break
            rows = batch.slice(0, remaining)
            kinds = pa.repeat(pa.scalar(kind, pa.string()), len(rows))
            batches.append(pa.record_batch([kinds, *rows.columns], schema=schema))
            remaining -= len(rows)
    return pa.Table.from_batches(batches, schema)


def _changes(
    client: MetastoreClient, txn: Transaction | None, files: StagedFiles, columns: TableColumns
) -> Iterator[tuple[str, pa.RecordBatch]]:
    for part in _inserted(client, files):
        for _, batch in part.rows(columns):
            yield INSERT, batch
    if txn is None:
        return

    def chosen(table: HiveTable, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in files.partitions_with_deletes]

    visible = see_table(client, txn, files.table, partitions=chosen)
    for directory in visible.partitions:
        for batch in _deleted(files, visible, directory, columns):
            yield DELETE, batch


def _inserted(client: MetastoreClient, files: StagedFiles) -> Iterator[TablePart]:
    table = files.table
    if table.format.is_text:
        raise UnsupportedTable(
            f"{table.ref.full_name} keeps its rows as lines of text.",
            remedy="Read the staged rows with AcidTable(...).staged(name).",
        )
    for partition, rows in files.inserts.items():
        values = [] if partition is None else parse_partition_name(partition)
        yield TablePart(
            location=files.folder,
            values={
                key.name: value
                for key, (_, value) in zip(table.partition_keys, values, strict=True)
            },
            format=table.format,
            files=tuple(DataFile(row.path, row.bytes, None, None, raw=True) for row in rows),
            full_acid=False,
            clustered=False,
            columns=table.mapped_columns,
            write_ids=ValidWriteIdList(None, 0),
            rules=Rules.of(client.features.hides_compactions),
        )


def _deleted(
    files: StagedFiles, visible: VisibleTable, directory: PartitionDirectory, columns: TableColumns
) -> Iterator[pa.RecordBatch]:
    rows = visible.part(directory).rows(columns)
    if directory.name in files.replaced:
        yield from (batch for _, batch in rows)
        return
    events = RowIdSet([read_events(files.events(directory.name), ValidWriteIdList(None, 0))])
    for stored, batch in rows:
        assert stored is not None, "An insert-only table has no delete events."
        if (hits := events.contains(stored.ids)).any():
            yield batch.filter(pa.array(hits))
