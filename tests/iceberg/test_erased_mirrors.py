"""Erasures of tables with mirrors: no byte of a key is left in the folder of a mirror, or it is named."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from hiveacid.jobs.erase_job import EraseReport
from hiveacid.jobs.iceberg_job import IcebergFileFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from tests.erasure.remnants import remnants
from tests.erasure.test_erasure import KEYS, Warehouse
from tests.iceberg.case import LakeCase
from tests.iceberg.lakes import ServedCatalog
from tests.iceberg.test_spark_catalogs import open_in_spark

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
# The bounds of texts in Iceberg have 16 characters, and a person is known by fewer.
PERSONS = [key[:13] for key in KEYS]


class Mirrored(Warehouse):
    """A table with a mirror, whose folder a request names."""

    def __init__(
        self,
        client: MetastoreClient,
        database: str,
        folder: Path,
        server: ServedCatalog | None = None,
    ) -> None:
        super().__init__(client, database, folder)
        self.lake = LakeCase(client, self.t, folder / "iceberg", server)

    @property
    def iceberg(self) -> Table:
        table = self.lake.table()
        assert table is not None
        return table

    def mirror(self) -> Path:
        return Path(urlsplit(self.iceberg.location()).path)

    def request(self) -> EraseReport:
        return self.erase(self.job(mirrors=[f"file:{self.mirror()}"]))

    def advance(self) -> EraseReport:
        return self.eraser().advance("r1").report()

    def in_mirror(self) -> set[str]:
        return {text for hits in remnants(self.mirror(), PERSONS).values() for text in hits}

    def require_waiting(self, report: EraseReport, words: str) -> None:
        assert {wait.kind for wait in report.waits} == {"mirror"}, report.waits
        assert words in report.waits[0].reason
        assert self.certificate() is None

    def expire(self) -> None:
        """End all snapshots but the newest one; this leaves their files."""
        newest = self.iceberg.current_snapshot()
        assert newest is not None
        old = {each.snapshot_id for each in self.iceberg.metadata.snapshots} - {newest.snapshot_id}
        self.iceberg.maintenance.expire_snapshots().by_ids([*old]).commit()

    def remove_orphans(self, suffix: str = "") -> None:
        """Remove the files that no snapshot has."""
        for name in self.lake.files() - self.lake.used_files():
            if name.endswith(suffix):
                (self.lake.lake / name).unlink()

    def mirrored_delete(self) -> None:
        """Delete the keys, and bring them to the newest and only snapshot of the mirror."""
        self.fill("plain", 30)
        self.lake.run()
        self.require_waiting(self.request(), "export the table")
        self.lake.run()
        self.expire()
        self.remove_orphans()


@pytest.fixture
def warehouse(client: MetastoreClient, database: str, tmp_path: Path) -> Mirrored:
    return Mirrored(client, database, tmp_path)


@pytest.mark.parametrize("format_", ["orc", "parquet"])
def test_no_byte_of_a_key_is_left_in_a_mirror(warehouse: Mirrored, format_: IcebergFileFormat):
    warehouse.fill("partitioned")
    warehouse.lake.run(format=format_)
    assert warehouse.in_mirror() == {*PERSONS}
    warehouse.require_waiting(warehouse.request(), "export the table")
    warehouse.lake.run()
    assert warehouse.in_mirror() == {*PERSONS}
    warehouse.require_waiting(warehouse.advance(), "It holds keys" if format_ == "orc" else "Rows")
    warehouse.expire()
    warehouse.require_waiting(warehouse.advance(), "expire the snapshots")
    warehouse.remove_orphans(format_)
    left = remnants(warehouse.mirror(), PERSONS)
    assert {Path(name).suffix for name in left} == {".avro"}
    warehouse.require_waiting(warehouse.advance(), "bounds of columns of a file")
    warehouse.remove_orphans(".avro")
    warehouse.require_erased(warehouse.advance())
    assert warehouse.in_mirror() == set()


@pytest.mark.iceberg
def test_the_procedures_of_iceberg_remove_all_keys(
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    rest: ServedCatalog,
    spark: SparkSession,
):
    session = spark.newSession()
    open_in_spark(session, rest)
    warehouse = Mirrored(client, database, tmp_path, rest)
    warehouse.fill("partitioned")
    warehouse.lake.run()
    warehouse.request()
    warehouse.lake.run()
    # A killed export has left a file that no snapshot has.
    data = next(path for path in warehouse.mirror().rglob("*.orc") if remnants(path, PERSONS))
    shutil.copy(data, data.with_name("orphan.orc"))
    table = warehouse.lake.name
    now = datetime.now(UTC)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.sql(
        f"CALL lake.system.expire_snapshots(table => '{table}',"
        f" older_than => TIMESTAMP '{now:%Y-%m-%d %H:%M:%S.%f}', retain_last => 1)"
    )
    warehouse.require_waiting(warehouse.advance(), "orphan.orc")
    assert {Path(path).name for path in remnants(warehouse.mirror(), PERSONS)} == {"orphan.orc"}
    warehouse.lake.let_files_age()
    session.sql(
        f"CALL lake.system.remove_orphan_files(table => '{table}',"
        f" older_than => TIMESTAMP '{now - timedelta(hours=25):%Y-%m-%d %H:%M:%S}')"
    )
    warehouse.require_erased(warehouse.advance())
    assert warehouse.in_mirror() == set()
    rows = session.table(f"lake.{table}").select("who").collect()
    assert {row.who for row in rows}.isdisjoint(KEYS)
    assert len(rows) == 2000


def test_removed_files_leave_no_bounds_in_the_newest_snapshot(warehouse: Mirrored):
    warehouse.mirrored_delete()
    snapshot = warehouse.iceberg.current_snapshot()
    assert snapshot is not None
    entries = [
        entry
        for manifest in snapshot.manifests(warehouse.iceberg.io)
        for entry in manifest.fetch_manifest_entry(warehouse.iceberg.io, discard_deleted=False)
    ]
    removed = [entry.data_file for entry in entries if entry.status == 2]
    assert removed
    assert not any(file.lower_bounds or file.upper_bounds for file in removed)
    warehouse.require_erased(warehouse.advance())


def test_position_deletes_keep_keys_until_a_run_applies_them(warehouse: Mirrored):
    """An open writer delays the compaction, after which a run would copy the rows again."""
    warehouse.fill("plain", 30)
    warehouse.lake.run()
    client, ref = warehouse.client, TableRef.parse(warehouse.t)
    txn = client.open_txn("u", "h", None)
    client.allocate_write_id(txn, ref)
    warehouse.request()
    try:
        assert warehouse.lake.run(deletes="positions").delete_files
    finally:
        client.abort_txn(txn)
    warehouse.expire()
    warehouse.remove_orphans()
    warehouse.require_waiting(warehouse.advance(), "It holds keys")
    warehouse.sql("DELETE FROM t WHERE id = 1")
    warehouse.lake.run(deletes="apply")
    warehouse.expire()
    warehouse.remove_orphans()
    warehouse.require_erased(warehouse.advance())
    assert warehouse.in_mirror() == set()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("data/rows.csv", b"1,2", "no file of an Iceberg table"),
        ("metadata/x.metadata.json", b"{}", "no file of an Iceberg table"),
        ("metadata/x.metadata.json", b"{", "cannot be searched"),
        ("metadata/x.avro", b"Obj\x01\x02", "cannot be searched"),
        ("metadata/x.stats", b"PFA1", "cannot be searched"),
        ("data/x.parquet", b"PAR1", "cannot be searched"),
        ("data/x.orc", b"ORC", "cannot be searched"),
        ("data/_attempt.json", json.dumps({"name": KEYS[0]}).encode(), "in its text"),
    ],
)
def test_other_files_in_the_folder_of_a_mirror_are_named(
    warehouse: Mirrored, name: str, content: bytes, words: str
):
    warehouse.mirrored_delete()
    path = warehouse.mirror() / name
    path.write_bytes(content)
    warehouse.require_waiting(warehouse.advance(), f"{name}: ")
    warehouse.require_waiting(warehouse.advance(), words)
    path.unlink()
    (warehouse.mirror() / "metadata" / "version-hint.text").write_text("2")
    (warehouse.mirror() / "metadata" / ".version-hint.text.crc").write_bytes(b"crc\0\0\0\0")
    warehouse.require_erased(warehouse.advance())


def test_each_mirror_is_searched_for_the_keys_of_its_own_table(warehouse: Mirrored):
    """The other table has a column of the same name, whose values are no keys of this one."""
    other = Mirrored(warehouse.client, warehouse.database, warehouse.folder)
    other.lake.target, other.lake.name = f"{warehouse.database}.u", "ns.u"
    warehouse.fill("plain", 30)
    warehouse.sql(
        f"CREATE TABLE u (person string, who double); INSERT INTO u VALUES ('{KEYS[0]}', 1.5e0)"
    )
    for each in (warehouse, other):
        each.lake.run()
    mirrors = [f"file:{each.mirror()}" for each in (warehouse, other)]
    columns = {warehouse.t: "who", other.lake.target: "person"}
    report = warehouse.erase(warehouse.job(columns=columns, mirrors=mirrors))
    assert [wait.kind for wait in report.waits] == ["mirror", "mirror"]
    for each in (warehouse, other):
        each.lake.run()
    report = warehouse.advance()
    assert [wait.table for wait in report.waits] == [warehouse.t, other.lake.target]
    for each in (warehouse, other):
        each.expire()
    used = warehouse.lake.used_files() | other.lake.used_files()
    for name in warehouse.lake.files() - used:
        (warehouse.lake.lake / name).unlink()
    warehouse.require_erased(warehouse.advance())
    certificate = warehouse.certificate()
    assert certificate is not None
    named = [place["place"] for place in certificate["places"] if "Mirror" in place["place"]]
    assert named == [
        f"Mirror of {table} in {mirror}" for table, mirror in zip(columns, mirrors, strict=True)
    ]


def test_a_column_of_an_unknown_type_counts(warehouse: Mirrored):
    warehouse.mirrored_delete()
    path = warehouse.mirror() / "data" / "x.parquet"
    parquet.write_table(pa.table({"who": [b"a"]}), path)
    warehouse.require_waiting(warehouse.advance(), "are no keys")
    path.unlink()
    warehouse.require_erased(warehouse.advance())


def test_statistics_of_a_snapshot_without_the_delete_are_named(warehouse: Mirrored):
    warehouse.mirrored_delete()
    snapshot = warehouse.iceberg.current_snapshot()
    assert snapshot is not None
    path = warehouse.mirror() / "metadata" / "x.stats"
    path.write_bytes(_statistics(snapshot.snapshot_id + 1))
    warehouse.require_waiting(warehouse.advance(), "x.stats: It has statistics of a snapshot")
    path.write_bytes(_statistics(snapshot.snapshot_id))
    warehouse.require_erased(warehouse.advance())


def _statistics(snapshot: int) -> bytes:
    """A file of statistics in the format Puffin."""
    blob = {"type": "apache-datasketches-theta-v1", "fields": [1], "snapshot-id": snapshot}
    footer = json.dumps({"blobs": [{**blob, "sequence-number": 1, "offset": 4, "length": 6}]})
    end = len(footer).to_bytes(4, "little") + bytes(4)
    return b"PFA1" + b"sketch" + b"PFA1" + footer.encode() + end + b"PFA1"
