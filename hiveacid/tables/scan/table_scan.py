"""The rows of a table for Arrow, pandas, DuckDB and Polars, without Spark and without Java."""

import atexit
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import chain
from queue import Empty, Queue
from threading import Event, Thread, current_thread
from typing import Any, Generic, Literal, NoReturn, TypeVar, get_args
from weakref import WeakSet

import pyarrow as pa
from pyarrow import dataset

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnknownColumn, UserError
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.rules.names import TableRef, parse_partition_name
from hiveacid.rules.write_ids import AsOf
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import LocalStorage
from hiveacid.tables.locations import require_job_access
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.row_filter import Expression, RowFilter
from hiveacid.tables.scan.table_part import Rows, TablePart
from hiveacid.tables.scan.visible_table import VisibleTable, snapshot_of

# Iterators that run side by side in threads, with their items in order


_MOST_THREADS = 8
# How many items of all iterators may wait. Batches of rows have at most some megabytes.
_WAITING = 128

T = TypeVar("T")


def side_by_side(sources: Iterable[Callable[[], Iterator[T]]]) -> Iterator[T]:
    """Return the items of all iterators in their order, and run as many at once as there are cores.

    Args:
        sources: Each begins an iterator, in the thread that it runs in.
    """
    threads = min(_cores(), _MOST_THREADS)
    running: deque[_Run[T]] = deque()
    waiting = iter(sources)
    try:
        while True:
            while len(running) < threads and (source := next(waiting, None)) is not None:
                running.append(_Run(source, _WAITING // threads))
            if not running:
                return
            yield from running[0].items()
            running.popleft()
    finally:
        for run in running:
            run.stop()


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # Only on Linux.
    return len(affinity(0)) if affinity else os.cpu_count() or 1


_RUNNING: "WeakSet[_Run[Any]]" = WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop unfinished iterators: a thread must not work while the interpreter ends."""
    for run in list(_RUNNING):
        run.stop()


class _Run(Generic[T]):
    """An iterator in a thread."""

    def __init__(self, source: Callable[[], Iterator[T]], waiting: int) -> None:
        self._source = source
        # An item, an error, or nothing at the end.
        self._queue: Queue[tuple[T] | BaseException | None] = Queue(waiting)
        self._stopped = Event()
        self._thread = Thread(target=self._work, daemon=True)
        _RUNNING.add(self)
        self._thread.start()

    def items(self) -> Iterator[T]:
        """Return the items as they come."""
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, BaseException):
                raise entry
            yield entry[0]

    def stop(self) -> None:
        """End the thread after its current item."""
        self._stopped.set()
        while self._thread.is_alive() and self._thread is not current_thread():
            try:
                self._queue.get_nowait()
            except Empty:
                self._thread.join(0.001)

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            for item in self._source():
                if self._stopped.is_set():
                    break
                self._queue.put((item,))
        except BaseException as error:  # noqa: BLE001 - raised where the items are used
            end = error
        self._queue.put(end)


Unit = Literal["us", "ns"]

# So many bytes of rows wait until the end of a read has verified them.
_HELD_BYTES = 16 << 20
# Mostly Python reads local files that have less on average, and its threads wait for each other.
_SMALL_BYTES = 1 << 20


class TableScan(dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types.
    """The visible rows of a transactional table, as a data set of Arrow.

    Every call reads in a transaction of its own, which prevents cleaners from removing the files
    and ends with the last batch, with an error, or when the batches are released. So each call sees
    the table as of the request for its first batch. If the metastore has aborted the transaction, or
    the table was replaced, the call raises TransactionAborted or TableReplaced: more than 16 MB of
    rows may be returned before, and must not be used then.

    Args:
        name: The table, ``"database.table"``.
        metastore: The metastore's uri, or all its options.
        columns: The names of the columns, in their order; all by default.
        partitions: The names of the partitions, ``"day=2026-05-01"``; all by default.
        filter: Read only the rows that match an expression of Arrow, such as
            ``pyarrow.compute.field("id") == 7``.
        as_of_write_id: Read the table as it was after this write id, without later writes.
        as_of_time: Read the table as it was at this time; a text is in ISO form, and a time without
            a zone in UTC.
        timestamps: Their unit: microseconds, ``"us"``, or nanoseconds, ``"ns"``, which exclude
            years before 1677 or after 2262.
    """

    def __init__(
        self,
        name: str,
        metastore: str | MetastoreOptions,
        *,
        columns: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        filter: Expression | None = None,
        as_of_write_id: int | None = None,
        as_of_time: datetime | str | None = None,
        timestamps: Unit = "us",
    ) -> None:
        if timestamps not in get_args(Unit):
            raise UserError(
                f"Timestamps are counted in {' or '.join(get_args(Unit))}, not {timestamps!r}."
            )
        if columns is not None and not columns:
            raise UserError("Rows without any column cannot be counted.", remedy="Name one.")
        self.ref = TableRef.parse(name)
        self._metastore = MetastoreOptions.of(metastore)
        with MetastoreClient(self._metastore) as client:
            require_job_access(client, program_user(), self.ref)
        self._columns = columns
        self._partitions = partitions
        self._filter = filter
        self._as_of = AsOf.of(as_of_write_id, as_of_time)
        self._unit = timestamps

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types, the partition keys last.

        Raises:
            UnsupportedTable: A type does not exist in Arrow.
        """
        with MetastoreClient(self._metastore) as client:
            return columns_of(existing_table(client, self.ref), self._columns, self._unit)[1]

    def batches(self) -> pa.RecordBatchReader:
        """Read the rows in batches.

        A reader that is not read to its end must be closed or released: until then the transaction
        stays open.

        Raises:
            UnknownColumn: The table lacks a requested column.
            UnsupportedTable: Its files hold lines of text, or a type that does not exist in Arrow.
        """
        return self.scanner().to_reader()

    def to_arrow(self) -> pa.Table:
        """Read all rows into an Arrow table; see ``batches``."""
        return self.batches().read_all()

    def to_pandas(self) -> Any:
        """Read all rows into a pandas data frame with Arrow columns; see ``batches``.

        So nulls, decimals and days keep their types.
        """
        from pandas import ArrowDtype  # type: ignore[import-untyped]

        return self.to_arrow().to_pandas(types_mapper=ArrowDtype)

    def to_polars(self) -> Any:
        """Read all rows into a Polars frame; see ``batches``."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def to_duckdb(self, name: str, connection: Any = None) -> Any:
        """Return a connection of DuckDB in which a view reads these rows.

        Args:
            name: The name of the view.
            connection: The connection; by default a new one in memory.
        """
        import duckdb

        connection = duckdb.connect() if connection is None else connection
        return connection.register(name, self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, for all that understands Arrow."""
        return self.batches().__arrow_c_stream__(requested_schema)

    # The methods that Arrow's data sets have

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Expression | None = None,
        **options: object,
    ) -> "RowScanner":
        """Return a reader of some columns and rows; DuckDB and Polars call this.

        Args:
            columns: The names of the columns, in their order; by default those of the scan.
            filter: Read only the rows that match this expression as well.
            options: Arrow's options for batches and threads, which change nothing here.
        """
        if columns is not None and not isinstance(columns, list | tuple):
            raise UserError("A scan has columns, without expressions of them.")
        conditions = [
            condition_part
            for condition_part in (self._filter, filter)
            if condition_part is not None
        ]
        names = self._columns if columns is None else columns
        read = partial(
            self._read,
            names,
            conditions[0] & conditions[1] if conditions[1:] else next(iter(conditions), None),
        )
        return RowScanner(read, None if conditions else partial(self._count, names))

    def filter(self, expression: Expression) -> NoReturn:
        """Refuse a filter after the scan was made."""
        _refuse("filter", "Give the filter to scan(filter=…).")

    def get_fragments(self, filter: Expression | None = None) -> NoReturn:
        """Refuse to show the files, whose rows may have been deleted."""
        _refuse("get_fragments")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refuse another schema."""
        _refuse("replace_schema")

    def join(self, *arguments: object, **options: object) -> NoReturn:
        """Refuse to join."""
        _refuse("join")

    def join_asof(self, *arguments: object, **options: object) -> NoReturn:
        """Refuse to join."""
        _refuse("join_asof")

    def take(self, indices: object, **options: object) -> NoReturn:
        """Refuse to select rows by their position, which the next read may change."""
        _refuse("take")

    def sort_by(self, sorting: object, **options: object) -> NoReturn:
        """Refuse to sort."""
        _refuse("sort_by")

    def __reduce__(self) -> tuple[Any, ...]:
        """Let processes exchange scans, which data sets of Arrow do not support by themselves."""
        return _restored, (vars(self),)

    @property
    def partition_expression(self) -> None:
        """Nothing is the same in all rows."""
        return

    @contextmanager
    def _snapshot(self, condition: Expression | None) -> Iterator[VisibleTable]:
        """Read in a transaction, and select the partitions that may have matching rows."""
        with (
            MetastoreClient(self._metastore) as client,
            snapshot_of(
                client,
                self.ref,
                as_of=self._as_of,
                partitions=partial(self._selected_partitions, condition),
            ) as visible,
        ):
            yield visible

    def _read(self, names: Sequence[str] | None, condition: Expression | None) -> Iterator[Any]:
        """First the schema, then the batches."""
        with self._snapshot(condition) as visible:
            assert visible.table is not None
            table = visible.table
            _, schema = columns_of(table, names, self._unit)
            yield schema
            rows = self._filter_of(table, condition)
            needed_names = [*schema.names, *(() if rows is None else rows.columns.schema.names)]
            # Files are not read without columns.
            columns_to_read, _ = columns_of(
                table, needed_names or [table.columns[0].name], self._unit
            )
            parts = in_threads(visible.part, visible.partitions)
            readers = [
                partial(_selected, read, schema.names, rows)
                for part in parts
                for read in part.readers(columns_to_read, rows, needs_ids=False)
            ]
            size = sum(file.size for part in parts for file in part.files)
            if size < _SMALL_BYTES * len(readers) and all(
                isinstance(partition.storage, LocalStorage) for partition in visible.partitions
            ):
                batches: Iterator[Any] = chain.from_iterable(read() for read in readers)
            else:
                batches = side_by_side(readers)
            held, held_bytes = [], 0
            for batch in batches:
                held.append(batch)
                held_bytes += batch.nbytes
                if held_bytes > _HELD_BYTES:
                    visible.verify()
                    yield from held
                    held.clear()
                    yield from batches
        yield from held

    def _count(self, names: Sequence[str] | None) -> int:
        """Count the rows by the footers of files, as far as no row of a file can be invisible."""
        with self._snapshot(None) as visible:
            assert visible.table is not None
            if names is not None:
                columns_of(visible.table, names, self._unit)  # Refuses unknown ones.
            parts = in_threads(visible.part, visible.partitions)
            return sum(in_threads(TablePart.count, parts))

    def _filter_of(self, table: HiveTable, condition: Expression | None) -> RowFilter | None:
        if condition is None:
            return None
        return RowFilter.of(condition, table.columns, table.partition_keys, self._unit)

    def _selected_partitions(
        self, condition: Expression | None, table: HiveTable, names: Sequence[str]
    ) -> Sequence[str]:
        if self._partitions is not None:
            if unknown_names := sorted({*self._partitions} - {*names}):
                raise UserError(
                    f"{table.ref.full_name} has no partition {', '.join(unknown_names)}.",
                    remedy=f"It has, for example, {', '.join(names[:3])}." if names else None,
                )
            names = [name for name in names if name in self._partitions]
        rows = self._filter_of(table, condition)
        if rows is None or not rows.columns.keys:
            return names
        keys = [key.name for key in table.partition_keys]
        values = ([value for _, value in parse_partition_name(name)] for name in names)
        may_match = rows.partitions(
            [dict(zip(keys, values_of_partition, strict=True)) for values_of_partition in values]
        )
        return [name for name, is_read in zip(names, may_match, strict=True) if is_read]


@dataclass(frozen=True)
class RowScanner:
    """Reads some columns and rows of a table, with the methods of a scanner of Arrow."""

    _read: Callable[[], Iterator[Any]]
    _count: Callable[[], int] | None = None

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the rows in batches."""
        reading = self._read()
        schema: pa.Schema = next(reading)
        return pa.RecordBatchReader.from_batches(schema, reading)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows in batches."""
        return iter(self.to_reader())

    def to_table(self) -> pa.Table:
        """Read all rows."""
        return self.to_reader().read_all()

    def count_rows(self) -> int:
        """Count the rows: without a filter, by the footers of files where these suffice."""
        return self._count() if self._count is not None else sum(map(len, self.to_reader()))

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows."""
        with self.to_reader() as reader:
            slices: list[pa.RecordBatch] = []
            for batch in reader:
                slices.append(batch.slice(0, num_rows))
                num_rows -= len(slices[-1])
                if num_rows <= 0:
                    break
            return pa.Table.from_batches(slices, reader.schema)


def _restored(state: dict[str, Any]) -> TableScan:
    scan = TableScan.__new__(TableScan)
    scan.__dict__.update(state)
    return scan


def _selected(
    read: Callable[[], Iterator[Rows]], names: Sequence[str], rows: RowFilter | None
) -> Iterator[pa.RecordBatch]:
    for _, batch in read():
        for matching in [batch] if rows is None else rows.matching(batch):
            yield matching.select(names)


def _refuse(method: str, remedy: str = "Call to_arrow().") -> NoReturn:
    raise UserError(f"A scan has no method {method}.", remedy=remedy)


def columns_of(
    table: HiveTable, requested: Sequence[str] | None, unit: str
) -> tuple[TableColumns, pa.Schema]:
    """Return the columns to read from a table, and the schema in the requested order.

    Args:
        table: The table.
        requested: The names of the columns, in any case; by default all.
        unit: The unit of timestamps.

    Raises:
        UnknownColumn: The table lacks a requested column.
    """
    columns_by_name = {
        column.name.lower(): column for column in (*table.columns, *table.partition_keys)
    }
    names = list(columns_by_name) if requested is None else [name.lower() for name in requested]
    if unknown_names := [name for name in names if name not in columns_by_name]:
        raise UnknownColumn(
            f"{table.ref.full_name} has no column {', '.join(unknown_names)}.",
            remedy=f"Its columns are {', '.join(column.name for column in columns_by_name.values())}.",
        )
    table_columns = TableColumns(
        [column for column in table.columns if column.name.lower() in names],
        [key for key in table.partition_keys if key.name.lower() in names],
        unit,
    )
    return table_columns, pa.schema(
        [table_columns.schema.field(columns_by_name[name].name) for name in names]
    )
