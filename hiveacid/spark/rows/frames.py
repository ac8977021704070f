"""Projections of frames, in few calls of Java.

Each call of Java takes a fraction of a millisecond, and PySpark passes each text of a list with a call
of its own: a projection of a table with twenty columns takes twenty-five calls.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hiveacid.spark.spark_versions import java_class

_SEPARATOR = "\0"
_PATTERN = "_hiveacid_separator"


def select_texts(frame: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """Return the same frame as ``selectExpr``."""
    if not _can_be_joined(expressions):
        return frame.selectExpr(*expressions)
    texts = _java_texts(frame.sparkSession, expressions)
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
    names = _java_texts(frame.sparkSession, [*columns])
    return DataFrame(chosen._jdf.toDF(names), frame.sparkSession)


def _java_texts(spark: SparkSession, texts: Sequence[str]) -> Any:
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
