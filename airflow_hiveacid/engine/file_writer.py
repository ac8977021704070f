"""How Spark writes files into hidden folders of a table.

Hadoop commits them by renaming, which an S3 store does by copying every byte, once for each task
and once for the job. Its own committer for such stores uploads them in parts, and completes the
uploads of all tasks at once: that is for Spark to use where it has its module hadoop-cloud.
"""

from urllib.parse import urlsplit

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from airflow_hiveacid.engine.session import cloned_session, in_session, java_class

_NO_MARK = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
_PROTOCOL = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
_S3A_COMMITTER = {
    "mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
    "fs.s3a.committer.name": "magic",
}


def file_writer(frame: DataFrame, location: str) -> DataFrameWriter:
    """What writes a frame below a location, without a mark of success and, on s3a, without copies.

    Args:
        frame: The rows.
        location: Where the files will go.
    """
    spark = frame.sparkSession
    if urlsplit(location).scheme != "s3a" or not _uploads(spark):
        return frame.write.options(**_NO_MARK)
    session = cloned_session(spark)
    session.conf.set("spark.sql.sources.commitProtocolClass", _PROTOCOL)
    return in_session(frame, session).write.options(**_NO_MARK, **_S3A_COMMITTER)


def _uploads(spark: SparkSession) -> bool:
    """Whether Spark has what it takes, and nobody has switched it off."""
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    loadable = java_class(spark, "org.apache.spark.util.Utils").classIsLoadable(_PROTOCOL)
    return bool(loadable and hadoop.getBoolean("fs.s3a.committer.magic.enabled", True))
