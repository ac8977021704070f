"""The content of each version of a golden table, by its files alone and by Hive's results.

Every directory of a write is read as it is, without any rule of this package: the rows with their
write ids, and the deletes with theirs. Directories of compactions are not read at all.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid import AcidTable
from hiveacid.cli.values import json_values
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import CleanReport
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.rules.names import FLUSH_LENGTH_SUFFIX, Base, TableRef, parse_directory
from hiveacid.rules.schema import TableKind
from hiveacid.upkeep.table_cleaning import clean
from tests.fakes.metastore import FakeMetastore
from tests.golden import GoldenSnapshot, GoldenTable, golden_snapshots

# The texts of the partition keys.
Values = tuple[str | None, ...]
Row = tuple[str | None, ...]
RowKey = tuple[int, ...]
# The change of a row, its row id, and the row.
Step = tuple[str, RowKey, Row]

FULL_ACID = sorted({snapshot.table for snapshot in golden_snapshots(TableKind.FULL_ACID)})
_DELETE = 2


class GoldenVersions:
    """The versions of a full-ACID table of a real engine, as of its newest snapshot.

    Args:
        golden: The table.
        folder: The location of a copy, if any.
    """

    def __init__(self, golden: GoldenTable, folder: Path | None = None) -> None:
        self.golden = golden
        self.now = golden.snapshots[-1].write_ids
        self.folder = folder or golden.folder
        self._rows: dict[tuple[Values, RowKey], Row] = {}
        self._deletes: dict[tuple[Values, RowKey], set[int]] = defaultdict(set)
        self._overwrites: dict[Values, set[int]] = defaultdict(set)
        for partition, place in self._partitions():
            for directory in sorted(place.iterdir()):
                parsed = parse_directory(directory.name)
                if parsed is None or parsed.visibility_txn:
                    continue
                if isinstance(parsed, Base):
                    self._overwrites[partition].add(parsed.write_id)
                for file in sorted(directory.glob("bucket_*")):
                    if not file.name.endswith(FLUSH_LENGTH_SUFFIX):
                        self._read(partition, file)
        # Other files have rows without ids, and columns may have other types by now.
        for snapshot in golden.snapshots:
            self._rows |= self._selected(snapshot)

    @property
    def numbers(self) -> list[int]:
        """The version before the first write, and that of each write id that has left anything."""
        written = {row_id[0] for _, row_id in self._rows}
        for own in (*self._deletes.values(), *self._overwrites.values()):
            written |= own
        return sorted({0, *written, self.now.high_watermark})

    @cached_property
    def oldest(self) -> dict[Values, int]:
        """Return the first available version of each partition: versions before a base are unknown."""
        txns = self.golden.snapshots[-1].txns
        found = {}
        for partition, place in self._partitions():
            parsed = [parse_directory(path.name) for path in place.iterdir()]
            bases = [own for own in parsed if isinstance(own, Base)]
            compacted = {
                own.write_id
                for own in bases
                if own.visibility_txn and txns.is_valid(own.visibility_txn)
            }
            overwrites = set(filter(self._counts, self._overwrites[partition]))
            found[partition] = max(compacted | overwrites, default=0)
        return found

    def rows(self, version: int) -> dict[tuple[Values, RowKey], Row]:
        """Return the rows after a write id."""

        def seen(write_id: int) -> bool:
            return write_id <= version and self._counts(write_id)

        starts = {
            partition: max(filter(seen, overwrites), default=0)
            for partition, overwrites in self._overwrites.items()
        }
        return {
            (partition, row_id): row
            for (partition, row_id), row in self._rows.items()
            if seen(row_id[0])
            and row_id[0] >= starts.get(partition, 0)
            and not any(map(seen, self._deletes.get((partition, row_id), ())))
        }

    def steps(self, then: int, later: int) -> list[Step]:
        """Return the difference of two versions."""
        before, after = self.rows(then), self.rows(later)
        gone = [("delete", key[1], before[key]) for key in before.keys() - after.keys()]
        new = [("insert", key[1], after[key]) for key in after.keys() - before.keys()]
        return sorted([*gone, *new], key=str)

    def _counts(self, write_id: int) -> bool:
        return write_id == 0 or self.now.is_valid(write_id)

    def _partitions(self) -> Iterator[tuple[Values, Path]]:
        partitions = self.golden.hive_partitions()
        if not partitions:
            yield (), self.folder
        for each in partitions:
            yield tuple(each.values), self.folder / each.name

    def _read(self, partition: Values, file: Path) -> None:
        content = file.read_bytes()
        lengths = file.with_name(file.name + FLUSH_LENGTH_SUFFIX)
        if lengths.exists():
            # A stream goes on, or was killed, behind the last length that it has noted.
            content = content[: int.from_bytes(lengths.read_bytes()[-8:], "big")]
        if not content:
            return
        for event in orc.ORCFile(pa.BufferReader(content)).read().to_pylist():
            row_id = event["originalTransaction"], event["bucket"], event["rowId"]
            if event["operation"] == _DELETE:
                self._deletes[partition, row_id].add(event["currentTransaction"])
            else:
                self._rows[partition, row_id] = as_texts([*event["row"].values(), *partition])

    def _selected(self, snapshot: GoldenSnapshot) -> dict[tuple[Values, RowKey], Row]:
        columns = len(self.golden.columns)
        return {
            (tuple(values[columns:]), tuple(row_id)): tuple(values)
            for row_id, *values in snapshot.rows
        }


class Adopted:
    """A golden table in a metastore that goes on with its numbers: it can be written, too."""

    def __init__(
        self, spark: SparkSession, client: MetastoreClient, versions: GoldenVersions
    ) -> None:
        self.versions = versions
        self.oldest = max(versions.oldest.values())
        self.readable = [own for own in versions.numbers if own >= self.oldest]
        self._names = [*versions.golden.columns, *versions.golden.partition_keys]
        self._spark, self.client = spark, client

    def open(self) -> AcidTable:
        name = f"default.{self.versions.golden.name}"
        return AcidTable(name, self.client.options, spark=self._spark, run_in="spark")

    @property
    def folder(self) -> Path:
        return self.versions.folder

    def clean(self) -> CleanReport:
        job = CleanJob(target=f"default.{self.versions.golden.name}", retention="0")
        return clean(self.client, job)

    def rows(self, table: AcidTable, version: int | datetime) -> list[Row]:
        """Return the rows of a version, or of a moment."""
        by = "as_of_write_id" if isinstance(version, int) else "as_of_time"
        read = table.to_arrow(columns=self._names, **{by: version})
        return in_order(zip(*map(json_values, read.columns), strict=True))

    def changes(self, changes: DataFrame) -> list[tuple[int, Step]]:
        """Changes, each with its write id."""
        return [
            (
                row["_write_id"],
                (
                    row["_change_type"],
                    tuple(row["_row_id"]),
                    as_texts([row[name] for name in self._names]),
                ),
            )
            for row in changes.collect()
        ]

    def net(self, table: AcidTable, then: int, later: int) -> list[Step]:
        """Return the net difference of two versions."""
        told = self.changes(table.changes(then, later, net=True))
        return sorted((step for _, step in told), key=str)


@contextmanager
def adopted(
    name: str, spark: SparkSession, directory: Path, *, compacted: bool = True
) -> Iterator[Adopted]:
    """Copy a golden table into a metastore of its own.

    Args:
        name: The table.
        spark: The client for reads and writes.
        directory: The location of the copy.
        compacted: Whether the bases of compactions are copied; otherwise the state before them.
    """
    golden = GoldenTable.read(name)
    folder = directory / name
    shutil.copytree(golden.folder, folder)
    if not compacted:
        for path in _compacted_bases(folder):
            shutil.rmtree(path)
    with (
        FakeMetastore("4.0.1", directory=directory) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        ref = TableRef("default", name)
        client.create_table(
            HiveTable.new(
                ref,
                [HiveColumn(*column) for column in golden.columns.items()],
                partition_keys=[HiveColumn(*key) for key in golden.partition_keys.items()],
                location=str(folder),
            )
        )
        if found := golden.hive_partitions():
            table = client.get_table(ref)
            client.add_partitions(ref, [HivePartition.new(table, each.values) for each in found])
        metastore.take_over(ref.full_name, *_numbers(golden.snapshots[-1], folder))
        yield Adopted(spark, client, GoldenVersions(golden, folder))


def _numbers(newest: GoldenSnapshot, folder: Path) -> tuple[list[TxnState], dict[int, int]]:
    """The states of all transactions, and the write ids by theirs, as far as they matter."""
    named = [parse_directory(path.name) for path in folder.rglob("*_*") if path.is_dir()]
    last = max((own.visibility_txn for own in named if own is not None), default=0)
    known = dict.fromkeys(newest.txns.aborted, TxnState.ABORTED)
    known |= dict.fromkeys(newest.txns.open, TxnState.OPEN)
    states = [known.get(txn_id, TxnState.COMMITTED) for txn_id in range(1, last + 1)]
    states.append(TxnState.COMMITTED)
    writers = {newest.write_ids.high_watermark: len(states)}
    for write_id in newest.write_ids.aborted:
        states.append(TxnState.ABORTED)
        writers[write_id] = len(states)
    return states, writers


def is_compacted(name: str) -> bool:
    """Return whether a golden table has the base of a compaction."""
    return bool(_compacted_bases(GoldenTable.read(name).folder))


def _compacted_bases(folder: Path) -> list[Path]:
    return [*folder.rglob("base_*_v*")]


def as_texts(values: Iterable[Any]) -> Row:
    return tuple(None if value is None else str(value) for value in values)


def in_order(rows: Iterable[Iterable[Any]]) -> list[Row]:
    return sorted(map(as_texts, rows), key=str)
