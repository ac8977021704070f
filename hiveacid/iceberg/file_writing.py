"""The data files and delete files of one attempt: written by tasks, and described for Iceberg."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from hiveacid.dataclass import dataclass
from hiveacid.errors import StorageError
from hiveacid.iceberg.data_file import deletes_task, share_task, write_task
from hiveacid.iceberg.data_file_task import (
    CopyShares,
    DataFileMeasures,
    DataFileTask,
    DeleteFileTask,
    OrcMeasures,
    WrittenDataFile,
    WrittenDeleteFile,
)
from hiveacid.iceberg.lake import ChangedFiles, ChangedTable
from hiveacid.iceberg.position_delete_file import delete_entry
from hiveacid.jobs.iceberg_job import IcebergFileFormat
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import (
    BUCKETS,
    COUNT,
    DATES,
    DECIMALS,
    DOUBLES,
    INTEGERS,
    STRINGS,
    TIMESTAMPS,
    decimal_of,
)
from hiveacid.rules.location import Location
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.visible_table import PartitionDirectory
from hiveacid.upkeep.compaction.scheduling import COPIED_WHILE_ENCODED, Tasks

# Entries of a manifest of Iceberg for written data files, with measures from their footers


# The length of the bounds of texts, which is Iceberg's default.
_TEXT_LENGTH = 16
_MICROS = 1000
# Numbers that are no characters.
_SURROGATES = range(0xD800, 0xE000)
_EXACT = Context(prec=80)


def manifest_entry(
    file: WrittenDataFile,
    path: str,
    schema: Schema,
    partition: Record,
    spec_id: int,
    keys: Sequence[str],
) -> DataFile:
    """Describe a data file for Iceberg.

    Args:
        file: The file.
        path: Its location.
        schema: The columns of the table.
        partition: Its partition.
        spec_id: The number of the definition of the partitions.
        keys: The names of the partition keys.
    """
    measures, format_ = file.measures, FileFormat.PARQUET
    if not isinstance(measures, DataFileMeasures):
        measures, format_ = _measures(file.rows, measures, schema), FileFormat.ORC
    values = {schema.find_field(name): partition[place] for place, name in enumerate(keys)}
    measures = _with_keys(measures, file.rows, values)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=format_,
        partition=partition,
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        **asdict(measures),
        split_offsets=list(file.split_offsets),
        sort_order_id=None,
        spec_id=spec_id,
        equality_ids=None,
        key_metadata=None,
    )


def _measures(rows: int, columns: Mapping[int, OrcMeasures], schema: Schema) -> DataFileMeasures:
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for number, measures in columns.items():
        # Values inside of lists and maps are more or fewer than rows.
        if measures.repeated:
            continue
        statistics = Message.decode(measures.statistics)
        counts[number] = rows
        # Without a count of them, nothing is known of the values; see ``stored_statistics``.
        if statistics.number(COUNT, rows + 1) > rows:
            continue
        nulls[number] = rows - statistics.number(COUNT)
        type_ = schema.find_type(number)
        if isinstance(type_, PrimitiveType) and statistics.number(COUNT):
            low, high = _bounds(type_, statistics)
            if low is not None:
                lower[number] = to_bytes(type_, low)
            if high is not None:
                upper[number] = to_bytes(type_, high)
    return DataFileMeasures(
        column_sizes={number: measures.size for number, measures in columns.items()},
        value_counts=counts,
        null_value_counts=nulls,
        nan_value_counts={},
        lower_bounds=lower,
        upper_bounds=upper,
    )


def _with_keys(
    measures: DataFileMeasures, rows: int, values: Mapping[NestedField, Any]
) -> DataFileMeasures:
    """Add the partition keys, which ORC files do not contain.

    In Iceberg for Java a null partition is less than any value, and engines do not evaluate a
    condition on an identity partition for each row. Only the counts of nulls exclude files of null
    partitions from the result of such a condition.
    """
    counts = {key.field_id: rows for key in values}
    nulls = {key.field_id: rows if value is None else 0 for key, value in values.items()}
    bounds = {
        key.field_id: to_bytes(key.field_type, value)
        for key, value in values.items()
        # The bounds of columns with NaN are unknown.
        if value is not None and value == value and isinstance(key.field_type, PrimitiveType)
    }
    return replace(
        measures,
        value_counts={**measures.value_counts, **counts},
        null_value_counts={**measures.null_value_counts, **nulls},
        lower_bounds={**measures.lower_bounds, **bounds},
        upper_bounds={**measures.upper_bounds, **bounds},
    )


def partition_record(values: Sequence[pa.Scalar]) -> Record:
    """Return the values of partition keys in the form of manifests."""
    return Record(*map(_partition_value, values))


def _partition_value(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if pa.types.is_date32(value.type):
        return value.cast(pa.int32()).as_py()
    if pa.types.is_timestamp(value.type):
        return value.cast(pa.timestamp("us", value.type.tz)).cast(pa.int64()).as_py()
    return value.as_py()


def _bounds(type_: IcebergType, statistics: Message) -> tuple[Any, Any]:
    """Return the bounds of the values of a column, null where the footer does not contain them."""
    match type_:
        case IntegerType() | LongType():
            return _signed(statistics.message(INTEGERS), 1, 2)
        case DateType():
            return _signed(statistics.message(DATES), 1, 2)
        case TimestampType() | TimestamptzType():
            # Milliseconds of UTC; those before 1970 may be rounded in either direction.
            low, high = _signed(statistics.message(TIMESTAMPS), 3, 4)
            return (
                None if low is None else (low - 1) * _MICROS,
                None if high is None else (high + 1) * _MICROS,
            )
        case FloatType() | DoubleType():
            return _doubles(statistics.message(DOUBLES))
        case StringType():
            return _texts(statistics.message(STRINGS))
        case DecimalType():
            return _decimals(statistics.message(DECIMALS), type_.scale)
        case BooleanType():
            return _flags(statistics.message(BUCKETS), statistics.number(COUNT))
    return None, None


def _signed(range_: Message | None, first: int, last: int) -> tuple[int | None, int | None]:
    if range_ is None:
        return None, None
    return (
        range_.signed(first) if range_.has(first) else None,
        range_.signed(last) if range_.has(last) else None,
    )


def _doubles(range_: Message | None) -> tuple[float | None, float | None]:
    if range_ is None or not (range_.has(1) and range_.has(2)):
        return None, None
    return range_.real(1), range_.real(2)


def _texts(range_: Message | None) -> tuple[str | None, str | None]:
    if range_ is None:
        return None, None
    low, high = (
        next((text for field in fields if (text := range_.data(field)) is not None), None)
        for fields in ((1, 4), (2, 5))
    )
    try:
        return (
            None if low is None else low.decode()[:_TEXT_LENGTH],
            None if high is None else _upper_bound(high.decode()),
        )
    except UnicodeDecodeError:
        return None, None


def _upper_bound(text: str) -> str | None:
    """Return a short upper bound of a text; None if no short text is an upper bound."""
    if len(text) <= _TEXT_LENGTH:
        return text
    for length in range(_TEXT_LENGTH, 0, -1):
        following = ord(text[length - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= sys.maxunicode:
            return text[: length - 1] + chr(following)
    return None


def _decimals(range_: Message | None, scale: int) -> tuple[Decimal | None, Decimal | None]:
    if range_ is None:
        return None, None
    bounds = [range_.data(field) for field in (1, 2)]
    step = Decimal(1).scaleb(-scale)
    try:
        low, high = (
            None if text is None else decimal_of(text).quantize(step, context=_EXACT)
            for text in bounds
        )
    except InvalidOperation:
        return None, None
    return low, high


def _flags(buckets: Message | None, count: int) -> tuple[bool | None, bool | None]:
    trues = [] if buckets is None else buckets.all_numbers(1)
    if not trues:
        return None, None
    return trues[0] == count, trues[0] > 0


DataTask = tuple[PartitionDirectory, DataFileTask]
DeleteTask = tuple[PartitionDirectory, DeleteFileTask]


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of an attempt, with their partitions.

    Attributes:
        folder: Their folder.
        data: The data files.
        deletes: The delete files.
    """

    folder: Location
    data: Sequence[tuple[PartitionDirectory, WrittenDataFile]]
    deletes: Sequence[tuple[PartitionDirectory, WrittenDeleteFile]]

    @property
    def rows(self) -> int:
        """The rows of the data files, with deleted ones."""
        return sum(file.rows for _, file in self.data)

    @property
    def bytes(self) -> int:
        """The size of the data files."""
        return sum(file.bytes for _, file in self.data)

    @property
    def shares(self) -> list[CopyShares]:
        """How the stripes of the data files were made."""
        return [file.shares for _, file in self.data]

    @property
    def hidden(self) -> dict[str, int]:
        """The numbers of deleted rows in data files, by their locations."""
        return {file.data_file: file.rows for _, file in self.deletes}

    def verify(self) -> None:
        """Compare the files in the folder with those that the tasks have written.

        Raises:
            StorageError: A file is missing, or has another size.
        """
        listed_files = ReadOnlyStorage.of(self.folder).list_files(missing_ok=True)
        sizes = {file.path: file.size for file in listed_files}
        written_files: list[WrittenDataFile | WrittenDeleteFile] = [file for _, file in self.data]
        written_files += [file for _, file in self.deletes]
        for file in written_files:
            if sizes.get(file.name) != file.bytes:
                raise StorageError(
                    f"{self.folder}/{file.name} of {file.bytes} bytes was lost after it was written.",
                    remedy="Run the job again, and examine the file system.",
                )

    def described(self, target: ChangedTable, keys: TableColumns) -> ChangedFiles:
        """Describe the files for Iceberg.

        Args:
            target: The Iceberg table.
            keys: The partition keys.
        """

        def record(part: PartitionDirectory) -> Record:
            return partition_record(keys.values(part.values))

        # Each of them applies all pending changes to the metadata of the table.
        schema, spec_id, key_names = target.schema, target.spec_id, target.key_names
        return ChangedFiles(
            added=[
                manifest_entry(
                    file,
                    f"{self.folder}/{file.name}",
                    schema,
                    record(part),
                    spec_id,
                    key_names,
                )
                for part, file in self.data
            ],
            added_deletes=[
                delete_entry(file, f"{self.folder}/{file.name}", record(part), spec_id)
                for part, file in self.deletes
            ],
        )


