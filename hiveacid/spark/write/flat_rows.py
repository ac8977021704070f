"""Rows as Spark writes them: in files of the table's format, before the table takes them.

Writing evaluates the rows, once: any later information about them is read from these files. The
files may have more columns than the table; the table takes only its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructType

from hiveacid.errors import DataError
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.formats import StorageFormat
from hiveacid.rules.bucket_layout import BucketLayout
from hiveacid.rules.constraints import WriteRules
from hiveacid.rules.names import DEFAULT_PARTITION, parse_partition_name
from hiveacid.rules.partition_keys import named_partition, texts_in_rows
from hiveacid.rules.schema import parse_type
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.file_writer import file_writer
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.rows.bucketing import bucket_numbers
from hiveacid.spark.rows.columns import pad_chars, quoted
from hiveacid.spark.rows.file_scan import PlainFile, scan_files
from hiveacid.spark.rows.table_support import STRIPE_SIZE, stripe_size
from hiveacid.spark.spark_versions import rebalanced, with_arrow_column
from hiveacid.spark.write.row_files import RowFiles, orc_options
from hiveacid.spark.write.row_rules import checked
from hiveacid.storage.folder import Storage
from hiveacid.storage.staged_files import FlatFile, Folder
from hiveacid.storage.threads import in_threads

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
        chosen = StructType([self.schema[name] for name in names])
        given = numbered_files(self.files if files is None else files, table)
        keys = () if table is None else table.partition_keys
        return scan_files(spark, StorageFormat.ORC, given, chosen, keys)

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
        own = [value for _, value in parse_partition_name(file.partition)]
        return texts_in_rows(own, table.key_types)

    return [
        PlainFile(file.full_path, file.bytes, number, values(file))
        for number, file in enumerate(files)
    ]


@dataclass(frozen=True)
class FlatRowsWriter:
    """Writes rows of a table by Spark.

    Attributes:
        spark: The session that determines the number of tasks.
        table: The table.
        files: Writes a file.
        layout: The distribution of rows over files; None without buckets.
        rules: The constraints of the table; None if no row is written that the table will hold.
    """

    spark: SparkSession
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
        written: str | None = None,
    ) -> FlatRows:
        """Write rows of the table, those of a partition and bucket together.

        Args:
            frame: The table's columns and partition columns, in their types, and any others.
            folder: The folder of the files.
            has_fate: Whether the frame has the column FATE, which separates rows.
            scattered: Whether the rows may come in small parts from many tasks.
            written: An SQL condition for the rows that the table may take; all rows by default.
                Other rows need not satisfy the constraints.

        Raises:
            ConstraintViolated: A row violates a constraint.
            DataError: A partition key has null and the text of Hive's null partition.
        """
        assert self.rules is not None, "A statement that writes rows looks up the constraints."
        frame = checked(frame, self.rules, written)
        by = [key.name for key in self.table.partition_keys]
        if self.layout is not None:
            frame = _with_bucket_number(frame, self.layout)
            frame = frame.repartition(
                max(self.layout.count, self.spark.sparkContext.defaultParallelism),
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
        listed = Storage.of(folder.root).list_files(folder.path, recursive=True)
        files = []
        given: dict[str, set[str | None]] = {}
        for status in sorted(listed, key=lambda status: status.path):
            below, _, name = status.path.rpartition("/")
            if not name.startswith((".", "_")):
                levels = dict(parse_partition_name(below)) if below else {}
                fate, bucket = levels.pop(FATE, None), levels.pop(BUCKET_NUMBER, None)
                for key, value in levels.items():
                    given.setdefault(key, set()).add(value)
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
        for key, values in given.items():
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
        return int(orc.ORCFile(source).nrows)


def _read(file: FlatFile, names: Sequence[str]) -> pa.Table:
    with Storage.of(file.root).open_input(file.path) as source:
        return orc.ORCFile(source).read(columns=list(names))
