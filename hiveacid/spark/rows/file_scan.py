"""Scans of files with plain rows: the files are given, and nothing is listed.

The partition keys are columns of a scan, whose values are constants of each file. So Spark skips files
by any filter of a query on them, and by the values of a join.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from hiveacid.errors import UnsupportedFile
from hiveacid.metastore.catalog import HiveColumn, StorageFormat
from hiveacid.orc.format.streams import UTC
from hiveacid.rules.location import split
from hiveacid.rules.schema import MappedColumns, parse_type
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.java_scan import scan_frame
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.rows.columns import select_texts, shown_columns, spark_struct, spark_type
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.tables.row_format import PlainFile
from hiveacid.tables.scan.parquet_file import times_of_file
from hiveacid.tables.scan.times import YEAR_1900, StoredTime, standard_offset

# The number of a file's part.
PART = own_column("part")


def scan_files(
    spark: SparkSession,
    form: StorageFormat,
    files: Sequence[PlainFile],
    columns: StructType,
    keys: Sequence[HiveColumn] = (),
    *,
    by_position: bool | None = False,
    searchable: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows of files: the columns, the partition keys, and PART.

    Args:
        spark: A session made by ``scan_session``.
        form: The format of the files. The only column of lines is their text.
        files: The files. A missing file is an error, never a smaller result.
        columns: The columns to read.
        keys: The partition keys.
        by_position: Whether columns are found by position, in ORC files only; None refuses files
            for which that makes a difference.
        searchable: The columns by whose statistics parts of ORC files can be skipped.
        options: Options of Spark's reader of other formats.
    """
    numbers: dict[int, int] = {}
    partitions: list[tuple[str | None, ...]] = []
    file_rows = []
    for file in files:
        if file.part not in numbers:
            numbers[file.part] = len(partitions)
            partitions.append((*file.values, str(file.part)))
        of_part = numbers[file.part]
        file_rows.append([file.path, file.size, of_part, -1, True, True, None, file.modified])
    return scan_frame(
        spark,
        stored_as="text" if form.is_text else form.name.lower(),
        options=options,
        columns=columns,
        keys=StructType([*spark_struct(keys), StructField(PART, IntegerType())]),
        by_position=by_position,
        searchable=searchable,
        partitions=partitions,
        files=file_rows,
    )


# Frames over Parquet files, whose times have several forms.
#
# Spark applies one calendar to a scan, and no time zone. So each scan has files with the same
# forms.


_MICROS = 10**6

# The names that files have for the columns of a table.
Sources = tuple[str, ...]
# The forms of the times in each column of a table.
Times = tuple[tuple[StoredTime, ...], ...]


def sources_of(columns: MappedColumns, stored_names: Sequence[str]) -> Sources:
    """Return the names that a file has for the columns of its table."""
    # No file has a field of such a name, so that the column is null.
    return tuple(
        f"#{name}" if field is None else stored_names[field]
        for name, field in zip(columns.names, columns.fields(stored_names), strict=True)
    )


def scan_parquet(
    spark: SparkSession,
    files: Sequence[PlainFile],
    columns: Sequence[HiveColumn],
    sources: Sources,
    keys: Sequence[HiveColumn],
) -> DataFrame:
    """Return the rows of Parquet files: the table's columns, the partition keys, and PART.

    Args:
        spark: A session made by ``scan_session``.
        files: Files that have the same names for the columns.
        columns: The columns of the table.
        sources: The names that the files have for them.
        keys: The partition keys.

    Raises:
        CorruptFile: A file is not a Parquet file.
        UnsupportedFile: Timestamps in a time zone are nested.
    """
    groups: dict[Times, list[PlainFile]] = {((),) * len(columns): [*files]}
    if files and any(map(_is_timed, columns)):
        groups = {}
        times_of = partial(_times_of, columns, sources)
        for file, times in zip(files, in_threads(times_of, files), strict=True):
            groups.setdefault(times, []).append(file)
    # A column may have the name of a partition key in files.
    source_names = {source.lower() for source in sources}
    renamed_keys = [
        replace(key, name=own_column(f"key_{number}")) if key.name.lower() in source_names else key
        for number, key in enumerate(keys)
    ]
    columns_as_shown = [
        *shown_columns(columns, sources),
        *(
            f"{quoted(of.name)} AS {quoted(key.name)}"
            for of, key in zip(renamed_keys, keys, strict=True)
        ),
        PART,
    ]
    schema = spark_struct([replace(c, name=s) for c, s in zip(columns, sources, strict=True)])
    frames = []
    for times, alike in groups.items():
        rows = _scan_by_calendar(spark, alike, schema, times, renamed_keys)
        frames.append(_in_local_time(select_texts(rows, columns_as_shown), columns, times))
    return reduce(DataFrame.unionByName, frames)


