"""Parameters of SQL text, which Spark's own parser replaces by literals."""

import re
from datetime import date, datetime
from decimal import Decimal

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import BadCondition, InvalidConnection
from hiveacid.jobs.parameters import Parameters, ParameterValue, timestamp_text
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.spark_versions import bound_text

# The parser accepts statements, not bare values.
_SELECT = "SELECT "
_MINUS = re.compile("-:[A-Za-z_]")


def bound_query(spark: SparkSession, text: str, params: Parameters) -> str:
    """Replace the parameters of a query by literals, as ``spark.sql(args=...)`` does.

    Raises:
        BadCondition: The query is invalid.
    """
    if not params:
        return text
    if _MINUS.search(text):
        raise BadCondition(
            f"The SQL {text!r} has a minus sign directly before a parameter: with a negative value "
            "they are the beginning of a comment.",
            remedy="Write a blank between them.",
        )
    if spark.conf.get("spark.sql.parser.escapedStringLiterals") == "true":
        raise InvalidConnection(
            "Spark reads texts with other escapes than it writes in parameters.",
            remedy="Set spark.sql.parser.escapedStringLiterals to false.",
        )
    with translated_spark_errors(f"The SQL {text!r}"):
        return bound_text(spark, text, {name: _literal(value) for name, value in params.items()})


def bound_expression(spark: SparkSession, text: str, params: Parameters) -> str:
    """Replace the parameters of an expression by literals.

    This precedes splitting, so that every reader of its text sees the same values.
    """
    if not params or ":" not in text:
        return text
    return bound_query(spark, _SELECT + text, params)[len(_SELECT) :]


def _literal(value: ParameterValue) -> Column:
    match value:
        case datetime():
            # Python's own conversion would use the time zone of this process.
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP_LTZ"
            return F.expr(f"{kind} '{timestamp_text(value)}'")
        case date():
            return F.expr(f"DATE '{value.isoformat()}'")
        case Decimal():
            # Java stores an exponent as a negative scale, which Spark refuses.
            return F.lit(Decimal(f"{value:f}"))
    return F.lit(value)
