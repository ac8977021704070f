"""Reading and writing files of every format that Hive stores plain rows in."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from hiveacid.metastore.catalog import HiveColumn, StorageFormat
from hiveacid.rules.schema import ColumnMapping, parse_type
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.rows.columns import (
    has_exact_statistics,
    select_texts,
    shown_columns,
    spark_struct,
    spark_type,
)
from hiveacid.spark.rows.file_scan import (
    PART,
    Sources,
    scan_files,
    scan_parquet,
    sources_of,
)
from hiveacid.spark.rows.serde import CsvText, DelimitedText, JsonText
from hiveacid.spark.session import in_session, scan_session
from hiveacid.spark.spark_versions import try_cast
from hiveacid.storage.filesystems import in_threads
from hiveacid.tables.row_format import PlainFile, RowFormat

LINE, _ROW = own_column("line"), own_column("parsed")
# Larger than any file: every file is then one partition of Spark.
_WHOLE_FILES = {
    "spark.sql.files.maxPartitionBytes": str(1 << 40),
    "spark.sql.files.openCostInBytes": str(1 << 40),
}


class RowText(Protocol):
    """Converts lines to rows and rows to lines."""

    def with_row(self, lines: DataFrame, line: str, row: str) -> DataFrame:
        """Append the row in each line, a struct."""

    def with_line(self, rows: DataFrame, line: str, subject: str) -> DataFrame:
        """Append the line of each row; a row that Hive would not read back is an error."""


class SparkRowFormat(RowFormat):
    """A row format that Spark reads and writes."""

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

    def scan(
        self, spark: SparkSession, files: Sequence[PlainFile], keys: Sequence[HiveColumn] = ()
    ) -> DataFrame:
        """Return the rows of some files: the table's columns, the partition keys, and PART.

        Args:
            spark: A session made by ``scan_session``.
            files: The files.
            keys: The partition keys.
        """
        further_columns = [*(quoted(key.name) for key in keys), PART]
        if self.format.is_text:
            rows = self.text.with_row(self.lines(spark, files, keys), LINE, _ROW)
            return rows.select(*map(self._field, range(len(self.columns))), *further_columns)
        by_position = self.mapped.mapping is ColumnMapping.POSITION
        if self.format is StorageFormat.ORC:
            rows = scan_files(
                spark,
                self.format,
                files,
                spark_struct(self.columns),
                keys,
                by_position=None if self.mapped.mapping is None else by_position,
                searchable=[column.name for column in self.columns if has_exact_statistics(column)],
            )
            return select_texts(rows, [*shown_columns(self.columns), *further_columns])
        files_by_sources: dict[Sources, list[PlainFile]] = {self.mapped.names: [*files]}
        if by_position and files:
            files_by_sources = {}
            for file, names in zip(files, in_threads(self.stored_names, files), strict=True):
                files_by_sources.setdefault(sources_of(self.mapped, names), []).append(file)
        return reduce(
            DataFrame.unionByName,
            [
                scan_parquet(spark, alike, self.columns, sources, keys)
                for sources, alike in files_by_sources.items()
            ],
        )

    def lines(
        self, spark: SparkSession, files: Sequence[PlainFile], keys: Sequence[HiveColumn] = ()
    ) -> DataFrame:
        """Return the lines of some files that hold rows, as LINE, the partition keys, and PART."""
        edges = bool(self.header or self.footer)
        session = scan_session(spark) if edges else spark
        for key, value in _WHOLE_FILES.items() if edges else ():
            session.conf.set(key, value)
        column = StructType([StructField(LINE, StringType())])
        frame = scan_files(session, self.format, files, column, keys)
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
        stored_column = self.written[position]
        value = F.col(_ROW).getField(stored_column.name)
        if stored_column.type != column.type:
            value = try_cast(value, target)
        return value.alias(column.name)


def _without_edges(
    header: int, footer: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` over whole files that drops first and last lines."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        to_skip, waiting_rows = header, None
        for batch in batches:
            skipped = min(to_skip, batch.num_rows)
            to_skip -= skipped
            table = pa.Table.from_batches([batch.slice(skipped)])
            waiting_rows = (
                table if waiting_rows is None else pa.concat_tables([waiting_rows, table])
            )
            ready = max(waiting_rows.num_rows - footer, 0)
            yield from waiting_rows.slice(0, ready).to_batches()
            waiting_rows = waiting_rows.slice(ready)

    return rows
