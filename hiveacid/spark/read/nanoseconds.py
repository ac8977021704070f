"""Prevention of truncating timestamps to microseconds, the finest resolution of Spark.

Hive, Trino and other engines write nanoseconds. Changing a row, or copying it into another table,
would truncate them, even in columns that the statement does not name; so the files are inspected
first.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import BinaryIO

from pyspark.sql import SparkSession

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedFile, UserError
from hiveacid.foreign.parquet import ParquetInput
from hiveacid.jobs.table_properties import NANOSECONDS, REFUSE, TRUNCATE
from hiveacid.metastore.catalog import HiveColumn, HiveTable, StorageFormat
from hiveacid.orc.format.envelope import with_column_names
from hiveacid.orc.format.streams import Integers
from hiveacid.orc.values.timestamps import (
    finer_column,
    is_finer_text,
    is_marked,
    timestamps_in,
)
from hiveacid.rules.location import Location, split
from hiveacid.rules.schema import MappedColumns
from hiveacid.spark.parallel import SparkTasks
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.flat_snapshot import FlatSnapshot
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import read_tail
from hiveacid.tables.row_format import RowFormat
from hiveacid.tables.scan.times import StoredTime, stored_times


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """A file to inspect.

    Attributes:
        path: Its full path.
        size: The length of its valid part in bytes; None means all.
        format: Its format.
        columns: The columns of the table.
    """

    path: Location
    size: int | None
    format: StorageFormat
    columns: MappedColumns


def check_nanoseconds(
    spark: SparkSession,
    snapshot: AcidSnapshot | FlatSnapshot,
    subject: str,
    columns: Collection[str] | None = None,
) -> None:
    """Refuse to truncate timestamps of a table, unless a table property allows it.

    Args:
        spark: The session; its tasks inspect the files.
        snapshot: The snapshot that the timestamps are read from.
        subject: The operation that would truncate them, for the message.
        columns: The columns whose values are used, in lower case; None means all columns.

    Raises:
        UnsupportedFile: A timestamp has more digits than microseconds.
        UserError: The table property has an invalid value.
    """
    table = snapshot.table
    columns_to_check, keys = timestamp_columns(table), _names_of_timestamps(table.partition_keys)
    if columns is not None:
        columns_to_check, keys = columns_to_check & set(columns), keys & set(columns)
    if not columns_to_check | keys or _truncates(table):
        return
    _check_partition_keys(snapshot, subject, keys)
    if not columns_to_check:
        return
    files = _files_of(snapshot)
    unsure = [f for f, is_so in zip(files, in_threads(_is_unsure, files), strict=True) if is_so]
    finer = SparkTasks(spark).run(partial(finer_column_in, columns_to_check), unsure)
    for file, column in zip(unsure, finer, strict=True):
        if column is not None:
            raise UnsupportedFile(
                f"{file.path} of {table.ref.full_name} has nanoseconds in the column {column},"
                f" which {subject} would cut to microseconds.",
                remedy=f"Set {column} in the statement, or leave it out; or give"
                f" {table.ref.full_name} the table property '{NANOSECONDS}'='{TRUNCATE}' if they"
                " may be cut.",
            )


def timestamp_columns(table: HiveTable) -> set[str]:
    """The columns that are or contain timestamps, in lower case."""
    return _names_of_timestamps(table.columns)


def _names_of_timestamps(columns: Sequence[HiveColumn]) -> set[str]:
    return {column.name.lower() for column in columns if "timestamp" in column.type.lower()}


def _check_partition_keys(
    snapshot: AcidSnapshot | FlatSnapshot, subject: str, keys: Collection[str]
) -> None:
    """Refuse to write a row into a wrong partition because of a truncated partition key."""
    table = snapshot.table
    for index, key in enumerate(table.partition_keys):
        if key.name.lower() not in keys:
            continue
        for name, values in _partitions_of(snapshot):
            if is_finer_text(values[index] or ""):
                raise UnsupportedFile(
                    f"The partition {name} of {table.ref.full_name} has nanoseconds in its key"
                    f" {key.name}, which {subject} would cut to microseconds.",
                    remedy=f"Set {key.name} in the statement, exclude the partition by a condition"
                    f" on it, or give {table.ref.full_name} the table property"
                    f" '{NANOSECONDS}'='{TRUNCATE}' if they may be cut.",
                )


def _partitions_of(
    snapshot: AcidSnapshot | FlatSnapshot,
) -> Iterator[tuple[str | None, Sequence[str | None]]]:
    """The names and values of the partitions that have rows."""
    if isinstance(snapshot, AcidSnapshot):
        yield from (
            (partition.name, partition.values)
            for partition in snapshot.partitions
            if partition.inserts
        )
    else:
        yield from (
            (partition.name, partition.values)
            for partition, files in snapshot.files
            if partition and files
        )


def finer_column_in(columns: Collection[str], file: InspectedFile) -> str | None:
    """The first of some columns of a file that has more digits than microseconds."""
    folder, name = split(file.path)
    storage = ReadOnlyStorage.of(folder)
    tail = None if file.format is StorageFormat.PARQUET else read_tail(storage, name, file.size)
    with storage.open_input(name) as source:
        if tail is None:
            return _finer_column_of_parquet(source, file.path, columns, file.columns)
        named_tail = replace(tail, types=with_column_names(tail.types, file.columns))
        return finer_column(source, named_tail, columns)


def _finer_column_of_parquet(
    source: BinaryIO, path: str, columns: Collection[str], table: MappedColumns
) -> str | None:
    # Distant times of 96 bits overflow a number of nanoseconds, but the overflowed value has the
    # correct remainder.
    file = ParquetInput(source, path)
    stored_names = file.names
    table_names = dict(zip(stored_names, table.renamed(stored_names), strict=True))
    times = stored_times(file.metadata)
    names = [
        name
        for name in stored_names
        if table_names[name].lower() in columns
        and any(time.unit == "ns" for time in times.get(name, ()))
    ]
    for name in names:
        forms = [time for time in times[name] if time.unit != "day"]
        coarse, fine = (file.batches([name], int96=unit) for unit in ("us", "ns"))
        for micros, nanos in zip(coarse, fine, strict=True):
            leaves = zip(
                forms, timestamps_in(micros.column(0)), timestamps_in(nanos.column(0)), strict=True
            )
            if any(_is_finer(form, micros, many) for form, micros, many in leaves):
                return table_names[name]
    return None


def _is_finer(form: StoredTime, micros: Integers, many: Integers) -> bool:
    """Whether some numbers, read as microseconds and as nanoseconds, differ by more than the unit."""
    if form.physical == "INT96":
        return bool((many != micros * 1000).any())
    return form.unit == "ns" and bool((many % 1000).any())


def _files_of(snapshot: AcidSnapshot | FlatSnapshot) -> list[InspectedFile]:
    table = snapshot.table
    columns = table.mapped_columns
    if isinstance(snapshot, AcidSnapshot):
        return [
            InspectedFile(file.path, file.size, StorageFormat.ORC, columns)
            for partition in snapshot.partitions
            for file in partition.inserts
        ]
    files: list[InspectedFile] = []
    for partition, files_of_partition in snapshot.files:
        form = RowFormat.of(table, partition).format
        if not form.is_text:
            files += [
                InspectedFile(file.path, file.size, form, columns) for file in files_of_partition
            ]
    return files


def _is_unsure(file: InspectedFile) -> bool:
    """Whether a file lacks a mark that it has no nanoseconds."""
    if file.format is StorageFormat.PARQUET:
        return True
    folder, name = split(file.path)
    return not is_marked(read_tail(ReadOnlyStorage.of(folder), name, file.size))


def _truncates(table: HiveTable) -> bool:
    setting = table.parameters.get(NANOSECONDS, REFUSE).strip().lower()
    if setting not in (TRUNCATE, REFUSE):
        raise UserError(
            f"{table.ref.full_name} has the property {NANOSECONDS}={setting!r}.",
            remedy=f"Set it to {TRUNCATE} or {REFUSE}.",
        )
    return setting == TRUNCATE
