"""The rows that an erasure removes: deleted, or left out when an insert-only table is written again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hiveacid.erasure.keys import KeySet, is_key_type, key_texts
from hiveacid.errors import SparkNeeded, TableReplaced, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable, clustering_columns
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import column_of, existing_table, require_transactional
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableIdentity, TableRef
from hiveacid.rules.partitions import canonical_partition
from hiveacid.rules.schema import Char, TableKind, parse_type
from hiveacid.storage.filesystems import keeps_checksums
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.staging import FlatFile
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import see_table
from hiveacid.worker.engine import FoundRows, TableRows, require_writable, write_flat
from hiveacid.worker.statements import DeleteKeys, Mask
from hiveacid.writes.statement import Counts, Preparation, Statement, WriteContext

# Rows of a new file of an insert-only table, at most.
_ROWS, _BYTES = 1 << 20, 64 << 20
_OVERWRITE = "Overwrite it on Spark without these rows, or convert it to full ACID in ORC."


def key_column(client: MetastoreClient, table: HiveTable, name: str) -> HiveColumn:
    """Return the column with the keys of a table whose rows can be erased.

    Args:
        client: The metastore.
        table: The table.
        name: The column.

    Raises:
        UnsupportedTable: Rows of the table cannot be erased, or the values of the column are no keys.
        UnknownColumn: There is no such column.
    """
    require_transactional(table)
    if keeps_checksums(table.folder) and client.listeners.want_events:
        raise UnsupportedTable(
            f"The write events of {table.ref} have checksums of HDFS, which Spark computes.",
            remedy='Set write_events to "never" for this connection while data is erased.',
        )
    if name.lower() in table.key_types:
        raise UnsupportedTable(
            f"{name} is a partition key of {table.ref}: folders have its values as names.",
            remedy=f"ALTER TABLE {table.ref} DROP PARTITION removes the rows of a key.",
        )
    found = column_of(table, name)
    if not is_key_type(parse_type(found.type)):
        raise UnsupportedTable(
            f"{name} of {table.ref} is of type {found.type}, whose values are no keys.",
            remedy="Keys are integers, decimals, texts, and dates.",
        )
    if table.kind is TableKind.INSERT_ONLY:
        _require_rewritable(client, table)
    return found


def _require_rewritable(client: MetastoreClient, table: HiveTable) -> None:
    try:
        require_writable(table)
    except SparkNeeded as error:
        raise UnsupportedTable(
            f"{table.ref} is insert-only, and cannot be rewritten here: {error.what}",
            remedy=_OVERWRITE,
        ) from error
    names = client.get_partition_names(table.ref) if table.partition_keys else []
    if clustering_columns(table) or any(
        clustering_columns(table, each) for each in client.get_partitions(table, names)
    ):
        raise UnsupportedTable(f"{table.ref} is insert-only and bucketed.", remedy=_OVERWRITE)
    # An overwrite of one would empty the others.
    if len({canonical_partition(name, table.key_types) for name in names}) < len(names):
        raise UnsupportedTable(
            f"{table.ref} is insert-only, and has several partitions with equal values.",
            remedy=_OVERWRITE,
        )


def matching_rows(
    client: MetastoreClient,
    txn: Transaction,
    table: HiveTable,
    column: HiveColumn,
    keys: KeySet,
    *more: HiveColumn,
) -> Iterator[pa.RecordBatch]:
    """Yield the visible rows that have a key.

    Args:
        client: The metastore.
        txn: The transaction whose snapshot is read.
        table: The table.
        column: The column with the keys.
        keys: The keys.
        more: Further columns to read.
    """
    visible = see_table(client, txn, table)
    wanted = TableColumns([column, *more])
    for partition in visible.partitions:
        for _, batch in visible.part(partition).rows(wanted, needs_ids=False):
            mask = _mask(keys, column, batch.column(0))
            if mask.any():
                yield batch.filter(pa.array(mask))


def _mask(keys: KeySet, column: HiveColumn, values: pa.Array) -> Mask:
    return keys.mask(values, padded=isinstance(parse_type(column.type), Char))


@dataclass(frozen=True)
class Join:
    """Keys of a table that the erased rows of another table have in a column.

    Attributes:
        table: The other table.
        column: Its column with its own keys.
        equal: Its column with the keys that are wanted.
        keys: Its own keys.
        known: The hashes of keys that earlier deletes of the request have found.
        store: Stores the keys: after the commit, the rows that have them are gone.
    """

    table: TableRef
    column: str
    equal: str
    keys: KeySet
    known: frozenset[str]
    store: Callable[[KeySet], None]

    def evaluate(self, client: MetastoreClient, txn: Transaction) -> KeySet:
        """Read the keys by the snapshot of a transaction, and store them."""
        keys, found = self.keys, set[str]()
        table = existing_table(client, self.table)
        column, equal = column_of(table, self.column), column_of(table, self.equal)
        is_padded = isinstance(parse_type(equal.type), Char)
        for rows in matching_rows(client, txn, table, column, keys, equal):
            texts = key_texts(rows.column(1), padded=is_padded)
            found |= {*texts.drop_null().to_pylist()}
        made = KeySet.of(keys.salt, found)
        if not self.known <= made.hashes:
            made = KeySet(keys.salt, made.hashes | self.known)
        self.store(made)
        return made


@dataclass(eq=False)
class EraseRows(Statement):
    """Erase the rows with some keys, batch by batch, so that tables of any size fit.

    An insert-only table has no row ids: its partitions with such rows get a base with the others.

    Attributes:
        column: The column with the keys.
        keys: Returns the keys by the snapshot of a transaction.
        identity: The creation of the table that the request names; None accepts any.
    """

    column: str
    keys: Callable[[WriteContext], KeySet]
    identity: TableIdentity | None = None

    @property
    def operation(self) -> Operation:
        """A delete, or the overwrite of an insert-only table."""
        flat = self.table.kind is TableKind.INSERT_ONLY
        return Operation.OVERWRITE if flat else Operation.DELETE

    @property
    def name(self) -> str:
        """See the base class."""
        return "delete"

    @property
    def changes_single_rows(self) -> bool:
        """See the base class."""
        return self.operation is Operation.DELETE

    @property
    def adds_rows(self) -> bool:
        """The rows that stay have satisfied the constraints before."""
        return False

    @property
    def only_adds(self) -> bool:
        """See the base class."""
        return False

    def prepare(self, preparation: Preparation) -> None:
        """Look up the table.

        Raises:
            TableReplaced: It was created again.
        """
        self.table = existing_table(preparation.client, self.target)
        self.look_up(preparation)
        # An overwrite would create it, also on a machine that lacks the disk of the table.
        ReadOnlyStorage.of(self.table.folder).require_folder()
        key_column(preparation.client, self.table, self.column)
        if self.identity is not None and not self.table.identity.is_same(self.identity):
            raise TableReplaced(
                f"{self.table.ref} was created again: it was {self.identity}, and is"
                f" {self.table.identity}.",
                remedy="Make a new request.",
            )

    def stage(self, context: WriteContext) -> Counts:
        """Stage a delete event for each row, or bases without them."""
        keys, column = self.keys(context), column_of(context.table, self.column)
        if self.operation is Operation.DELETE:
            return _deleted(context, column, keys)
        try:
            return _rewritten(context, column, keys)
        except SparkNeeded as error:
            raise UnsupportedTable(
                f"{context.table.ref} is insert-only, and cannot be rewritten here: {error.what}",
                remedy=_OVERWRITE,
            ) from error


def _deleted(context: WriteContext, column: HiveColumn, keys: KeySet) -> Counts:
    events = DeleteKeys()
    with context.phases(Phase.READ, "the rows with the keys"):
        files = context.files(context.partition_names())
        rows = TableRows(files, Rules.of(context.client.features.hides_compactions), limited=False)
        for found in rows.found([column.name.lower()]):
            if (mask := _found_mask(keys, column, found)).any():
                events.add(found.only(mask))
    with context.phases(Phase.WRITE, "the deletes"):
        return Counts(deleted=events.stage(context, rows))


def _found_mask(keys: KeySet, column: HiveColumn, found: FoundRows) -> Mask:
    return _mask(keys, column, pa.concat_arrays(found.columns.column(column.name).chunks))


def _rewritten(context: WriteContext, column: HiveColumn, keys: KeySet) -> Counts:
    table = context.table
    visible = see_table(context.client, context.reader.txn, table)
    # Without a unit, timestamps keep all their digits.
    everything = TableColumns(table.columns, table.partition_keys, unit=None)
    place = [each.name for each in table.columns].index(column.name)
    files: list[FlatFile] = []
    emptied: list[str | None] = []
    kept = erased = 0
    for partition in visible.partitions:
        part = visible.part(partition)
        with context.phases(Phase.READ, f"the keys of {partition.name or table.ref}"):
            found = (rows for _, rows in part.rows(TableColumns([column]), needs_ids=False))
            if not any(_mask(keys, column, rows.column(0)).any() for rows in found):
                continue
        with context.phases(Phase.WRITE, f"the other rows of {partition.name or table.ref}"):
            before = len(files)
            found = (rows for _, rows in part.rows(everything, needs_ids=False))
            for rows, removed in _chunks(
                found, lambda rows: _mask(keys, column, rows.column(place))
            ):
                target = context.output.flat_target(replace=True)
                written = write_flat(rows, target) if rows.num_rows else []
                files += [replace(file, partition=partition.name) for file in written]
                kept, erased = kept + rows.num_rows, erased + removed
        if len(files) == before:
            emptied.append(partition.name)
    if files:
        context.output.take([(file,) for file in files], replace=True, width=len(table.columns))
    context.output.write_empty_bases(emptied)
    return Counts(inserted=kept, deleted=erased)


def _chunks(
    batches: Iterator[pa.RecordBatch], mask: Callable[[pa.RecordBatch], "np.ndarray[Any, Any]"]
) -> Iterator[tuple[pa.Table, int]]:
    """Yield the rows that stay, those of a file at a time, and the number of the others."""
    chunk: list[pa.RecordBatch] = []
    rows = size = removed = 0
    for batch in batches:
        hits = mask(batch)
        removed += int(hits.sum())
        chunk.append(batch.filter(pa.array(~hits)))
        rows, size = rows + len(chunk[-1]), size + chunk[-1].nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(chunk), removed
            chunk, rows, size, removed = [], 0, 0, 0
    if chunk:
        yield pa.Table.from_batches(chunk), removed