def _scan_by_calendar(
    spark: SparkSession,
    files: Sequence[PlainFile],
    schema: StructType,
    times: Times,
    keys: Sequence[HiveColumn],
) -> DataFrame:
    """Scan Parquet files of a group, whose dates and timestamps may have different calendars."""
    hybrid = {form.physical for column in times for form in column if form.hybrid}
    modes = {"datetimeRebaseMode": hybrid - {"INT96"}, "int96RebaseMode": hybrid & {"INT96"}}
    if modes["datetimeRebaseMode"]:
        fields = zip(schema, times, strict=True)
        schema = StructType([_by_own_calendar(field, forms) for field, forms in fields])
    options = {mode: "LEGACY" if types else "CORRECTED" for mode, types in modes.items()}
    return scan_files(spark, StorageFormat.PARQUET, files, schema, keys, options=options)


def _by_own_calendar(field: StructField, forms: Sequence[StoredTime]) -> StructField:
    # Spark has one option for dates and INT64, and ignores it for timestamps without a time zone.
    is_proleptic = _has_proleptic_timestamps(forms)
    return StructField(field.name, _without_zone(field.dataType)) if is_proleptic else field


def _has_proleptic_timestamps(forms: Sequence[StoredTime]) -> bool:
    # Spark 3.5 does not read instants as timestamps without a time zone.
    return any(
        form.physical == "INT64" and not form.hybrid and (VERSION >= SPARK_4_0 or not form.instant)
        for form in forms
    )


def _without_zone(kind: DataType) -> DataType:
    match kind:
        case TimestampType():
            return TimestampNTZType()
        case ArrayType():
            return ArrayType(_without_zone(kind.elementType))
        case MapType():
            return MapType(_without_zone(kind.keyType), _without_zone(kind.valueType))
        case StructType():
            fields = [StructField(field.name, _without_zone(field.dataType)) for field in kind]
            return StructType(fields)
    return kind


def _in_local_time(frame: DataFrame, columns: Sequence[HiveColumn], times: Times) -> DataFrame:
    """Convert the timestamps of a frame to those that Hive shows."""
    local_times: dict[str, SparkColumn] = {}
    for column, forms in zip(columns, times, strict=True):
        value = stored_value = F.col(quoted(column.name))
        if _has_proleptic_timestamps(forms):
            value = value.cast(spark_type(parse_type(column.type), column.name))
        for form in forms:
            value = _local_time(value, form)
        if value is not stored_value:
            local_times[column.name] = value
    return frame.withColumns(local_times) if local_times else frame


def _local_time(value: SparkColumn, form: StoredTime) -> SparkColumn:
    if form.zone == UTC:
        return value
    local = F.from_utc_timestamp(value, form.zone)
    if not form.legacy:
        return local
    micros = F.unix_micros(value)
    standard = F.timestamp_micros(micros + standard_offset(form.zone) * _MICROS)
    return F.when(micros < YEAR_1900 * _MICROS, standard).otherwise(local)


def _times_of(columns: Sequence[HiveColumn], sources: Sources, file: PlainFile) -> Times:
    folder, name = split(file.path)
    forms_by_name = times_of_file(ReadOnlyStorage.of(folder), name)
    forms_by_name = {name.lower(): forms for name, forms in forms_by_name.items()}
    times: list[tuple[StoredTime, ...]] = []
    for column, source in zip(columns, sources, strict=True):
        times.append(forms_by_name.get(source.lower(), ()) if _is_timed(column) else ())
        zones = {form.zone for form in times[-1]} - {UTC}
        if zones and column.type.lower() != "timestamp":
            raise UnsupportedFile(
                f"{file.path}: {column.name} holds timestamps within other values, by the clock of"
                f" {zones.pop()}.",
                remedy="Let Hive copy the rows into an ORC table.",
            )
    return tuple(times)


def _is_timed(column: HiveColumn) -> bool:
    return "timestamp" in column.type.lower() or "date" in column.type.lower()
