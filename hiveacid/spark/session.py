"""The Spark session: its required settings, and separate sessions for scans."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import wraps
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from hiveacid.errors import UserError
from hiveacid.metastore.dev.distribution import find_java
from hiveacid.metastore.txn.transaction import end_all_reads
from hiveacid.spark.java_objects import java_class, java_frame, java_session, kept_objects
from hiveacid.spark.spark_versions import (
    error_condition,
    java_datasets,
    java_sessions,
    silence,
    stable_shuffles,
)

TIME_ZONE = "spark.sql.session.timeZone"
SCAN_SETTINGS = {
    "spark.sql.sources.useV1SourceList": "json,orc,parquet,text",
    # Otherwise ${env:SECRET} would be replaced by the driver's variable, anywhere in a statement,
    # and could end quotes.
    "spark.sql.variable.substitute": "false",
}
# A setting that Spark 4 has deprecated.
_DEPRECATED = "spark.sql.parser.escapedStringLiterals"
# The result of a statement must not depend on the cluster, or on the version of Spark: these are
# the defaults of Spark 4.1. docs/sql.md lists them.
SQL_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # With Arrow, the default of Spark 4.2, results of another type are converted instead of null.
    "spark.sql.execution.pythonUDF.arrow.enabled": "false",
    "spark.sql.execution.pythonUDTF.arrow.enabled": "false",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.orderByOrdinal": "true",
    _DEPRECATED: "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Not their older values, which are the defaults of Spark 3.5.
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}
# Each restores an earlier meaning of SQL. Other options with this prefix are of file formats.
_LEGACY = "spark.sql.legacy."
_OF_FILES = (f"{_LEGACY}avro.", f"{_LEGACY}csv.", f"{_LEGACY}json.", f"{_LEGACY}parquet.")
APPLICATION_SETTINGS = {
    # Hive's timestamps have no zone; ORC stores them by the writer's clock.
    TIME_ZONE: "UTC",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    # Set by the environment, since an executor's Java options may be set by the user.
    "spark.executorEnv.TZ": "UTC",
}
# The local properties that a job group changes for all following jobs.
_OF_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
# Objects that are kept for a context: the session that `scan_session` copies, the sessions of reads by
# their time zones, and the object of Java that knows the active session.
_TEMPLATE, _READING, _SESSIONS = "template", "reading", "sessions"
# The trees of the texts that were parsed in a session for scans, and the parsers of sessions.
_PARSED: WeakKeyDictionary[SparkSession, dict[str, Any]] = WeakKeyDictionary()
_PARSERS: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()
CALLING_JAVA = ("reflect", "java_method", "try_reflect")
# They print a page of Java for every error that is also raised and reported in one line.
_REPEATING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def application_session(
    name: str, settings: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """Return the session of an application of this package, with its submitted settings.

    Args:
        name: The name of the application.
        settings: More settings, which precede those of this package.

    Raises:
        SoftwareMissing: No Java, or one of an unsupported version, was found to start Spark with.
    """
    # Tasks on this machine run in the driver's interpreter, which has all their imports.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName(name)
    for key, value in {**APPLICATION_SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    for logger in _REPEATING_LOGGERS:
        silence(logger)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error_condition(error) == "JAVA_GATEWAY_EXITED":
            find_java()  # Raises the error of `hiveacid doctor` if Java is the cause.
        raise


def scan_session(spark: SparkSession) -> SparkSession:
    """A session on the same Spark with the settings that ACID files need.

    The settings are read from the session of the scan, even if the frame is moved to another
    session or joined with its frames: the user's own session is not changed.
    """
    kept = kept_objects(spark)
    template: SparkSession | None = kept.get(_TEMPLATE)
    if template is None:
        # A session without views, which is never used: a copy of it takes three calls of Java, and
        # the settings take thirty.
        template = kept[_TEMPLATE] = _template(spark)
    session = cloned_session(template)
    java_session(session).conf().set(TIME_ZONE, session_time_zone(spark))
    # The same conditions are examined several times while a statement is prepared.
    _PARSED[session] = {}
    return session


def reading_session(spark: SparkSession) -> SparkSession:
    """Return a session like that of ``scan_session`` that all reads with the same time zone share.

    Its settings must not be changed.
    """
    shared: dict[str, SparkSession] = kept_objects(spark).setdefault(_READING, {})
    zone = session_time_zone(spark)
    if zone not in shared:
        shared[zone] = scan_session(spark)
    session = copy(shared[zone])
    _PARSED[session] = {}
    return session


def parsed_texts(spark: SparkSession) -> dict[str, Any]:
    """Return the trees of the texts that were parsed in a session; empty if it is not for scans."""
    return _PARSED.get(spark, {})


def _template(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    configured = java_session(session).conf()
    for key in configured.getAll().keySet().mkString("\n").split("\n"):
        legacy = key.startswith(_LEGACY) and not key.startswith(_OF_FILES)
        if legacy and configured.isModifiable(key):
            session.conf.unset(key)
    for key, value in (SCAN_SETTINGS | SQL_SETTINGS | stable_shuffles()).items():
        # Spark warns of a deprecated setting whenever it is set, and again in each copy of the session.
        if key != _DEPRECATED or session.conf.get(key) != value:
            session.conf.set(key, value)
    return session


def session_holding(spark: SparkSession, content: object) -> SparkSession:
    """Return the same session as another object, which refers to an object.

    A frame refers to its session, as do the frames that are made from it: so the object is kept
    until the last of them is collected.
    """
    session_copy = copy(spark)
    vars(session_copy)["_kept"] = content
    return session_copy


def end_reads_on_stop(spark: SparkSession) -> None:
    """End the reads of frames before Spark is stopped, as no frame can be computed afterwards."""
    context: Any = spark.sparkContext
    stop = context.stop
    if getattr(stop, "ends_reads", False):
        return

    @wraps(stop)
    def stop_after_reads() -> None:
        end_all_reads()
        stop()

    vars(stop_after_reads)["ends_reads"] = True
    context.stop = stop_after_reads


def evaluating_session(spark: SparkSession) -> SparkSession:
    """Copy a session, to evaluate frames of the original session exactly once.

    The original session is not changed; views that are created in it later are not visible.
    """
    session = cloned_session(spark)
    for key, value in stable_shuffles().items():
        session.conf.set(key, value)
    return session


def cloned_session(spark: SparkSession) -> SparkSession:
    """A session with the settings of another one, and with its current views."""
    return SparkSession(spark.sparkContext, java_session(spark).cloneSession())


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Move a frame to another session, whose settings apply when its rows are written.

    Names and time zones that were resolved in the old session do not change.
    """
    # A view for all sessions would also work, but costs the driver thirty times as much.
    rows = java_datasets(session).ofRows(java_session(session), java_frame(frame).logicalPlan())
    return DataFrame(rows, session)


