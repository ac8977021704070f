"""Differences between the supported versions of Spark, each with its reason.

Every other module of the engine uses the interfaces that all versions have, and the functions here.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from hiveacid.errors import InvalidJob, JobFailed, SoftwareMissing
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.sql_tokens import parameter_places
from hiveacid.spark.java_objects import (
    collected_batches,
    java_batches,
    java_class,
    java_column,
    java_context,
    java_frame,
    java_session,
    kept_active_session,
    scala_object,
)

SPARK_4_0, SPARK_4_1 = (4, 0), (4, 1)
VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
# Spark 4.1 repeats all work that depends on the rows of a stage if the stage, recomputed after its
# output was lost, has yielded other rows.
_STABLE_SHUFFLES = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
_EVENTS_MILLISECONDS = 60_000
_CATALYST = "org.apache.spark.sql.catalyst"
_PYTHON_UTILS = "org.apache.spark.api.python.PythonUtils"
# The texts of these expressions have another meaning, or none, to Spark's parser: a resolved column
# loses its frame, and a Python function appears only by its name.
_INCOMPLETE_TEXTS = re.compile(
    "^Alias$|^AttributeReference$|Python|Subquery|^Exists$|Lambda|^ScalaUDF$|^ScalaAggregator$"
)


# Earlier versions write no Parquet files with columns or elements of the type void.
FILES_HOLD_VOID = VERSION >= SPARK_4_1


def silence(logger: str) -> None:
    """Turn off a logger of PySpark."""
    if VERSION >= SPARK_4_0:
        # Created with Python's own function, it would be of a class that PySpark cannot use.
        import_module("pyspark.logger").PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)


def stable_shuffles() -> dict[str, str]:
    """Settings of a session whose stages yield the same rows when they are recomputed."""
    return _STABLE_SHUFFLES if VERSION >= SPARK_4_1 else {}


@contextmanager
def requiring_stages_run_once(spark: SparkSession, subject: str) -> Iterator[None]:
    """Refuse the results of jobs in which Spark recomputed a stage whose rows may have changed.

    Spark before 4.1 combines the rows of both runs of the stage, without an error: rows would be
    missing, or written twice. Later versions have ``stable_shuffles``.

    Args:
        spark: The session of the jobs.
        subject: The name of the work, at the beginning of the message.

    Raises:
        JobFailed: A stage was recomputed.
    """
    if VERSION >= SPARK_4_1:
        yield
        return
    # Jobs of other threads count, too: Spark runs broadcasts and subqueries in groups of their own.
    newest = next(_newest_jobs(spark), None)
    newest_before = -1 if newest is None else newest.number
    yield
    stages: set[int] = set()
    oldest = newest_before + 1
    rdds_by_stage: set[str] = set()
    for job in _newest_jobs(spark):
        oldest = job.number
        if job.number <= newest_before:
            break
        attempts = {
            stage: attempt
            for stage in job.stages
            if (attempt := _newest_attempt(spark, stage)) is not None
        }
        skipped = sum(str(attempt.status()) == "SKIPPED" for attempt in attempts.values())
        # Spark removes the records of skipped stages before all others.
        if len(set(job.stages)) - len(attempts) > max(job.skipped - skipped, 0):
            raise _unrecorded(subject, "stage")
        for stage, recorded in attempts.items():
            if stage in stages:
                continue
            stages.add(stage)
            rdds = str(recorded.rddIds().mkString(","))
            # A stage that a later job computes for lost output has another id, but the same RDDs.
            if recorded.attemptId() > 0 or rdds in rdds_by_stage:
                raise JobFailed(
                    f"{subject}: Spark {pyspark.__version__} lost the output of a stage and computed "
                    "it again; the two results may differ.",
                    remedy="Repeat the job. Spark 4.1 compares the results, and continues if they "
                    "are equal.",
                )
            if recorded.shuffleWriteRecords() > 0:
                rdds_by_stage.add(rdds)
    if oldest > newest_before + 1:
        raise _unrecorded(subject, "job")


class _Job(NamedTuple):
    """Spark's record of a job.

    Attributes:
        number: Its id.
        stages: The ids of its stages.
        skipped: The number of stages that were skipped, because their output existed.
    """

    number: int
    stages: Sequence[int]
    skipped: int


def _newest_jobs(spark: SparkSession) -> Iterator[_Job]:
    """Yield the application's jobs, the newest first."""
    java = java_context(spark).sc()
    # Spark records jobs and the attempts of stages in another thread.
    java.listenerBus().waitUntilEmpty(_EVENTS_MILLISECONDS)
    jobs = java.statusStore().jobsList(None)
    for index in range(jobs.size()):
        job = jobs.apply(index)
        stages = str(job.stageIds().mkString(","))
        numbers = [int(stage) for stage in stages.split(",") if stage]
        yield _Job(job.jobId(), numbers, job.numSkippedStages())


