"""Frames over files and projections of frames, in few calls of Java.

Each call of Java takes a fraction of a millisecond, and PySpark passes each text of a list with a call
of its own: a projection of a table with twenty columns takes twenty-five calls.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from airflow_hiveacid.engine.spark_versions import java_class
from airflow_hiveacid.errors import StorageError

_SEPARATOR = "\0"
_PATTERN = "_hiveacid_separator"
_SCHEME_AND_HOST = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
# Spark reads these options from the session that runs a frame, not from the session of the scan: so
# every scan sets them itself.
_READ_OPTIONS = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


def read_files(
    spark: SparkSession,
    format: Literal["orc", "parquet", "text"],
    paths: Sequence[str],
    schema: StructType | None = None,
    **options: str,
) -> DataFrame:
    """Scan files by their paths, so that a missing file is an error, never a smaller result.

    Args:
        spark: A session made by ``scan_session``.
        format: The format of the files.
        paths: At least one path; Spark's patterns in it are escaped.
        schema: The columns to read; None for lines of text.
        options: Further options of the reader.
    """
    reader = spark.read.options(**_READ_OPTIONS, **options)
    if schema is not None:
        reader = reader.schema(schema)
    scan = getattr(reader._jreader, format)
    return DataFrame(scan(java_texts(spark, [_escape_glob(path) for path in paths])), spark)


def spellings(frame: DataFrame, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield Spark's possible spellings of every file's path, each with the given path.

    The file systems that Spark uses may spell a path differently from the metastore. So the
    spelling is read from Spark, and an unknown file is an error: its rows would silently be
    missing.
    """
    known = {_without_host(path): path for path in paths}
    for encoded in frame.inputFiles():
        path = known.pop(_without_host(unquote(encoded)), None)
        if path is None:
            raise StorageError(f"Spark reads {encoded}, which the snapshot does not hold.")
        yield encoded, path
        # Spark itself writes local paths with three slashes or with one, depending on the place.
        other = f"file:{_without_host(encoded)}"
        if encoded.startswith("file:") and other != encoded:
            yield other, path
    if known:
        raise StorageError(f"Spark does not find {next(iter(known))}.")


def select_texts(frame: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """Return the same frame as ``selectExpr``."""
    if not _can_be_joined(expressions):
        return frame.selectExpr(*expressions)
    texts = java_texts(frame.sparkSession, expressions)
    return DataFrame(frame._jdf.selectExpr(texts), frame.sparkSession)


def select_as(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Project a frame to columns with new names.

    Args:
        frame: The frame.
        columns: The expression of each column, by its name.
    """
    chosen = select_texts(frame, [*columns.values()])
    if not _can_be_joined([*columns]):
        return chosen.toDF(*columns)
    names = java_texts(frame.sparkSession, [*columns])
    return DataFrame(chosen._jdf.toDF(names), frame.sparkSession)


def java_texts(spark: SparkSession, texts: Sequence[str]) -> Any:
    """Return an array of Java with at least one text; no text contains a zero byte."""
    context: Any = spark.sparkContext
    pattern = vars(context).get(_PATTERN)
    if pattern is None:
        pattern = java_class(spark, "java.util.regex.Pattern").compile(_SEPARATOR)
        vars(context)[_PATTERN] = pattern
    # Without a limit, Java drops empty texts at the end.
    return pattern.split(_SEPARATOR.join(texts), -1)


def _can_be_joined(texts: Sequence[str]) -> bool:
    return bool(texts) and not any(_SEPARATOR in text for text in texts)


def _escape_glob(path: str) -> str:
    for character in "\\{}[]*?":
        path = path.replace(character, f"\\{character}")
    return path


def _without_host(path: str) -> str:
    return _SCHEME_AND_HOST.sub("", path)
