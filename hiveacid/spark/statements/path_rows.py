"""The rows of files that a job names by a path; malformed lines of CSV and JSON are errors."""

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from hiveacid.errors import CorruptFile
from hiveacid.jobs.schema_text import header_options
from hiveacid.jobs.sources import PathSource
from hiveacid.spark.failures import CORRUPT, translated_spark_errors
from hiveacid.spark.own_columns import own_column
from hiveacid.spark.rows.columns import quoted

_WITH_LINES = ("csv", "json")
_MALFORMED = own_column("malformed")
_DEFAULT_COLUMN = "spark.sql.columnNameOfCorruptRecord"
_MOST_SHOWN = 200
_REMEDY = (
    "Correct it, or read such lines into a column for a table of rejected lines (option"
    " columnNameOfCorruptRecord), or as nulls (option mode: PERMISSIVE)."
)


def path_rows(spark: SparkSession, source: PathSource) -> DataFrame:
    """Return the rows of files.

    By default, Spark reads the values of a malformed line as nulls. Here this is an error that shows
    the line, unless the options or the schema of the source decide otherwise.

    Args:
        spark: The session.
        source: The files.

    Raises:
        CorruptFile: There are lines, and all of them are malformed.
        HiveAcidError: The files do not exist, or the schema is not valid.
    """
    reader = spark.read.format(source.format).options(**source.options)
    if source.schema is not None:
        with translated_spark_errors(f"The schema of {source.path}"):
            reader = reader.schema(source.schema)
            reader = reader.options(**header_options(source.format, source.options))
    with translated_spark_errors(f"The source {source.path}"):
        if source.format.lower() not in _WITH_LINES:
            return reader.load(source.path)
        options = {name.lower() for name in source.options}
        if "mode" in options:
            return reader.load(source.path)
        if "columnnameofcorruptrecord" in options:
            return _parsed(reader.load(source.path))
        rows = reader.option("columnNameOfCorruptRecord", _MALFORMED).load(source.path)
        default = spark.conf.get(_DEFAULT_COLUMN) or ""
        if source.schema is not None and default in rows.columns:
            return _parsed(reader.option("columnNameOfCorruptRecord", default).load(source.path))
        return _checked(reader, source, rows.schema)


def _parsed(rows: DataFrame) -> DataFrame:
    """Return rows of which each query parses all columns: otherwise it finds fewer malformed lines."""
    columns = [F.col(quoted(name)) for name in rows.columns]
    return rows.where(F.to_json(F.struct(*columns)).isNotNull())


def _checked(reader: DataFrameReader, source: PathSource, schema: StructType) -> DataFrame:
    """Return the rows, of which a malformed one is an error."""
    fields = [field for field in schema.fields if field.name != _MALFORMED]
    if not fields and schema.fields:
        raise CorruptFile(f"{source.path} has no line of valid {source.format}.", remedy=_REMEDY)
    columns = [F.col(quoted(field.name)) for field in fields]
    line = F.col(_MALFORMED)
    message = F.concat(
        F.lit(f"{CORRUPT} {source.path} has a malformed line: "),
        F.substring(line, 1, _MOST_SHOWN),
        # All columns are named, or Spark would not parse those that a query does not need.
        F.lit(" (read as "),
        F.substring(F.to_json(F.struct(*columns)), 1, _MOST_SHOWN),
        F.lit(f"). {_REMEDY}"),
    )
    with_lines = StructType([*fields, StructField(_MALFORMED, StringType())])
    rows = (
        reader.option("columnNameOfCorruptRecord", _MALFORMED).schema(with_lines).load(source.path)
    )
    is_valid = F.when(line.isNull(), F.lit(True)).otherwise(F.raise_error(message).cast("boolean"))
    return rows.where(is_valid).select(*columns)
