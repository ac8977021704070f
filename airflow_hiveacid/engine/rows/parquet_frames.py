"""Frames over Parquet files, whose times have several forms.

Spark applies one calendar to a scan, and no time zone. So each scan has files with the same forms.
"""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_hiveacid.acid.schema import parse_type
from airflow_hiveacid.engine.rows.columns import FileColumns, quoted, spark_type
from airflow_hiveacid.engine.rows.frames import read_files
from airflow_hiveacid.engine.spark_versions import SPARK_4_0, VERSION
from airflow_hiveacid.errors import UnsupportedFile
from airflow_hiveacid.metastore.catalog import HiveColumn
from airflow_hiveacid.orc.format.stripe_footer import UTC
from airflow_hiveacid.scan.parquet_file import times_of_file
from airflow_hiveacid.scan.parquet_times import StoredTime
from airflow_hiveacid.scan.times import YEAR_1900, standard_offset
from airflow_hiveacid.storage.folder import ReadOnlyStorage
from airflow_hiveacid.storage.threads import in_threads

_MICROS = 10**6

# The forms of the times in each column of a table.
Times = tuple[tuple[StoredTime, ...], ...]


def by_times(columns: FileColumns, paths: Sequence[str]) -> dict[Times, list[str]]:
    """Group Parquet files by the forms of the times in the columns of a table.

    Raises:
        CorruptFile: A file is not a Parquet file.
        UnsupportedFile: Timestamps in a time zone are nested.
    """
    if not any(map(_is_timed, columns.columns)):
        return {((),) * len(columns.columns): list(paths)}
    groups: dict[Times, list[str]] = {}
    for path, times in zip(paths, in_threads(partial(_times_of, columns), paths), strict=True):
        groups.setdefault(times, []).append(path)
    return groups


def read_by_calendar(
    spark: SparkSession, paths: Sequence[str], schema: StructType, times: Times
) -> DataFrame:
    """Scan Parquet files of a group, whose dates and timestamps may have different calendars."""
    hybrid = {form.physical for column in times for form in column if form.hybrid}
    modes = {"datetimeRebaseMode": hybrid - {"INT96"}, "int96RebaseMode": hybrid & {"INT96"}}
    if modes["datetimeRebaseMode"]:
        fields = zip(schema, times, strict=True)
        schema = StructType([_by_own_calendar(field, forms) for field, forms in fields])
    options = {mode: "LEGACY" if types else "CORRECTED" for mode, types in modes.items()}
    return read_files(spark, "parquet", paths, schema, **options)


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


def in_local_time(frame: DataFrame, columns: Sequence[HiveColumn], times: Times) -> DataFrame:
    """Convert the timestamps of a frame to those that Hive shows."""
    shown: dict[str, SparkColumn] = {}
    for column, forms in zip(columns, times, strict=True):
        value = stored = F.col(quoted(column.name))
        if _has_proleptic_timestamps(forms):
            value = value.cast(spark_type(parse_type(column.type), column.name))
        for form in forms:
            value = _local_time(value, form)
        if value is not stored:
            shown[column.name] = value
    return frame.withColumns(shown) if shown else frame


def _local_time(value: SparkColumn, form: StoredTime) -> SparkColumn:
    if form.zone == UTC:
        return value
    local = F.from_utc_timestamp(value, form.zone)
    if not form.legacy:
        return local
    micros = F.unix_micros(value)
    standard = F.timestamp_micros(micros + standard_offset(form.zone) * _MICROS)
    return F.when(micros < YEAR_1900 * _MICROS, standard).otherwise(local)


def _times_of(columns: FileColumns, path: str) -> Times:
    folder, _, file = path.rpartition("/")
    stored = times_of_file(ReadOnlyStorage.of(folder), file)
    stored = {name.lower(): forms for name, forms in stored.items()}
    times: list[tuple[StoredTime, ...]] = []
    for column, source in zip(columns.columns, columns.sources, strict=True):
        times.append(stored.get(source.lower(), ()) if _is_timed(column) else ())
        zones = {form.zone for form in times[-1]} - {UTC}
        if zones and column.type.lower() != "timestamp":
            raise UnsupportedFile(
                f"{path}: {column.name} holds timestamps within other values, by the clock of"
                f" {zones.pop()}.",
                remedy="Let Hive copy the rows into an ORC table.",
            )
    return tuple(times)


def _is_timed(column: HiveColumn) -> bool:
    return "timestamp" in column.type.lower() or "date" in column.type.lower()
