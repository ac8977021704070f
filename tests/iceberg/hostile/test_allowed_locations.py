"""A limit of the process on locations applies to all files that catalogs and their tables name."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import ManifestEntry, write_manifest

from hiveacid.errors import AccessRefused, SharedLocation
from hiveacid.iceberg.run import compare_with_iceberg, lag_of_mirror
from hiveacid.jobs.iceberg_job import IcebergCompareJob
from hiveacid.metastore.client import MetastoreClient
from tests.compaction.written_table import WrittenTable
from tests.iceberg.case import LakeCase
from tests.iceberg.hostile.watch import Trap
from tests.iceberg.lakes import sql_options

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
Run = Callable[[LakeCase, dict[str, str]], object]


class Mirror(LakeCase):
    """A mirror, whose metadata somebody changes."""

    @property
    def metadata(self) -> Path:
        return _local(self.catalog.load_table(self.name).metadata_location)

    def name_metadata(self, folder: str) -> None:
        self.metadata.rename(self.folder / "v.metadata.json")
        self.catalog.drop_table(self.name)
        with self.catalog.engine.begin() as database:  # type: ignore[attr-defined]
            database.exec_driver_sql(
                "INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, NULL, 'TABLE')",
                ("lake", *self.name.split("."), f"{folder}/v.metadata.json"),
            )

    def name_list(self, folder: str) -> None:
        content = json.loads(self.metadata.read_text())
        for each in content["snapshots"]:
            each["manifest-list"] = f"{folder}/list.avro"
        self.metadata.write_text(json.dumps(content))

    def name_data(self, folder: str) -> None:
        table = self.catalog.load_table(self.name)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        [manifest] = snapshot.manifests(table.io)
        entries: list[ManifestEntry] = manifest.fetch_manifest_entry(table.io)
        output = table.io.new_output(manifest.manifest_path)
        with write_manifest(
            2, table.spec(), table.schema(), output, snapshot.snapshot_id, "deflate"
        ) as writer:
            for entry in entries:
                file = entry.data_file
                file[file._data.index(file.file_path)] = f"{folder}/x.orc"
                writer.add(entry)


def _local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def export(mirror: LakeCase, options: dict[str, str]) -> object:
    return mirror.run(catalog_options=options)


def compare(mirror: LakeCase, options: dict[str, str]) -> object:
    job = mirror.job(catalog_options=options)
    given = {name: getattr(job, name) for name in ("target", "table", "catalog", "metastore")}
    return compare_with_iceberg(mirror.client, IcebergCompareJob(**given, catalog_options=options))


def lag(mirror: LakeCase, options: dict[str, str]) -> object:
    return lag_of_mirror(mirror.client, mirror.job(catalog_options=options))


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path) -> Mirror:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1)
    found = Mirror(client, str(table.ref), tmp_path)
    found.run()
    table.insert(2)
    return found


@pytest.fixture
def elsewhere() -> Iterator[Trap]:
    with Trap() as trap:
        yield trap


@pytest.mark.parametrize(
    ("run", "place"),
    [
        *((run, place) for run in (export, compare) for place in ("metadata", "list", "data")),
        (lag, "metadata"),
    ],
)
@pytest.mark.parametrize("limit", ["process", "job"])
def test_files_of_a_table_are_at_allowed_locations(
    mirror: Mirror,
    elsewhere: Trap,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    place: str,
    limit: str,
) -> None:
    folder = f"hdfs://127.0.0.1:{elsewhere.port}/lake"
    getattr(mirror, f"name_{place}")(folder)
    _limit(mirror, monkeypatch, limit)
    with pytest.raises(AccessRefused, match="is not among the locations"):
        run(mirror, {**mirror.options, "locations": folder})
    assert elsewhere.connections == 0


@pytest.mark.parametrize("limit", ["process", "job"])
def test_the_warehouse_of_a_new_table_is_an_allowed_location(
    mirror: Mirror, elsewhere: Trap, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    warehouse = f"hdfs://127.0.0.1:{elsewhere.port}/lake"
    _limit(mirror, monkeypatch, limit)
    with pytest.raises(AccessRefused, match="is not among the locations"):
        mirror.run(table="ns.new", catalog_options={**mirror.options, "warehouse": warehouse})
    assert elsewhere.connections == 0


def _limit(mirror: Mirror, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    if limit == "process":
        monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "file")
    else:
        options = replace(mirror.client.options, allowed_locations="file")
        mirror.client = MetastoreClient(options)


@pytest.mark.parametrize("run", [export, compare, lag])
def test_a_catalog_in_sqlite_is_a_file(mirror: Mirror, tmp_path: Path, run: Run) -> None:
    """Opening it would create a file in the folder of a table, or outside of the limit."""
    table = WrittenTable.create(mirror.client, f"{mirror.target}2")
    options: dict[str, Any] = {
        **sql_options(tmp_path),
        "uri": f"sqlite:///{table.root}/catalog.db",
    }
    with pytest.raises(SharedLocation, match=rf"share files with {table.ref}"):
        run(mirror, options)
    assert not (table.root / "catalog.db").exists()
