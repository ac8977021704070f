"""Adds partitions to rows, from the paths of their files."""

import re
from collections.abc import Collection, Sequence
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

from airflow_hiveacid.acid.names import DEFAULT_PARTITION, partition_name
from airflow_hiveacid.acid.partition_keys import is_day
from airflow_hiveacid.engine.own_columns import own_column
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.engine.rows.frames import spellings
from airflow_hiveacid.engine.spark_versions import from_rows
from airflow_hiveacid.metastore.catalog import HiveColumn

# The path of a row's file in Spark, and the number of the partition.
PATH, PARTITION = own_column("path"), own_column("partition")
# The path of a row's file, in the column that Spark adds to scans.
FILE_PATH = "_metadata.file_path"
# A text that is the same in a name of a partition, in a path, and in a URI.
_PLAIN = re.compile("[A-Za-z0-9_.-]+")
# A folder that Spark spells in the same way, except for local ones.
_PLAIN_FOLDER = re.compile("[a-z0-9]+:/[A-Za-z0-9_./:@-]*")
_LOCAL = re.compile("^file:/+")
_WHOLE = re.compile("0|[1-9][0-9]*")
# Numbers with this many digits always fit into their type.
_SURE_DIGITS = {"int": 9, "bigint": 18}


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


def keys_in_paths(
    folder: str,
    keys: Sequence[HiveColumn],
    files: Sequence[PartitionedFile],
    path: str = FILE_PATH,
) -> list[str] | None:
    """Return an expression of the file's path for each partition key.

    By these expressions, Spark skips files by any filter of a query, also through views.

    Args:
        folder: The folder of the table.
        keys: The partition keys.
        files: The files to read.
        path: The expression of the path.

    Returns:
        The expressions; None for files of one partition, whose values are constants, and if the
            path of a file does not certainly contain its values.
    """
    names, root = [key.name.lower() for key in keys], folder.rstrip("/")
    partitions = {file.partition: file.values for file in files}
    rows = [*partitions.values()]
    if not keys or len(rows) < 2:
        return None
    if not all(map(_PLAIN.fullmatch, names)) or not all(
        is_canonical(value, key.type) and (value is None or _PLAIN.fullmatch(value))
        for values in rows
        for value, key in zip(values, keys, strict=True)
    ):
        return None
    folders = {at: f"{root}/{partition_name(names, own)}/" for at, own in partitions.items()}
    if not all(file.path.startswith(folders[file.partition]) for file in files):
        return None
    starts, expressions = {len(_LOCAL.sub("file:/", root))}, []
    for key, name, column in zip(keys, names, zip(*rows, strict=True), strict=True):
        lengths = {len(DEFAULT_PARTITION if value is None else value) for value in column}
        text = _last_value(path, name)
        # Otherwise Spark may spell the folder in another way.
        if len(starts) == 1 and _PLAIN_FOLDER.fullmatch(root):
            text = _value_at(path, min(starts), name, lengths)
        if None in column:
            text = f"nullif({text}, '{DEFAULT_PARTITION}')"
        expressions.append(f"CAST({text} AS {key.type}) AS {quoted(key.name)}")
        starts = {start + len(f"/{name}=") + length for start in starts for length in lengths}
    return expressions


def _last_value(path: str, name: str) -> str:
    """An expression for the value behind the last "/name=" of the path."""
    # No name of a directory or file in the folder of a partition contains "=".
    return f"substring_index(substring_index({path}, '/{name}=', -1), '/', 1)"


def _value_at(path: str, start: int, name: str, lengths: Collection[int]) -> str:
    """An expression for the same value that takes less time if the path has "/name=" at a place.

    Bytes are found by their positions, whereas characters of a text are counted.
    """
    binary, before = f"CAST({path} AS BINARY)", f"/{name}="
    ahead = f"substring({binary}, {start + 1}, {len(before)}) = X'{before.encode().hex()}'"
    # The value, and the "/" behind shorter ones.
    length = max(lengths) + (len(lengths) > 1)
    value = f"CAST(substring({binary}, {start + 1 + len(before)}, {length}) AS STRING)"
    if len(lengths) > 1:
        value = f"substring_index({value}, '/', 1)"
    return f"CASE WHEN {ahead} THEN {value} ELSE {_last_value(path, name)} END"


def is_canonical(value: str | None, type: str) -> bool:
    """Whether a text is certainly in the form that Spark produces; this is the usual case."""
    if value is None or type == "string":
        return True
    if type in ("int", "bigint"):
        return len(value) <= _SURE_DIGITS[type] and _WHOLE.fullmatch(value) is not None
    return type == "date" and is_day(value)


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
    table = from_rows(spark, rows, schema).select(
        PATH,
        PARTITION,
        *[F.col(quoted(key.name)).cast(key.dataType).alias(key.name) for key in keys.fields],
    )
    return frame.join(F.broadcast(table), PATH)