def write_files(
    runner: Tasks,
    tasks: Sequence[DataTask],
    deletes: Sequence[DeleteTask],
    folder: Location,
    format_: IcebergFileFormat,
) -> WrittenFiles:
    """Write the files of an attempt.

    Args:
        runner: Runs the tasks.
        tasks: The data files.
        deletes: The delete files of data files that exist.
        folder: The folder of the files.
        format_: The format of the data files.
    """
    numbered = [
        replace(task, target=folder, name=f"{number:05d}.{format_}")
        for number, (_, task) in enumerate(tasks)
    ]
    data_files = runner.run(write_task, numbered, effort=_effort(numbered, folder))
    # A file without visible rows was not written.
    data = [
        (part, task, file)
        for (part, task), file in zip(tasks, data_files, strict=True)
        if file is not None
    ]
    delete_tasks = [
        *deletes,
        *(
            (part, DeleteFileTask(data_file=f"{folder}/{file.name}", named=task.named))
            for part, task, file in data
            if task.named is not None
        ),
    ]
    delete_files = _run_deletes(
        runner,
        [
            replace(task, target=folder, name=f"{number:05d}-deletes.parquet")
            for number, (_, task) in enumerate(delete_tasks)
        ],
    )
    return WrittenFiles(
        folder,
        [(part, file) for part, _, file in data],
        [
            (part, file)
            for (part, _), file in zip(delete_tasks, delete_files, strict=True)
            if file is not None
        ],
    )


