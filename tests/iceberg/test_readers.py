"""Readers of mirrors that other tests do not have: pyiceberg alone, with or without a catalog, DuckDB."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

from hiveacid.jobs.iceberg_job import IcebergDeletes, IcebergFileFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.distribution import cache_folder
from hiveacid.parser.questions import ShowProperties
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.answers import answer
from tests.compaction.written_table import WrittenTable
from tests.iceberg.lakes import ServedCatalog
from tests.iceberg.test_mirror import Mirror

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

# The newest version whose extensions are packages of PyPI.
DUCKDB = "1.5.5"
READ = """\
import json, sys, duckdb, duckdb_extension_avro, duckdb_extension_iceberg
from pathlib import Path
db = duckdb.connect()
for extension in (duckdb_extension_avro, duckdb_extension_iceberg):
    (path,) = Path(extension.__file__).parent.rglob("*.duckdb_extension")
    db.execute(f"LOAD '{path}'")
print(json.dumps(db.execute(f"SELECT id FROM iceberg_scan('{sys.argv[1]}') ORDER BY id").fetchall()))
"""


def changed(
    table: WrittenTable,
    folder: Path,
    served: ServedCatalog | None = None,
    format_: IcebergFileFormat | None = None,
    deletes: IcebergDeletes = "apply",
) -> Mirror:
    """A mirror that has been updated after an insert and a delete."""
    mirror = Mirror(table, folder, served)
    mirror.format, mirror.deletes = format_, deletes
    first = table.insert(1, 2, 3)
    mirror.update()
    table.insert(4)
    table.delete((first, 1))
    assert mirror.update().outcome == "updated"
    return mirror


@pytest.fixture
def hive(client: MetastoreClient, database: str) -> WrittenTable:
    return WrittenTable.create(client, f"{database}.t")


def read_static(mirror: Mirror) -> list[int]:
    """The rows of a mirror by the location in the report of its last run, without a catalog."""
    location = mirror.run().metadata_location
    assert location is not None
    rows: list[int] = StaticTable.from_metadata(location).scan().to_arrow()["id"].to_pylist()
    return sorted(rows)


@pytest.mark.parametrize("deletes", ["apply", "positions"])
@pytest.mark.parametrize("format_", ["orc", "parquet"])
def test_pyiceberg_reads_a_mirror_by_its_metadata(
    hive: WrittenTable, tmp_path: Path, format_: IcebergFileFormat, deletes: IcebergDeletes
) -> None:
    assert read_static(changed(hive, tmp_path, None, format_, deletes)) == [1, 3, 4]


@pytest.mark.iceberg
@pytest.mark.parametrize("kind", ["hive3", "hive4", "rest"])
def test_pyiceberg_reads_a_mirror_in_a_server(
    kind: str, request: pytest.FixtureRequest, hive: WrittenTable, tmp_path: Path
) -> None:
    served: ServedCatalog = request.getfixturevalue(kind)
    mirror = changed(hive, tmp_path, served)
    catalog = load_catalog("lake", **served.options)
    if kind.startswith("hive"):
        with MetastoreClient(request.getfixturevalue(kind.replace("hive", "hms")).options) as there:
            shown = answer(there, ShowProperties(TableRef.parse(mirror.name), "metadata_location"))
        assert shown.rows == [("metadata_location", mirror.iceberg.metadata_location)]
    if kind == "hive4":
        # Without it, a change of the library may have made this documented limit obsolete.
        with pytest.raises(Exception, match="Invalid method name: 'get_table'"):
            catalog.load_table(mirror.name)
    else:
        rows = catalog.load_table(mirror.name).scan().to_arrow()["id"].to_pylist()
        assert sorted(rows) == [1, 3, 4]
    assert read_static(mirror) == [1, 3, 4]


@pytest.fixture(scope="module")
def duckdb_packages() -> Path:
    """A folder with DuckDB and its extensions, which are downloaded once."""
    folder = cache_folder() / f"iceberg-duckdb-{DUCKDB}"
    names = ("duckdb", "duckdb-extension-avro", "duckdb-extension-iceberg")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
            wanted = [f"{name}=={DUCKDB}" for name in names]
            subprocess.run([*pip, "--target", str(partial), *wanted], check=True)
            partial.rename(folder)
    return folder


@pytest.mark.iceberg
@pytest.mark.parametrize("deletes", ["apply", "positions"])
@pytest.mark.parametrize("format_", ["orc", "parquet"])
def test_duckdb_reads_mirrors_with_parquet_files(
    duckdb_packages: Path,
    hive: WrittenTable,
    tmp_path: Path,
    format_: IcebergFileFormat,
    deletes: IcebergDeletes,
) -> None:
    location = changed(hive, tmp_path, None, format_, deletes).run().metadata_location
    done = subprocess.run(
        [sys.executable, "-c", READ, str(location)],
        env={**os.environ, "PYTHONPATH": str(duckdb_packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    if format_ == "orc":
        assert "File format 'ORC' not supported" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [[1], [3], [4]]
