"""Scans of files with plain rows: the files are given, and nothing is listed.

The partition keys are columns of a scan, whose values are constants of each file. So Spark skips files
by any filter of a query on them, and by the values of a join.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from hiveacid.metastore.catalog import HiveColumn
from hiveacid.metastore.formats import StorageFormat
from hiveacid.spark.java_scan import scan_frame
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.rows.columns import spark_struct

# The number of a file's part.
PART = own_column("part")


@dataclass(frozen=True, slots=True)
class PlainFile:
    """A file with plain rows.

    Attributes:
        path: The full path.
        size: The size in bytes.
        part: The number of the files that it belongs to, which have the same values.
        values: The values of the partition keys as text; None means null.
    """

    path: str
    size: int
    part: int = 0
    values: tuple[str | None, ...] = ()


def scan_files(
    spark: SparkSession,
    form: StorageFormat,
    files: Sequence[PlainFile],
    columns: StructType,
    keys: Sequence[HiveColumn] = (),
    *,
    by_position: bool = False,
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
        by_position: Whether columns are found by position, in ORC files only.
        searchable: The columns by whose statistics parts of ORC files can be skipped.
        options: Options of Spark's reader of other formats.
    """
    numbers: dict[int, int] = {}
    partitions: list[tuple[str | None, ...]] = []
    given = []
    for file in files:
        if file.part not in numbers:
            numbers[file.part] = len(partitions)
            partitions.append((*file.values, str(file.part)))
        given.append([file.path, file.size, numbers[file.part], -1, True, True, None])
    return scan_frame(
        spark,
        stored_as="text" if form.is_text else form.name.lower(),
        options=options,
        columns=columns,
        keys=StructType([*spark_struct(keys), StructField(PART, IntegerType())]),
        by_position=by_position,
        searchable=searchable,
        partitions=partitions,
        files=given,
    )
