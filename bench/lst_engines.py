"""The maintained tables of TPC-DS, by each of the engines that bench/lst.py compares."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from delta_and_iceberg import ICEBERG_CATALOG
from engines import Delta, Iceberg
from pyspark.sql import DataFrame, SparkSession
from tpcds import FACTS, Fact

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import Maintenance, partitions_of
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.names import TableRef
from hiveacid.spark.python.registered_tables import read_together
from hiveacid.upkeep.compaction.warehouse import WarehouseMaintainer
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from tests.places import place_of

Versions = Mapping[str, int]


class Lake(ABC):
    """All maintained tables as tables of one kind.

    Attributes:
        packs: The workloads that it takes part in; None is all of them.
        automatic: It compacts after each execution of the data maintenance.
    """

    name: ClassVar[str]
    packs: ClassVar[tuple[str, ...] | None] = None
    automatic: ClassVar[bool] = False

    def __init__(self, spark: SparkSession, folder: Path, hms: EmbeddedMetastore) -> None:
        self.spark, self.hms, self.pack = spark, hms, ""
        self.folder = folder / self.name

    def start(self, pack: str, frames: Mapping[str, DataFrame]) -> None:
        """Make empty tables with the columns of frames, and work on them from now on."""
        self.pack = pack
        for fact in FACTS:
            columns = {
                field.name: field.dataType.simpleString() for field in frames[fact.name].schema
            }
            self._create(fact, columns)

    @abstractmethod
    def _create(self, fact: Fact, columns: dict[str, str]) -> None:
        """Make an empty table."""

    @abstractmethod
    def append(self, fact: Fact, rows: DataFrame) -> None:
        """Add rows."""

    @abstractmethod
    def delete_where(self, fact: Fact, where: str) -> None:
        """Delete the rows that match a condition."""

    @abstractmethod
    def delete_numbers(self, fact: Fact, numbers: DataFrame) -> None:
        """Delete the rows of some orders, by a merge."""

    @abstractmethod
    def optimize(self) -> None:
        """Compact the tables as this engine recommends."""

    @abstractmethod
    def reading(
        self, facts: Sequence[Fact], versions: Versions | None = None
    ) -> contextlib.AbstractContextManager[dict[str, DataFrame]]:
        """The tables as frames, by their names; of a version or of the newest one."""

    @abstractmethod
    def versions(self) -> Versions:
        """The newest version of each table."""

    @abstractmethod
    def files(self) -> tuple[int, int]:
        """The files of the newest version, and their bytes."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the tables."""

    def stored_bytes(self) -> int:
        """The bytes of all files, also of those of earlier versions."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


class HiveAcidLake(Lake):
    """Our tables; compacted in the worker as the thresholds of a policy require.

    Attributes:
        policy: The thresholds.
    """

    name = "hiveacid"
    policy: ClassVar[CompactionPolicy] = CompactionPolicy()

    def __init__(self, spark: SparkSession, folder: Path, hms: EmbeddedMetastore) -> None:
        super().__init__(spark, folder, hms)
        self.client = MetastoreClient(hms.options)
        self.database = f"lst_{self.name}"
        self.client.create_database(self.database)

    def _ref(self, fact: Fact) -> TableRef:
        return TableRef(self.database, f"{self.pack}_{fact.name}")

    def _create(self, fact: Fact, columns: dict[str, str]) -> None:
        named = [HiveColumn(*each) for each in columns.items() if each[0] != fact.month]
        key = HiveColumn(fact.month, columns[fact.month])
        ref = self._ref(fact)
        # Cleanings remove replaced files at once, as Hive does.
        at_once = {"hiveacid.retention": "0"}
        self.client.create_table(
            HiveTable.new(ref, named, partition_keys=[key], parameters=at_once)
        )
        self.folder = place_of(self.client.get_table(ref).folder).parent

    @contextmanager
    def _open(self, fact: Fact) -> Iterator[AcidTable]:
        with AcidTable(
            self._ref(fact).full_name, self.hms.uri, spark=self.spark, run_in="spark"
        ) as table:
            yield table

    def append(self, fact: Fact, rows: DataFrame) -> None:
        with self._open(fact) as table:
            table.append(rows)

    def delete_where(self, fact: Fact, where: str) -> None:
        with self._open(fact) as table:
            table.delete(where)

    def delete_numbers(self, fact: Fact, numbers: DataFrame) -> None:
        with self._open(fact) as table:
            table.merge(numbers, f"t.{fact.number} = s.number").when_matched_delete().execute()

    def optimize(self) -> None:
        tables = [self._ref(fact).full_name for fact in FACTS]
        maintenance = Maintenance(tables=tables, policy=self.policy)
        with WorkerScheduler() as scheduler:
            report = WarehouseMaintainer(scheduler, self.client, maintenance).run()
        if report.error is not None:
            raise RuntimeError(report.error.message)
        for needs in report.on_spark:
            with AcidTable(needs[0].table, self.hms.uri, spark=self.spark, run_in="spark") as table:
                table.compact(needs[0].type, partitions=partitions_of(needs))

    @contextmanager
    def reading(
        self, facts: Sequence[Fact], versions: Versions | None = None
    ) -> Iterator[dict[str, DataFrame]]:
        sources = {
            fact.name: TableSource(
                self._ref(fact).full_name, None if versions is None else str(versions[fact.name])
            )
            for fact in facts
        }
        with read_together(list(sources.values()), self.hms.uri, spark=self.spark) as frames:
            yield {name: frames[source.name] for name, source in sources.items()}

    def versions(self) -> Versions:
        refs = {fact.name: self._ref(fact) for fact in FACTS}
        seen = Snapshot.take(self.client, list(refs.values())).write_ids
        return {name: seen[ref.full_name].high_watermark for name, ref in refs.items()}

    def files(self) -> tuple[int, int]:
        details = []
        for fact in FACTS:
            with self._open(fact) as table:
                details.append(table.detail())
        return sum(each.files for each in details), sum(each.bytes for each in details)

    def drop(self) -> None:
        for fact in FACTS:
            self.client.drop_table(self._ref(fact))


class HiveAcidAutomatic(HiveAcidLake):
    """The same, compacted after each execution of the data maintenance."""

    name = "hiveacid_auto"
    packs = ("wp1",)
    automatic = True


class SqlLake(Lake):
    """Tables that Spark knows by name, and changes by SQL."""

    provider: ClassVar[str]
    properties: ClassVar[str]

    def _create(self, fact: Fact, columns: dict[str, str]) -> None:
        typed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
        self.spark.sql(
            f"CREATE TABLE {self._name(fact)} ({typed}) USING {self.provider} "
            f"TBLPROPERTIES ({self.properties}) PARTITIONED BY ({fact.month})"
        )

    @abstractmethod
    def _name(self, fact: Fact) -> str:
        """The name of a table in SQL."""

    def append(self, fact: Fact, rows: DataFrame) -> None:
        rows.writeTo(self._name(fact)).append()

    def delete_where(self, fact: Fact, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self._name(fact)} WHERE {where}")

    def delete_numbers(self, fact: Fact, numbers: DataFrame) -> None:
        numbers.createOrReplaceTempView("numbers")
        self.spark.sql(
            f"MERGE INTO {self._name(fact)} t USING numbers s ON t.{fact.number} = s.number"
            " WHEN MATCHED THEN DELETE"
        )

    @contextmanager
    def reading(
        self, facts: Sequence[Fact], versions: Versions | None = None
    ) -> Iterator[dict[str, DataFrame]]:
        frames = {}
        for fact in facts:
            as_of = "" if versions is None else f" VERSION AS OF {versions[fact.name]}"
            frames[fact.name] = self.spark.sql(f"SELECT * FROM {self._name(fact)}{as_of}")
        yield frames

    def drop(self) -> None:
        for fact in FACTS:
            self.spark.sql(f"DROP TABLE {self._name(fact)} PURGE")


class DeltaLake(SqlLake):
    """Delta Lake with deletion vectors."""

    name = Delta.name
    provider, properties = Delta.provider, Delta.properties

    def _name(self, fact: Fact) -> str:
        return f"delta.`{self.folder / f'{self.pack}_{fact.name}'}`"

    def versions(self) -> Versions:
        return {
            fact.name: self.spark.sql(f"DESCRIBE HISTORY {self._name(fact)} LIMIT 1")
            .first()
            .version
            for fact in FACTS
        }

    def optimize(self) -> None:
        for fact in FACTS:
            self.spark.sql(f"OPTIMIZE {self._name(fact)}").collect()

    def files(self) -> tuple[int, int]:
        details = [self.spark.sql(f"DESCRIBE DETAIL {self._name(fact)}").first() for fact in FACTS]
        return sum(each.numFiles for each in details), sum(each.sizeInBytes for each in details)

    def drop(self) -> None:
        # A table without a name in the catalog.
        file = self.spark._jvm.java.io.File(str(self.folder))  # type: ignore[union-attr]
        self.spark._jvm.org.apache.hadoop.fs.FileUtil.fullyDelete(file)  # type: ignore[union-attr]


class DeltaAutomatic(DeltaLake):
    """The same with Delta's own automatic compaction after each write."""

    name = "delta_auto"
    packs = ("wp1",)
    properties = f"{DeltaLake.properties}, 'delta.autoOptimize.autoCompact' = 'true'"


