"""Hadoop's configuration as files of this machine."""

from pathlib import Path

import pytest

from hiveacid.errors import StorageError
from hiveacid.storage.filesystems import hadoop_properties


def test_properties_of_all_files_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    for name, key in (("core-site.xml", "fs.defaultFS"), ("hdfs-site.xml", "dfs.nameservices")):
        entry = f"<property><name> {key} </name><value> x </value></property>"
        (tmp_path / name).write_text(f"<configuration>{entry}</configuration>")
    assert hadoop_properties() == {"fs.defaultFS": "x", "dfs.nameservices": "x"}


def test_without_a_folder_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert hadoop_properties() == {}


def test_a_broken_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(StorageError, match=r"core-site\.xml cannot be read"):
        hadoop_properties()
