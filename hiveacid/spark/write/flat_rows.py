"""Rows as Spark writes them: in files of the table's format, before the table takes them.

Writing evaluates the rows, once: any later information about them is read from these files. The
files may have more columns than the table; the table takes only its own.
"""

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructType

from hiveacid.dataclass import dataclass
from hiveacid.errors import DataError
from hiveacid.metastore.catalog import HivePartition, HiveTable, StorageFormat, layout_of
from hiveacid.orc.format.batches import schema_of
from hiveacid.orc.format.column_view import read_columns
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.names import DEFAULT_PARTITION, parse_partition_name
from hiveacid.rules.partitions import named_partition, texts_in_rows
from hiveacid.rules.schema import BucketLayout, Char, TableKind, Varchar, parse_type
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import VIOLATED, translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.rows.columns import STRIPE_SIZE, pad_chars, select_texts, stripe_size
from hiveacid.spark.rows.conversion import text_as_sql
from hiveacid.spark.rows.file_scan import scan_files
from hiveacid.spark.rows.row_format import LINE, SparkRowFormat
from hiveacid.spark.session import file_writer, in_session, scan_session
from hiveacid.spark.spark_versions import rebalanced, with_arrow_column
from hiveacid.storage.filesystems import in_threads
from hiveacid.storage.folder import Storage
from hiveacid.storage.staging import FlatFile, Folder
from hiveacid.tables.bucketing import bucket_numbers
from hiveacid.tables.row_format import PlainFile
from hiveacid.writes.engine import FlatTarget
from hiveacid.writes.output import TableOutput

# Validation of written rows against the constraints of a table


# Limits for the part of a row that a message shows.
_SHOWN_COLUMNS, _SHOWN_CHARACTERS = 20, 400


def checked(frame: DataFrame, rules: WriteRules, condition_of_rows: str | None = None) -> DataFrame:
    """Add a check to a frame: a row that violates a constraint fails its task.

    The check is part of the pass that writes the rows, so that no row is evaluated twice.

    Args:
        frame: Rows with all columns of the table in their types, and possibly others.
        rules: The constraints.
        condition_of_rows: An SQL condition for the rows that are written; all rows by default.
    """
    if not rules.rules:
        return frame
    table_columns = {name.lower() for name in rules.columns}
    column_names = [name for name in frame.columns if name.lower() in table_columns]
    columns = ", ".join(quoted(name) for name in column_names[:_SHOWN_COLUMNS])
    row = f"to_json(struct({columns}), map('ignoreNullFields', 'false'))"
    violated = " ".join(
        f"WHEN NOT ({rule.holds}) THEN {text_as_sql(rule.constraint)}" for rule in rules.rules
    )
    condition = f"(CASE {violated} END) IS NOT NULL"
    if condition_of_rows is not None:
        condition = f"({condition_of_rows}) AND {condition}"
    message = ", ".join(
        (
            text_as_sql(f"{VIOLATED} The constraint "),
            f"(CASE {violated} END)",
            text_as_sql(f" of {rules.table} refuses the row "),
            f"substring({row}, 1, {_SHOWN_CHARACTERS})",
            text_as_sql("."),
        )
    )
    # Only one column contains the check, since every column of a row is written.
    carrier = column_names[0]
    check = (
        f"CASE WHEN {condition} THEN raise_error(concat({message})) ELSE {quoted(carrier)} END"
        f" AS {quoted(carrier)}"
    )
    return select_texts(
        frame, [check if name == carrier else quoted(name) for name in frame.columns]
    )


# Writer for files of plain rows, in the formats that Hive reads


# Settings for Parquet files that Hive can read: decimals and lists in Hive's own layout, timestamps
# of 96 bits, and the calendar that was in use.
_AS_HIVE_WRITES_PARQUET = {
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}


def orc_options(table: HiveTable, codec: str) -> dict[str, str]:
    """Options for Spark's ORC writer: the table's own properties, and the compression."""
    properties = table.parameters.items()
    options = {key: value for key, value in properties if key.startswith("orc.")}
    # Current libraries write no older version of the format.
    for name in ("orc.compress", "orc.write.format"):
        options.pop(name, None)
    return options | {"compression": codec}


