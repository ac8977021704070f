"""A NameNode that is killed and comes back in the middle of a run delays it, and that is all."""

from collections.abc import Callable
from typing import Any

import pytest

from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.maintenance_jobs import CleanJob
from airflow_hiveacid.storage import Storage
from tests.faults.operations import OPERATIONS, Tables
from tests.faults.outside import Outsider
from tests.hadoop.hdfs import Hdfs

pytestmark = pytest.mark.hdfs

Restart = Callable[[str], None]


@pytest.fixture
def restart_at(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> Restart:
    """Lets the NameNode be killed and start again before the first call of a method."""

    def restart_at(method: str) -> None:
        really = getattr(Storage, method)

        def restarting(storage: Storage, *arguments: Any) -> Any:
            monkeypatch.setattr(Storage, method, really)
            hdfs.restart_namenode()
            return really(storage, *arguments)

        monkeypatch.setattr(Storage, method, restarting)

    return restart_at


@pytest.mark.parametrize("operation", ["merge", "major compaction"])
def test_what_is_published_meanwhile_appears_whole(
    operation: str, tables: Tables, restart_at: Restart
) -> None:
    outsider = Outsider(tables.client, tables.main)
    job: Job = OPERATIONS[operation].job(tables)
    (expected,) = OPERATIONS[operation].expected(job, [outsider.rows()])
    restart_at("rename")
    assert tables.run(job).error is None
    assert outsider.rows() == expected

    tables.run(OPERATIONS["major compaction"].job(tables))
    restart_at("delete_directory")
    assert len(tables.run(CleanJob(target=str(tables.main))).removed) >= 4
    assert outsider.rows() == expected
    assert outsider.left_over() == []
