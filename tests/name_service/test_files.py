"""The requests of this package itself to a name service go to the active NameNode."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from hiveacid.errors import StorageUnreachable
from hiveacid.storage import hdfs as client
from hiveacid.storage.folder import Storage
from tests.hadoop.name_service import NameService
from tests.hdfs.conftest import impatient_conf

pytestmark = pytest.mark.hdfs


def use(storage: Storage) -> None:
    """Do everything with a folder that publishing and cleaning do."""
    storage.write_file("d/note", b"1")
    with storage.create("d/f") as sink:
        sink.write(b"2")
    storage.rename("d", "e")
    assert storage.read_small("e/note", 10) + storage.read_small("e/f", 10) == b"12"
    assert sorted(file.path for file in storage.list_files(recursive=True)) == ["e/f", "e/note"]
    storage.delete_directory("e")
    assert not storage.exists("e")


def test_whichever_is_active_is_asked(
    hdfs: NameService, hdfs_folder: str, interrupt: Callable[[], None]
) -> None:
    old = Storage.of(hdfs_folder)
    use(old)
    interrupt()
    use(old)
    client._client.cache_clear()  # A new one begins with the first of the list.
    use(Storage.of(hdfs_folder))
    hdfs.fail_over()
    use(old)
    client._client.cache_clear()
    use(Storage.of(hdfs_folder))


def test_a_file_that_is_too_large_to_be_written_once_more_is_written_and_read_on(
    hdfs_folder: str, interrupt: Callable[[], None]
) -> None:
    storage = Storage.of(hdfs_folder)
    half = bytes(range(256)) * (10 << 12)
    with storage.create("f") as sink:
        sink.write(half)
        sink.flush()
        interrupt()
        sink.write(half)
    with storage.open_input("f") as source:
        begin = source.read(len(half))
        interrupt()
        assert begin + source.read() == half + half


def test_while_all_are_standby_one_is_waited_for(hdfs: NameService, hdfs_folder: str) -> None:
    storage = Storage.of(hdfs_folder)
    hdfs.step_down()
    elected = Thread(target=hdfs.fail_over)
    elected.start()
    use(storage)
    elected.join()


@pytest.mark.parametrize("killed", [0, 1, 2])
def test_without_an_active_namenode_the_error_is_retryable(
    killed: int,
    hdfs: NameService,
    hdfs_folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hdfs.step_down()
    for name in ("nn1", "nn2")[:killed]:
        hdfs.kill_daemon(name)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(impatient_conf(hdfs, tmp_path / "conf")))
    client._client.cache_clear()
    with pytest.raises(StorageUnreachable) as failure:
        Storage.of(hdfs_folder).write_file("f", b"1")
    assert failure.value.retryable
    client._client.cache_clear()
