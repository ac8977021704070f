"""kill -9 of jobs on an S3 store: all or nothing shows, and a cleaning leaves nothing behind."""

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.spark.run import run
from hiveacid.storage.folder import Storage
from hiveacid.storage.uploads import Upload, Uploads
from tests.faults.submitted_driver import json_source, run_driver
from tests.faults.test_kill_while_merging import (  # noqa: F401
    metastore,
    test_after_a_kill_all_or_nothing_shows_and_one_retry_completes_it,
)
from tests.s3.test_writes import OLD, Table, table  # noqa: F401

pytestmark = pytest.mark.s3
COMMITTED = "commit:kill:after"


@pytest.mark.parametrize("fault", ["register:kill", "publish:kill:after", COMMITTED])
def test_after_the_kill_of_an_insert_a_cleaning_leaves_nothing(
    table: Table,  # noqa: F811
    spark: SparkSession,
    fault: str,
    tmp_path: Path,
) -> None:
    new = {"id": 9, "v": "new", "p": "x"}
    job = InsertJob(
        target=table.name,
        metastore=table.hms.options,
        source=json_source(tmp_path / "rows.json", [new]),
        run_token=f"an insert that is killed at {fault}",
    )
    status, errors = run_driver(job, fault, tmp_path)
    assert status == -signal.SIGKILL, errors
    assert any("delta_0000002" in path for path in table.left()) is (fault == "register:kill")
    report = run(spark, job)
    assert report.already_done is (fault == COMMITTED)
    assert table.rows() == [*OLD, tuple(new.values())]
    table.clean()
    assert table.left() == []
    assert table.rows() == [*OLD, tuple(new.values())]


@pytest.mark.parametrize("fault", ["register:kill", "publish:kill:after", COMMITTED])
@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_after_the_kill_of_a_compaction_the_next_one_completes_it(
    hms: EmbeddedMetastore,
    table: Table,  # noqa: F811
    spark: SparkSession,
    fault: str,
    tmp_path: Path,
) -> None:
    table.run(lambda _, acid: acid.delete("id = 2"))
    rows = table.rows()
    job = CompactJob(
        target=table.name,
        type="major",
        partitions=("p=x",),
        metastore=hms.options,
        run_token=f"a compaction that is killed at {fault}",
    )
    status, errors = run_driver(job, fault, tmp_path)
    assert status == -signal.SIGKILL, errors
    assert table.rows() == rows
    (done,) = run(spark, job).partitions
    assert done.outcome == ("skipped" if fault == COMMITTED else "compacted")
    table.clean()
    assert table.rows() == rows
    assert table.left() == []
    names = Storage.of(table.location).list_directories("p=x")
    assert [name for name in names if name.startswith("delta_")] == []
    assert len([name for name in names if name.startswith("base_")]) == 1


class Killed(HiveAcidError):
    """An exception that represents a kill."""


@pytest.mark.parametrize("appeared", [0, 1, 4])
def test_an_overwrite_that_dies_when_some_files_have_appeared_shows_the_rows_from_before(
    table: Table,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    appeared: int,
) -> None:
    left = [None] * appeared

    def complete(self: Uploads, upload: Upload, *, really: object = Uploads.complete) -> None:
        try:
            left.pop()  # Several appear at a time.
        except IndexError:
            raise Killed("killed") from None
        really(self, upload)  # type: ignore[operator]

    def commit(_: LiveTransaction) -> None:
        raise Killed("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Uploads, "complete", complete)
        patch.setattr(LiveTransaction, "commit", commit)
        # A dead process removes nothing.
        patch.setattr(LiveTransaction, "_remove_owned", lambda _: None)
        with pytest.raises(Killed):
            table.run(lambda self, acid: acid.overwrite(self.frame((6, "new", "x"), (7, "n", "y"))))
    assert table.rows() == OLD
    table.clean()
    assert table.rows() == OLD
    assert table.left() == []
