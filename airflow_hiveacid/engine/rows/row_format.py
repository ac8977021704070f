"""Reading and writing files of every format that Hive stores plain rows in."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.acid.schema import Char, ColumnMapping, MappedColumns, parse_type
from airflow_hiveacid.engine.own_columns import own_column
from airflow_hiveacid.engine.rows.columns import (
    FileColumns,
    Stored,
    layout,
    quoted,
    spark_struct,
    spark_type,
)
from airflow_hiveacid.engine.rows.frames import read_files
from airflow_hiveacid.engine.rows.parquet_frames import (
    by_times,
    in_local_time,
    read_by_calendar,
)
from airflow_hiveacid.engine.rows.partition_values import PATH
from airflow_hiveacid.engine.rows.serde_csv import CsvText
from airflow_hiveacid.engine.rows.serde_json import JsonText
from airflow_hiveacid.engine.rows.serde_text import DelimitedText
from airflow_hiveacid.engine.session import in_session, scan_session
from airflow_hiveacid.engine.spark_versions import metadata_column, try_cast
from airflow_hiveacid.layout.file_columns import stored_names
from airflow_hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.storage.folder import ReadOnlyStorage
from airflow_hiveacid.storage.threads import in_threads

LINE, _ROW = own_column("line"), own_column("parsed")
# Valid values of the table properties for skipped lines.
_LINES = range(1 << 31)
# Larger than any file: every file is then one partition of Spark.
_WHOLE_FILES = {
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.files.openCostInBytes": str(1 << 40),
}


class RowText(Protocol):
    """Converts lines to rows and rows to lines."""

    def with_row(self, lines: DataFrame, line: str, row: str) -> DataFrame:
        """Append the row in each line, a struct."""

    def with_line(self, rows: DataFrame, line: str, what: str) -> DataFrame:
        """Append the line of each row; a row that Hive would not read back is an error."""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The row format in the files of a table, or of one of its partitions.

    Attributes:
        table: The table's name, for errors.
        format: The format.
        columns: The columns of the table.
        mapped: The same columns, with their mapping to ORC and Parquet files.
        written: The columns of the partition, which its lines have: possibly fewer, and of other
            types.
        parameters: The properties of the serde and of the table.
        header: The number of lines at the beginning of a file that are not rows.
        footer: The number of lines at its end that are not rows.
    """

    table: str
    format: StorageFormat
    columns: tuple[HiveColumn, ...]
    mapped: MappedColumns
    written: tuple[HiveColumn, ...]
    parameters: tuple[tuple[str, str], ...]
    header: int
    footer: int

    @classmethod
    def of(cls, table: HiveTable, partition: HivePartition | None = None) -> Self:
        """Return the format of a partition, or of a table without partitions.

        Raises:
            UnsupportedTable: The format is unsupported.
        """
        storage = table.raw.sd if partition is None else partition.raw.sd
        serde = storage.serdeInfo
        form = StorageFormat.of(serde.serializationLib, table.ref.full_name)
        return cls(
            table=table.ref.full_name,
            format=form,
            columns=table.columns,
            mapped=table.mapped_columns,
            written=partition.columns if partition and form.is_text else table.columns,
            # Hive also passes the table's properties to a serde, and they take precedence.
            parameters=tuple(sorted({**(serde.parameters or {}), **table.parameters}.items())),
            header=table.number("skip.header.line.count", 0, _LINES),
            footer=table.number("skip.footer.line.count", 0, _LINES),
        )

    @property
    def text(self) -> RowText:
        """The converter between lines and rows.

        Raises:
            UnsupportedTable: The serde has an unsupported parameter.
        """
        parameters = dict(self.parameters)
        if self.format is StorageFormat.TEXTFILE:
            return DelimitedText(self.written, parameters, self.table)
        if self.format is StorageFormat.CSV:
            return CsvText(self.written, parameters)
        return JsonText(self.written, parameters)

    def has_ambiguous_columns(self, paths: Sequence[str]) -> bool:
        """Whether the values of some files depend on the column mapping."""
        if self.format.is_text:
            return False
        return any(map(self.mapped.is_ambiguous, in_threads(self._stored_names, paths)))

    def scan(self, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        """The rows of some files: the table's columns, and the path of the file as PATH.

        Args:
            spark: A session made by ``scan_session``.
            paths: The full paths.
        """
        if self.format.is_text:
            rows = self.text.with_row(self.lines(spark, paths), LINE, _ROW)
            return rows.select(PATH, *map(self._field, range(len(self.columns))))
        mapping = self.mapped.mapping
        frames = [
            self._scan_alike(
                spark, FileColumns.of(self.columns, self.columns, mapping, stored), files
            )
            for stored, files in self._by_layout(paths).items()
        ]
        return reduce(DataFrame.unionByName, frames)

    def _scan_alike(
        self, spark: SparkSession, columns: FileColumns, paths: Sequence[str]
    ) -> DataFrame:
        """Read ORC or Parquet files that have the same names for the columns."""
        schema = spark_struct(columns.read)
        if self.format is StorageFormat.ORC:
            frame = read_files(spark, "orc", paths, schema)
            return frame.select(_path(frame).alias(PATH), *self._shown(columns))
        frames = []
        for times, files in by_times(columns, paths).items():
            frame = read_by_calendar(spark, files, schema, times)
            frame = frame.select(_path(frame).alias(PATH), *self._shown(columns))
            frames.append(in_local_time(frame, self.columns, times))
        return reduce(DataFrame.unionByName, frames)

    def _by_layout(self, paths: Sequence[str]) -> dict[Stored, list[str]]:
        """Group files by their names for the table's columns."""
        if self.mapped.mapping is ColumnMapping.NAME:
            # Spark finds columns by itself, also in ORC files without names.
            return {(): list(paths)}
        groups: dict[Stored, list[str]] = {}
        for path, stored in zip(paths, in_threads(self._stored_names, paths), strict=True):
            groups.setdefault(layout(self.mapped, stored), []).append(path)
        return groups

    def _stored_names(self, path: str) -> Sequence[str]:
        """The names of a file's columns."""
        folder, _, name = path.rpartition("/")
        return stored_names(ReadOnlyStorage.of(folder), name, self.format)

    def _shown(self, columns: FileColumns) -> list[SparkColumn]:
        """The columns of the table, with chars trimmed."""
        shown = []
        for column, source in zip(self.columns, columns.sources, strict=True):
            value = F.col(quoted(source))
            if isinstance(parse_type(column.type), Char):
                value = F.rtrim(value)
            shown.append(value.alias(column.name))
        return shown

    def lines(self, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        """The lines of some files that hold rows, as LINE, and the path of the file as PATH."""
        edges = bool(self.header or self.footer)
        session = scan_session(spark) if edges else spark
        for key, value in _WHOLE_FILES.items() if edges else ():
            session.conf.set(key, value)
        frame = read_files(session, "text", paths)
        frame = frame.select(_path(frame).alias(PATH), F.col("value").alias(LINE))
        if edges:
            frame = frame.mapInArrow(_without_edges(self.header, self.footer), frame.schema)
            return in_session(frame, spark)
        return frame

    def _field(self, position: int) -> SparkColumn:
        """A column of the table; columns of lines are found by position."""
        column = self.columns[position]
        target = spark_type(parse_type(column.type), column.name)
        if position >= len(self.written):
            return F.lit(None).cast(target).alias(column.name)
        written = self.written[position]
        value = F.col(_ROW).getField(written.name)
        if written.type != column.type:
            value = try_cast(value, target)
        return value.alias(column.name)


def _path(frame: DataFrame) -> SparkColumn:
    return metadata_column(frame, "_metadata").getField("file_path")


def _without_edges(
    header: int, footer: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` over whole files that drops first and last lines."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        to_skip, held = header, None
        for batch in batches:
            skipped = min(to_skip, batch.num_rows)
            to_skip -= skipped
            table = pa.Table.from_batches([batch.slice(skipped)])
            held = table if held is None else pa.concat_tables([held, table])
            ready = max(held.num_rows - footer, 0)
            yield from held.slice(0, ready).to_batches()
            held = held.slice(ready)

    return rows
