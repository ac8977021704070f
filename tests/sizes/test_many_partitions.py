"""An insert-only Parquet table of thousands of partitions in a mirror, and in reads of its changes.

Times are those of the processor, which other processes disturb less.
"""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import Delta, TableRef
from hiveacid.rules.schema import TableKind
from tests.compaction.written_table import WrittenTable
from tests.iceberg.case import LakeCase

# A small number without the marker, as for other large tables.
SIZES = [200, pytest.param(20_000, marks=[pytest.mark.sizes, pytest.mark.timeout(7200)])]
# Twice the slowest run so far. A quadratic step would take a hundred times the time of a linear one.
SECONDS_PER_PARTITION = 0.03
pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


class ManyPartitions:
    """The table, each of whose writes adds one file of two rows to some partitions."""

    def __init__(self, client: MetastoreClient, database: str, count: int) -> None:
        self.name = f"{database}.t"
        self.count = count
        ref = TableRef.parse(self.name)
        columns = [HiveColumn("id", "int"), HiveColumn("text", "string"), HiveColumn("day", "date")]
        client.create_table(
            HiveTable.new(
                ref,
                columns,
                partition_keys=[HiveColumn("p", "string")],
                kind=TableKind.INSERT_ONLY,
                format=StorageFormat.PARQUET,
            )
        )
        table = client.get_table(ref)
        values = [f"{number:05d}" for number in range(count)]
        for at in range(0, count, 1000):
            parts = [HivePartition.new(table, [value]) for value in values[at : at + 1000]]
            client.add_partitions(ref, parts)
        self._written = WrittenTable(client, ref)
        days = pa.array([20_000, 20_001], pa.int32()).cast(pa.date32())
        content = io.BytesIO()
        rows = pa.table({"id": pa.array([1, 2], pa.int32()), "text": ["a", "b"], "day": days})
        parquet.write_table(rows, content)
        self._content = content.getvalue()
        self.write()

    def write(self, step: int = 1) -> None:
        write_id = self._written._spend_write_id()
        for number in range(0, self.count, step):
            folder = self._written.root / f"p={number:05d}" / Delta(write_id, write_id, 0).name
            folder.mkdir(parents=True)
            (folder / "000000_0").write_bytes(self._content)

    def timed(self, what: str, run: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = run()
        took = time.process_time() - began
        print(f"{self.count} partitions, {what}: {took:.1f} s")
        assert took < 5 + SECONDS_PER_PARTITION * self.count
        return result


@pytest.fixture(params=SIZES)
def table(client: MetastoreClient, database: str, request: pytest.FixtureRequest) -> ManyPartitions:
    return ManyPartitions(client, database, request.param)


def test_a_mirror_copies_new_files_only(
    table: ManyPartitions, client: MetastoreClient, tmp_path: Path
) -> None:
    case, count = LakeCase(client, table.name, tmp_path), table.count
    first = table.timed("first run", case.run)
    assert (first.rows, first.files, first.stripes_encoded) == (2 * count, count, 0)
    assert table.timed("unchanged", case.run).outcome == "unchanged"
    table.write(step=100)
    later = table.timed("later run", case.run)
    assert (later.files, later.files_kept) == (count // 100, count)
    found = case.table()
    assert found is not None
    assert len(found.scan().to_arrow()) == 2 * count + 2 * (count // 100)


def test_changes_are_those_of_the_new_files(
    table: ManyPartitions, hms: EmbeddedMetastore, spark: SparkSession
) -> None:
    table.write(step=100)
    with AcidTable(table.name, hms.uri, spark=spark, run_in="spark") as acid:
        all_changes = table.timed("all changes", lambda: acid.changes(0).count())
        later = table.timed("later changes", lambda: acid.changes(1).count())
    assert later == 2 * (table.count // 100)
    assert all_changes == 2 * table.count + later
