"""Rows that are evaluated once and stored in files for all later uses.

A cache is unreliable: its blocks may be lost with an executor, or evicted, and are then recomputed.
A source with an unstable order, a random number or a changing file then yields other rows, which do
not match earlier results. Files do not change.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    NullType,
    StructField,
    StructType,
)

from hiveacid.dataclass import dataclass
from hiveacid.errors import TypeMismatch
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.rules.location import below
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.rows.file_scan import scan_files
from hiveacid.spark.session import evaluating_session, file_writer, in_session, scan_session
from hiveacid.spark.spark_versions import FILES_HOLD_VOID, is_calendar_interval
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import Storage
from hiveacid.storage.hidden_folder import HiddenFolder, ReadingTransaction
from hiveacid.tables.row_format import PlainFile

# Every value is read back exactly: timestamps to the microsecond in one calendar, regardless of the
# user's settings for other files.
_EXACT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "false",
}
_FILE_OPTIONS = {
    "compression": "snappy",
    # Plain encoding, so that file sizes indicate the size of the rows in memory.
    "parquet.enable.dictionary": "false",
    "parquet.writer.version": "v1",
}
# Columns may have equal names, and field names may differ only by case.
_CASE_SENSITIVE = "spark.sql.caseSensitive"


@dataclass(frozen=True)
class KeptRows:
    """Rows in files that do not change until the end of their transaction.

    Attributes:
        frame: The rows, which can be read repeatedly.
        rows: The number of rows.
        bytes: The approximate uncompressed size.
    """

    frame: DataFrame
    rows: int
    bytes: int
    _storage: Storage
    _paths: Sequence[str]

    def values(self, column: str) -> pa.ChunkedArray:
        """The values of a column, read in the driver; the column name must be unique."""
        name = _name(self.frame.columns.index(column))

        def read(path: str) -> pa.Table:
            with self._storage.open_input(path) as source:
                file = ParquetInput(source, path)
                schema = pa.schema([file.schema.field(name)])
                return pa.Table.from_batches(file.batches([name]), schema)

        return pa.concat_tables(in_threads(read, self._paths))[name]


def keep_rows(
    frame: DataFrame, spark: SparkSession, table: HiveTable, txn: ReadingTransaction, subject: str
) -> KeptRows:
    """Evaluate a frame once and store its rows.

    The rows are in a hidden folder of the table, which any cleaner recognizes, and are removed when
    the transaction ends.

    Args:
        frame: A frame of any session, with any column names.
        spark: The session that uses the rows.
        table: The table that is written.
        txn: The transaction that the files belong to.
        subject: The name of the rows, at the beginning of error messages.

    Raises:
        TypeMismatch: A column has a type that no file can hold.
    """
    fields = frame.schema.fields
    _require_kept_types(fields, subject)
    folder = HiddenFolder.until_the_end_of(txn, table.folder)

    names = [_name(number) for number in range(len(fields))]
    writing = evaluating_session(frame.sparkSession)
    for key, value in _EXACT.items():
        writing.conf.set(key, value)
    if any(_alike_but_for_case(field.dataType) for field in fields):
        writing.conf.set(_CASE_SENSITIVE, "true")
    with translated_spark_errors(subject):
        numbered = in_session(frame.toDF(*names).select(*map(_storable, names, fields)), writing)
        file_writer(numbered, folder.path).options(**_FILE_OPTIONS).parquet(folder.path)

    all_files = folder.storage.list_files(folder.name, recursive=True)
    data_files = [file for file in all_files if not file.path.startswith((".", "_"))]
    paths = [f"{folder.name}/{file.path}" for file in data_files]
    sizes = in_threads(lambda path: _size(folder.storage, path), paths)
    reading = scan_session(spark)
    reading.conf.set(_CASE_SENSITIVE, "true")
    schema = StructType(
        [
            StructField(n, BooleanType() if _is_void(f) else f.dataType)
            for n, f in zip(names, fields, strict=True)
        ]
    )
    files = [PlainFile(below(folder.path, file.path), file.size) for file in data_files]
    read = scan_files(reading, StorageFormat.PARQUET, files, schema)
    stored_rows = in_session(read, spark).select(
        *[
            _stored(n, f).alias(f.name, **({"metadata": f.metadata} if f.metadata else {}))
            for n, f in zip(names, fields, strict=True)
        ]
    )
    rows, size = (sum(numbers) for numbers in zip(*sizes, strict=True))
    return KeptRows(stored_rows, rows, size, folder.storage, paths)


class SharedRows:
    """Rows that several statements of one transaction read, and must read identically.

    The rows are those that the first statement has read.

    Args:
        table: The table whose folder stores the rows.
        txn: The transaction of the statements.
    """

    def __init__(self, table: HiveTable, txn: ReadingTransaction) -> None:
        self._table = table
        self._txn = txn
        self._frames: dict[str, DataFrame] = {}

    def earlier(self, source: object, spark: SparkSession) -> DataFrame | None:
        """Return rows that an earlier statement has read, if any.

        Args:
            source: The source of the rows.
            spark: The session that uses the rows.
        """
        frame = self._frames.get(repr(source))
        return None if frame is None else in_session(frame, spark)

    def remember(self, source: object, rows: DataFrame) -> None:
        """Store rows for later statements."""
        self._frames[repr(source)] = rows

    def kept(self, source: object, spark: SparkSession, rows: DataFrame) -> DataFrame:
        """Evaluate rows for the first statement, and return the stored rows to later ones.

        Args:
            source: The source of the rows.
            spark: The session that uses them.
            rows: The rows in this session, evaluated for the first statement.
        """
        if (stored_rows := self.earlier(source, spark)) is not None:
            return stored_rows
        frame = keep_rows(rows, spark, self._table, self._txn, "The source").frame
        self.remember(source, frame)
        return frame


def _name(number: int) -> str:
    return f"c{number}"


def _size(storage: Storage, path: str) -> tuple[int, int]:
    with storage.open_input(path) as source:
        tail = ParquetInput(source, path).metadata
    groups = range(tail.num_row_groups)
    return tail.num_rows, sum(tail.row_group(number).total_byte_size for number in groups)


def _is_void(field: StructField) -> bool:
    """Whether a column has no values, and its files another type."""
    return isinstance(field.dataType, NullType) and not FILES_HOLD_VOID


def _storable(name: str, field: StructField) -> Column:
    # The cast still evaluates the column, which may raise an error.
    return F.col(name).cast("boolean").alias(name) if _is_void(field) else F.col(name)


def _stored(name: str, field: StructField) -> Column:
    return F.lit(None) if _is_void(field) else F.col(name)


def _require_kept_types(fields: Sequence[StructField], subject: str) -> None:
    for field in fields:
        types = [] if _is_void(field) else _types(field.dataType)
        if any(map(_is_no_value, types)):
            raise TypeMismatch(
                f"{subject}: no file can hold the type {field.dataType.simpleString()} of column "
                f"{field.name}.",
                remedy="Leave the column out, or cast it.",
            )


def _is_no_value(spark_type: DataType) -> bool:
    empty = isinstance(spark_type, StructType) and not spark_type.fields
    void = isinstance(spark_type, NullType) and not FILES_HOLD_VOID
    return empty or void or is_calendar_interval(spark_type)


def _alike_but_for_case(spark_type: DataType) -> bool:
    structs = [type_ for type_ in _types(spark_type) if isinstance(type_, StructType)]
    return any(
        len({name.lower() for name in struct.names}) < len(struct.names) for struct in structs
    )


def _types(spark_type: DataType) -> list[DataType]:
    """A type, and all nested types."""
    inner: list[DataType] = []
    if isinstance(spark_type, ArrayType):
        inner = [spark_type.elementType]
    elif isinstance(spark_type, MapType):
        inner = [spark_type.keyType, spark_type.valueType]
    elif isinstance(spark_type, StructType):
        inner = [field.dataType for field in spark_type.fields]
    return [spark_type, *[type_ for part in inner for type_ in _types(part)]]
