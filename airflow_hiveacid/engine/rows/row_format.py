"""Reading and writing files of every format that Hive keeps plain rows in."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_hiveacid.acid.column_mapping import ColumnMapping, MappedColumns
from airflow_hiveacid.acid.schema import Char, parse_type
from airflow_hiveacid.engine.parallel import in_threads
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.engine.rows.file_columns import FileColumns, Stored, layout
from airflow_hiveacid.engine.rows.file_names import stored_names
from airflow_hiveacid.engine.rows.parquet_zones import by_zone, in_zone
from airflow_hiveacid.engine.rows.partition_values import PATH
from airflow_hiveacid.engine.rows.serde_csv import CsvText
from airflow_hiveacid.engine.rows.serde_json import JsonText
from airflow_hiveacid.engine.rows.serde_text import DelimitedText
from airflow_hiveacid.engine.rows.spark_paths import escape_glob
from airflow_hiveacid.engine.rows.types import spark_struct, spark_type
from airflow_hiveacid.engine.session import file_reader, in_session, scan_session
from airflow_hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.storage.folder import ReadOnlyStorage

LINE, _ROW = "_ACID_LINE", "_ACID_ROW"
# Hive writes dates and timestamps of Parquet in the calendar that was in use, and does not say so.
_HYBRID_CALENDAR = {"datetimeRebaseMode": "LEGACY", "int96RebaseMode": "LEGACY"}
# How many of them a table can tell readers to leave out.
_LINES = range(1 << 31)
# More than any file has: every file is then one partition of Spark.
_WHOLE_FILES = {
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.files.openCostInBytes": str(1 << 40),
}


class RowText(Protocol):
    """Makes rows of lines and lines of rows."""

    def read(self, line: SparkColumn) -> SparkColumn:
        """The row in a line, a struct."""

    def write(self, row: Mapping[str, SparkColumn], what: str) -> SparkColumn:
        """The line of a row; a row that Hive would not read back is an error."""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How the files of a table, or of one of its partitions, hold rows.

    Attributes:
        table: Whose they are, for errors.
        format: The format.
        columns: The columns of the table.
        mapped: The same, and how they are found in files of ORC and Parquet.
        written: The columns of the partition, which its lines have: perhaps fewer, and of other
            types.
        parameters: Those of the serde and of the table.
        header: How many lines at the beginning of a file are no rows.
        footer: How many at its end.
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
        """The format of a partition, or of a table without partitions.

        Raises:
            UnsupportedTable: It is one that we do not know.
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
            # Hive gives a serde the properties of the table, too, and those come last.
            parameters=tuple(sorted({**(serde.parameters or {}), **table.parameters}.items())),
            header=table.number("skip.header.line.count", 0, _LINES),
            footer=table.number("skip.footer.line.count", 0, _LINES),
        )

    @property
    def text(self) -> RowText:
        """What makes rows of lines.

        Raises:
            UnsupportedTable: The serde is asked for what we cannot do.
        """
        parameters = dict(self.parameters)
        if self.format is StorageFormat.TEXTFILE:
            return DelimitedText(self.written, parameters, self.table)
        if self.format is StorageFormat.CSV:
            return CsvText(self.written, parameters)
        return JsonText(self.written, parameters)

    def has_ambiguous_columns(self, paths: Sequence[str]) -> bool:
        """Whether the values of some files depend on the mapping of the columns."""
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
            lines = self.lines(spark, paths)
            rows = lines.select(PATH, self.text.read(F.col(LINE)).alias(_ROW))
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
        """The rows of files of ORC or Parquet that have the same names for the columns."""
        reader = file_reader(spark).schema(spark_struct(columns.read))
        if self.format is StorageFormat.ORC:
            frame = reader.orc([escape_glob(path) for path in paths])
            return frame.select(_path(frame).alias(PATH), *self._shown(columns))
        frames = []
        for zone, files in by_zone(self.columns, paths).items():
            names = [escape_glob(path) for path in files]
            frame = reader.options(**_HYBRID_CALENDAR).parquet(*names)
            frame = frame.select(_path(frame).alias(PATH), *self._shown(columns))
            frames.append(in_zone(frame, self.columns, zone))
        return reduce(DataFrame.unionByName, frames)

    def _by_layout(self, paths: Sequence[str]) -> dict[Stored, list[str]]:
        """Files by what they call the columns of the table."""
        if self.mapped.mapping is ColumnMapping.NAME:
            # Spark finds them by itself, also those of ORC files that have no names.
            return {(): list(paths)}
        groups: dict[Stored, list[str]] = {}
        for path, stored in zip(paths, in_threads(self._stored_names, paths), strict=True):
            groups.setdefault(layout(self.mapped, stored), []).append(path)
        return groups

    def _stored_names(self, path: str) -> Sequence[str]:
        """What a file calls its columns."""
        folder, _, name = path.rpartition("/")
        return stored_names(ReadOnlyStorage.of(folder), name, self.format)

    def _shown(self, columns: FileColumns) -> list[SparkColumn]:
        """The columns of the table, chars without the blanks that fill them up."""
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
        frame = file_reader(session).text([escape_glob(path) for path in paths])
        frame = frame.select(_path(frame).alias(PATH), F.col("value").alias(LINE))
        if edges:
            frame = frame.mapInArrow(_without_edges(self.header, self.footer), frame.schema)
            return in_session(frame, spark)
        return frame

    def _field(self, position: int) -> SparkColumn:
        """A column of the table; those of lines are found by their position."""
        column = self.columns[position]
        target = spark_type(parse_type(column.type), column.name)
        if position >= len(self.written):
            return F.lit(None).cast(target).alias(column.name)
        written = self.written[position]
        value = F.col(_ROW).getField(written.name)
        if written.type != column.type:
            value = value.try_cast(target)
        return value.alias(column.name)


def _path(frame: DataFrame) -> SparkColumn:
    # Also where a column has this very name.
    return frame.metadataColumn("_metadata").getField("file_path")


def _without_edges(
    header: int, footer: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` over whole files that drops their first and last lines."""

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