@dataclass(frozen=True)
class RowFiles:
    """Settings for writing new files of a table.

    Attributes:
        table: The table.
        orc_codec: The compression of ORC files; other formats have their own.
        partition: The partition whose format the files get; None means the format of the table.
    """

    table: HiveTable
    orc_codec: str
    partition: HivePartition | None = None

    def save(self, frame: DataFrame, by: Sequence[str], location: str) -> None:
        """Write rows by Spark.

        Args:
            frame: The columns of the table, and the columns that become folders.
            by: The names of the columns that become folders.
            location: The location of the folders.
        """
        form = self._format.format
        if form.is_text:
            subject = f"The insert into {self.table.ref.full_name}"
            lines = self._format.text.with_line(frame, LINE, subject)
            self.save_lines(lines.select(LINE, *map(quoted, by)), by, location)
        elif form is StorageFormat.PARQUET:
            session = scan_session(frame.sparkSession)
            for key, value in _AS_HIVE_WRITES_PARQUET.items():
                session.conf.set(key, value)
            codec = self.table.parameters.get("parquet.compression", "snappy").lower()
            writer = file_writer(in_session(frame, session), location).partitionBy(*by)
            writer.option("compression", codec).parquet(location)
        else:
            options = orc_options(self.table, self.orc_codec)
            writer = file_writer(self._padded(frame), location).partitionBy(*by)
            writer.options(**options).orc(location)

    def save_lines(self, frame: DataFrame, by: Sequence[str], location: str) -> None:
        """Write lines unchanged by Spark; see ``save``."""
        writer = file_writer(frame, location).partitionBy(*by)
        writer.option("compression", "none").text(location)

    @property
    def _format(self) -> SparkRowFormat:
        return SparkRowFormat.of(self.table, self.partition)

    def _padded(self, frame: DataFrame) -> DataFrame:
        """Pad char values: Hive searches ORC files for a char including its trailing blanks."""
        types = {column.name: parse_type(column.type) for column in self.table.columns}
        chars = {name: type_.length for name, type_ in types.items() if isinstance(type_, Char)}
        return frame.withColumns(
            {name: F.rpad(F.col(quoted(name)), length, " ") for name, length in chars.items()}
        )


# Columns that become folders: the classification of rows, and their bucket number.
FATE, BUCKET_NUMBER = own_column("fate"), own_column("bucket_number")

# The text of Hive's null partition as a value, in a folder of its own: Spark would write the files
# of null and of this text into one folder, under the same names.
_DEFAULT_TEXT = f"\x01{DEFAULT_PARTITION}"

# Hive's orc.base.delta.ratio.
_STRIPES_OF_DELTAS = 8


@dataclass(frozen=True)
class AcidRowFiles:
    """Spark's settings for writing rows of a full ACID table.

    Attributes:
        table: The table.
        codec: The compression.
        for_base: Whether the rows are for a base (True) or a delta (False).
    """

    table: HiveTable
    codec: str
    for_base: bool = False

    def save(self, frame: DataFrame, by: Sequence[str], location: str) -> None:
        """Write rows by Spark.

        Args:
            frame: The columns of the files, and the columns that become folders.
            by: The names of the columns that become folders.
            location: The location of the folders.
        """
        options = orc_options(self.table, self.codec)
        if not self.for_base:
            # As Hive does: a compaction must rewrite the stripes that contain deleted rows, and
            # copies the other stripes.
            size = stripe_size(self.table) // _STRIPES_OF_DELTAS
            options[STRIPE_SIZE] = str(max(size, 1))
        padded = pad_chars(frame, self.table.columns)
        file_writer(padded, location).options(**options).partitionBy(*by).orc(location)


@dataclass(frozen=True)
class FlatRows:
    """Rows in files of one write of Spark.

    Attributes:
        files: The files.
        schema: Their columns.
    """

    files: tuple[FlatFile, ...]
    schema: StructType

    @property
    def bytes(self) -> int:
        """Total size of the files."""
        return sum(file.bytes for file in self.files)

    @cached_property
    def rows(self) -> int:
        """Number of rows."""
        return sum(in_threads(_count, self.files))

    def frame(
        self,
        spark: SparkSession,
        names: Sequence[str],
        files: Sequence[FlatFile] | None = None,
        table: HiveTable | None = None,
    ) -> DataFrame:
        """Some columns of the rows, read back by Spark, and PART, the number of their file.

        Args:
            spark: A session made by ``scan_session``.
            names: The columns.
            files: The files to read; all by default.
            table: The table of the files, to read also its partition keys.
        """
        schema = StructType([self.schema[name] for name in names])
        given = numbered_files(self.files if files is None else files, table)
        keys = () if table is None else table.partition_keys
        return scan_files(spark, StorageFormat.ORC, given, schema, keys)

    def columns(self, names: Sequence[str], files: Sequence[FlatFile]) -> list[pa.Table]:
        """Read some columns of some files in the driver; the files must be few and small."""
        return in_threads(lambda file: _read(file, names), files)


