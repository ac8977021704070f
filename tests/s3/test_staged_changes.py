"""Staged changes on an object store, where no folder can be renamed."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import StagedChangeRefused
from hiveacid.jobs.stage_jobs import StageJob, StageReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.records.staged_changes import StagedChangeFolder
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from hiveacid.storage.folder import Storage
from hiveacid.worker.staged_changes import staged_changes
from tests.s3.store import S3Store
from tests.worker.staging import BEFORE, Warehouse, changes

pytestmark = pytest.mark.s3


@pytest.fixture
def warehouse(client: MetastoreClient, database: str) -> Warehouse:
    return Warehouse(client, database)


def location(warehouse: Warehouse) -> str:
    return warehouse.client.get_table(TableRef.parse(warehouse.t)).folder


@pytest.mark.parametrize("kind", ["insert", "overwrite", "update", "delete", "merge"])
def test_a_change_is_visible_only_when_it_is_published(
    warehouse: Warehouse, s3: S3Store, kind: str
) -> None:
    warehouse.create("partitioned")
    change, after = changes(warehouse.t)[kind]
    if kind == "overwrite":
        after = [*after, (3, "c", 2)]  # No row of its partition is given.
    staged = warehouse.stage(change)
    assert (warehouse.rows(), warehouse.hidden()) == (sorted(BEFORE), [staged.staged])
    assert s3.uploads(location(warehouse)) == []
    warehouse.require_idle()
    warehouse.cleaned()
    with AcidTable(warehouse.t, warehouse.client.options, run_in="worker") as table:
        assert len(table.staged(staged.staged)) > 0
    report = warehouse.publish(staged)
    assert warehouse.rows() == sorted(after)
    assert (report.warnings, warehouse.hidden()) == ((), [])
    assert s3.uploads(location(warehouse)) == []
    assert warehouse.publish(staged).already_done
    warehouse.require_idle()


def test_a_change_that_is_discarded_is_gone(warehouse: Warehouse) -> None:
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    warehouse.discard(staged)
    assert (warehouse.rows(), warehouse.hidden()) == (BEFORE, [])
    assert warehouse.discard(staged).already_done
    with pytest.raises(StagedChangeRefused):
        warehouse.publish(staged)


@pytest.mark.parametrize("at", ["move", "manifest"])
def test_a_staging_that_is_killed_leaves_nothing(
    warehouse: Warehouse, s3: S3Store, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    warehouse.create("plain")

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "write_file" if at == "manifest" else "rename", die)
        patched.setattr(StagedChangeFolder, "remove", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            warehouse.stage(changes(warehouse.t)["update"][0])
    assert staged_changes(warehouse.client, warehouse.t) == []
    warehouse.require_idle()
    warehouse.cleaned()
    assert (warehouse.rows(), warehouse.hidden()) == (BEFORE, [])
    assert s3.uploads(location(warehouse)) == []


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
@pytest.mark.parametrize("kind", ["merge", "insert"])
def test_a_worker_publishes_what_spark_has_staged(
    warehouse: Warehouse, s3: S3Store, spark: SparkSession, kind: str
) -> None:
    warehouse.create("partitioned")
    change, after = changes(warehouse.t)[kind]
    change = replace(change, run_in="auto")
    job = StageJob(change=change, metastore=warehouse.client.options, run_token="d/s/t/-1")
    staged = run(spark, job)
    assert isinstance(staged, StageReport)
    assert (warehouse.rows(), warehouse.hidden()) == (sorted(BEFORE), [staged.staged])
    with AcidTable(warehouse.t, warehouse.client.options, spark=spark) as table:
        assert len(table.staged(staged.staged)) == {"merge": 3, "insert": 2}[kind]
    warehouse.publish(staged)
    assert (warehouse.rows(), warehouse.hidden()) == (sorted(after), [])
    assert s3.uploads(location(warehouse)) == []
