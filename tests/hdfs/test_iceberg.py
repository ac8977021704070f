"""Mirrors in Iceberg whose files are on HDFS, which pyiceberg alone would reach through Java."""

from pathlib import Path

import pytest

from hiveacid.iceberg.catalog_files import files_of
from hiveacid.iceberg.catalogs import open_catalog
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.storage.folder import ReadOnlyStorage
from tests.compaction.written_table import WrittenTable
from tests.hadoop.hdfs import Hdfs
from tests.iceberg.lakes import ServedCatalog
from tests.iceberg.test_comparison import compare
from tests.iceberg.test_mirror import Mirror

pytestmark = [pytest.mark.hdfs, pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)]


def test_a_mirror_is_created_updated_and_compared(
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    hdfs: Hdfs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.delenv("CLASSPATH", raising=False)
    warehouse = f"{hdfs.uri}/lake"
    options = {"type": "sql", "warehouse": warehouse, "uri": f"sqlite:///{tmp_path}/catalog.db"}
    job = IcebergExportJob(
        target=f"{database}.t", table="ns.t", catalog="lake", catalog_options=options
    )
    catalog = open_catalog(job)
    catalog.create_namespace("ns")
    table = WrittenTable.create(client, f"{database}.t")
    mirror = Mirror(table, tmp_path, ServedCatalog("sql", options, catalog, "ns", tmp_path))
    mirror.deletes = "positions"
    first = table.insert(1, 2, 3)
    assert mirror.run().outcome == "created"
    table.delete((first, 1))
    table.insert(4)
    assert mirror.run().outcome == "updated"
    lake = mirror.iceberg
    lake.io = files_of(lake.io).data_files()
    assert sorted(lake.scan().to_arrow()["id"].to_pylist()) == table.rows() == [1, 3, 4]
    assert mirror.iceberg.location().startswith(warehouse)
    compared = compare(mirror)
    assert (compared.equal, compared.iceberg_rows) == (True, 3)
    files = ReadOnlyStorage.of(mirror.iceberg.location()).list_files("data")
    assert not [file for file in files if file.path.endswith("_attempt.json")]
