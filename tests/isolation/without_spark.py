"""The transactions of clients without Spark: the engine's own protocol, rows by plain Python."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyarrow import orc

from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.directory import Rules
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import RowId
from hiveacid.spark.statements.engine import SparkEngine
from hiveacid.spark.write.flat_rows import write_rows
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import list_files, read_state
from hiveacid.tables.visible_files import AcidFile, partition_files
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import Counts, Preparation, Statement, WriteContext, WriteOptions
from tests.faults.rows import Row
from tests.faults.without_spark import NoSpark, delete_keys
from tests.isolation.work import (
    JOURNAL,
    Work,
    id_of,
    partition_of,
    partition_of_client,
    table_of,
)

Found = dict[tuple[str, RowId], Row]


@dataclass(frozen=True)
class PlainClient:
    """Runs transactions, and reads.

    Attributes:
        client: The metastore.
        database: The location of the tables.
        lock_wait_seconds: The longest wait for locks.
        observers: Receive the phases of writes.
    """

    client: MetastoreClient
    database: str
    lock_wait_seconds: float = 5
    observers: Sequence[PhaseObserver] = ()

    def run(self, work: Work) -> None:
        """Run a transaction that writes."""
        options = WriteOptions(
            run_token=f"isolation/{work.name}",
            lock_wait_seconds=self.lock_wait_seconds,
            conflict_policy=work.policy,
        )
        session: Any = NoSpark()
        statements = self.statements(work)
        run_statements(SparkEngine(session), self.client, options, self.observers, statements)

    def read(self, keys: Sequence[str]) -> list[tuple[str, str]]:
        """The key and the v of each row of some keys, all as one transaction sees them."""
        refs = [TableRef(self.database, table) for table in sorted({*map(table_of, keys)})]
        with Transaction(self.client, reads=refs) as txn:
            return _rows_of(self.client, txn.snapshot, self.database, keys)

    def statements(self, work: Work) -> list[Statement]:
        """A statement for each table whose rows change, each row that is inserted, and the note."""
        made: list[Statement] = []
        for table in sorted({*work.updates(), *work.transfers()}):
            made.append(_Update(self._ref(table), None, work))
        for append in work.inserts():
            row = Row(id_of(append.key), append.element, partition_of(append.key))
            made.append(_Insert(self._ref(table_of(append.key)), None, row))
        return [*made, _Note(self._ref(JOURNAL), None, work)]

    def _ref(self, table: str) -> TableRef:
        return TableRef(self.database, table)


@dataclass(eq=False)
class _Update(Statement):
    """Appends to lists of a table, or moves money between its accounts."""

    work: Work

    @property
    def operation(self) -> Operation:
        return Operation.UPDATE

    @property
    def changes_single_rows(self) -> bool:
        return True

    @property
    def keys(self) -> Sequence[str]:
        """Those whose rows change."""
        name = self.target.name
        return [*self.work.updates().get(name, ()), *self.work.transfers().get(name, ())]

    def prepare(self, preparation: Preparation) -> None:
        self.look_up(preparation)
        self.reads = [TableRef(self.target.database, table) for table in self.work.reads]
        self.partitions = self._touched()

    def stage(self, context: WriteContext) -> Counts:
        with context.phases(Phase.READ):
            context.files([f"p={p}" for p in self._values()])
            seen = _rows_with_ids(context.client, _seen(context), self.target, self._values())
            changed = {
                key: (row, new)
                for key, row in sorted(seen.items())
                if (new := self._changed(context, row)) is not None
            }
        with context.phases(Phase.WRITE):
            if changed:
                context.output.write_deletes(*delete_keys(context, [*changed]))
                rows: Any = [new for _, new in changed.values()]
                write_rows(context.output, rows)
        return Counts(updated=len(changed))

    def _touched(self) -> Sequence[str]:
        return [f"p={p}" for p in self._values()]

    def _values(self) -> list[str]:
        return sorted({partition_of(key) for key in self.keys})

    def _changed(self, context: WriteContext, row: Row) -> Row | None:
        key = f"{self.target.name}/{row.id}"
        if more := self.work.updates().get(self.target.name, {}).get(key):
            return row._replace(v=" ".join([*row.v.split(), *more]))
        if key in self.work.transfers().get(self.target.name, {}) and self._is_enough(context):
            amount = self.work.transfers()[self.target.name][key]
            return row._replace(v=str(int(row.v) + amount))
        return None

    def _is_enough(self, context: WriteContext) -> bool:
        transfer = self.work.transfer
        assert transfer is not None
        database = self.target.database
        found = _rows_of(context.client, _seen(context), database, [transfer.source])
        ((_, balance),) = found
        return int(balance) >= transfer.amount


class _Note(_Update):
    """Write the reads of the transaction into the row of its client."""

    def _values(self) -> list[str]:
        return [partition_of_client(self.work.client)]

    def _changed(self, context: WriteContext, row: Row) -> Row | None:
        if row.id != self.work.client:
            return None
        rows = _rows_of(context.client, _seen(context), self.target.database, self.work.keys)
        return row._replace(v="\n".join([*row.v.splitlines(), self.work.note(rows)]))


@dataclass(eq=False)
class _Insert(Statement):
    """Adds an element to a set."""

    row: Row

    @property
    def operation(self) -> Operation:
        return Operation.INSERT

    def prepare(self, preparation: Preparation) -> None:
        self.look_up(preparation)

    def stage(self, context: WriteContext) -> Counts:
        with context.phases(Phase.WRITE):
            rows: Any = [self.row]
            write_rows(context.output, rows)
        return Counts(inserted=1)


def _seen(context: WriteContext) -> Snapshot:
    """The snapshot of the transaction that reads: under the policy rows not the one that commits."""
    return context.reader._txn.snapshot


def _rows_of(
    client: MetastoreClient, snapshot: Snapshot, database: str, keys: Sequence[str]
) -> list[tuple[str, str]]:
    found = []
    for table in sorted({*map(table_of, keys)}):
        partitions = sorted({partition_of(key) for key in keys if table_of(key) == table})
        rows = _rows_with_ids(client, snapshot, TableRef(database, table), partitions)
        found += [(f"{table}/{row.id}", row.v) for row in rows.values()]
    return sorted(row for row in found if row[0] in keys)


def _rows_with_ids(
    client: MetastoreClient, snapshot: Snapshot, ref: TableRef, values: Sequence[str]
) -> Found:
    """The rows of some partitions as a snapshot shows them, by partition and row id.

    The engine chooses the files, and Arrow reads them.
    """
    rules = Rules.of(client.features.hides_compactions)
    write_ids = snapshot.write_ids[ref.full_name]
    found = {}
    table = client.get_table(ref)
    for partition in _partitions(client, ref, tuple(values)):
        storage = Storage.of(partition.folder)
        listed = list_files(storage, TableOfFolder.of(table))
        state = read_state(storage, listed, write_ids, snapshot.txns, rules=rules)
        files = partition_files(storage, table, partition, state, write_ids)
        deleted = {
            event[:3]
            for file in files.deletes
            for event in _events(file)
            if write_ids.is_valid(event[3])
        }
        for file in files.inserts:
            for *key, current, number, v in _events(file):
                if write_ids.is_valid(current) and tuple(key) not in deleted:
                    p = partition.values[0] or ""
                    found[p, RowId(*key)] = Row(number, v, p)
    return found


@lru_cache(maxsize=1000)
def _partitions(
    client: MetastoreClient, ref: TableRef, values: tuple[str, ...]
) -> Sequence[HivePartition]:
    """Some partitions, which stay where they are."""
    return client.get_partitions(client.get_table(ref), [f"p={p}" for p in values])


def _events(file: AcidFile) -> Sequence[tuple[Any, ...]]:
    """The row id, the write id and the columns of each row of a file."""
    path = file.path.removeprefix("file:")
    status = os.stat(path)
    return _events_in(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=20_000)
def _events_in(path: str, modified: int, size: int) -> Sequence[tuple[Any, ...]]:
    """The same; a file is never changed, and a table of many deltas is read very often."""
    names = ("originalTransaction", "bucket", "rowId", "currentTransaction")
    rows = orc.ORCFile(path).read().to_pylist()
    return [
        (*(row[name] for name in names), *((row["row"] or {}).get(name) for name in ("id", "v")))
        for row in rows
    ]