class IcebergLake(SqlLake):
    """Iceberg, format 3, merge on read."""

    name = Iceberg.name
    provider, properties = Iceberg.provider, Iceberg.properties

    def _name(self, fact: Fact) -> str:
        return f"{ICEBERG_CATALOG}.lst.{self.pack}_{fact.name}"

    def versions(self) -> Versions:
        found = {}
        for fact in FACTS:
            newest = f"{self._name(fact)}.refs WHERE name = 'main'"
            found[fact.name] = self.spark.sql(f"SELECT snapshot_id FROM {newest}").first()[0]
        return found

    def optimize(self) -> None:
        rewrites = {
            # By default it leaves partitions with fewer than five files, and files with deletes.
            "rewrite_data_files": "options => map('min-input-files', '2',"
            " 'delete-file-threshold', '1')",
            "rewrite_position_delete_files": "",
            "rewrite_manifests": "",
        }
        for fact in FACTS:
            for procedure, options in rewrites.items():
                given = ", ".join(filter(None, (f"table => '{self._name(fact)}'", options)))
                self.spark.sql(f"CALL {ICEBERG_CATALOG}.system.{procedure}({given})").collect()

    def files(self) -> tuple[int, int]:
        found = []
        for fact in FACTS:
            files = self.spark.table(f"{self._name(fact)}.files")
            found.append(files.selectExpr("count(*)", "sum(file_size_in_bytes)").first())
        return sum(each[0] for each in found), sum(each[1] for each in found)


ENGINES: dict[str, type[Lake]] = {
    engine.name: engine
    for engine in (HiveAcidLake, HiveAcidAutomatic, DeltaLake, DeltaAutomatic, IcebergLake)
}
