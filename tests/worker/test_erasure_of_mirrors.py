"""Erasures of tables with mirrors in Iceberg: nothing of a key is left in the folder of a mirror."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hiveacid.jobs.erase_job import EraseReport
from hiveacid.jobs.iceberg_job import IcebergFileFormat
from hiveacid.metastore.client import MetastoreClient
from tests.iceberg.case import LakeCase
from tests.worker.remnants import remnants
from tests.worker.test_erasure import FAKE4, KEYS, Warehouse

# The bounds of texts in Iceberg have 16 characters; a person is known by fewer.
PERSONS = [key[:13] for key in KEYS]


class Mirrored(Warehouse):
    """A table with a mirror, whose folder a request names."""

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        super().__init__(client, database, folder)
        self.lake = LakeCase(client, self.t, folder / "iceberg")

    def mirror(self) -> Path:
        table = self.lake.table()
        assert table is not None
        return Path(urlsplit(table.location()).path)

    def request(self) -> EraseReport:
        return self.erase(self.job(mirrors=[f"file:{self.mirror()}"]))

    def in_mirror(self) -> set[str]:
        return {text for hits in remnants(self.mirror(), PERSONS).values() for text in hits}

    def require_waiting(self, report: EraseReport, words: str) -> None:
        assert {wait.kind for wait in report.waits} == {"mirror"}, report.waits
        assert words in report.waits[0].reason
        assert self.certificate() is None

    def advance(self) -> EraseReport:
        return self.eraser().advance("r1").report()

    def expire(self) -> None:
        """End all snapshots but the newest one; this leaves their files."""
        table = self.lake.table()
        assert table is not None
        newest = table.current_snapshot()
        assert newest is not None
        old = {each.snapshot_id for each in table.metadata.snapshots} - {newest.snapshot_id}
        table.maintenance.expire_snapshots().by_ids([*old]).commit()

    def orphans(self, pattern: str) -> list[Path]:
        orphans = self.lake.files() - self.lake.used_files()
        return [path for name in orphans if (path := self.lake.lake / name).match(pattern)]


@pytest.fixture
def warehouse(client: MetastoreClient, database: str, tmp_path: Path) -> Mirrored:
    return Mirrored(client, database, tmp_path)


@FAKE4
@pytest.mark.parametrize("format_", ["orc", "parquet"])
def test_nothing_of_a_key_is_left_in_a_mirror(warehouse: Mirrored, format_: IcebergFileFormat):
    warehouse.fill("partitioned")
    warehouse.lake.run(format=format_)
    assert warehouse.in_mirror() == {*PERSONS}
    warehouse.require_waiting(warehouse.request(), "export the table")
    warehouse.lake.run()
    assert warehouse.in_mirror() == {*PERSONS}
    warehouse.require_waiting(warehouse.advance(), "expire the snapshots")
    warehouse.expire()
    warehouse.require_waiting(warehouse.advance(), "expire the snapshots")
    for path in warehouse.orphans("data/**/*"):
        path.unlink()
    left = remnants(warehouse.mirror(), PERSONS)
    assert left
    assert {Path(name).suffix for name in left} == {".avro"}
    warehouse.require_waiting(warehouse.advance(), "bounds of the column with the keys")
    for path in warehouse.orphans("*.avro"):
        path.unlink()
    warehouse.require_erased(warehouse.advance())
    assert warehouse.in_mirror() == set()
