"""The same table and the same work, by each of the engines that are compared."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from delta_and_iceberg import ICEBERG_CATALOG
from lineitem import COLUMNS, TYPES
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.names import TableRef

KEY, CHANGED = "l_orderkey", "l_quantity"
# The column of the partitions, in tables that have any.
PARTITION = "sold"
ON = f"t.{KEY} = s.{KEY}"


class Engine(ABC):
    """A kind of table, and one table of that kind at a time."""

    name: ClassVar[str]
    # The works that it takes part in, and the share that counts as its own; None is everything.
    courses: ClassVar[tuple[str, ...] | None] = None
    works: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def does(self, work: str) -> bool:
        """Whether a work measures it."""
        return self.works is None or work in self.works

    @abstractmethod
    def create(self, table: str, key: str | None = None) -> None:
        """Make an empty table, and work on it from now on.

        Args:
            table: Its name.
            key: The type of the partition column; None for a table without partitions.
        """

    @abstractmethod
    def append(self, rows: DataFrame) -> None:
        """Add rows."""

    @abstractmethod
    def frame(self) -> DataFrame:
        """All rows of the table."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the table."""

    def megabytes(self) -> float:
        """The size of the files of all rows."""
        files = (urlsplit(file).path for file in self.frame().inputFiles())
        return sum(Path(unquote(file)).stat().st_size for file in files) / 1e6

    def only(self, key: int) -> DataFrame:
        """The rows with one key."""
        return self.frame().where(f"{KEY} = {key}")

    def column(self, name: str) -> DataFrame:
        """One column of all rows."""
        return self.frame().select(name)


class ChangingEngine(Engine):
    """One that can change rows, too."""

    @abstractmethod
    def upsert(self, source: DataFrame) -> None:
        """Update the rows whose key the source has; insert the others."""

    @abstractmethod
    def delete(self, keys: DataFrame) -> None:
        """Delete the rows of a list of keys."""

    @abstractmethod
    def update(self, where: str) -> None:
        """Change a column of the rows that match a condition."""

    @abstractmethod
    def delete_where(self, where: str) -> None:
        """Delete the rows that match a condition."""

    @abstractmethod
    def compact(self) -> None:
        """Rewrite the table as if it had been written at once."""


class ChangeTellingEngine(ChangingEngine):
    """An engine that can report the changes since a version."""

    @abstractmethod
    def tell_changes(self) -> None:
        """Prepare the new table for that, if need be."""

    @abstractmethod
    def version(self) -> int:
        """The newest version of the table."""

    @abstractmethod
    def changes(self, since: int) -> DataFrame:
        """The rows that were deleted and inserted since a version."""

    @abstractmethod
    def as_of(self, version: int) -> DataFrame:
        """All rows of a version."""

    def compared(self, since: int) -> DataFrame:
        """The same rows, found by comparing the table with that version."""
        old, new = self.as_of(since), self.frame()
        return new.exceptAll(old).unionAll(old.exceptAll(new))


class FlatOrc(Engine):
    """Spark's own files of ORC, without support for changes."""

    name = "flat"
    codec = "zlib"

    def create(self, table: str, key: str | None = None) -> None:
        self.path = str(self.folder / self.name / table)
        self.keys = [] if key is None else [PARTITION]

    def append(self, rows: DataFrame) -> None:
        rows.write.option("compression", self.codec).partitionBy(*self.keys).orc(self.path)

    def frame(self) -> DataFrame:
        return self.spark.read.orc(self.path)

    def drop(self) -> None:
        self.spark._jvm.org.apache.hadoop.fs.FileUtil.fullyDelete(  # type: ignore[union-attr]
            self.spark._jvm.java.io.File(self.path)  # type: ignore[union-attr]
        )


class FlatOrcZstd(FlatOrc):
    """The same with another compression."""

    name = "flat_zstd"
    codec = "zstd"


class HiveAcid(ChangeTellingEngine):
    """Our tables."""

    name = "hiveacid"
    database = "bench"
    parameters: ClassVar[dict[str, str]] = {}

    def __init__(self, spark: SparkSession, folder: Path, uri: str) -> None:
        super().__init__(spark, folder)
        self.uri, self.client = uri, MetastoreClient(MetastoreOptions(uris=uri))

    def create(self, table: str, key: str | None = None) -> None:
        self.ref = TableRef(self.database, f"{table}_{self.name}")
        keys = [] if key is None else [HiveColumn(PARTITION, key)]
        new = HiveTable.new(self.ref, COLUMNS, partition_keys=keys, parameters=self.parameters)
        self.client.create_table(new)
        self.table = AcidTable(self.ref.full_name, self.uri, spark=self.spark, run_in="spark")

    def append(self, rows: DataFrame) -> None:
        self.table.append(rows)

    def frame(self) -> DataFrame:
        return self.table.to_df()

    def only(self, key: int) -> DataFrame:
        return self.table.to_df(where=f"{KEY} = {key}")

    def column(self, name: str) -> DataFrame:
        return self.table.to_df(columns=[name])

    def upsert(self, source: DataFrame) -> None:
        merge = self.table.merge(source, ON)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, keys: DataFrame) -> None:
        self.table.merge(keys, ON).when_matched_delete().execute()

    def update(self, where: str) -> None:
        self.table.update({CHANGED: f"{CHANGED} + 1"}, where)

    def delete_where(self, where: str) -> None:
        self.table.delete(where)

    def compact(self) -> None:
        report = self.table.compact("major")
        if report.error is not None:
            raise RuntimeError(report.error.message)

    def tell_changes(self) -> None:
        pass

    def version(self) -> int:
        seen = Snapshot.take(self.client, [self.ref])
        return seen.write_ids[self.ref.full_name].high_watermark

    def changes(self, since: int) -> DataFrame:
        return self.table.changes(since, net=True)

    def as_of(self, version: int) -> DataFrame:
        return self.table.to_df(as_of_write_id=version)

    def drop(self) -> None:
        self.table.close()
        self.client.drop_table(self.ref)


