"""The Spark session: what it must be like, and how our scans are set apart from the user's."""

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
    # A snapshot names its files one by one; that list must not become a Spark job of its own.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # ${env:SECRET} would stand for the driver's own, wherever it is written, and end quotes.
    "spark.sql.variable.substitute": "false",
    # The result of a statement must not depend on the cluster: these are Spark's own defaults.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
}
# A file that vanished is an error, never an empty result. Spark asks the session that runs a frame
# for these, not the one that the scan was made with: so every scan says them itself.
_READ_OPTIONS = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
# A stage that is computed again, because its output got lost, may give other rows. Spark then has
# to do all over what has read the first ones, or to give up.
_STABLE_SHUFFLES = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
APPLICATION_SETTINGS = {
    # Hive's timestamps have no zone; ORC stores them by the writer's clock.
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    # By its environment, since an executor's Java options may hold the user's own.
    "spark.executorEnv.TZ": "UTC",
}
# What setting a job group changes for all jobs that follow.
_OF_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
CALLING_JAVA = ("reflect", "java_method", "try_reflect")
# They print a page of Java for every error that is raised as well, and that we report in a line.
_REPEATING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def application_session(name: str) -> SparkSession:
    """The session of one of our applications, made with the settings it was submitted with."""
    # Tasks on this machine run in the interpreter of the driver, which has all that they import.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName(name)
    for key, value in APPLICATION_SETTINGS.items():
        builder = builder.config(key, value)
    for logger in _REPEATING_LOGGERS:
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    return builder.getOrCreate()


def scan_session(spark: SparkSession) -> SparkSession:
    """A session on the same Spark with the settings that ACID files need.

    The settings are read from the session a scan was made with, also when the frame becomes one of
    another session, or is joined with some: the user's own session stays as it is.
    """
    session = spark.newSession()
    for key, value in (SCAN_SETTINGS | _STABLE_SHUFFLES).items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.session.timeZone", session_time_zone(spark))
    return session


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of Java by its whole name.

    Asked for in parts, Java searches all of its archives for each of them.
    """
    return getattr(spark._jvm, name)


def file_reader(session: SparkSession) -> DataFrameReader:
    """What makes scans of files in a session made by ``scan_session``."""
    return session.read.options(**_READ_OPTIONS)


def evaluating_session(spark: SparkSession) -> SparkSession:
    """A session with the settings of another one, to evaluate what was made in that exactly once.

    The other one stays as it is; views that are made in it later on are not seen.
    """
    session = cloned_session(spark)
    for key, value in _STABLE_SHUFFLES.items():
        session.conf.set(key, value)
    return session


def cloned_session(spark: SparkSession) -> SparkSession:
    """A session with the settings of another one, and with the views that it has now."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same rows as a frame of another session, whose settings a write of them follows.

    What was resolved in the old session, names and time zones among it, stays so.
    """
    # A view that all sessions know would do as well, and costs the driver thirty times as much.
    dataset = java_class(session, "org.apache.spark.sql.classic.Dataset")
    rows = dataset.ofRows(session._jsparkSession, frame._jdf.logicalPlan())
    return DataFrame(rows, session)


def require_utc(spark: SparkSession, what: str) -> None:
    """Refuse to touch timestamps when Spark's clock is not UTC."""
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
    """The zone in which a session shows timestamps."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


@contextmanager
def cancelling_jobs(spark: SparkSession, group: str, description: str) -> Iterator[None]:
    """Stop the body's Spark jobs when it ends by an error, so that none goes on writing."""
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
