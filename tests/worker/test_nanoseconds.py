"""Nanoseconds in the worker: kept where a change does not name them, and never in a file that denies them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.errors import SparkNeeded
from hiveacid.jobs.write_jobs import RowJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.orc.copying.reencode import RowWriter
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.streams import UTC
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.values.timestamps import SECONDS_OF_2015, is_marked
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.rules.row_id import encode_bucket
from hiveacid.rules.schema import TableKind
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.worker.run import change_rows

SECOND, FINE, COARSE = 1_700_000_000, 123_456_789, 123_456_000
COLUMNS = [HiveColumn("id", "bigint"), HiveColumn("at", "timestamp")]


@dataclass(frozen=True)
class Tables:
    client: MetastoreClient

    def run(self, text: str) -> None:
        (job,) = to_jobs(text, database="nanos")
        assert isinstance(job, RowJob)
        change_rows(self.client, replace(job, run_in="worker"))

    def create(self, name: str, kind: TableKind = TableKind.FULL_ACID) -> HiveTable:
        self.client.create_table(HiveTable.new(TableRef("nanos", name), COLUMNS, kind=kind))
        return self.client.get_table(TableRef("nanos", name))

    def fine(self, name: str, kind: TableKind = TableKind.FULL_ACID) -> None:
        """Create a table whose second row has nanoseconds, as other engines write it."""
        table = self.create(name, kind)
        flat = flat_file(table, [COARSE, FINE])
        if kind is TableKind.NOT_ACID:
            Path(table.folder.removeprefix("file:"), "000000_0").write_bytes(flat)
            return
        self.run(f"INSERT INTO {name} VALUES (1, NULL)")
        (file,) = files(table)
        with file.open("wb") as sink:
            transplant([BytesIO(flat)], sink, write_id=1, bucket=encode_bucket(0))
        (file.parent / "_hiveacid.json").unlink()

    def digits(self, name: str) -> dict[int, int]:
        """The digits of the fraction of each row."""
        scan = TableScan(f"nanos.{name}", self.client.options, timestamps="ns")
        rows = scan.to_arrow()
        values = rows.column("at").cast(pa.int64()).to_pylist()
        ids = rows.column("id").to_pylist()
        return {each: value % 10**9 for each, value in zip(ids, values, strict=True)}

    def marks(self, name: str) -> dict[str, bool]:
        """Whether the file of each delta declares that it has no nanoseconds."""
        found = {}
        for file in files(self.client.get_table(TableRef("nanos", name))):
            with file.open("rb") as source:
                found[file.parent.name.rpartition("_")[0]] = is_marked(OrcTail.read(source))
        return found


def flat_file(table: HiveTable, fractions: list[int]) -> bytes:
    ids = pa.array(range(len(fractions)), pa.int64())
    parts = [
        pa.array([SECOND - SECONDS_OF_2015] * len(fractions), pa.int64()),
        pa.array(np.array(fractions) + SECONDS_OF_2015 * 10**9),
    ]
    times = pa.StructArray.from_arrays(parts, ["seconds", "nanos"])
    sink = BytesIO()
    layout = Layout(orc_row_types(table), Codec.ZLIB, 1 << 16, 10_000, calendar=None)
    writer = RowWriter(sink, layout, UTC)
    writer.write(pa.RecordBatch.from_arrays([ids, times], ["id", "at"]))
    writer.close()
    return sink.getvalue()


def files(table: HiveTable) -> list[Path]:
    folder = Path(table.folder.removeprefix("file:"))
    return sorted([*folder.glob("delta_*/bucket_*"), *folder.glob("delta_*/0*")])


@pytest.fixture
def tables(fake4: EmbeddedMetastore) -> Iterator[Tables]:
    with MetastoreClient(fake4.options) as client:
        client.create_database("nanos")
        yield Tables(client)
        client.drop_database("nanos", cascade=True)


def test_a_change_keeps_the_digits_of_columns_that_it_does_not_set(tables: Tables) -> None:
    tables.fine("t")
    tables.run("UPDATE t SET id = id + 10 WHERE true")
    tables.create("s")
    tables.run("INSERT INTO s VALUES (11, NULL)")
    tables.run("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 21")
    assert tables.digits("t") == {10: COARSE, 21: FINE}


def test_a_file_declares_what_it_holds(tables: Tables) -> None:
    tables.fine("t")
    tables.run("UPDATE t SET id = id + 10 WHERE id = 1")
    tables.run("UPDATE t SET id = id + 20 WHERE id = 0")
    assert tables.marks("t") == {
        "delta_0000001_0000001": False,
        "delta_0000002_0000002": False,
        "delta_0000003_0000003": True,
    }
    tables.create("flat", TableKind.INSERT_ONLY)
    tables.run("INSERT INTO flat VALUES (1, TIMESTAMP '2026-01-31 12:30:00.123456'), (2, NULL)")
    assert tables.marks("flat") == {"delta_0000001_0000001": True}


def test_a_column_that_a_change_sets_has_microseconds(tables: Tables) -> None:
    tables.fine("t")
    tables.run("UPDATE t SET at = at WHERE true")
    assert tables.digits("t") == {0: COARSE, 1: COARSE}
    assert tables.marks("t")["delta_0000002_0000002"]


@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.NOT_ACID])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t SELECT id, at FROM s",
        "INSERT INTO t SELECT id, coalesce(at, TIMESTAMP '2026-01-31') FROM s",
        "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ],
)
def test_spark_refuses_or_cuts_the_nanoseconds_of_a_source(
    tables: Tables, kind: TableKind, statement: str
) -> None:
    tables.create("t")
    tables.fine("s", kind)
    with pytest.raises(SparkNeeded, match="more digits than microseconds"):
        tables.run(statement)
    assert tables.digits("t") == {}
