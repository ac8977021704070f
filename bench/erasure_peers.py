"""The erasure of keys in Iceberg and Delta Lake, by the statements that their documentation names."""

import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from cpu import cpu_seconds
from delta_and_iceberg import ICEBERG_CATALOG, session_with_peers
from pyspark.sql import SparkSession, functions

from tests.erasure.remnants import contents

KEY = re.compile(rb"person[0-9a-f]{10}")


class Peer(ABC):
    """A table of another format.

    Args:
        spark: Its engine.
        folder: The folder of all tables.
        name: The name of the table.
    """

    title: ClassVar[str]
    # Where the metadata are below the folder of a table.
    metadata: ClassVar[str]

    def __init__(self, spark: SparkSession, folder: Path, name: str) -> None:
        self.spark, self.folder, self.name = spark, folder, name

    @property
    @abstractmethod
    def place(self) -> Path:
        """The folder of the table."""

    @abstractmethod
    def create(self) -> None:
        """Make the table, with partitions by `p`."""

    @abstractmethod
    def append(self, files: Sequence[Path]) -> None:
        """Add the rows of flat files."""

    @property
    @abstractmethod
    def steps(self) -> list[str]:
        """The statements that remove the rows with the keys of the view `erased`, and older files."""

    def rows(self, files: Sequence[Path]) -> Any:
        partition = functions.regexp_extract(
            functions.input_file_name(), r"(\d+)-\d+\.orc", 1
        ).cast("int")
        return self.spark.read.orc([str(file) for file in files]).withColumn("p", partition)

    def erase(self, keys: set[bytes]) -> dict[str, Any]:
        """Run the steps, and return the cost of each, and the keys that are left after it."""
        steps, known = [], self._files()
        for statement in self.steps:
            began, used = time.perf_counter(), cpu_seconds()
            self.spark.sql(statement).collect()
            seconds, used = time.perf_counter() - began, cpu_seconds() - used
            now = self._files()
            written = sum(size for path, size in now.items() if path not in known)
            known = {**known, **now}
            left = found_keys(self.place, keys, self.metadata)
            step = {"s": round(seconds, 2), "cpu_s": round(used, 2), "bytes": written}
            steps.append({"statement": statement, **step, "left": left})
        total = {
            name: round(sum(step[name] for step in steps), 2) for name in ("s", "cpu_s", "bytes")
        }
        return {**total, "steps": steps}

    def _files(self) -> dict[Path, int]:
        return {path: path.stat().st_size for path in self.place.rglob("*") if path.is_file()}


class IcebergPeer(Peer):
    title, metadata = "Iceberg, copy on write", "metadata"

    @property
    def place(self) -> Path:
        return self.folder / "iceberg" / "bench" / self.name

    @property
    def table(self) -> str:
        return f"{ICEBERG_CATALOG}.bench.{self.name}"

    def create(self) -> None:
        self.spark.sql(
            f"CREATE TABLE {self.table} (who string, amount double, note string, p int)"
            " USING iceberg PARTITIONED BY (p)"
        )

    def append(self, files: Sequence[Path]) -> None:
        self.rows(files).writeTo(self.table).append()

    @property
    def steps(self) -> list[str]:
        procedures = f"CALL {ICEBERG_CATALOG}.system"
        expire = (
            f"{procedures}.expire_snapshots(table => 'bench.{self.name}',"
            " older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
        )
        return [
            f"DELETE FROM {self.table} WHERE who IN (SELECT who FROM erased)",
            expire,
            f"{procedures}.remove_orphan_files(table => 'bench.{self.name}')",
            # The manifests of the newest snapshot describe the files that the DELETE has removed.
            f"{procedures}.rewrite_manifests('bench.{self.name}')",
            expire,
        ]


class DeltaPeer(Peer):
    title, metadata = "Delta Lake, copy on write", "_delta_log"
    vectors = "false"

    @property
    def place(self) -> Path:
        return self.folder / "delta" / self.name

    @property
    def table(self) -> str:
        return f"delta.`{self.place}`"

    def create(self) -> None:
        self.spark.sql(
            f"CREATE TABLE {self.table} (who string, amount double, note string, p int)"
            " USING delta PARTITIONED BY (p)"
            f" TBLPROPERTIES ('delta.enableDeletionVectors' = '{self.vectors}')"
        )

    def append(self, files: Sequence[Path]) -> None:
        rows = self.rows(files).repartition("p")
        rows.write.format("delta").mode("append").save(str(self.place))

    @property
    def steps(self) -> list[str]:
        return [
            # A DELETE of Delta Lake accepts no subquery.
            f"MERGE INTO {self.table} t USING erased e ON t.who = e.who WHEN MATCHED THEN DELETE",
            *([f"REORG TABLE {self.table} APPLY (PURGE)"] if self.vectors == "true" else []),
            f"VACUUM {self.table} RETAIN 0 HOURS",
        ]


class DeltaVectorsPeer(DeltaPeer):
    title, vectors = "Delta Lake, deletion vectors", "true"


PEERS = (IcebergPeer, DeltaPeer, DeltaVectorsPeer)


def found_keys(folder: Path, keys: set[bytes], metadata: str = "") -> dict[str, int]:
    """Count the keys that a search of all bytes finds in data files and in metadata."""
    found: dict[str, set[bytes]] = {"data": set(), "metadata": set()}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        below = path.relative_to(folder)
        kind = "metadata" if metadata and below.parts[0] == metadata else "data"
        for part in contents(path):
            found[kind] |= keys.intersection(KEY.findall(part))
    return {kind: len(each) for kind, each in found.items()}


def measure_peers(
    folder: Path, files: Sequence[Path], small: Sequence[Path], keys: Sequence[str]
) -> dict[str, Any]:
    """Let each peer erase the keys.

    Args:
        folder: The folder of the tables.
        files: The files of all rows: each second one is added by the second transaction.
        small: Such files of few rows, for a run before.
        keys: The keys.
    """
    spark = session_with_peers(folder)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.createDataFrame([(key,) for key in keys], "who string").createOrReplaceTempView("erased")
    wanted = {key.encode() for key in keys}
    result: dict[str, Any] = {}
    try:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {ICEBERG_CATALOG}.bench")
        for kind in PEERS:
            for name, given in (("small", small), ("large", files)):
                peer = kind(spark, folder, f"{name}_{PEERS.index(kind)}")
                peer.create()
                for part in (0, 1):
                    peer.append(given[part::2])
                size = sum(peer._files().values())
                before = found_keys(peer.place, wanted, kind.metadata)
                erased = peer.erase(wanted)
            result[kind.title] = {"size": size, "before": before, **erased}
            print({kind.title: result[kind.title]}, file=sys.stderr, flush=True)
    finally:
        spark.stop()
    return result
