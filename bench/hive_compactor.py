"""Hive's own compactor, for tables that we have written and changed."""

from pathlib import Path
from typing import ClassVar

from engines import HiveAcid
from pyspark.sql import SparkSession
from session import TASKS

from tests.interop.engines import Hive
from tests.interop.software import has_hive

# As many concurrent buckets as Spark has tasks; and no statistics, which no other engine collects.
SETTINGS = {
    "mapreduce.local.map.tasks.maximum": str(TASKS),
    "hive.compactor.gather.stats": "false",
}


class HiveCompactor(HiveAcid):
    """A table of ours on Hive's metastore: Hive compacts it, and all else of it counts for us."""

    name = "hive"
    courses: ClassVar[tuple[str, ...]] = ("works",)
    works: ClassVar[tuple[str, ...]] = ("compact",)

    def __init__(self, spark: SparkSession, folder: Path, hive: Hive) -> None:
        super().__init__(spark, folder, hive.metastore_uri)
        self.hive = hive
        self.client.create_database(self.database)

    @staticmethod
    def start(folder: Path) -> Hive:
        """Start Hive, which is a process of its own with a metastore of its own."""
        warehouse = folder / "warehouse"
        warehouse.mkdir(parents=True)
        return Hive(folder, warehouse, SETTINGS)

    @staticmethod
    def available() -> bool:
        """Return whether `make interop` has fetched Hive."""
        return has_hive()

    def compact(self) -> None:
        self.hive.compact(self.ref.full_name, "major")