def numbered_files(files: Sequence[FlatFile], table: HiveTable | None) -> list[PlainFile]:
    """Return files of writes for a scan of them, numbered in their order.

    Args:
        files: The files.
        table: Their table, if its partition keys are read, too.
    """

    def values(file: FlatFile) -> tuple[str | None, ...]:
        if table is None or file.partition is None:
            return ()
        partition_values = [value for _, value in parse_partition_name(file.partition)]
        return texts_in_rows(partition_values, table.key_types)

    return [
        PlainFile(file.full_path, file.bytes, number, values(file))
        for number, file in enumerate(files)
    ]


@dataclass(frozen=True)
class FlatRowsWriter:
    """Writes rows of a table by Spark.

    Attributes:
        table: The table.
        files: Writes a file.
        layout: The distribution of rows over files; None without buckets.
        rules: The constraints of the table; None if no row is written that the table will hold.
    """

    table: HiveTable
    files: "AcidRowFiles | RowFiles"
    layout: BucketLayout | None
    rules: WriteRules | None

    def write_rows(
        self,
        frame: DataFrame,
        folder: Folder,
        *,
        has_fate: bool = False,
        scattered: bool = False,
        condition_of_rows: str | None = None,
    ) -> FlatRows:
        """Write rows of the table, those of a partition and bucket together.

        Args:
            frame: The table's columns and partition columns, in their types, and any others.
            folder: The folder of the files.
            has_fate: Whether the frame has the column FATE, which separates rows.
            scattered: Whether the rows may come in small parts from many tasks.
            condition_of_rows: An SQL condition for the rows that the table may take; all rows by default.
                Other rows need not satisfy the constraints.

        Raises:
            CheckFailed: A row violates a constraint.
            DataError: A partition key has null and the text of Hive's null partition.
        """
        assert self.rules is not None, "A statement that writes rows looks up the constraints."
        frame = checked(frame, self.rules, condition_of_rows)
        by = [key.name for key in self.table.partition_keys]
        if self.layout is not None:
            # An empty text is null as a partition key; rows of one bucket must be in one task.
            texts = [key.name for key in self.table.partition_keys if _is_text(key.type)]
            frame = frame.withColumns({n: F.expr(f"nullif({quoted(n)}, '')") for n in texts})
            frame = _with_bucket_number(frame, self.layout)
            frame = frame.repartition(
                max(self.layout.count, frame.sparkSession.sparkContext.defaultParallelism),
                *[F.col(quoted(name)) for name in by],
                F.col(BUCKET_NUMBER),
            )
            by.append(BUCKET_NUMBER)
        elif by or scattered:
            # Otherwise every task would write one file for each partition.
            frame = rebalanced(frame, [quoted(name) for name in by])
        return self.write(frame, folder, [FATE, *by] if has_fate else by)

    def write(self, frame: DataFrame, folder: Folder, by: Sequence[str]) -> FlatRows:
        """Write rows without redistributing them.

        Args:
            frame: Any columns, and the columns that become folders.
            folder: The folder of the files.
            by: The columns that become folders: FATE, partition keys, BUCKET_NUMBER.

        Raises:
            DataError: A partition key has null and the text of Hive's null partition.
        """
        root = folder.root.rstrip("/")
        frame = self._with_folder_texts(frame, by)
        with translated_spark_errors(f"Writing rows for {self.table.ref.full_name}"):
            self.files.save(frame, by, f"{root}/{folder.path}")
        statuses = Storage.of(folder.root).list_files(folder.path, recursive=True)
        files = []
        values_by_key: dict[str, set[str | None]] = {}
        for status in sorted(statuses, key=lambda status: status.path):
            partition_path, _, name = status.path.rpartition("/")
            if not name.startswith((".", "_")):
                levels = dict(parse_partition_name(partition_path)) if partition_path else {}
                fate, bucket = levels.pop(FATE, None), levels.pop(BUCKET_NUMBER, None)
                for key, value in levels.items():
                    values_by_key.setdefault(key, set()).add(value)
                files.append(
                    FlatFile(
                        root=folder.root,
                        path=f"{folder.path}/{status.path}",
                        bytes=status.size,
                        partition=self._partition([*levels.values()]),
                        bucket=None if bucket is None else int(bucket),
                        layout=None if bucket is None else self.layout,
                        fate=fate,
                    )
                )
        for key, values in values_by_key.items():
            if {None, _DEFAULT_TEXT} <= values:
                raise DataError(
                    f"The rows for {self.table.ref.full_name} have both null and the text"
                    f" {DEFAULT_PARTITION} in the partition key {key}, which are one partition.",
                    remedy="Replace one of them in the source.",
                )
        schema = StructType([field for field in frame.schema.fields if field.name not in by])
        return FlatRows(tuple(files), schema)

    def _partition(self, values: Sequence[str | None]) -> str | None:
        texts = [DEFAULT_PARTITION if value == _DEFAULT_TEXT else value for value in values]
        return named_partition(texts, self.table.key_types) if values else None

    def _with_folder_texts(self, frame: DataFrame, by: Sequence[str]) -> DataFrame:
        """Give each text of a partition key a folder of its own."""
        keys = [key for key in self.table.partition_keys if key.name in by]
        # An empty char is not null, in contrast to an empty string.
        frame = pad_chars(frame, keys)
        texts = [key.name for key in keys if frame.schema[key.name].dataType == StringType()]
        return frame.withColumns(
            {
                name: F.when(F.col(quoted(name)) == DEFAULT_PARTITION, F.lit(_DEFAULT_TEXT))
                .otherwise(F.col(quoted(name)))
                .alias(name)
                for name in texts
            }
        )


