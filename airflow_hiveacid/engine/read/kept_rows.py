"""Rows that are evaluated once, and written down for all that needs them afterwards.

A cache is no promise: its blocks get lost with an executor, or make room for others, and are then
computed again. A source without a stable order, a random number or a file that changes gives other
rows by that, and what was derived from the first ones no longer fits. Files stay what they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StructField,
    StructType,
)

from airflow_hiveacid.engine.failures import spark_errors_as_ours
from airflow_hiveacid.engine.file_writer import file_writer
from airflow_hiveacid.engine.hidden_folder import HiddenFolder, ReadingTransaction
from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.rows.spark_paths import escape_glob
from airflow_hiveacid.engine.session import (
    evaluating_session,
    file_reader,
    in_session,
    scan_session,
)
from airflow_hiveacid.errors import TypeMismatch
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.storage.folder import Storage

# Every value comes back as it was: timestamps to the microsecond in one calendar, whatever the user's
# settings are for files of his own.
_EXACT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "false",
}
_FILE_OPTIONS = {
    "compression": "snappy",
    # Plain values, so that the files tell how large the rows are in memory.
    "parquet.enable.dictionary": "false",
    "parquet.writer.version": "v1",
}
# Names of columns may be equal, and those of fields may differ by nothing but their case.
_CASE_SENSITIVE = "spark.sql.caseSensitive"


@dataclass(frozen=True)
class KeptRows:
    """Rows in files that nobody changes until the transaction they belong to ends.

    Attributes:
        frame: The rows, as often as they are wanted.
        rows: How many there are.
        bytes: How large they are about, when they are not compressed.
    """

    frame: DataFrame
    rows: int
    bytes: int
    _storage: Storage
    _paths: Sequence[str]

    def values(self, column: str) -> pa.ChunkedArray:
        """The values of a column, read here; its name must not stand twice."""
        name = _name(self.frame.columns.index(column))

        def read(path: str) -> pa.Table:
            with self._storage.open_input(path) as source:
                return parquet.read_table(source, columns=[name])

        return pa.concat_tables(in_threads(read, self._paths))[name]


def keep_rows(
    frame: DataFrame, spark: SparkSession, table: HiveTable, txn: ReadingTransaction, what: str
) -> KeptRows:
    """Evaluate a frame, which nobody may do again.

    The rows lie in a hidden folder of the table that any cleaner knows for what it is, and go when
    the transaction ends.

    Args:
        frame: Of any session, with columns of any names.
        spark: The session that uses the rows.
        table: The table that is written.
        txn: The transaction that the files belong to.
        what: What the rows are, to begin an error's message with.

    Raises:
        TypeMismatch: A column has a type that no file can hold.
    """
    fields = frame.schema.fields
    _require_kept_types(fields, what)
    folder = HiddenFolder.until_the_end_of(txn, table.folder)

    names = [_name(number) for number in range(len(fields))]
    writing = evaluating_session(frame.sparkSession)
    for key, value in _EXACT.items():
        writing.conf.set(key, value)
    if any(_alike_but_for_case(field.dataType) for field in fields):
        writing.conf.set(_CASE_SENSITIVE, "true")
    with spark_errors_as_ours(what):
        numbered = in_session(frame.toDF(*names), writing)
        file_writer(numbered, folder.path).options(**_FILE_OPTIONS).parquet(folder.path)

    listed = folder.storage.list_files(folder.name, recursive=True)
    paths = [
        f"{folder.name}/{file.path}" for file in listed if not file.path.startswith((".", "_"))
    ]
    sizes = in_threads(lambda path: _size(folder.storage, path), paths)
    reading = scan_session(spark)
    reading.conf.set(_CASE_SENSITIVE, "true")
    schema = StructType([StructField(n, f.dataType) for n, f in zip(names, fields, strict=True)])
    root = table.folder.rstrip("/")
    files = [escape_glob(f"{root}/{path}") for path in paths]
    # Named one by one: if one of them goes, that is an error, and no smaller result.
    read = file_reader(reading).schema(schema).parquet(*files)
    kept = in_session(read, spark).select(
        *[
            F.col(n).alias(f.name, metadata=f.metadata) if f.metadata else F.col(n).alias(f.name)
            for n, f in zip(names, fields, strict=True)
        ]
    )
    rows, size = (sum(numbers) for numbers in zip(*sizes, strict=True))
    return KeptRows(kept, rows, size, folder.storage, paths)


class SharedRows:
    """What several statements of one transaction read, and must read as one.

    The rows are those that the first statement to ask for them has seen.

    Args:
        table: The table that rows are kept beside.
        txn: The transaction of the statements.
    """

    def __init__(self, table: HiveTable, txn: ReadingTransaction) -> None:
        self._table = table
        self._txn = txn
        self._frames: dict[str, DataFrame] = {}

    def known(self, what: object, spark: SparkSession) -> DataFrame | None:
        """Rows that a statement has asked for before, if one has.

        Args:
            what: What is read.
            spark: The session that uses the rows.
        """
        frame = self._frames.get(repr(what))
        return None if frame is None else in_session(frame, spark)

    def remember(self, what: object, rows: DataFrame) -> None:
        """Rows for all that ask after this one."""
        self._frames[repr(what)] = rows

    def kept(self, what: object, spark: SparkSession, rows: DataFrame) -> DataFrame:
        """Rows that are evaluated for the first statement, and for no other.

        Args:
            what: What the rows are.
            spark: The session that uses them.
            rows: The same in this session, evaluated for the first one.
        """
        if (known := self.known(what, spark)) is not None:
            return known
        frame = keep_rows(rows, spark, self._table, self._txn, "The source").frame
        self.remember(what, frame)
        return frame


def _name(number: int) -> str:
    return f"c{number}"


def _size(storage: Storage, path: str) -> tuple[int, int]:
    with storage.open_input(path) as source:
        tail = parquet.read_metadata(source)
    groups = range(tail.num_row_groups)
    return tail.num_rows, sum(tail.row_group(number).total_byte_size for number in groups)


def _require_kept_types(fields: Sequence[StructField], what: str) -> None:
    for field in fields:
        if any(_is_no_value(type_) for type_ in _types(field.dataType)):
            raise TypeMismatch(
                f"{what}: no file can hold the type {field.dataType.simpleString()} of column "
                f"{field.name}.",
                remedy="Leave the column out, or cast it.",
            )


def _is_no_value(given: DataType) -> bool:
    empty = isinstance(given, StructType) and not given.fields
    return empty or isinstance(given, CalendarIntervalType)


def _alike_but_for_case(given: DataType) -> bool:
    structs = [type_ for type_ in _types(given) if isinstance(type_, StructType)]
    return any(
        len({name.lower() for name in struct.names}) < len(struct.names) for struct in structs
    )


def _types(given: DataType) -> list[DataType]:
    """A type, and all that it is made of."""
    inner: list[DataType] = []
    if isinstance(given, ArrayType):
        inner = [given.elementType]
    elif isinstance(given, MapType):
        inner = [given.keyType, given.valueType]
    elif isinstance(given, StructType):
        inner = [field.dataType for field in given.fields]
    return [given, *[type_ for part in inner for type_ in _types(part)]]
