"""Adds partitions to rows, from the paths of their files."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.engine.rows.frames import spellings

# The path of a row's file in Spark, and the number of the partition. No Hive column can have such a
# name: the metastore stores names in lower case.
PATH, PARTITION = "_ACID_PATH", "_ACID_PARTITION"


@dataclass(frozen=True, slots=True)
class PartitionedFile:
    """A file and its partition.

    Attributes:
        path: The full path.
        partition: The number of the partition in its snapshot.
        values: The values of the partition keys as text; None means null.
    """

    path: str
    partition: int
    values: tuple[str | None, ...]


def of_one_partition(
    files: Sequence[PartitionedFile], keys: StructType
) -> list[SparkColumn] | None:
    """The number of the partition and the values of its keys; None for several partitions."""
    if len({file.partition for file in files}) > 1:
        return None
    return [
        F.lit(files[0].partition).alias(PARTITION),
        *[
            F.lit(value).cast(key.dataType).alias(key.name)
            for key, value in zip(keys.fields, files[0].values, strict=False)
        ],
    ]


def with_partition(
    spark: SparkSession, frame: DataFrame, files: Sequence[PartitionedFile], keys: StructType
) -> DataFrame:
    """Add the number of the partition, and the values of its keys.

    Args:
        spark: The session of the scan.
        frame: A scan of exactly these files, with its ``_metadata.file_path`` as the column PATH.
        files: Every file of the scan.
        keys: The partition keys to add; without keys, only the number is added.
    """
    if (one := of_one_partition(files, keys)) is not None:
        return frame.select("*", *one)
    by_path = {file.path: file for file in files}
    rows = [
        (spelled, by_path[path].partition, *by_path[path].values[: len(keys.fields)])
        for spelled, path in spellings(frame, by_path)
    ]
    schema = StructType(
        [StructField(PATH, StringType()), StructField(PARTITION, IntegerType())]
        + [StructField(key.name, StringType()) for key in keys.fields]
    )
    table = spark.createDataFrame(rows, schema).select(
        PATH,
        PARTITION,
        *[F.col(quoted(key.name)).cast(key.dataType).alias(key.name) for key in keys.fields],
    )
    return frame.join(F.broadcast(table), PATH)
