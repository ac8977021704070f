"""HDFS's own entries in and beside the folders of tables, and the names of a cluster."""

import re
from pathlib import Path

import pytest
from hdfs_native import AclEntry, Client

from hiveacid.errors import DiskFull, PermissionRefused, StorageError
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.metastore.dev.embedded import free_port
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.table_cleaning import clean
from tests.faults.operations import NEW, Tables
from tests.faults.outside import Outsider
from tests.hadoop.hdfs import Hdfs
from tests.hadoop.software import write_configuration
from tests.places import path_on_hdfs, place_of

pytestmark = pytest.mark.hdfs


def compact_and_clean(tables: Tables) -> list[str]:
    """All that a night's maintenance removes."""
    tables.run(CompactJob(target=str(tables.main), type="major", parallel=1))
    reports = [tables.run(CleanJob(target=str(tables.main), retention="0")) for _ in range(2)]
    return [removal.path for report in reports for removal in report.removed]


def test_cleaned_files_bypass_the_trash(tables: Tables, hdfs: Hdfs) -> None:
    outsider = Outsider(tables.client, tables.main)
    rows = outsider.rows()
    assert len(compact_and_clean(tables)) >= 4
    assert outsider.rows() == rows
    assert outsider.left_over() == []
    folder = path_on_hdfs(tables.client.get_table(tables.main).folder)
    everything = {each.path for each in Client(hdfs.uri).list_status("/", True)}
    assert f"{folder}/p=a" in everything
    assert not [path for path in everything if f"/.Trash/Current{folder}/" in path]


def test_a_snapshot_keeps_what_is_cleaned_and_is_no_part_of_the_table(
    tables: Tables, hdfs: Hdfs
) -> None:
    folder = tables.client.get_table(tables.main).folder
    path = path_on_hdfs(folder)
    hdfs.ask("ALLOWSNAPSHOT", path)
    hdfs.ask("CREATESNAPSHOT", path, snapshotname="monday")
    outsider = Outsider(tables.client, tables.main)
    rows = outsider.rows()
    kept = place_of(f"{folder}/.snapshot/monday")

    def of_monday() -> dict[str, bytes]:
        files = [file for file in kept.rglob("*") if file.is_file()]
        return {str(file.relative_to(kept)): file.read_bytes() for file in files}

    before = of_monday()
    removed = compact_and_clean(tables)
    assert len(removed) >= 4
    assert not [name for name in removed if ".snapshot" in name]
    assert of_monday() == before
    assert outsider.rows() == rows
    assert outsider.left_over() == []


def test_hidden_files_of_others_are_neither_read_nor_removed(tables: Tables) -> None:
    outsider = Outsider(tables.client, tables.main)
    rows = outsider.rows()
    strangers = [
        outsider.root / part / name
        for part in ("", "p=a")
        for name in (".hidden", "_SUCCESS", ".Trash/Current/f", "_impala_insert_staging/f.orc")
    ]
    for stranger in strangers:
        stranger.parent.mkdir(parents=True, exist_ok=True)
        stranger.write_bytes(b"no ORC")
    assert len(compact_and_clean(tables)) >= 4
    assert outsider.rows() == rows
    assert [stranger for stranger in strangers if not stranger.exists()] == []


def test_a_quota_of_bytes_is_reported_and_no_file_remains(tables: Tables, hdfs: Hdfs) -> None:
    outsider = Outsider(tables.client, tables.main)
    path = path_on_hdfs(tables.client.get_table(tables.main).folder)
    rows, before = outsider.rows(), sorted(map(str, outsider.root.rglob("*")))
    hdfs.ask("SETQUOTA", path, namespacequota=1 << 60, storagespacequota=1 << 20)
    with pytest.raises(DiskFull, match=r"The DiskSpace quota of .* is exceeded: quota = 1048576"):
        tables.run(tables.insert(tables.main, NEW))
    assert outsider.rows() == rows
    assert sorted(map(str, outsider.root.rglob("*"))) == before
    hdfs.ask("SETQUOTA", path, namespacequota=1 << 60, storagespacequota=1 << 60)
    tables.run(tables.insert(tables.main, NEW))
    assert outsider.rows() == sorted([*rows, *NEW])


def test_only_the_default_acl_permits_cleaning_files_of_others(
    tables: Tables, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Client(hdfs.uri)
    path = path_on_hdfs(tables.client.get_table(tables.main).folder)
    for folder in (path, *(each.path for each in files.list_status(path, True) if each.isdir)):
        files.set_permission(folder, 0o750)
        entries = [AclEntry("user", scope, "rwx", "etl") for scope in ("access", "default")]
        files.modify_acl_entries(folder, entries)
    before = {each.path for each in files.list_status(path, True)}
    tables.run(tables.insert(tables.main, NEW))
    tables.run(CompactJob(target=str(tables.main), type="major", parallel=1))

    made = [each for each in files.list_status(path, True) if each.path not in before]
    assert any("/p=c/delta_" in each.path for each in made)
    assert any("/p=a/base_" in each.path for each in made)
    for each in made:
        named = [entry for entry in files.get_acl_status(each.path).entries if entry.name]
        assert ("access", "etl", "rwx") in {(e.scope, e.name, e.permissions) for e in named}
        assert each.permission == (0o770 if each.isdir else 0o660), each.path

    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    with pytest.raises(PermissionRefused, match="Permission denied: user=stranger"):
        clean(tables.client, CleanJob(target=str(tables.main), retention="0"))
    assert {each.path for each in made} <= {each.path for each in files.list_status(path, True)}
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    assert len(clean(tables.client, CleanJob(target=str(tables.main), retention="0")).removed) >= 4


def test_a_name_service_is_that_of_the_settings(
    hdfs: Hdfs, hdfs_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its NameNodes is away."""
    services = {
        "dfs.nameservices": "warehouse",
        "dfs.ha.namenodes.warehouse": "nn1,nn2",
        "dfs.namenode.rpc-address.warehouse.nn1": f"127.0.0.1:{free_port()}",
        "dfs.namenode.rpc-address.warehouse.nn2": re.sub("^hdfs://", "", hdfs.uri),
    }
    write_configuration(tmp_path, {"hdfs-site.xml": services, "core-site.xml": {}})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    location = hdfs_folder.replace(hdfs.uri, "hdfs://warehouse")
    storage = Storage.of(location)
    storage.write_file("d/f", b"1")
    assert Storage.of(location).read_small("d/f", 10) == b"1"
    monkeypatch.delenv("HADOOP_CONF_DIR")
    assert Storage.of(hdfs_folder).exists("d/f")
    with pytest.raises(StorageError, match="HADOOP_CONF_DIR"):
        Storage.of(location).exists("d/f")
