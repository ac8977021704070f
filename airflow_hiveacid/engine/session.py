"""The Spark session: its required settings, and separate sessions for scans."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from airflow_hiveacid.errors import UserError

SCAN_SETTINGS = {
    # ORC resolves a pushed filter against the row struct, not against the whole file: with the
    # wrong column of the same name it silently drops rows. Scans push their own search argument.
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.orc.enableVectorizedReader": "true",
    "spark.sql.orc.enableNestedColumnVectorizedReader": "true",
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "true",
    "spark.sql.sources.useV1SourceList": "json,orc,parquet,text",
    # A snapshot contains a list of files; this list must not be processed by a Spark job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # Otherwise ${env:SECRET} would be replaced by the driver's variable, anywhere in a statement,
    # and could end quotes.
    "spark.sql.variable.substitute": "false",
    # The result of a statement must not depend on the cluster: these are Spark's own defaults.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
}
# A missing file is an error, never an empty result. Spark reads these options from the session that
# runs a frame, not from the session of the scan: so every scan sets them itself.
_READ_OPTIONS = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
# A recomputed stage, after its output was lost, may yield other rows. Spark must then repeat all
# work that depends on the first rows, or fail.
_STABLE_SHUFFLES = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
APPLICATION_SETTINGS = {
    # Hive's timestamps have no zone; ORC stores them by the writer's clock.
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    # Set by the environment, since an executor's Java options may be set by the user.
    "spark.executorEnv.TZ": "UTC",
}
# The local properties that a job group changes for all following jobs.
_OF_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
CALLING_JAVA = ("reflect", "java_method", "try_reflect")
# They print a page of Java for every error that is also raised and reported in one line.
_REPEATING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def application_session(name: str) -> SparkSession:
    """Return the session of an application of this package, with its submitted settings."""
    # Tasks on this machine run in the driver's interpreter, which has all their imports.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName(name)
    for key, value in APPLICATION_SETTINGS.items():
        builder = builder.config(key, value)
    for logger in _REPEATING_LOGGERS:
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    return builder.getOrCreate()


def scan_session(spark: SparkSession) -> SparkSession:
    """A session on the same Spark with the settings that ACID files need.

    The settings are read from the session of the scan, even if the frame is moved to another
    session or joined with its frames: the user's own session is not changed.
    """
    session = spark.newSession()
    for key, value in (SCAN_SETTINGS | _STABLE_SHUFFLES).items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.session.timeZone", session_time_zone(spark))
    return session


def java_class(spark: SparkSession, name: str) -> Any:
    """A Java class by its full name.

    If the name is resolved in parts, Java searches all archives for each part.
    """
    return getattr(spark._jvm, name)


def file_reader(session: SparkSession) -> DataFrameReader:
    """Return a reader of files in a session made by ``scan_session``."""
    return session.read.options(**_READ_OPTIONS)


def evaluating_session(spark: SparkSession) -> SparkSession:
    """Copy a session, to evaluate frames of the original session exactly once.

    The original session is not changed; views that are created in it later are not visible.
    """
    session = cloned_session(spark)
    for key, value in _STABLE_SHUFFLES.items():
        session.conf.set(key, value)
    return session


def cloned_session(spark: SparkSession) -> SparkSession:
    """A session with the settings of another one, and with its current views."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Move a frame to another session, whose settings apply when its rows are written.

    Names and time zones that were resolved in the old session do not change.
    """
    # A view for all sessions would also work, but costs the driver thirty times as much.
    dataset = java_class(session, "org.apache.spark.sql.classic.Dataset")
    rows = dataset.ofRows(session._jsparkSession, frame._jdf.logicalPlan())
    return DataFrame(rows, session)


def require_utc(spark: SparkSession, what: str) -> None:
    """Refuse to process timestamps if Spark's time zone is not UTC."""
    java_zone = java_class(spark, "java.util.TimeZone").getDefault().getID()
    session_zone = session_time_zone(spark)
    utc = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00"}
    if java_zone not in utc or session_zone not in utc:
        raise UserError(
            f"{what} has timestamps, and Spark runs in the zones {java_zone} (Java) and "
            f"{session_zone} (session): Hive would show them shifted.",
            remedy="Start Spark with -Duser.timezone=UTC for driver and executors and "
            "spark.sql.session.timeZone=UTC.",
        )


def session_time_zone(spark: SparkSession) -> str:
    """The time zone for timestamps in a session."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


@contextmanager
def cancelling_jobs(spark: SparkSession, group: str, description: str) -> Iterator[None]:
    """Cancel the body's Spark jobs after an error, so that no job continues writing."""
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in _OF_JOB_GROUP}
    context.setJobGroup(group, description, interruptOnCancel=True)
    try:
        yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type]
