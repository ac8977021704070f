"""A table with changes that are staged, and a table that they read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hiveacid.cli.main import main
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.stage_jobs import DiscardJob, PublishJob, StageJob, StageReport
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import STAGED_CHANGES, STAGING_PREFIX, TableRef
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.run import ChangeJob, change_rows
from hiveacid.worker.staged_changes import discard_change, publish_change, stage_change
from tests.places import place_of
from tests.rows import unordered_rows_of

FAKE4 = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
BOTH = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)

LAYOUTS = {
    "plain": "CREATE TABLE t (id int, v string, k int)",
    "partitioned": "CREATE TABLE t (id int, v string) PARTITIONED BY (k int)",
    "bucketed": "CREATE TABLE t (id int, v string) PARTITIONED BY (k int)"
    " CLUSTERED BY (id) INTO 3 BUCKETS",
    "insert-only": "CREATE TABLE t (id int, v string) PARTITIONED BY (k int)"
    " TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
}
BEFORE = [(1, "a", 1), (2, "b", 1), (3, "c", 2)]
NEW = QuerySource("VALUES (2, 'B', 1), (4, 'D', 3)")
Row = tuple[Any, ...]


class Warehouse:
    """A table t with its changes, and a table u that some of them read."""

    def __init__(self, client: MetastoreClient, database: str) -> None:
        self.client, self.database = client, database
        self.t, self.u = f"{database}.t", f"{database}.u"
        self._runs = 0

    def sql(self, script: str) -> None:
        arguments = ["sql", script, "--database", self.database, "--run-in", "worker"]
        assert main([*arguments, "--metastore", self.client.options.uris]) == 0

    def create(self, layout: str) -> None:
        values = ", ".join(map(str, BEFORE))
        self.sql(f"{LAYOUTS[layout]}; INSERT INTO t VALUES {values}")

    def create_source(self) -> None:
        """Create the table u, which merges read."""
        self.sql(f"CREATE TABLE u (id int, v string, k int); INSERT INTO u {NEW.sql}")

    def job(self, job: Job, **changes: Any) -> Any:
        return replace(job, metastore=self.client.options, **changes)

    def stage(
        self, change: ChangeJob, *observers: Any, run: str | None = None, **options: Any
    ) -> Any:
        self._runs += 1
        token = run or f"d/{self._runs}/t/-1"
        job = StageJob(change=replace(change, run_in="worker"), **options)
        return stage_change(self.client, self.job(job, run_token=token), observers)

    def publish(self, staged: StageReport, *observers: Any) -> Any:
        job = PublishJob.of(staged.to_dict(), lock_wait_seconds=0)
        return publish_change(self.client, self.job(job), observers)

    def discard(self, staged: StageReport) -> Any:
        return discard_change(self.client, self.job(DiscardJob.of(staged.to_dict())))

    def change(self, job: ChangeJob) -> Any:
        return change_rows(self.client, self.job(replace(job, run_in="worker")))

    def rows(self, name: str = "t") -> list[Row]:
        found = unordered_rows_of(self.client.options.uris, f"{self.database}.{name}")
        return sorted(tuple(row.values()) for row in found)

    def folder(self, name: str = "t") -> Path:
        return Path(place_of(self.client.get_table(TableRef(self.database, name)).folder))

    def hidden(self, name: str = "t") -> list[str]:
        """The staged changes, and what other hidden folders of transactions are left."""
        folder = self.folder(name)
        staged = folder / STAGED_CHANGES
        names = [each.name for each in staged.iterdir()] if staged.exists() else []
        return names + [each.name for each in folder.rglob(f"{STAGING_PREFIX}*")]

    def require_idle(self) -> None:
        """Nobody has a lock or an open transaction."""
        ref = TableRef.parse(self.t)
        assert not self.client.show_locks(ref)
        assert not [txn for txn in self.client.get_open_txns_info() if txn.state is TxnState.OPEN]

    def cleaned(self) -> None:
        clean(self.client, self.job(CleanJob(target=self.t, retention="0")))


def changes(t: str) -> dict[str, tuple[ChangeJob, list[Row]]]:
    merged = [(1, "a", 1), (2, "B", 1), (3, "c", 2), (4, "D", 3)]
    return {
        "insert": (
            InsertJob(target=t, source=NEW, by_position=True),
            [*BEFORE, (2, "B", 1), (4, "D", 3)],
        ),
        "overwrite": (
            InsertJob(target=t, source=NEW, by_position=True, overwrite=True),
            [(2, "B", 1), (4, "D", 3)],
        ),
        "whole table": (
            InsertJob(target=t, source=NEW, by_position=True, overwrite=True, whole_table=True),
            [(2, "B", 1), (4, "D", 3)],
        ),
        "update": (
            UpdateJob(target=t, set={"v": "'x'"}, where="id < 3"),
            [(1, "x", 1), (2, "x", 1), (3, "c", 2)],
        ),
        "delete": (DeleteJob(target=t, where="id = 1"), BEFORE[1:]),
        "merge": (
            MergeJob(
                target=t,
                source=TableSource(t.replace(".t", ".u")),
                on="t.id = s.id",
                when=(MatchedUpdate(), NotMatchedInsert()),
            ),
            merged,
        ),
        "merge of matched": (
            MergeJob(
                target=t,
                source=TableSource(t.replace(".t", ".u")),
                on="t.id = s.id",
                when=(MatchedUpdate(),),
            ),
            [(1, "a", 1), (2, "B", 1), (3, "c", 2)],
        ),
    }