def planned_shares(
    runner: Tasks, tasks: Sequence[DataTask], deletes: Sequence[DeleteTask]
) -> tuple[list[CopyShares], int]:
    """Determine how the stripes would be made, and the number of delete files, without writing."""
    data = [task for _, task in tasks]
    shares = runner.run(share_task, data, effort=sum(task.search_effort for task in data))
    delete_tasks = [task for _, task in deletes]
    delete_tasks += [
        DeleteFileTask(data_file="", named=task.named) for task in data if task.named is not None
    ]
    delete_files = _run_deletes(runner, delete_tasks)
    return shares, sum(file is not None for file in delete_files)


def _effort(tasks: Sequence[DataFileTask], folder: Location) -> int:
    """The work of writing data files, as a number of bytes to encode."""
    places = {folder, *(task.root for task in tasks)}
    is_local = all(ReadOnlyStorage.of(place).is_local for place in places)
    # Copies wait for remote storage, which serves several processes at a time.
    cheaper = COPIED_WHILE_ENCODED if is_local else 1
    return sum(task.bytes // cheaper if task.is_copied else task.bytes for task in tasks)


def _run_deletes(runner: Tasks, tasks: Sequence[DeleteFileTask]) -> list[WrittenDeleteFile | None]:
    return runner.run(deletes_task, tasks, effort=sum(task.named.search_effort for task in tasks))
