"""A NameNode that is killed in the middle of a run delays it, if it comes back in time."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from hiveacid.errors import StorageUnreachable
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.storage.folder import Storage
from tests.faults.operations import OPERATIONS, Tables
from tests.faults.outside import Outsider
from tests.hadoop.hdfs import Hdfs
from tests.hdfs.conftest import Strike, impatient_conf

pytestmark = pytest.mark.hdfs


@pytest.mark.parametrize("operation", ["merge", "major compaction"])
def test_published_directories_appear_atomically(
    operation: str, tables: Tables, interrupt: Callable[[], None], strike: Strike
) -> None:
    outsider = Outsider(tables.client, tables.main)
    job: Job = OPERATIONS[operation].job(tables)
    expected = OPERATIONS[operation].expected_in_main(job, outsider.rows(), tables)
    strike("rename", 1, interrupt)
    assert tables.run(job).error is None
    assert outsider.rows() == expected


@pytest.fixture
def to_clean(tables: Tables) -> Outsider:
    """A table with directories that a compaction has replaced."""
    tables.run(OPERATIONS["major compaction"].job(tables))
    return Outsider(tables.client, tables.main)


def replaced(outsider: Outsider) -> int:
    """Return the number of remaining directories that a compaction has replaced."""
    return len([path for path in outsider.root.glob("p=*/*") if "delta_" in path.name])


@pytest.mark.parametrize("at_once", [False, True], ids=["between renames", "during a rename"])
def test_an_interruption_in_the_middle_of_a_cleaning_delays_it(
    at_once: bool,
    tables: Tables,
    to_clean: Outsider,
    interrupt: Callable[[], None],
    strike: Strike,
) -> None:
    rows, before = to_clean.rows(), replaced(to_clean)
    left = []

    def interrupted() -> None:
        left.append(replaced(to_clean))
        # Whether it renames before it is killed is open.
        killer = Thread(target=interrupt)
        killer.start()
        if not at_once:
            killer.join()

    strike("rename", 2, interrupted)
    assert len(tables.run(CleanJob(target=str(tables.main), retention="0")).removed) >= before
    assert left == [before - 2]
    assert to_clean.rows() == rows
    assert to_clean.left_over() == []


def test_a_cleaning_that_gives_up_is_completed_by_the_next(
    tables: Tables,
    to_clean: Outsider,
    hdfs: Hdfs,
    strike: Strike,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    rows, before = to_clean.rows(), replaced(to_clean)
    strike("rename", 2, lambda: hdfs.kill_daemon(hdfs.active))
    with monkeypatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(impatient_conf(hdfs, tmp_path / "conf")))
        with pytest.raises(StorageUnreachable, match=r"Connection refused|StandbyException"):
            tables.run(CleanJob(target=str(tables.main), retention="0"))
    hdfs.revive()
    assert replaced(to_clean) == before - 2
    assert to_clean.rows() == rows
    tables.run(CleanJob(target=str(tables.main), retention="0"))
    assert to_clean.rows() == rows
    assert to_clean.left_over() == []


@pytest.mark.parametrize("size", [10, 5 << 20])
def test_a_file_that_is_being_written_meanwhile_is_whole(
    size: int, interrupt: Callable[[], None], hdfs_folder: str
) -> None:
    storage = Storage.of(hdfs_folder)
    content = bytes(range(256)) * (size // 256 + 1)
    half = len(content) // 2
    with storage.create("f") as sink:
        interrupt()
        sink.write(content[:half])
        sink.flush()
        interrupt()
        sink.write(content[half:])
    interrupt()
    storage.write_file("note", content)
    assert storage.read_small("f", 1 << 30) == storage.read_small("note", 1 << 30) == content
