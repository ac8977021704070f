"""Scans of ORC files, with and without the ACID envelope, by Spark's own reader."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from airflow_hiveacid.engine.failures import CORRUPT
from airflow_hiveacid.engine.read.search_argument import SearchArgument
from airflow_hiveacid.engine.rows.columns import quoted
from airflow_hiveacid.engine.rows.file_columns import FileColumns
from airflow_hiveacid.engine.rows.spark_paths import escape_glob
from airflow_hiveacid.engine.rows.types import spark_struct
from airflow_hiveacid.engine.session import file_reader

# The operations that row files may contain (older files also updates), and those that delete files
# must contain.
ROWS, DELETES = (0, 1), (2,)

ACID_FIELDS = [
    StructField("operation", IntegerType()),
    StructField("originalTransaction", LongType()),
    StructField("bucket", IntegerType()),
    StructField("rowId", LongType()),
    StructField("currentTransaction", LongType()),
]


def read_acid_files(
    spark: SparkSession,
    columns: FileColumns,
    paths: Sequence[str],
    search: SearchArgument | None,
    operations: Sequence[int],
) -> DataFrame:
    """Scan files of full ACID tables, with the columns of the envelope and the struct ``row``.

    Args:
        spark: A session made by ``scan_session``.
        columns: The columns of the row to read.
        paths: The files.
        search: The search argument that ORC uses to skip row groups.
        operations: The valid operations of the rows; other operations are an error.
    """
    row = spark_struct(columns.read)
    frame = read_orc_files(
        spark, StructType([*ACID_FIELDS, StructField("row", row)]), paths, search
    )
    # ORC wraps the read schema of an ACID file unless it has all six columns, and then reads wrong
    # columns. This condition is always true and names all six columns, so that no column is pruned.
    # The first column is decisive; inside of CASE no other condition can replace it.
    cheapest = min(row.fields, key=lambda column: column.dataType != IntegerType()).name
    # By position, ORC must not be given a part of the columns, either.
    needed = row.names if columns.whole else [cheapest]
    names = [*[acid.name for acid in ACID_FIELDS], *[f"row.{quoted(name)}" for name in needed]]
    always = " OR ".join(f"{name} IS NOT NULL" for name in names)
    # A delete file among row files would yield rows of nulls. Its name is read only in this case:
    # as a metadata column it would be computed for every row.
    strange = (
        f"concat('{CORRUPT}', input_file_name(), ' holds events of operation ', operation,"
        " ', which do not belong into its directory.')"
    )
    fits = f"operation IN ({', '.join(map(str, operations))})"
    return frame.where(
        f"CASE WHEN {fits} THEN {always} ELSE CAST(raise_error({strange}) AS BOOLEAN) END"
    )


def read_orc_files(
    spark: SparkSession, schema: StructType, paths: Sequence[str], search: SearchArgument | None
) -> DataFrame:
    """Scan ORC files of any kind.

    Args:
        spark: A session made by ``scan_session``.
        schema: The columns, found by their names.
        paths: The files.
        search: The search argument that ORC uses to skip row groups.
    """
    options = {} if search is None else search.read_options()
    return file_reader(spark).schema(schema).options(**options).orc(list(map(escape_glob, paths)))
