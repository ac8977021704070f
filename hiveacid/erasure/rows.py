"""The rows that an erasure removes: deleted, or left out when an insert-only table is written again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from hiveacid.dataclass import dataclass
from hiveacid.erasure.keys import KeyHolder, KeySet, is_key_type, key_texts
from hiveacid.errors import SparkNeeded, TableReplaced, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable, clustering_columns
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import column_of, existing_table, require_transactional
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableIdentity
from hiveacid.rules.partitions import canonical_partition
from hiveacid.rules.schema import Char, TableKind, parse_type
from hiveacid.storage.filesystems import keeps_checksums
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.staging import FlatFile
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import see_table
from hiveacid.worker.engine import TableRows, require_writable, write_flat
from hiveacid.worker.statements import DeleteKeys
from hiveacid.writes.statement import Counts, Preparation, Statement, WriteContext

# Rows of a new file of an insert-only table, at most.
_ROWS, _BYTES = 1 << 20, 64 << 20
_OVERWRITE = "Overwrite it on Spark without these rows, or convert it to full ACID in ORC."


def key_column(client: MetastoreClient, table: HiveTable, name: str) -> HiveColumn:
    """Return the column with the keys of a table whose rows can be erased.

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
    column = column_of(table, name)
    if not is_key_type(parse_type(column.type)):
        raise UnsupportedTable(
            f"{name} of {table.ref} is of type {column.type}, whose values are no keys.",
            remedy="Keys are integers, decimals, texts, and dates.",
        )
    if table.kind is TableKind.INSERT_ONLY:
        _require_rewritable(client, table)
    return column


def _require_rewritable(client: MetastoreClient, table: HiveTable) -> None:
    with _refusing_what_needs_spark(table):
        require_writable(table)
    names = client.get_partition_names(table.ref) if table.partition_keys else []
    if clustering_columns(table) or any(
        clustering_columns(table, partition) for partition in client.get_partitions(table, names)
    ):
        raise UnsupportedTable(f"{table.ref} is insert-only and bucketed.", remedy=_OVERWRITE)
    # An overwrite of one would empty the others.
    if len({canonical_partition(name, table.key_types) for name in names}) < len(names):
        raise UnsupportedTable(
            f"{table.ref} is insert-only, and has several partitions with equal values.",
            remedy=_OVERWRITE,
        )


@contextmanager
def _refusing_what_needs_spark(table: HiveTable) -> Iterator[None]:
    try:
        yield
    except SparkNeeded as error:
        raise UnsupportedTable(
            f"{table.ref} is insert-only, and cannot be rewritten here: {error.what}",
            remedy=_OVERWRITE,
        ) from error


def matching_rows(
    client: MetastoreClient, txn: Transaction, holder: KeyHolder, *further_columns: HiveColumn
) -> Iterator[pa.RecordBatch]:
    """Yield the column of the keys, and more columns, of the visible rows that have a key."""
    visible = see_table(client, txn, holder.table)
    columns = TableColumns([holder.column, *further_columns])
    for partition in visible.partitions:
        for _, batch in visible.part(partition).rows(columns, needs_ids=False):
            mask = holder.mask(batch.column(0))
            if mask.any():
                yield batch.filter(pa.array(mask))


def joined_keys(
    client: MetastoreClient, txn: Transaction, holder: KeyHolder, column: str
) -> KeySet:
    """Return the values that the rows with a key have in another column: keys of another table."""
    equal = column_of(holder.table, column)
    is_padded = isinstance(parse_type(equal.type), Char)
    texts: set[str] = set()
    for rows in matching_rows(client, txn, holder, equal):
        texts |= {*key_texts(rows.column(1), padded=is_padded).drop_null().to_pylist()}
    return KeySet.of(holder.keys.salt, texts)


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
        holder = KeyHolder.of(context.table, self.column, self.keys(context))
        if self.operation is Operation.DELETE:
            return _delete(context, holder)
        with _refusing_what_needs_spark(context.table):
            return _rewrite(context, holder)


def _delete(context: WriteContext, holder: KeyHolder) -> Counts:
    events = DeleteKeys()
    with context.phases(Phase.READ, "the rows with the keys"):
        files = context.files(context.partition_names())
        rows = TableRows(files, Rules.of(context.client.features.hides_compactions), limited=False)
        for batch in rows.found([holder.column.name.lower()]):
            values = pa.concat_arrays(batch.columns.column(holder.column.name).chunks)
            if (mask := holder.mask(values)).any():
                events.add(batch.only(mask))
    with context.phases(Phase.WRITE, "the deletes"):
        return Counts(deleted=events.stage(context, rows))


def _rewrite(context: WriteContext, holder: KeyHolder) -> Counts:
    table = holder.table
    visible = see_table(context.client, context.reader.txn, table)
    # Without a unit, timestamps keep all their digits.
    everything = TableColumns(table.columns, table.partition_keys, unit=None)
    files: list[FlatFile] = []
    emptied: list[str | None] = []
    kept = erased = 0
    for partition in visible.partitions:
        part = visible.part(partition)
        with context.phases(Phase.READ, f"the keys of {partition.name or table.ref}"):
            batches = part.rows(TableColumns([holder.column]), needs_ids=False)
            if not any(holder.mask(rows.column(0)).any() for _, rows in batches):
                continue
        with context.phases(Phase.WRITE, f"the other rows of {partition.name or table.ref}"):
            before = len(files)
            batches = part.rows(everything, needs_ids=False)
            for rows, removed in _other_rows((rows for _, rows in batches), holder):
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


def _other_rows(
    batches: Iterator[pa.RecordBatch], holder: KeyHolder
) -> Iterator[tuple[pa.Table, int]]:
    """Yield the rows that stay, those of a file at a time, and the number of the others."""
    place = holder.table.columns.index(holder.column)
    chunk: list[pa.RecordBatch] = []
    rows = size = removed = 0
    for batch in batches:
        hits = holder.mask(batch.column(place))
        removed += int(hits.sum())
        chunk.append(batch.filter(pa.array(~hits)))
        rows, size = rows + len(chunk[-1]), size + chunk[-1].nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(chunk), removed
            chunk, rows, size, removed = [], 0, 0, 0
    if chunk:
        yield pa.Table.from_batches(chunk), removed
