"""Releases of Hive Metastore that run on this machine, and their differences."""

from collections.abc import Mapping
from dataclasses import dataclass

# From version 24 on Java rejects Hadoop's calls for impersonating a user.
JAVA = range(17, 24)

_ACID_INPUT = "org/apache/hadoop/hive/ql/io/AcidInputFormat"
_ACID_OUTPUT = "org/apache/hadoop/hive/ql/io/AcidOutputFormat"
# The only class that Hive 4 uses from HDFS's server side.
_OF_HDFS = {"org/apache/hadoop/hdfs/protocol/SnapshotException": "java/io/IOException"}
# The metastore looks up the class of every full ACID table, although it never reads a row. It
# checks only these names; the real classes come with 40 to 90 MB of Hive's query engine.
_OF_THE_ENGINE = {
    _ACID_INPUT: "java/lang/Object",
    _ACID_OUTPUT: "java/lang/Object",
    "org/apache/hadoop/hive/ql/io/orc/OrcInputFormat": _ACID_INPUT,
    "org/apache/hadoop/hive/ql/io/orc/OrcOutputFormat": _ACID_OUTPUT,
}
_HIVE_4 = "org.apache.hive:hive-standalone-metastore-server:4.0.1"
_LIBRARIES_OF_4 = ("org.slf4j:slf4j-api:1.7.36", "commons-collections:commons-collections:3.2.2")
# Off by default: then transactions of dead owners would never be aborted.
_SETTINGS_OF_4 = {"metastore.housekeeping.threads.on": "true"}


@dataclass(frozen=True, kw_only=True)
class Release:
    """Instructions to download and run a release.

    Attributes:
        version: Hive's version number.
        archive: Maven coordinates of the ``bin`` archive that has its jars and its schema.
        megabytes: Rough size of the download, for the message that announces it.
        libraries: Maven coordinates of the jars that the archive lacks.
        spark_jars: Names of the jars that Spark ships and the archive lacks.
        empty_classes: Classes that only need to exist, each with its parent.
        schema_tool: The class that creates the schema.
        settings: Settings that only this release needs.
        java: The versions of Java that it runs on.
        left_out: Name prefixes of the archive's jars that the libraries replace.
        schema: Statements that convert the archive's newest schema into that of the release.
    """

    version: str
    archive: str
    megabytes: int
    libraries: tuple[str, ...]
    spark_jars: tuple[str, ...]
    empty_classes: Mapping[str, str]
    schema_tool: str = "org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool"
    settings: Mapping[str, str]
    java: range = JAVA
    left_out: tuple[str, ...] = ()
    schema: tuple[str, ...] = ()


# Columns that the schema has dropped since 4.0: the metastore no longer fills them, but the schema
# of 4.0 requires them.
_SCHEMA_OF_4_1 = tuple(
    f'ALTER TABLE "APP"."{table}" DROP COLUMN "{column}"'
    for table, columns in {
        "TAB_COL_STATS": ("CAT_NAME", "DB_NAME", "TABLE_NAME"),
        "PART_COL_STATS": ("CAT_NAME", "DB_NAME", "TABLE_NAME", "PARTITION_NAME"),
    }.items()
    for column in columns
)
_SCHEMA_OF_4_2 = (
    *_SCHEMA_OF_4_1,
    'CREATE TABLE "APP"."CATALOG_PARAMS" ("CTLG_ID" BIGINT NOT NULL, "PARAM_KEY" VARCHAR(180)'
    ' NOT NULL, "PARAM_VALUE" VARCHAR(4000), PRIMARY KEY ("CTLG_ID", "PARAM_KEY"))',
)


def _in_the_engine(version: str, *, first_java: int, schema: tuple[str, ...]) -> Release:
    """Return a release whose metastore is published only as a part of Hive's query engine."""
    return Release(
        version=version,
        archive=_HIVE_4,
        megabytes=180,
        libraries=(
            *_LIBRARIES_OF_4,
            f"org.apache.hive:hive-exec:{version}",
            "org.datanucleus:datanucleus-core:6.0.10",
            "org.datanucleus:datanucleus-rdbms:6.0.10",
            "org.datanucleus:datanucleus-api-jdo:6.0.3",
        ),
        spark_jars=("commons-io", "javax.servlet-api", "httpclient", "gson"),
        empty_classes=_OF_HDFS,
        settings={
            **_SETTINGS_OF_4,
            # On by default, which takes effect if Hive's engine is present, as in this case.
            "metastore.compactor.initiator.on": "false",
            "metastore.compactor.cleaner.on": "false",
            # The default also names a task of Iceberg, without which no task starts.
            "metastore.task.threads.remote": ",".join(
                f"org.apache.hadoop.hive.metastore.{task}"
                for task in (
                    "txn.service.AcidHouseKeeperService",
                    "txn.service.CompactionHouseKeeperService",
                    "txn.service.AcidTxnCleanerService",
                    "txn.service.AcidOpenTxnsCounterService",
                )
            ),
        },
        java=range(first_java, JAVA.stop),
        # The engine has its own of these, or wants newer ones.
        left_out=("hive-", "orc-", "datanucleus-"),
        schema=(
            *schema,
            f'UPDATE "APP"."VERSION" SET "SCHEMA_VERSION" = \'{version}\'',
        ),
    )


_ALL = (
    Release(
        version="4.0.1",
        archive=_HIVE_4,
        megabytes=80,
        libraries=_LIBRARIES_OF_4,
        spark_jars=("commons-io", "javax.servlet-api", "httpclient", "gson"),
        empty_classes={**_OF_THE_ENGINE, **_OF_HDFS},
        settings=_SETTINGS_OF_4,
    ),
    Release(
        version="3.1.3",
        archive="org.apache.hive:hive-standalone-metastore:3.1.3",
        megabytes=30,
        libraries=(
            "org.slf4j:slf4j-api:1.7.36",
            "org.slf4j:jcl-over-slf4j:1.7.36",
            "commons-collections:commons-collections:3.2.2",
            "org.codehaus.jackson:jackson-core-asl:1.9.13",
            "org.codehaus.jackson:jackson-mapper-asl:1.9.13",
        ),
        spark_jars=("commons-cli", "commons-io", "commons-codec"),
        empty_classes=_OF_THE_ENGINE,
        schema_tool="org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool",
        # The default also names a task of Hive's query engine, without which it does not start.
        # The tasks that abort and forget dead transactions would start only beside Hive's own
        # compactor; named here, they always do.
        settings={
            "metastore.task.threads.always": ",".join(
                f"org.apache.hadoop.hive.metastore.{task}"
                for task in (
                    "events.EventCleanerTask",
                    "txn.AcidHouseKeeperService",
                    "txn.AcidCompactionHistoryService",
                    "txn.AcidWriteSetService",
                )
            )
        },
    ),
    _in_the_engine("4.1.0", first_java=17, schema=_SCHEMA_OF_4_1),
    _in_the_engine("4.2.0", first_java=21, schema=_SCHEMA_OF_4_2),
)
RELEASES = {release.version: release for release in _ALL}
