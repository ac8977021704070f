"""Spark writers for files in hidden folders of a table.

Hadoop commits files by renaming, which an S3 store does by copying every byte, once for each task
and once for the job. Hadoop's own committer for such stores uploads files in parts, and completes
the uploads of all tasks at once. It is used if Spark has its module hadoop-cloud.
"""

from urllib.parse import urlsplit

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from hiveacid.spark.session import cloned_session, in_session
from hiveacid.spark.spark_versions import java_class

_NO_MARK = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
_PROTOCOL = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
_S3A_COMMITTER = {
    "mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
    "fs.s3a.committer.name": "magic",
}


def file_writer(frame: DataFrame, location: str) -> DataFrameWriter:
    """Return a writer below a location: no success marker and, on s3a, no copies.

    Args:
        frame: The rows.
        location: The location of the files.
    """
    spark = frame.sparkSession
    if urlsplit(location).scheme != "s3a" or not _uploads(spark):
        return frame.write.options(**_NO_MARK)
    session = cloned_session(spark)
    session.conf.set("spark.sql.sources.commitProtocolClass", _PROTOCOL)
    return in_session(frame, session).write.options(**_NO_MARK, **_S3A_COMMITTER)


def _uploads(spark: SparkSession) -> bool:
    """Whether Spark has the committer, and it is not switched off."""
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    loadable = java_class(spark, "org.apache.spark.util.Utils").classIsLoadable(_PROTOCOL)
    return bool(loadable and hadoop.getBoolean("fs.s3a.committer.magic.enabled", True))
