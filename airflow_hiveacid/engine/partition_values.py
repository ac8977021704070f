"""Which partition a row was read from, by the path of its file: it stands in no file."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812
from pyspark.sql.types import (  # noqa: TID253
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from airflow_hiveacid.acid.errors import StorageError
from airflow_hiveacid.engine.columns import quoted

# What Spark says of the file of a row, and the number of the partition. No Hive column can have
# such a name: the metastore keeps names in lower case.
PATH, PARTITION = "_ACID_PATH", "_ACID_PARTITION"
_SCHEME_AND_HOST = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file and its partition.

    Attributes:
        path: The full path.
        partition: The number of the partition in its snapshot.
        values: The values of the partition keys as text; None is null.
    """

    path: str
    partition: int
    values: tuple[str | None, ...]


def with_partition(
    spark: SparkSession, frame: DataFrame, places: Sequence[FilePlace], keys: StructType
) -> DataFrame:
    """Add the number of the partition, and the values of its keys.

    Args:
        spark: The session of the scan.
        frame: A scan of these very files, with its ``_metadata.file_path`` as the column PATH.
        places: Every file of the scan.
        keys: The partition keys to add; none adds the number alone.
    """
    numbers = {place.partition for place in places}
    if len(numbers) == 1:
        return frame.select(
            "*",
            F.lit(places[0].partition).alias(PARTITION),
            *[
                F.lit(value).cast(key.dataType).alias(key.name)
                for key, value in zip(keys.fields, places[0].values, strict=False)
            ],
        )
    rows = [
        (path, place.partition, *place.values[: len(keys.fields)])
        for path, place in _as_spark_spells(frame, places)
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


def _as_spark_spells(
    frame: DataFrame, places: Sequence[FilePlace]
) -> Iterator[tuple[str, FilePlace]]:
    """Every file of a frame by the ways Spark writes its path.

    The file systems that Spark uses may spell a path in other words than the metastore. So it is
    asked, and a file that it does not know is an error: its rows would silently be missing.
    """
    known = {_without_host(place.path): place for place in places}
    for encoded in frame.inputFiles():
        place = known.pop(_without_host(unquote(encoded)), None)
        if place is None:
            raise StorageError(f"Spark reads {encoded}, which the snapshot does not hold.")
        yield encoded, place
        # Spark itself writes local paths with three slashes here and with one there.
        other = f"file:{_without_host(encoded)}"
        if encoded.startswith("file:") and other != encoded:
            yield other, place
    if known:
        raise StorageError(f"Spark does not find {next(iter(known))}.")


def _without_host(path: str) -> str:
    return _SCHEME_AND_HOST.sub("", path)