def _newest_attempt(spark: SparkSession, stage: int) -> Any:
    """Return Spark's record of the newest attempt of a stage; None if it was removed."""
    try:
        return java_context(spark).sc().statusStore().lastStageAttempt(stage)
    except Py4JJavaError as error:
        if "NoSuchElement" in str(error.java_exception.getClass().getName()):
            return None
        raise


def _unrecorded(subject: str, kind: str) -> JobFailed:
    return JobFailed(
        f"{subject}: Spark {pyspark.__version__} has removed the record of a {kind}, so that it is "
        "unknown whether it was computed twice.",
        remedy="Increase spark.ui.retainedJobs and spark.ui.retainedStages, or use Spark 4.1.",
    )


def java_datasets(spark: SparkSession) -> Any:
    """The companion object of Java's Dataset, which Spark 4 moved."""
    package = "classic." if VERSION >= SPARK_4_0 else ""
    return scala_object(spark, f"org.apache.spark.sql.{package}Dataset")


def java_sessions(spark: SparkSession) -> Any:
    """The companion object of Java's SparkSession, which Spark 4 moved."""
    package = "classic." if VERSION >= SPARK_4_0 else ""
    return scala_object(spark, f"org.apache.spark.sql.{package}SparkSession")


def java_expression(spark: SparkSession, column: Column) -> Any:
    """The Java expression of a column; the columns of Spark 4 are independent of a session."""
    java = java_column(column)
    return java_session(spark).expression(java) if VERSION >= SPARK_4_0 else java.expr()


def is_same_expression(expression: Any, read: Any) -> bool:
    """Whether the text of an expression has the meaning of the expression.

    Args:
        expression: The Java expression of a column.
        read: The Java expression that Spark's parser made of its text.
    """
    if VERSION >= SPARK_4_0:
        return bool(read.equals(expression))
    # Columns of Spark 3.5 contain expressions that its parser leaves to the analyzer: only their
    # texts can be compared.
    return bool(read.sql() == expression.sql()) and not any(
        _INCOMPLETE_TEXTS.search(name) for name in _class_names(expression)
    )


def _class_names(tree: Any) -> Iterator[str]:
    yield str(tree.getClass().getSimpleName())
    children = tree.children()
    for index in range(children.size()):
        yield from _class_names(children.apply(index))


def error_condition(error: PySparkException) -> str:
    """The condition of an error, which Spark 3.5 calls its class; empty if it has none."""
    return (error.getCondition() if VERSION >= SPARK_4_0 else error.getErrorClass()) or ""


def is_calendar_interval(type_: types.DataType) -> bool:
    """Whether values of a type are intervals of months, days and microseconds."""
    # Spark 3.5 has no Python class for the type: a frame with such a column has no schema.
    return VERSION >= SPARK_4_0 and isinstance(type_, types.CalendarIntervalType)


# Spark joins small shares of a redistribution, but divides large ones by the tasks before, so that equal
# values are in several. Few shares, as in sessions for little data, are large.
_SHARES = 200


def rebalanced(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Redistribute rows into partitions of about equal size.

    Args:
        frame: The rows.
        columns: The names of columns, quoted; rows with equal values go together.
    """
    shares = [_SHARES] if columns else []
    if VERSION >= SPARK_4_0:
        return frame.hint("rebalance", *shares, *[F.col(name) for name in columns])
    # The Python method of Spark 3.5 refuses columns.
    spark = frame.sparkSession
    expressions: list[Any] = [
        *shares,
        *[java_expression(spark, F.col(name)) for name in columns],
    ]
    sequence = java_class(spark, _PYTHON_UTILS).toSeq(expressions)
    return DataFrame(java_frame(frame).hint("rebalance", sequence), spark)


def try_cast(column: Column, type_: types.DataType) -> Column:
    """Cast values to a type; null where a value has no equivalent."""
    if VERSION >= SPARK_4_0:
        return column.try_cast(type_)
    # The parser of Spark 3.5 knows TRY_CAST, its columns do not.
    spark, to_column = SparkSession.active(), cast("Callable[..., Column]", Column)
    java_type = java_session(spark).parseDataType(type_.json())
    mode = scala_object(spark, f"{_CATALYST}.expressions.EvalMode").TRY()
    no_zone = scala_object(spark, "scala.None")
    make = java_class(spark, f"{_CATALYST}.expressions.Cast")
    cast_expression = make(java_expression(spark, column), java_type, no_zone, mode)
    return to_column(java_class(spark, "org.apache.spark.sql.Column")(cast_expression))


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return the rows of a frame as a table of Arrow."""
    if VERSION >= SPARK_4_0:
        return frame.toArrow()
    schema = to_arrow_schema(frame.schema)
    batches = collected_batches(frame)
    return pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema)


