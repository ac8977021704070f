"""Directories written by real engines have the same rows after a compaction of ours."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import NothingToCompact
from hiveacid.jobs.report import PartitionReport
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import (
    READY_FOR_CLEANING,
    CompactionQueue,
    CompactionTransaction,
)
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.progress import PhaseClock
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.directory import Rules
from hiveacid.rules.names import Delta, TableRef, parse_directory
from hiveacid.rules.schema import TableKind
from hiveacid.rules.write_ids import CompactorWriteIdList
from hiveacid.spark.compaction import SortingCompactor, SparkScheduler
from hiveacid.spark.read.acid_snapshot import BUCKET, ROW, WRITE_ID, AcidSnapshot
from hiveacid.spark.session import scan_session
from hiveacid.tables.visible_files import list_partitions
from hiveacid.upkeep.compaction.partition import Compactors, PartitionCompaction, RowOrder
from tests.fakes.metastore import FakeMetastore
from tests.golden import GoldenSnapshot, GoldenTable, golden_snapshots


class GoldenCompaction(CompactionTransaction):
    """A compaction with the view of a reader of a golden table."""

    golden: GoldenSnapshot

    def _begin(self) -> None:
        super()._begin()
        write_ids = self.golden.write_ids
        self.snapshot = Snapshot(self.golden.txns, {self.ref.full_name: write_ids})
        self.write_ids = CompactorWriteIdList.of(write_ids)


@dataclass
class GoldenCopy:
    """A copy of a golden table that may be changed."""

    spark: SparkSession
    client: MetastoreClient
    table: HiveTable
    partitions: Sequence[HivePartition]
    snapshot: GoldenSnapshot

    def rows(self) -> list[list[Any]]:
        """The rows in the words of the golden table."""
        seen = self.snapshot
        files = list_partitions(self.table, self.partitions, seen.write_ids, seen.txns, Rules.HIVE4)
        rows = AcidSnapshot(self.table, files, seen.write_ids).rows(scan_session(self.spark))
        names = [column.name for column in (*self.table.columns, *self.table.partition_keys)]
        rows = [
            [
                [row[WRITE_ID], row[BUCKET], row[ROW]],
                *(None if row[name] is None else str(row[name]) for name in names),
            ]
            for row in rows.collect()
        ]
        return sorted(rows, key=str)

    def compact(self, type_: CompactionType) -> list[PartitionReport | str]:
        """Compact all partitions, as far as it is worth it."""
        queue = CompactionQueue(self.client)
        for request in queue.show(self.table.ref):
            if request.state == READY_FOR_CLEANING:
                queue.cleaned(request)  # Or the metastore would take no other.
        return [self._compact(type_, partition) for partition in self.partitions or [None]]

    def _compact(
        self, type_: CompactionType, partition: HivePartition | None
    ) -> PartitionReport | str:
        name = None if partition is None else partition.name
        compaction = GoldenCompaction(self.client, self.table.ref, name, type_)
        compaction.golden = self.snapshot
        try:
            with compaction:
                golden_compaction = PartitionCompaction(
                    Compactors(SparkScheduler(self.spark), self.client, SortingCompactor),
                    self.table,
                    partition,
                    compaction,
                    PhaseClock(),
                    RowOrder(),
                )
                golden_compaction.prepare(type_)
                golden_compaction.publish()
                compaction.commit()
                return golden_compaction.report("the test wants it")
        except NothingToCompact as nothing:
            return str(nothing)


@pytest.fixture
def copy(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path):
    snapshot: GoldenSnapshot = request.param
    golden = GoldenTable.read(snapshot.table)
    folder = tmp_path / golden.name
    shutil.copytree(golden.folder, folder)
    with (
        FakeMetastore("4.0.1", directory=tmp_path) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        client.create_database("db")
        table = HiveTable.new(
            TableRef("db", golden.name),
            [HiveColumn(*column) for column in golden.columns.items()],
            partition_keys=[HiveColumn(*column) for column in golden.partition_keys.items()],
            location=str(folder),
        )
        client.create_table(table)
        table = client.get_table(table.ref)  # As one finds it, with its id and its time.
        partitions = [
            HivePartition.new(table, partition.values) for partition in golden.hive_partitions()
        ]
        if partitions:
            client.add_partitions(table.ref, partitions)
        yield GoldenCopy(spark, client, table, partitions, snapshot)


# The youngest snapshot of each has most to put together.
YOUNGEST = {snapshot.table: snapshot for snapshot in golden_snapshots(TableKind.FULL_ACID)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("copy", YOUNGEST.values(), ids=str, indirect=True)
def test_tables_of_real_engines_keep_their_rows_and_row_ids(copy: GoldenCopy) -> None:
    expected = sorted(copy.snapshot.rows, key=str)
    for type_ in (CompactionType.MINOR, CompactionType.MAJOR):
        for done in copy.compact(type_):
            if isinstance(done, str):
                continue
            for path in done.published:
                check_files(copy, done, path)
        assert copy.rows() == expected, type_


def check_files(copy: GoldenCopy, done: PartitionReport, name: str) -> None:
    root = Path(copy.table.folder)
    if done.partition is not None:
        root /= done.partition
    directory = parse_directory(name)
    kind = "delete" if isinstance(directory, Delta) and directory.is_delete else "insert"
    files = sorted((root / name).glob("bucket_*"))
    assert files
    for path in files:
        with path.open("rb") as source:
            number = int(path.name.removeprefix("bucket_"))
            assert verify_file(source, kind=kind, bucket=number) == [], path