def write_flat(
    frame: DataFrame,
    target: FlatTarget,
    *,
    has_fate: bool = False,
    scattered: bool = False,
    condition_of_rows: str | None = None,
    layout: BucketLayout | None = None,
) -> FlatRows:
    """Write rows that a table may take later.

    Args:
        frame: The table's columns, other columns that the table does not take, and its partition
            columns.
        target: The table, and the place of the files.
        has_fate: Whether the frame has the column FATE, which separates rows.
        scattered: Whether the rows may come in small parts from many tasks.
        condition_of_rows: See ``FlatRowsWriter.write_rows``.
        layout: The distribution of rows over files; None means the layout of the table.
    """
    table = target.table
    files: AcidRowFiles | RowFiles = RowFiles(table, target.codec)
    if table.kind is TableKind.FULL_ACID:
        files = AcidRowFiles(table, target.codec, for_base=target.for_base)
    writer = FlatRowsWriter(table, files, layout or layout_of(table), target.rules)
    return writer.write_rows(
        frame,
        target.folder,
        has_fate=has_fate,
        scattered=scattered,
        condition_of_rows=condition_of_rows,
    )


def write_rows(output: TableOutput, frame: DataFrame, *, replace: bool = False) -> None:
    """Stage the rows of a frame, one file for each file that Spark writes.

    Args:
        output: The output of a statement.
        frame: The table's columns and partition columns, in their types.
        replace: Whether the rows become a base, which hides all earlier rows, or a delta.
    """
    flat = write_flat(frame, output.flat_target(replace=replace))
    output.take([(file,) for file in flat.files], replace=replace)


def _is_text(type_: str) -> bool:
    return isinstance(parse_type(type_), Varchar) or type_.lower() == "string"


def _with_bucket_number(frame: DataFrame, layout: BucketLayout) -> DataFrame:
    types = [parse_type(column.type) for column in layout.columns]
    count, version = layout.count, layout.version

    # Spark derives from the annotations that the function maps whole columns.
    def number(*values: pa.Array) -> pa.Array:
        return pa.array(bucket_numbers(values, types, count, version))

    names = [column.name for column in layout.columns]
    return with_arrow_column(frame, BUCKET_NUMBER, number, IntegerType(), names)


def _count(file: FlatFile) -> int:
    with Storage.of(file.root).open_input(file.path) as source:
        return OrcTail.read(source).rows


def _read(file: FlatFile, names: Sequence[str]) -> pa.Table:
    with Storage.of(file.root).open_input(file.path) as source:
        if not (tail := OrcTail.read(source)).rows:
            schema = schema_of(tail.types)
            return pa.schema([schema.field(name) for name in names]).empty_table()
        return pa.Table.from_batches(read_columns(source, names))