def from_rows(spark: SparkSession, rows: Any, schema: types.StructType | str | None) -> DataFrame:
    """Return a frame with rows of the driver.

    PySpark makes the session of such a frame active. A session of this package must not become
    active: a user would change its settings, and search for views in it.
    """
    with kept_active_session() as previous_session:
        try:
            return spark.createDataFrame(rows, schema)
        finally:
            if previous_session is None:
                java_sessions(spark).clearActiveSession()
            else:
                java_sessions(spark).setActiveSession(java_session(previous_session))


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a frame with the rows of a table of Arrow."""
    if VERSION >= SPARK_4_0:
        return from_rows(spark, table, None)
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    rows = java_batches(spark, batches)
    schema = from_arrow_schema(table.schema).json()
    return DataFrame(
        java_class(spark, "PythonSQLUtils").toDataFrame(rows, schema, java_session(spark)), spark
    )


def with_arrow_column(
    frame: DataFrame,
    name: str,
    function: Callable[..., pa.Array],
    type_: types.DataType,
    columns: Sequence[str],
) -> DataFrame:
    """Append a column that a Python function computes from arrays of Arrow.

    Args:
        frame: The rows; none of its columns has the new name.
        name: The name of the new column.
        function: Computes the column; its parameters are annotated as arrays.
        type_: The type of the new column.
        columns: The names of the columns that are the function's arguments.
    """
    if VERSION >= SPARK_4_1:
        from pyspark.sql.pandas.functions import arrow_udf

        udf: Any = arrow_udf  # Its type stubs support at most ten columns.
        arguments = [F.col(quoted(column)) for column in columns]
        return frame.withColumn(name, udf(function, type_)(*arguments))
    # Other Python functions get values of pandas, which cannot hold all values of Hive.
    column_names = frame.columns
    indexes = [column_names.index(column) for column in columns]

    def appended(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = batch.columns
            computed = function(*[arrays[index] for index in indexes])
            yield pa.RecordBatch.from_arrays([*arrays, computed], [*column_names, name])

    # Spark 3.5 takes a dot in the name of a column for the access to a field.
    numbered = frame.toDF(*[f"c{number}" for number in range(len(column_names))])
    return numbered.mapInArrow(appended, types.StructType([*frame.schema.fields]).add(name, type_))


def inheriting_target(spark: SparkSession, target: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the target of a thread, whose jobs get the local properties of the calling thread."""
    wrap: Any = inheritable_thread_target
    wrapped: Callable[..., Any] = wrap(spark)(target) if VERSION >= SPARK_4_0 else wrap(target)
    return wrapped


def bound_text(spark: SparkSession, text: str, values: dict[str, Column]) -> str:
    """Replace the named parameters of a query by the texts of literals.

    Args:
        spark: The session that will read the text.
        text: The query.
        values: The literal of each parameter.

    Raises:
        InvalidJob: A parameter has no value.
    """
    literals = {name: java_expression(spark, value) for name, value in values.items()}
    if VERSION >= SPARK_4_1:
        handler = java_class(spark, f"{_CATALYST}.parser.ParameterHandler")
        scala = java_class(spark, _PYTHON_UTILS).toScalaMap(literals)
        return str(handler.substituteNamedParameters(text, scala)._1())
    # Earlier versions replace parameters in plans, not in texts.
    parts, end = [], 0
    for colon, name in parameter_places(text):
        if name not in literals:
            raise InvalidJob(
                f"The parameter :{name} has no value.", remedy="Add it to the parameters."
            )
        parts += [text[end:colon], str(literals[name].sql())]
        end = text.index(name, colon) + len(name)
    return "".join([*parts, text[end:]])


def python_data_sources() -> Any:
    """The module of data sources in Python.

    Raises:
        SoftwareMissing: This Spark has none.
    """
    if VERSION < SPARK_4_0:
        raise SoftwareMissing(
            f'spark.read.format("hiveacid") needs Spark 4.0; this is Spark {pyspark.__version__}.',
            remedy="Read the table by AcidTable(...).to_df().",
        )
    return import_module("pyspark.sql.datasource")