@contextmanager
def sql_parser(spark: SparkSession) -> Iterator[Any]:
    """Yield the parser of a session, which uses the settings of that session.

    The settings of Spark's parser are those of the thread's active session, whose owner may have changed
    them: a checked text could then be read otherwise when it runs.
    """
    kept = kept_objects(spark)
    # Each part of a path to an object is a call of Java.
    if _SESSIONS not in kept:
        kept[_SESSIONS] = java_sessions(spark)
    if spark not in _PARSERS:
        _PARSERS[spark] = java_session(spark).sessionState().sqlParser()
    sessions = kept[_SESSIONS]
    # Without an active session, Spark uses the default one.
    previous_session = sessions.active()
    sessions.setActiveSession(java_session(spark))
    try:
        yield _PARSERS[spark]
    finally:
        sessions.setActiveSession(previous_session)


def require_utc(spark: SparkSession, subject: str) -> None:
    """Refuse to process timestamps if Spark's time zone is not UTC."""
    java_zone = java_class(spark, "java.util.TimeZone").getDefault().getID()
    session_zone = session_time_zone(spark)
    utc = {"UTC", "Etc/UTC", "GMT", "Z", "+00:00"}
    if java_zone not in utc or session_zone not in utc:
        raise UserError(
            f"{subject} has timestamps, and Spark runs in the zones {java_zone} (Java) and "
            f"{session_zone} (session): Hive would show them shifted.",
            remedy="Start Spark with -Duser.timezone=UTC for driver and executors and "
            "spark.sql.session.timeZone=UTC.",
        )


def session_time_zone(spark: SparkSession) -> str:
    """The time zone for timestamps in a session."""
    return java_session(spark).conf().get(TIME_ZONE) or "UTC"


@contextmanager
def cancelling_jobs(spark: SparkSession, group: str, description: str) -> Iterator[None]:
    """Cancel the body's Spark jobs after an error, so that no job continues writing."""
    context = spark.sparkContext
    properties_before = {name: context.getLocalProperty(name) for name in _OF_JOB_GROUP}
    context.setJobGroup(group, description, interruptOnCancel=True)
    try:
        yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        for name, value in properties_before.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type]


# Spark writers for files in hidden folders of a table.
#
# Hadoop commits files by renaming, which an S3 store does by copying every byte, once for each
# task and once for the job. Hadoop's own committer for such stores uploads files in parts, and
# completes the uploads of all tasks at once. It is used if Spark has its module hadoop-cloud.


_NO_MARK = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
_PROTOCOL = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
_S3A_COMMITTER = {
    "mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
    "fs.s3a.committer.name": "magic",
}


# Without Hadoop's native library, Java starts a process to set the permissions of each local file: half
# of the time of small files. Files of checksums, which only Java reads, would double their number.
_NO_CHECKSUMS = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def file_writer(frame: DataFrame, location: str) -> DataFrameWriter:
    """Return a writer below a location: no success marker and, on s3a, no copies.

    Args:
        frame: The rows.
        location: The location of the files.
    """
    spark = frame.sparkSession
    if urlsplit(location).scheme != "s3a" or not _uploads(spark):
        return frame.write.options(**_NO_MARK, **_NO_CHECKSUMS)
    session = cloned_session(spark)
    session.conf.set("spark.sql.sources.commitProtocolClass", _PROTOCOL)
    return in_session(frame, session).write.options(**_NO_MARK, **_S3A_COMMITTER)


def _uploads(spark: SparkSession) -> bool:
    """Whether Spark has the committer, and it is not switched off."""
    hadoop = java_session(spark).sessionState().newHadoopConf()
    loadable = java_class(spark, "org.apache.spark.util.Utils").classIsLoadable(_PROTOCOL)
    return bool(loadable and hadoop.getBoolean("fs.s3a.committer.magic.enabled", True))
