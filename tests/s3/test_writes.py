"""Writes on an S3 store: published files were uploaded to their places before, and never copied."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import CheckFailed, HiveAcidError
from hiveacid.jobs.checks import Holds, NoRows, Unique
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.catalog import StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.heartbeat import Heartbeat
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.names import STAGING_PREFIX, TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import Storage
from hiveacid.storage.uploads import Upload, Uploads
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import create
from tests.observers import At
from tests.rows import rows_of
from tests.s3.store import S3Store

pytestmark = pytest.mark.s3
SCHEMA = "id int, v string, p string"
OLD = [(1, "old", "x"), (2, "old", "x"), (3, "old", "y")]
Change = Callable[["Table", AcidTable], Any]


class Table:
    """A table on the store."""

    def __init__(
        self, spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, name: str
    ) -> None:
        self.spark, self.hms, self.client, self.name = spark, hms, client, name
        self.location = client.get_table(TableRef.parse(name)).folder

    def run(self, change: Change, *observers: PhaseObserver, **options: Any) -> Any:
        known = WriteOptions(lock_wait_seconds=30, **options)
        with AcidTable(
            self.name,
            self.hms.uri,
            spark=self.spark,
            run_in="spark",
            options=known,
            observers=observers,
        ) as table:
            return change(self, table)

    def frame(self, *rows: tuple[Any, ...]) -> Any:
        return self.spark.createDataFrame(list(rows), SCHEMA).coalesce(1)

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in rows_of(self.hms.uri, self.name)]

    def clean(self) -> None:
        job = CleanJob(target=self.name, metastore=self.hms.options, retention="0")
        clean(self.client, job)
        assert clean(self.client, job).kept == ()

    def left(self) -> list[str]:
        """Return unused files: staging folders, and uploads that were not completed."""
        uploads = Uploads.of(self.location)
        assert uploads is not None
        staged = [
            file.path
            for file in Storage.of(self.location).list_files(recursive=True)
            if STAGING_PREFIX in file.path
        ]
        return [*staged, *(pending.path for pending in uploads.pending())]


@pytest.fixture
def table(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Table:
    create(client, f"{database}.t", {"id": "int", "v": "string"}, {"p": "string"})
    made = Table(spark, hms, client, f"{database}.t")
    made.run(lambda self, acid: acid.append(self.frame(*OLD)))
    return made


def merge(table: Table, acid: AcidTable) -> Any:
    source = table.frame((1, "new", "x"), (5, "new", "z"))
    merging = acid.merge(source, "t.id = s.id AND t.p = s.p").when_matched_update_all()
    return merging.when_not_matched_insert_all().execute()


def append(table: Table, acid: AcidTable) -> Any:
    return acid.append(table.frame((4, "new", "z")))


def delete(table: Table, acid: AcidTable) -> Any:
    return acid.delete("id = 2")


def overwrite(table: Table, acid: AcidTable) -> Any:
    return acid.overwrite(table.frame((6, "new", "x")))


MERGED = [(1, "new", "x"), *OLD[1:], (5, "new", "z")]
CHANGES: dict[str, tuple[Change, list[tuple[Any, ...]]]] = {
    "append": (append, [*OLD, (4, "new", "z")]),
    "delete": (delete, [OLD[0], OLD[2]]),
    "merge": (merge, MERGED),
    "overwrite": (overwrite, [OLD[2], (6, "new", "x")]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_checks_read_what_the_store_has_received(table: Table, what: str) -> None:
    change, rows = CHANGES[what]
    satisfied = (Unique(columns=["id"], whole_table=True), Holds(sql="v <> 'odd'"))
    violated = (NoRows(sql="SELECT id FROM t WHERE id > 2", inputs={"t": TableSource(table.name)}),)
    with pytest.raises(CheckFailed, match="no_rows"):
        table.run(change, run_token="a", checks=(*satisfied, *violated))
    assert (table.rows(), table.left()) == (OLD, [])
    report = table.run(change, run_token="b", checks=satisfied)
    assert [each.passed for each in report.checks] == [True, True]
    again = table.run(change, run_token="b", checks=satisfied)
    assert (again.already_done, again.checks) == (True, report.checks)
    assert (table.rows(), table.left()) == (rows, [])


@pytest.mark.parametrize("what", CHANGES)
def test_publishing_copies_nothing(table: Table, s3: S3Store, what: str) -> None:
    change, rows = CHANGES[what]
    table.run(change, At(Phase.PUBLISH, s3.proxy.reset), run_token="d/r/t/-1")
    counted = s3.proxy.requests
    assert counted["CompleteMultipartUpload"] > 0
    assert counted["CopyObject"] == counted["UploadPartCopy"] == 0
    # Two notes beside the files, and one on the run.
    assert s3.proxy.sent < 10_000
    assert table.rows() == rows
    assert table.left() == []


@pytest.mark.parametrize("what", CHANGES)
def test_nothing_is_ever_copied(table: Table, s3: S3Store, what: str) -> None:
    change, rows = CHANGES[what]
    s3.proxy.reset()
    table.run(change)
    assert s3.proxy.requests["CompleteMultipartUpload"] > 0
    assert s3.proxy.requests["CopyObject"] == s3.proxy.requests["UploadPartCopy"] == 0
    assert table.rows() == rows
    assert table.left() == []


@pytest.mark.parametrize("form", ["PARQUET", "ORC", "TEXTFILE"])
def test_nothing_of_an_insert_only_table_is_ever_copied(
    table: Table, client: MetastoreClient, database: str, s3: S3Store, form: str
) -> None:
    columns = {"id": "int", "v": "string", "p": "string"}
    kind, stored = TableKind.INSERT_ONLY, StorageFormat[form]
    create(client, f"{database}.i", columns, kind=kind, format=stored)
    table = Table(table.spark, table.hms, client, f"{database}.i")
    s3.proxy.reset()
    table.run(lambda self, acid: acid.append(self.frame(*OLD)))
    assert s3.proxy.requests["CopyObject"] == s3.proxy.requests["UploadPartCopy"] == 0
    seen = table.run(lambda _, acid: sorted(map(tuple, acid.to_df().collect())))
    assert seen == OLD
    assert table.left() == []


def test_publishing_rows_of_an_insert_only_table_copies_nothing(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str, s3: S3Store
) -> None:
    columns = {"id": "int", "v": "string", "p": "string"}
    create(client, f"{database}.t", columns, kind=TableKind.INSERT_ONLY)
    table = Table(spark, hms, client, f"{database}.t")
    table.run(lambda self, acid: acid.append(self.frame(*OLD)), At(Phase.PUBLISH, s3.proxy.reset))
    assert s3.proxy.requests["CopyObject"] == 0
    assert table.rows() == OLD
    assert table.left() == []


@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
@pytest.mark.parametrize("type_", ["minor", "major"])
def test_publishing_what_was_compacted_copies_nothing(
    table: Table, s3: S3Store, type_: Literal["minor", "major"]
) -> None:
    table.run(lambda self, acid: acid.append(self.frame((4, "new", "x"))))
    table.run(delete)
    rows = table.rows()
    counts = At(Phase.PUBLISH, s3.proxy.reset)
    report = table.run(lambda _, acid: acid.compact(type_, partitions=["p=x"]), counts)
    assert [each.outcome for each in report.partitions] == ["compacted"]
    assert s3.proxy.requests["CompleteMultipartUpload"] > 0
    assert s3.proxy.requests["CopyObject"] == s3.proxy.requests["UploadPartCopy"] == 0
    assert table.rows() == rows
    table.clean()
    assert table.rows() == rows
    assert table.left() == []


def test_changes_beside_others_upload_for_the_write_id_that_they_hope_for(
    table: Table, s3: S3Store
) -> None:
    hopes = [table.run(merge, conflict_policy="rows")]
    # Another writer is first: the files are made again, with another write id.
    other = At(Phase.WRITE, lambda: table.run(append))
    hopes.append(table.run(delete, other, conflict_policy="rows"))
    assert [report.rows_deleted for report in hopes] == [0, 1]
    assert table.rows() == sorted([MERGED[0], *MERGED[2:], (4, "new", "z")])
    assert table.left() == []


@pytest.mark.parametrize("what", ["delete", "merge", "overwrite"])
@pytest.mark.parametrize("phase", [Phase.REGISTER, Phase.COMMIT])
def test_transactions_lost_before_their_commit_are_committed_again(
    table: Table, monkeypatch: pytest.MonkeyPatch, phase: Phase, what: str
) -> None:
    change, rows = CHANGES[what]
    before = {txn.txn_id for txn in table.client.get_open_txns_info()}

    def expire() -> None:
        monkeypatch.setattr(Heartbeat, "silence", 1e6)
        for txn in table.client.get_open_txns_info():
            if txn.txn_id not in before:
                table.client.abort_txn(txn.txn_id)

    report = table.run(change, At(phase, expire), run_token="d/r/t/-1")
    assert report.commit_retry is not None
    assert table.rows() == rows
    table.clean()
    assert table.rows() == rows
    assert table.left() == []


def test_a_writer_paused_during_a_cleaning_publishes_nothing(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = Uploads.complete
    asleep = [True]

    def waking_up_late(self: Uploads, upload: Upload) -> None:
        if asleep:
            asleep.clear()
            for txn in table.client.get_open_txns_info():
                table.client.abort_txn(txn.txn_id)
            table.clean()
        complete(self, upload)

    monkeypatch.setattr(Uploads, "complete", waking_up_late)
    with pytest.raises(HiveAcidError):
        table.run(merge)
    assert not asleep
    assert table.rows() == OLD
    assert table.left() == []
    files = Storage.of(table.location).list_files(recursive=True)
    assert not [file.path for file in files if "delta_0000002" in file.path]


def test_a_cleaning_removes_uploads_without_an_owner(table: Table) -> None:
    uploads = Uploads.of(table.location)
    assert uploads is not None
    left = [
        "p=x/delta_0000001_0000001_0000/bucket_00009",
        "p=x/delta_0000001_0000001_0000/_hiveacid.json",
        "p=x/base_0000001_v0000001/bucket_00000",
        f"{STAGING_PREFIX}1_a/flat1/part-0",
    ]
    hoped = "p=x/delta_0000007_0000007_0000/bucket_00000"
    strange = "p=x/landing/part-0"
    for path in (*left, hoped, strange):
        with uploads.begin(path) as file:
            file.write(b"a driver that was killed")
    job = CleanJob(target=table.name, metastore=table.hms.options, dry_run=True, retention="0")
    would = [removed.path for removed in clean(table.client, job).removed]
    assert sorted(would) == sorted(left)
    table.clean()
    assert sorted(table.left()) == sorted([hoped, strange])
    assert table.rows() == OLD


# Version 3.1 would show a base before it is complete.
@pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)
def test_a_table_is_compacted_and_cleaned_without_java(
    table: Table, hiveacid_without_java: Callable[..., dict[str, Any]]
) -> None:
    table.run(append)
    table.run(append)
    table.run(delete)
    rows = table.rows()
    planned = hiveacid_without_java("plan", table.name, "--max-deltas", "1")["partitions"]
    assert {each["run_in"] for each in planned if each["type"]} == {"worker"}
    for type_ in ("minor", "major"):
        words = ("compact", table.name, "--type", type_, "--run-in", "worker")
        outcomes = [each["outcome"] for each in hiveacid_without_java(*words)["partitions"]]
        assert "compacted" in outcomes
        assert "failed" not in outcomes
        assert table.rows() == rows
    assert hiveacid_without_java("clean", table.name, "--retention", "0")["removed"] != []
    assert table.rows() == rows
    assert table.left() == []
