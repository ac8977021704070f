"""Small tables whose files are written without Spark: inserts, deletes, and insert-only rows."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import Delta, TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import TableKind
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.upkeep.table_cleaning import clean
from tests.cli.acid_files import write_events
from tests.orc.acid_files import enveloped, with_acid_metadata
from tests.orc.orc_tables import flat_file
from tests.places import place_of

# Cleanings of these tables remove as soon as no reader needs a directory, as Hive's do.
AT_ONCE = {"hiveacid.retention": "0"}


@dataclass
class WrittenTable:
    """A table with the column id and one bucket, or a partition of one with the key p."""

    client: MetastoreClient
    ref: TableRef
    partition: str | None = None

    @classmethod
    def create(
        cls, client: MetastoreClient, name: str, kind: TableKind = TableKind.FULL_ACID
    ) -> "WrittenTable":
        ref = TableRef.parse(name)
        client.create_table(
            HiveTable.new(ref, [HiveColumn("id", "int")], kind=kind, parameters=AT_ONCE)
        )
        return cls(client, ref)

    @classmethod
    def create_partitions(
        cls, client: MetastoreClient, name: str, *partitions: str
    ) -> "list[WrittenTable]":
        ref = TableRef.parse(name)
        keys = [HiveColumn("p", "string")]
        client.create_table(
            HiveTable.new(ref, [HiveColumn("id", "int")], partition_keys=keys, parameters=AT_ONCE)
        )
        table = client.get_table(ref)
        values = [each.partition("=")[2] for each in partitions]
        client.add_partitions(ref, [HivePartition.new(table, [value]) for value in values])
        return [cls(client, ref, partition) for partition in partitions]

    @property
    def root(self) -> Path:
        return place_of(self.client.get_table(self.ref).folder) / (self.partition or "")

    def insert(self, *values: int, codec: str = "zlib") -> int:
        """Write a delta; its write id."""
        write_id = self._spend_write_id()
        folder = self.root / Delta(write_id, write_id, 0).name
        if self.client.get_table(self.ref).kind is TableKind.INSERT_ONLY:
            folder.mkdir()
            (folder / "000000_0").write_bytes(_flat(values, codec).getvalue())
            return write_id
        row_ids = [(write_id, encode_bucket(0), number) for number in range(len(values))]
        self._write(folder, values, row_ids, codec)
        return write_id

    def delete(self, *row_ids: tuple[int, int]) -> None:
        """Delete rows, by their write ids and numbers."""
        write_id = self._spend_write_id()
        folder = self.root / Delta(write_id, write_id, 0, is_delete=True).name
        write_events(folder / "bucket_00000", [(*row, write_id) for row in row_ids])
        (folder / "_orc_acid_version").write_text("2")

    def insert_in_disorder(self) -> None:
        """Write two statements of a write id, each into the directory of the other one."""
        write_id = self._spend_write_id()
        for statement in range(2):
            folder = self.root / Delta(write_id, write_id, 1 - statement).name
            self._write(folder, [77], [(write_id, encode_bucket(0, statement), 0)])

    def rows(self) -> list[int]:
        """The rows that a reader sees."""
        scan = TableScan(str(self.ref), self.client.options)
        return sorted(scan.to_arrow().column("id").to_pylist())

    def directories(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if path.name[0] not in "_.")

    def files(self) -> dict[str, bytes]:
        """The content of the data files, by their names without the transaction's."""
        return {
            f"{path.parent.name.partition('_v')[0]}/{path.name}": path.read_bytes()
            for path in sorted(self.root.rglob("*_0*"))
            if path.is_file() and path.name.startswith(("bucket_", "00000"))
        }

    def clean(self) -> None:
        clean(self.client, CleanJob(target=str(self.ref), metastore=self.client.options))

    @staticmethod
    def _write(
        folder: Path,
        values: Sequence[int],
        row_ids: Sequence[tuple[int, int, int]],
        codec: str = "zlib",
    ) -> None:
        rows = flat_file(enveloped(_flat(values, codec), row_ids), codec=codec)
        folder.mkdir()
        (folder / "_orc_acid_version").write_text("2")
        (folder / "bucket_00000").write_bytes(with_acid_metadata(rows, row_ids).getvalue())

    def _spend_write_id(self) -> int:
        txn = self.client.open_txn("tests", "localhost", None)
        write_id = self.client.allocate_write_id(txn, self.ref)
        self.client.commit_txn(txn)
        return write_id


def _flat(values: Sequence[int], codec: str) -> io.BytesIO:
    return flat_file(pa.table({"id": pa.array(values, pa.int32())}), codec=codec)


def twelve_deltas(
    client: MetastoreClient, name: str, rows: int = 50, codec: str = "zlib"
) -> WrittenTable:
    """Eleven deltas of inserts, and one of deletes in the first of them."""
    table = WrittenTable.create(client, name)
    starts = range(0, 11 * rows, rows)
    first, *_ = (table.insert(*range(start, start + rows), codec=codec) for start in starts)
    table.delete((first, 3), (first, 7))
    return table


def expected_rows(rows: int = 50) -> Sequence[int]:
    """The rows of such a table."""
    return [number for number in range(11 * rows) if number not in (3, 7)]
