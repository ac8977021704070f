"""Arrow as the engine of a write: rows in this process, read and written within limits."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.dataclass import dataclass
from hiveacid.errors import DirectoryMissing, SparkNeeded, StorageError
from hiveacid.metastore.catalog import HiveTable, StorageFormat, layout_of
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.orc.copying.reencode import RowWriter
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.process_memory import return_memory
from hiveacid.orc.format.streams import UTC, Integers
from hiveacid.orc.format.tail import FIRST_GREGORIAN_DAY
from hiveacid.orc.row_keys.row_id_set import RowIds, RowIdSet
from hiveacid.orc.values.timestamps import SECONDS_OF_2015
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import DEFAULT_PARTITION
from hiveacid.rules.partitions import named_partition
from hiveacid.rules.schema import BucketLayout, Char, Primitive, Varchar, parse_type
from hiveacid.rules.texts import bytes_in_words
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.filesystems import in_threads, keeps_checksums, translated_os_errors
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.listing import DataFile
from hiveacid.storage.staging import FlatFile, NewFile, StagedFile
from hiveacid.tables.bucketing import bucket_numbers
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.row_filter import StripeChoice
from hiveacid.tables.scan.table_part import RowBatch, VisibleRows
from hiveacid.tables.scan.times import TIMESTAMP
from hiveacid.tables.visible_files import AcidFile, AcidFiles, FilesReader, PartitionFiles
from hiveacid.worker.checks import ArrowChecks
from hiveacid.worker.constraints import require_constraints
from hiveacid.worker.expressions import require_utf8
from hiveacid.worker.files import MOST_BYTES, MOST_EVENTS, MOST_HELD, MOST_ROWS
from hiveacid.writes.engine import FlatTarget, RowEngine

# The limits of the rows that are compared at once.
_CHUNK, _CHUNK_BYTES = 1 << 17, 12 << 20
# The bytes of a chunk whose memory is worth the time to return it.
_LARGE = 4 << 20
_STRIDE, _BLOCK = 10_000, 256 << 10
_DAY, _NANOS = 86_400, 10**9
# Hive knows no day between them.
_LAST_JULIAN, _FIRST_GREGORIAN = date(1582, 10, 4), date(1582, 10, 15)


@dataclass(frozen=True)
class ArrowEngine(RowEngine):
    """Evaluates rows in this process.

    Attributes:
        defers_to_spark: Files that are not found or not reached here are a reason for Spark, which
            may have the disks, credentials, and libraries.
    """

    defers_to_spark: bool = False

    @contextmanager
    def running(self, subject: str, group: str | None = None) -> Iterator[None]:
        """See the base class.

        Raises:
            SparkNeeded: Files are not found or not reached; nothing has been published.
        """
        try:
            yield
        except (DirectoryMissing, StorageError) as error:
            if not self.defers_to_spark:
                raise
            raise SparkNeeded(f"{error.what.rstrip('.')}, seen from the worker.") from error

    def reader(
        self, client: MetastoreClient, reading: Transaction, table: HiveTable, txn: Transaction
    ) -> FilesReader:
        """See the base class."""
        return FilesReader(client, reading)

    def finish(
        self, subject: str, stage: Callable[[NewFile], StagedFile], files: Sequence[NewFile]
    ) -> Sequence[StagedFile]:
        """See the base class."""
        return in_threads(stage, files)

    def rewrite(
        self, files: Sequence[FlatFile], layout: BucketLayout, target: FlatTarget
    ) -> Sequence[FlatFile]:
        """See the base class.

        Raises:
            SparkNeeded: Always.
        """
        raise SparkNeeded(
            f"A partition of {target.table.ref.full_name} has other buckets than the table."
        )

    def checks(self, client: MetastoreClient) -> ArrowChecks:
        """See the base class."""
        return ArrowChecks(client)

    def checksum(self, location: str) -> str:
        """See the base class.

        Raises:
            SparkNeeded: The file system computes it for clients in Java.
        """
        if keeps_checksums(location):
            raise SparkNeeded(f"The write event of {location} has a checksum of HDFS.")
        return ""


def require_few(rows: int, subject: str, size: int = 0) -> None:
    """Refuse more rows than this process holds.

    Args:
        rows: The number of the rows.
        subject: The change that they belong to.
        size: Their bytes in memory.

    Raises:
        SparkNeeded: There are more.
    """
    if rows > MOST_ROWS or size > MOST_HELD:
        limit = f"{MOST_ROWS:,} rows or {bytes_in_words(MOST_HELD)}"
        raise SparkNeeded(f"{subject} has more than {limit}.")


# Reading: first the columns that a condition needs, then all columns of the rows that match


@dataclass(frozen=True)
class FoundRows:
    """Visible rows of one file, with their ids.

    Attributes:
        partition: The number of their partition.
        file: The file.
        ids: The write ids, the bucket properties, and the row numbers.
        columns: The requested columns, and the partition keys.
    """

    partition: int
    file: DataFile
    ids: RowIds
    columns: pa.Table

    def __len__(self) -> int:
        return len(self.ids.rows)

    def only(self, mask: np.ndarray) -> "FoundRows":
        """Return the rows that a mask selects."""
        if mask.all():
            return self
        columns = self.columns.filter(pa.array(mask))
        return FoundRows(self.partition, self.file, self.ids.only(mask), columns)


@dataclass(frozen=True)
class TableRows:
    """The visible rows of some partitions of a full ACID table.

    Attributes:
        files: The files that a transaction sees.
        rules: The rules of the engine version for reading directories.
        limited: Whether Spark reads more bytes and delete events than this process holds; unlimited
            rows are read batch by batch.
    """

    files: AcidFiles
    rules: Rules
    limited: bool = True

    def __post_init__(self) -> None:
        size = sum(file.size for partition in self.files.partitions for file in partition.files)
        if self.limited and size > MOST_BYTES:
            raise SparkNeeded(
                f"The files of {self.files.table.ref.full_name} to compare have "
                f"{bytes_in_words(size)}, more than {bytes_in_words(MOST_BYTES)}."
            )

    def found(
        self, names: Sequence[str], choice: StripeChoice | None = None
    ) -> Iterator[FoundRows]:
        """Read some columns of the rows.

        Args:
            names: The columns, in lower case.
            choice: Chooses the stripes to read; by default all.
        """
        # Arrow counts no rows without columns.
        names = names or [self.files.table.columns[0].name.lower()]
        for number, partition in enumerate(self.files.partitions):
            yield from self._of(number, partition.files, names, choice)

    def again(self, matches: Sequence[FoundRows]) -> Iterator[FoundRows]:
        """Read all columns of rows that were found.

        Args:
            matches: The rows, at most one entry for each file.
        """
        names = [column.name.lower() for column in self.files.table.columns]
        for match in matches:
            partition = self.files.partitions[match.partition]
            prefix = _below(partition)
            (matching_file,) = (
                file for file in partition.inserts if prefix + match.file.path == file.path
            )
            # The rows of files without row ids are counted together.
            files = partition.raw_beside(matching_file) if matching_file.raw else [matching_file]
            row_ids = RowIdSet([match.ids])
            for batch in self._of(
                match.partition, files, names, None if matching_file.raw else row_ids
            ):
                if batch.file == match.file and (hits := row_ids.contains(batch.ids)).any():
                    yield batch.only(hits)

    def _of(
        self,
        number: int,
        files: Sequence[AcidFile],
        names: Sequence[str],
        choice: StripeChoice | None,
    ) -> Iterator[FoundRows]:
        table, partition = self.files.table, self.files.partitions[number]
        # Without a unit, timestamps keep all their digits.
        columns = TableColumns(
            [column for column in table.columns if column.name.lower() in names],
            table.partition_keys,
            unit=None,
        )
        keys = columns.values(dict(zip(table.key_types, partition.values, strict=True)))
        visible = VisibleRows(
            ReadOnlyStorage.of(partition.location),
            self.files.write_ids,
            self.rules,
            [column.name for column in columns.columns],
            table.mapped_columns,
            bool(partition.clustered_by),
            choice,
            MOST_EVENTS if self.limited else None,
        )
        for file, read in visible.readers_by_file(_data_files(partition, files)):
            for batches in _chunks(read()):
                ids = RowIds.joined(batch.ids for batch in batches)
                rows = [columns.batch(batch.columns, keys) for batch in batches]
                found = FoundRows(number, file, ids, pa.Table.from_batches(rows))
                size = found.columns.nbytes
                del batches, rows
                yield found
                del found
                if size > _LARGE:
                    return_memory()


def _chunks(batches: Iterator[RowBatch]) -> Iterator[list[RowBatch]]:
    chunk: list[RowBatch] = []
    size = 0
    for batch in batches:
        chunk.append(batch)
        size += batch.columns.nbytes
        if sum(map(len, chunk)) >= _CHUNK or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _below(partition: PartitionFiles) -> str:
    return f"{partition.location.rstrip('/')}/"


def _data_files(partition: PartitionFiles, files: Sequence[AcidFile]) -> Iterator[DataFile]:
    for file in files:
        path = file.path.removeprefix(_below(partition))
        yield DataFile(path, file.size, file.directory, file.bucket, raw=file.raw)


# Writing: flat files, one for each partition and bucket


def require_writable(table: HiveTable) -> None:
    """Refuse tables whose files are not written here.

    Raises:
        SparkNeeded: Spark writes them, or reports why it does not.
    """
    name = table.ref.full_name
    form = StorageFormat.of(table.serde, name)
    if form is not StorageFormat.ORC:
        raise SparkNeeded(f"{name} is stored as {form.name}.")
    if table.sort_columns:
        raise SparkNeeded(f"{name} is sorted.")
    for parameter in table.parameters:
        if parameter.startswith(("orc.encrypt", "orc.mask", "orc.bloom.filter")):
            raise SparkNeeded(f"{name} has the property {parameter}.")
    for column in table.columns:
        _require_type(column.name, column.type)
    for key in table.partition_keys:
        type_ = parse_type(key.type)
        if not isinstance(type_, Varchar) and str(type_) not in _KEY_TYPES:
            raise SparkNeeded(f"The partition key {key.name} of {name} is of type {type_}.")


_KEY_TYPES = ("string", "tinyint", "smallint", "int", "bigint", "date")


def _require_type(name: str, type_: str) -> None:
    lower = type_.lower()
    is_nested = "<" in lower
    if (is_nested and ("timestamp" in lower or "char" in lower or "date" in lower)) or any(
        word in lower for word in ("local time zone", "uniontype", "interval")
    ):
        raise SparkNeeded(f"The column {name} is of type {type_}.")


def write_flat(rows: pa.Table, target: FlatTarget) -> list[FlatFile]:
    """Write rows of a table, those of a partition and bucket together.

    Args:
        rows: The columns of the table and its partition keys, by their names.
        target: The place of the files.

    Raises:
        CheckFailed: A row violates a constraint.
        SparkNeeded: A value is not written here.
    """
    require_constraints(rows, target.rules)
    return_memory()
    table, layout = target.table, layout_of(target.table)
    buckets = None
    if layout is not None:
        types = [parse_type(column.type) for column in layout.columns]
        if any("timestamp" in str(type_) for type_ in types):
            raise SparkNeeded(f"{table.ref.full_name} is clustered by a timestamp.")
        names = {column.name.lower(): column.name for column in table.columns}
        values = [rows.column(names[column.name.lower()]) for column in layout.columns]
        buckets = bucket_numbers(values, types, layout.count, layout.version)
    orc_layout = Layout(
        orc_row_types(table), Codec.named(target.codec), _BLOCK, _STRIDE, calendar=None
    )
    files = []
    for number, (partition, bucket, places) in enumerate(_divided(rows, table, buckets)):
        path = f"{target.folder.path}/{number}.orc"
        columns = _stored(rows if places is None else rows.take(places), table)
        with translated_os_errors(table.folder):
            storage = Storage.of(target.folder.root)
            with storage.create(path) as sink:
                writer = RowWriter(sink, orc_layout, UTC)
                for start in range(0, columns.num_rows, _STRIDE):
                    group = columns.slice(start, _STRIDE).combine_chunks()
                    writer.write(group.to_batches()[0])
                writer.close()
                size = int(sink.tell())
        flat = (target.folder.root, path, size, partition, bucket)
        files.append(FlatFile(*flat, None if bucket is None else layout))
    return files


def _divided(
    rows: pa.Table, table: HiveTable, buckets: np.ndarray | None
) -> Iterator[tuple[str | None, int | None, Integers | None]]:
    """Yield each partition and bucket with the places of its rows; None means all."""
    if not rows.num_rows:
        return
    keys = [rows.column(key.name) for key in table.partition_keys]
    if not keys and buckets is None:
        yield None, None, None
        return
    parts = [] if buckets is None else [buckets.astype(np.int64)]
    names: list[list[object]] = []
    for column in keys:
        # An empty text is null as a partition key.
        is_text = pa.types.is_string(column.type)
        null = pa.scalar(None, pa.string())
        values = pc.if_else(pc.equal(column, ""), null, column) if is_text else column
        coded = values.combine_chunks().dictionary_encode()
        coded = coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded
        names.append([*coded.dictionary.to_pylist(), None])
        codes = pc.fill_null(coded.indices, len(names[-1]) - 1)
        parts.append(np.asarray(codes).astype(np.int64))
    groups, numbers = np.unique(np.vstack(parts), axis=1, return_inverse=True)
    order = np.argsort(numbers.reshape(-1), kind="stable")
    edges = np.searchsorted(numbers.reshape(-1)[order], np.arange(groups.shape[1] + 1))
    for index, group in enumerate(groups.T.tolist()):
        bucket = None if buckets is None else group.pop(0)
        texts = [_key_text(values[code]) for values, code in zip(names, group, strict=True)]
        name = named_partition(texts, table.key_types) if keys else None
        yield name, bucket, order[edges[index] : edges[index + 1]]


def _key_text(value: object) -> str | None:
    if value == DEFAULT_PARTITION:
        raise SparkNeeded("A partition key has the name of the default partition as its value.")
    if isinstance(value, date) and _LAST_JULIAN < value < _FIRST_GREGORIAN:
        raise SparkNeeded(f"The day {value} of a partition key, which Hive does not know.")
    return None if value is None else str(value)


def _stored(rows: pa.Table, table: HiveTable) -> pa.Table:
    """Return the columns of files, in the form that the writer takes."""
    columns = {}
    for column in table.columns:
        values, type_ = rows.column(column.name), parse_type(column.type)
        if isinstance(type_, Char):
            require_utf8(values)
            values = pc.utf8_rpad(values, type_.length, " ")
        elif type_ == Primitive("timestamp"):
            values = _split(values)
        elif type_ == Primitive("date"):
            _require_gregorian(values.cast(pa.int32()))
        columns[column.name] = values
    return pa.table(columns)


def _require_gregorian(days: pa.ChunkedArray) -> None:
    first = pc.min(days).as_py()
    if first is not None and first < FIRST_GREGORIAN_DAY:
        raise SparkNeeded("A day is before 1582-10-15.")


def _split(values: pa.ChunkedArray) -> pa.Array:
    """Take timestamps apart as writers in Java do; they round seconds before 1970 up."""
    array = values.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    missing = np.asarray(array.is_null())
    if array.type == TIMESTAMP:
        seconds, nanos = (np.asarray(array.field(n).fill_null(0)).astype(np.int64) for n in (0, 1))
    else:
        micros = np.asarray(array.cast(pa.timestamp("us")).fill_null(0).cast(pa.int64()))
        seconds, nanos = micros // 10**6, micros % 10**6 * 1000
    seconds, nanos = np.where(missing, 0, seconds), np.where(missing, 0, nanos)
    if len(seconds) and seconds.min() < FIRST_GREGORIAN_DAY * _DAY:
        raise SparkNeeded("A timestamp is before 1582-10-15.")
    rounded = (seconds < 0) & (nanos > 999_999)
    if (rounded & (seconds == -1)).any():
        raise SparkNeeded("A timestamp is within the last second before 1970.")
    parts = [seconds + rounded - SECONDS_OF_2015, nanos + SECONDS_OF_2015 * _NANOS]
    return pa.StructArray.from_arrays(
        [pa.array(part) for part in parts], ["seconds", "nanos"], mask=pa.array(missing)
    )


def partition_names_of(rows: pa.Table, table: HiveTable) -> list[str]:
    """Return the names of the partitions that rows belong to, by their partition keys."""
    return sorted({name for name, _, _ in _divided(rows, table, None) if name is not None})
