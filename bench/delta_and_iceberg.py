"""A Spark that knows Delta Lake and Iceberg, too."""

from pathlib import Path

from pyspark.sql import SparkSession
from session import TASKS, session

from hiveacid.spark.spark_versions import SPARK_4_1, VERSION

ICEBERG_CATALOG = "ice"
# Iceberg 1.12 has no package for Spark 4.0.
PACKAGES = {
    (3, 5): (
        "io.delta:delta-spark_2.12:3.3.2",
        "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
    ),
    SPARK_4_1: (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    ),
}[VERSION]

# Spark has these itself.
_OF_SPARK = (
    "org.slf4j:*",
    "org.apache.logging.log4j:*",
    "org.roaringbitmap:*",
    "com.fasterxml.jackson.core:*",
    "org.xerial.snappy:*",
    "com.github.luben:*",
    "commons-pool:*",
    "commons-logging:*",
    "org.apache.hadoop:*",
    "org.apache.parquet:*",
)


def session_with_peers(folder: Path) -> SparkSession:
    """The session of the benchmarks with the catalogs of the peers; fetches them once."""
    return session(
        folder,
        settings={
            "spark.ui.showConsoleProgress": "false",
            "spark.jars.packages": ",".join(PACKAGES),
            "spark.jars.excludes": ",".join(_OF_SPARK),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            f"spark.sql.catalog.{ICEBERG_CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
            # Delta's log is as small as the tables: the same tasks for it as for everything else.
            "spark.databricks.delta.snapshotPartitions": str(TASKS),
            f"spark.sql.catalog.{ICEBERG_CATALOG}.type": "hadoop",
            f"spark.sql.catalog.{ICEBERG_CATALOG}.warehouse": str(folder / "iceberg"),
        },
    )