class HiveAcidZstd(HiveAcid):
    """The same with another compression."""

    name = "hiveacid_zstd"
    parameters: ClassVar[dict[str, str]] = {"orc.compress": "ZSTD"}


class SqlEngine(ChangeTellingEngine):
    """One whose tables Spark knows by name, and changes by SQL."""

    provider: ClassVar[str]
    properties: ClassVar[str]

    def create(self, table: str, key: str | None = None) -> None:
        self.table = self._name(table)
        columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
        more = "" if key is None else f", {PARTITION} {key}"
        by = "" if key is None else f"PARTITIONED BY ({PARTITION})"
        self.spark.sql(
            f"CREATE TABLE {self.table} ({columns}{more}) USING {self.provider} {by} "
            f"TBLPROPERTIES ({self.properties})"
        )

    @abstractmethod
    def _name(self, table: str) -> str:
        """The name of a table in SQL."""

    def append(self, rows: DataFrame) -> None:
        rows.writeTo(self.table).append()

    def frame(self) -> DataFrame:
        return self.spark.table(self.table)

    def upsert(self, source: DataFrame) -> None:
        source.createOrReplaceTempView("batch")
        self.spark.sql(
            f"MERGE INTO {self.table} t USING batch s ON {ON} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def delete(self, keys: DataFrame) -> None:
        keys.createOrReplaceTempView("keys")
        self.spark.sql(f"MERGE INTO {self.table} t USING keys s ON {ON} WHEN MATCHED THEN DELETE")

    def update(self, where: str) -> None:
        self.spark.sql(f"UPDATE {self.table} SET {CHANGED} = {CHANGED} + 1 WHERE {where}")

    def delete_where(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self.table} WHERE {where}")


class Delta(SqlEngine):
    """Delta Lake with deletion vectors."""

    name = "delta"
    provider = "delta"
    properties = "'delta.enableDeletionVectors' = 'true'"

    def _name(self, table: str) -> str:
        return f"default.{table}_delta"

    def tell_changes(self) -> None:
        feed = "('delta.enableChangeDataFeed' = 'true')"
        self.spark.sql(f"ALTER TABLE {self.table} SET TBLPROPERTIES {feed}")

    def version(self) -> int:
        return self.spark.sql(f"DESCRIBE HISTORY {self.table} LIMIT 1").collect()[0].version

    def changes(self, since: int) -> DataFrame:
        return self.spark.sql(f"SELECT * FROM table_changes('{self.table}', {since + 1})")

    def as_of(self, version: int) -> DataFrame:
        return self.spark.sql(f"SELECT * FROM {self.table} VERSION AS OF {version}")

    def compact(self) -> None:
        self.spark.sql(f"REORG TABLE {self.table} APPLY (PURGE)").collect()

    def drop(self) -> None:
        self.spark.sql(f"DROP TABLE {self.table}")


class Iceberg(SqlEngine):
    """Iceberg, format 3, merge on read."""

    name = "iceberg"
    provider = "iceberg"
    properties = (
        "'format-version' = '3', 'write.merge.mode' = 'merge-on-read', "
        "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"
    )

    def _name(self, table: str) -> str:
        return f"{ICEBERG_CATALOG}.bench.{table}"

    def tell_changes(self) -> None:
        # It reports no changes of files with deletes.
        modes = ", ".join(f"'write.{each}.mode' = 'copy-on-write'" for each in ("merge", "update"))
        self.spark.sql(f"ALTER TABLE {self.table} SET TBLPROPERTIES ({modes})")

    def version(self) -> int:
        newest = (
            f"SELECT snapshot_id FROM {self.table}.snapshots ORDER BY committed_at DESC LIMIT 1"
        )
        return self.spark.sql(newest).collect()[0].snapshot_id

    def changes(self, since: int) -> DataFrame:
        self.spark.sql(
            f"CALL {ICEBERG_CATALOG}.system.create_changelog_view(table => '{self.table}', "
            f"options => map('start-snapshot-id', '{since}'), net_changes => true, "
            "changelog_view => 'changelog')"
        ).collect()
        return self.spark.table("changelog")

    def as_of(self, version: int) -> DataFrame:
        return self.spark.sql(f"SELECT * FROM {self.table} VERSION AS OF {version}")

    def megabytes(self) -> float:
        files = self.spark.table(f"{self.table}.files")
        return files.agg({"file_size_in_bytes": "sum"}).collect()[0][0] / 1e6

    def compact(self) -> None:
        self.spark.sql(
            f"CALL {ICEBERG_CATALOG}.system.rewrite_data_files(table => '{self.table}', "
            "options => map('rewrite-all', 'true'))"
        ).collect()

    def drop(self) -> None:
        self.spark.sql(f"DROP TABLE {self.table} PURGE")
