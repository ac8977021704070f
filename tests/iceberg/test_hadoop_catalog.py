"""Catalogs in folders: a commit is the creation of the next metadata file."""

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.errors import IcebergConflict, IcebergRefused
from airflow_hiveacid.iceberg.attempt import Attempt
from airflow_hiveacid.iceberg.hadoop_catalog import HadoopCatalog
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.storage.folder import Storage
from tests.compaction.written_table import WrittenTable
from tests.iceberg.lakes import ServedCatalog, opened_as
from tests.iceberg.test_mirror import Mirror

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path, hadoop: ServedCatalog) -> Mirror:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    found = Mirror(table, tmp_path, hadoop)
    assert found.counts() == ("created", 1, 0, 0)
    return found


def metadata(mirror: Mirror) -> Path:
    return mirror.lake / "ns" / "t" / "metadata"


def versions(mirror: Mirror) -> list[str]:
    return sorted(path.name for path in metadata(mirror).glob("v*.metadata.json"))


def test_each_commit_creates_the_next_version_and_the_hint(mirror: Mirror) -> None:
    assert versions(mirror) == ["v1.metadata.json"]
    mirror.hive.insert(4)
    assert mirror.counts() == ("updated", 1, 1, 0)
    assert versions(mirror) == ["v1.metadata.json", "v2.metadata.json"]
    assert (metadata(mirror) / "version-hint.text").read_text() == "2"


@pytest.mark.parametrize("hint", [None, "1", "77", "text"])
def test_the_newest_version_is_read_with_any_hint(mirror: Mirror, hint: str | None) -> None:
    mirror.hive.insert(4)
    mirror.update()
    path = metadata(mirror) / "version-hint.text"
    if hint is None:
        path.unlink()
    else:
        path.write_text(hint)
    assert mirror.rows() == [1, 2, 3, 4]
    mirror.hive.insert(5)
    assert mirror.counts() == ("updated", 1, 2, 0)


class OvertakenCatalog(HadoopCatalog):
    """Another program creates the next version while a commit is prepared."""

    def _update_and_stage_table(self, current: Any, *arguments: Any) -> Any:
        staged = super()._update_and_stage_table(current, *arguments)
        path = Path(current.metadata_location.removeprefix("file://"))
        (path.parent / "v2.metadata.json").write_bytes(path.read_bytes() + b" ")
        return staged


def test_a_version_that_another_program_creates_meanwhile_remains(mirror: Mirror) -> None:
    mirror.hive.insert(4)
    conflict = pytest.raises(IcebergConflict, match=r"v2\.metadata\.json exists")
    with opened_as("hadoop", OvertakenCatalog), conflict:
        mirror.run(run_token="run")
    first, second = (metadata(mirror) / name for name in versions(mirror))
    assert second.read_bytes() == first.read_bytes() + b" "
    assert mirror.files() - mirror.used_files() == {"ns/t/metadata/v1.metadata.json"}
    assert mirror.run(run_token="run").outcome == "updated"
    assert versions(mirror)[-1] == "v3.metadata.json"


def test_compressed_metadata_are_refused(mirror: Mirror) -> None:
    (metadata(mirror) / "v2.gz.metadata.json").write_bytes(b"")
    with pytest.raises(IcebergRefused, match="is compressed") as raised:
        mirror.run()
    assert "write.metadata.compression-codec" in raised.value.remedy


def test_another_folder_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(IcebergRefused, match="no other folder than"):
        mirror.run(table="ns.other", location=f"file://{tmp_path}/elsewhere")
    report = mirror.run(table="ns.other", location=f"file://{mirror.lake}/ns/other/")
    assert report.outcome == "created"


def test_a_catalog_without_a_folder_is_refused(mirror: Mirror) -> None:
    with pytest.raises(IcebergRefused, match="has no folder") as raised:
        HadoopCatalog("lake")
    assert "warehouse" in raised.value.remedy
    with pytest.raises(IcebergRefused, match="has no folder"):
        mirror.run(catalog_options={"type": "hadoop"})


def test_a_store_without_conditional_writes_is_refused_before_a_file_is_written(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Storage, "creates_once", False)
    # Its note is the first file of each attempt.
    monkeypatch.setattr(Attempt, "begin", lambda *_: pytest.fail("a file is written"))
    mirror.hive.insert(4)
    for table in ("ns.t", "ns.other"):
        with pytest.raises(IcebergRefused, match="lets two programs create") as raised:
            mirror.run(table=table)
        assert "Use another catalog" in raised.value.remedy
    assert mirror.rows() == [1, 2, 3]
