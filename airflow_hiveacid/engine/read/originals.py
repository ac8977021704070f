"""Rows of files without row ids, with the row ids that Hive assigns to them.

Such a file contains no row numbers, so rows are counted while Spark reads them. This is valid only
if a task reads one split, and reads it completely: a separate session ensures the first, and
filters are not pushed down to ensure the second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from airflow_hiveacid.acid.originals import SyntheticIds, synthetic_ids, written_by
from airflow_hiveacid.engine.own_columns import own_column
from airflow_hiveacid.engine.read.files import AcidFile, PartitionFiles, read_tails
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.engine.rows.frames import read_files, spellings
from airflow_hiveacid.engine.rows.partition_values import PATH
from airflow_hiveacid.engine.session import scan_session
from airflow_hiveacid.engine.spark_versions import from_rows, metadata_column
from airflow_hiveacid.errors import UnsupportedFile
from airflow_hiveacid.orc.format.tail import OrcTail

_START, _COUNT = own_column("split_start"), own_column("count")
_WRITE_ID, _BUCKET, _FIRST_ROW = map(own_column, ("write_id", "bucket", "first_row"))
_SPLIT_COLUMNS = StructType(
    [
        StructField(PATH, StringType()),
        StructField(_START, LongType()),
        StructField(_WRITE_ID, LongType()),
        StructField(_BUCKET, IntegerType()),
        StructField(_FIRST_ROW, LongType()),
    ]
)
# Spark counts the rows of a task in the lower bits of its monotonically increasing ids.
_COUNT_BITS = 33
_MOST_PARTITIONS = str(2**31 - 1)


@dataclass(frozen=True, slots=True)
class _Split:
    """A part of a file that one task reads: all stripes that start in it."""

    path: str
    start: int
    write_id: int
    bucket: int
    first_row: int


def numbered_rows(
    spark: SparkSession,
    schema: StructType,
    partitions: Sequence[PartitionFiles],
    files: Sequence[tuple[int, AcidFile]],
) -> DataFrame:
    """Return every row of some files as from a file with row ids, with the column PATH.

    Args:
        spark: A session made by ``scan_session``.
        schema: The table's own columns.
        partitions: The partitions that the numbers beside the files refer to.
        files: Files without row ids, each with the number of its partition.

    Raises:
        UnsupportedFile: The name of a file has no bucket number, so that its rows have no ids.
    """
    session, split_bytes = _split_by_split(spark)
    splits = _splits(partitions, files, split_bytes)
    paths = [file.path for _, file in files]
    scan = read_files(session, "orc", paths, schema)
    source = metadata_column(scan, "_metadata")
    counted = scan.select(
        "*",
        source.getField("file_path").alias(PATH),
        source.getField("file_block_start").alias(_START),
        F.monotonically_increasing_id().bitwiseAND(F.lit((1 << _COUNT_BITS) - 1)).alias(_COUNT),
    )
    rows = [
        (spelled, split.start, split.write_id, split.bucket, split.first_row)
        for spelled, path in spellings(scan, paths)
        for split in splits[path]
    ]
    known = F.broadcast(from_rows(session, rows, _SPLIT_COLUMNS))
    lost = F.raise_error(
        F.concat(F.lit("No row ids are known for "), PATH, F.lit(" from "), _START)
    )

    def of_split(name: str) -> Column:
        # A row of an unknown split is an error. All three columns raise it: otherwise Spark could
        # drop such rows by a condition on another column, without an error.
        return F.coalesce(F.col(name), lost.cast(_SPLIT_COLUMNS[name].dataType))

    return counted.join(known, [PATH, _START], "left").select(
        of_split(_WRITE_ID).alias("originalTransaction"),
        of_split(_BUCKET).alias("bucket"),
        (of_split(_FIRST_ROW) + F.col(_COUNT)).alias("rowId"),
        F.struct(*[F.col(quoted(name)) for name in schema.names]).alias("row"),
        PATH,
    )


def _split_by_split(spark: SparkSession) -> tuple[SparkSession, int]:
    """Return a session whose tasks read one split each, and the size of a split."""
    split_bytes = int(spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes())
    session = scan_session(spark)
    session.conf.set("spark.sql.files.maxPartitionBytes", str(split_bytes))
    # The cost of opening a second file in a task: more than the available size.
    session.conf.set("spark.sql.files.openCostInBytes", str(split_bytes))
    session.conf.set("spark.sql.files.maxPartitionNum", _MOST_PARTITIONS)
    return session, split_bytes


def _splits(
    partitions: Sequence[PartitionFiles], files: Sequence[tuple[int, AcidFile]], split_bytes: int
) -> Mapping[str, list[_Split]]:
    """The splits of every file, by its path."""
    beside = {
        (number, file.directory): partitions[number].raw_beside(file) for number, file in files
    }
    counted = sorted({file for group in beside.values() for file in group}, key=lambda f: f.path)
    tails = dict(zip([file.path for file in counted], read_tails(counted), strict=True))
    wanted = {file.path for _, file in files}
    splits = {}
    for (_, directory), group in beside.items():
        rows = {file.path: tails[file.path].rows for file in group}
        sizes = {file.path: file.size for file in group}
        for ids in synthetic_ids(rows, *written_by(directory)):
            if ids.path in wanted:
                splits[ids.path] = _splits_of(ids, tails[ids.path], sizes[ids.path], split_bytes)
    return splits


def _splits_of(ids: SyntheticIds, tail: OrcTail, size: int, split_bytes: int) -> list[_Split]:
    if ids.bucket is None:
        raise UnsupportedFile(
            f"{ids.path} has no bucket number in its name, so that its rows have no row ids.",
            remedy="Overwrite the table, or the partition, with its own rows; then change them.",
        )
    return [
        _Split(
            ids.path,
            start,
            ids.write_id,
            ids.bucket,
            ids.first_row + sum(stripe.rows for stripe in tail.stripes if stripe.offset < start),
        )
        for start in range(0, size, split_bytes)
    ]
