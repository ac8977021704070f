"""The errors before the start of Spark: with the class and the text of the job's own error."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.drivers.checks import Preflight
from hiveacid.drivers.driver_files import DriverFiles
from hiveacid.errors import (
    HiveAcidError,
    MetastoreUnreachable,
    StorageError,
    TableNotFound,
    UnknownColumn,
    UserError,
    VersionGone,
    VersionUnknown,
    WrongTableKind,
)
from hiveacid.jobs.definition_jobs import TruncateJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import (
    BatchSource,
    ChangesSource,
    PathSource,
    QuerySource,
    TableSource,
)
from hiveacid.jobs.stream_job import StreamJob, StreamSource
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Owner, open_transaction
from hiveacid.records.run_notes import NoteFile, RunNote, write_note
from hiveacid.rules.merge import (
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.survey import compactable
from hiveacid.upkeep.table_cleaning import clean
from tests.fakes.metastore import FakeMetastore
from tests.upkeep.acid_folders import AcidFolders

COLUMNS = [HiveColumn("id", "int"), HiveColumn("status", "string"), HiveColumn("tags", "string")]
KEYS = [HiveColumn("day", "string")]
Check = Callable[[Job], list[str]]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeMetastore]:
    """Tables of every kind."""
    with FakeMetastore("4.0.1", directory=tmp_path_factory.mktemp("shop")) as metastore:
        with MetastoreClient(metastore.options) as client:
            client.create_database("shop")
            for name, kind in (
                ("orders", TableKind.FULL_ACID),
                ("feed", TableKind.NOT_ACID),
                ("log", TableKind.INSERT_ONLY),
            ):
                keys = KEYS if name == "orders" else []
                table = HiveTable.new(
                    TableRef("shop", name), COLUMNS, partition_keys=keys, kind=kind
                )
                client.create_table(table)
            keys = [HiveColumn("day", "date"), HiveColumn("n", "int")]
            days = HiveTable.new(TableRef("shop", "days"), COLUMNS, partition_keys=keys)
            client.create_table(days)
            partition = HivePartition.new(days, ["2026-01-01", "7"])
            client.add_partitions(days.ref, [partition])
            fields = [HiveColumn("id", "int"), HiveColumn("t", "struct<ref:int>")]
            client.create_table(HiveTable.new(TableRef("shop", "nested"), fields))
        yield metastore


@pytest.fixture
def client(shop: FakeMetastore) -> Iterator[MetastoreClient]:
    with MetastoreClient(shop.options) as client:
        yield client


@pytest.fixture
def check(client: MetastoreClient) -> Check:
    """Check a job; return the checks that were left to it."""

    def run(job: Job) -> list[str]:
        left: list[str] = []
        Preflight(client, DriverFiles(here=True, plain_paths=True), left.append).check(job)
        return left

    return run


MERGE = MergeJob(
    target="shop.orders",
    source=TableSource("shop.feed"),
    on="t.id = s.id",
    when=[MatchedUpdate({"status": "s.status"}), NotMatchedInsert({"id": "s.id", "day": "'1'"})],
)
UPDATE = UpdateJob(target="shop.orders", set={"status": "upper(t.status)"}, where="t.id > 0")
DELETE = DeleteJob(target="shop.orders", where="t.id = 1")
INSERT = InsertJob(target="shop.log", source=TableSource("shop.feed"))
QUERY = QuerySource("SELECT id, status FROM f", {"f": TableSource("shop.feed")})
FEED_CHANGES = QuerySource(
    "SELECT max(id) AS id FROM c WHERE _change_type = 'insert' HAVING id > 1",
    {"c": ChangesSource("shop.orders", "0", "0")},
)
STREAM = StreamJob(
    name="feed",
    source=StreamSource("rate"),
    statements=[replace(INSERT, source=BatchSource())],
    checkpoint="file:/checkpoints/feed",
)


@pytest.mark.parametrize(
    "job",
    [
        MERGE,
        UPDATE,
        DELETE,
        INSERT,
        STREAM,
        TransactionJob(statements=[MERGE, INSERT]),
        CompactJob(target="shop.orders"),
        # Served from a queue, which only the job reads.
        CompactJob(target="shop.gone", mode="serve"),
        RestoreJob(target="shop.orders", as_of="0"),
        RestoreJob(target="shop.orders", as_of="2026-03-01T12:00:00"),
        replace(INSERT, target="shop.orders", source=TableSource("shop.orders", as_of="0")),
        replace(
            INSERT,
            source=QuerySource("VALUES (1, 'a', array('b', 'c')), (2, ')', null)"),
            by_position=True,
        ),
        replace(INSERT, source=PathSource("s3a://b/f", "csv", schema="id int, STATUS string")),
        TruncateJob(target="shop.days", partition={"DAY": "2026-01-01"}),
        TruncateJob(target="shop.days", partition={"n": "07"}),
        replace(INSERT, target="shop.days", static={"day": "2026-1-2", "n": " 7 "}),
        replace(MERGE, when=[MatchedUpdate({"`Status`": "T.`STATUS`"})]),
        replace(MERGE, when=[MatchedUpdate({"new": "s.new"})], merge_schema=True),
        replace(MERGE, source=QuerySource("SELECT x.* FROM x"), on="t.id = s.whatever"),
        # A field of the source's column t, as Spark resolves it.
        replace(
            MERGE, source=TableSource("shop.nested"), on="t.id = t.ref", when=[MatchedDelete()]
        ),
        replace(
            MERGE,
            source=QuerySource("SELECT named_struct('ref', 1) AS t"),
            on="t.id = t.ref",
            when=[MatchedDelete()],
        ),
        replace(MERGE, source=PathSource("s3a://bucket/feed", "json"), on="t.id = t.ref"),
        replace(
            DELETE,
            where="id IN (SELECT t.ref FROM n)",
            inputs={"n": TableSource("shop.nested")},
        ),
        replace(DELETE, where="exists(array(1), t -> t.x = 1) OR t._metadata.file_size > 0"),
        replace(DELETE, where="day = current_date OR exists(array(1), x -> x > id)"),
        replace(DELETE, where="datediff(DAY, tags, status) > 1 AND tags.field.deeper = 1"),
        replace(
            DELETE, where="id IN (SELECT x FROM n)", inputs={"n": PathSource("s3a://b", "orc")}
        ),
        replace(UPDATE, set={"status": "DEFAULT", "tags": "status"}),
        replace(INSERT, source=FEED_CHANGES, by_position=True, columns=["id"]),
        replace(INSERT, source=PathSource("/nowhere/*.json", "json")),
        replace(INSERT, source=PathSource("hdfs://nn/nowhere", "json")),
        replace(INSERT, source=PathSource("file://host/nowhere", "json")),
    ],
)
def test_possibly_valid_jobs_pass_silently(job: Job, check: Check) -> None:
    assert check(job) == []


@pytest.mark.parametrize(
    ("job", "error", "message"),
    [
        (
            replace(DELETE, target="shop.ordres"),
            TableNotFound,
            r"shop.ordres does not exist\. Did you mean shop.orders\?",
        ),
        (replace(DELETE, target="shp.orders"), TableNotFound, r"Did you mean shop\?"),
        (replace(DELETE, target="shop.feed"), WrongTableKind, "shop.feed is not a transactional"),
        (replace(UPDATE, target="shop.log"), WrongTableKind, "update is not possible"),
        (replace(MERGE, target="shop.log"), WrongTableKind, "merge is not possible"),
        (
            replace(UPDATE, set={"statsu": "1"}),
            UnknownColumn,
            r"^The update of shop.orders sets statsu, but shop.orders has no such column. "
            r"Did you mean status\? The columns are id, status, tags, day.$",
        ),
        (
            replace(UPDATE, set={"status": "t.statsu"}),
            UnknownColumn,
            "the value of column status names an unknown column: t.statsu.",
        ),
        (
            replace(DELETE, where="t.idd = 1 AND t.x = 2"),
            UnknownColumn,
            r"^The condition 't.idd = 1 AND t.x = 2' names an unknown column: t.idd, t.x.",
        ),
        (
            replace(MERGE, on="t.order_id = s.id"),
            UnknownColumn,
            "^The merge condition names an unknown column: t.order_id.",
        ),
        (
            replace(MERGE, on="t.id = s.ids"),
            UnknownColumn,
            r"^The merge condition names an unknown column: s.ids. Did you mean id\?",
        ),
        (
            replace(MERGE, source=PathSource("s3a://b/f", "csv"), on="t.idd = s.id"),
            UnknownColumn,
            "t.idd",
        ),
        (
            replace(MERGE, source=QUERY, when=[MatchedDelete("t.gone = 1")]),
            UnknownColumn,
            "^A condition of the merge names an unknown column: t.gone.",
        ),
        (
            replace(MERGE, when=[NotMatchedInsert({"idd": "1"})]),
            UnknownColumn,
            "^An insert clause of the merge sets idd",
        ),
        (
            replace(MERGE, when=[NotMatchedBySourceUpdate({"status": "t.nope"})]),
            UnknownColumn,
            "^An update clause of the merge: the value of column status names an unknown",
        ),
        (
            replace(MERGE, when=[NotMatchedInsert(row=["1", "2"])]),
            UnknownColumn,
            "has 2 values, but shop.orders has 4 columns",
        ),
        (
            replace(INSERT, source=TableSource("shop.nested")),
            UnknownColumn,
            "^The insert into shop.log sets t, but shop.log has no such column",
        ),
        (
            replace(INSERT, source=QUERY, by_position=True, columns=["id", "nope"]),
            UnknownColumn,
            "sets nope",
        ),
        (replace(INSERT, source=TableSource("shop.fed")), TableNotFound, r"mean shop.feed\?"),
        (
            replace(INSERT, source=QuerySource("SELECT 1", {"x": TableSource("shop.x")})),
            TableNotFound,
            "shop.x does not exist",
        ),
        (
            replace(INSERT, source=TableSource("shop.feed", as_of="1")),
            WrongTableKind,
            "shop.feed is not transactional: it has no versions",
        ),
        (replace(INSERT, source=ChangesSource("shop.feed", "1")), WrongTableKind, "no versions"),
        (
            replace(INSERT, target="shop.orders", source=QUERY, partitions=[{"dya": "1"}]),
            UserError,
            "is partitioned by day, not by dya",
        ),
        (
            replace(INSERT, target="shop.orders", source=QUERY, static={"dya": "1"}),
            UserError,
            "a value for dya, which is not one of the partition keys day",
        ),
        (replace(INSERT, source=QUERY, dynamic=["day"]), UserError, "is partitioned by nothing"),
        (
            TruncateJob(target="shop.orders", partition={"d": "1"}),
            UserError,
            "shop.orders has no partition key d",
        ),
        (CompactJob(target="shop.feed"), WrongTableKind, "is not a transactional table"),
        (
            CompactJob(target="shop.orders", partitions=["day=2"]),
            UserError,
            "shop.orders has no partition day=2. It has none",
        ),
        (
            RestoreJob(target="shop.orders", as_of="7"),
            VersionUnknown,
            "shop.orders has no version 7: its newest one is 0",
        ),
        (
            RestoreJob(target="shop.orders", as_of="2999-01-01"),
            VersionUnknown,
            "2999-01-01",
        ),
        (
            replace(INSERT, source=TableSource("shop.log", as_of="3")),
            VersionUnknown,
            "shop.log has no version 3: its newest one is 0",
        ),
        (
            replace(INSERT, source=ChangesSource("shop.log", "0", "5")),
            VersionUnknown,
            "shop.log has no version 5",
        ),
        (
            replace(INSERT, source=QuerySource("VALUES (1, 'a')"), by_position=True),
            UnknownColumn,
            "The insert into shop.log has 2 values for 3 columns: id, status, tags",
        ),
        (
            replace(
                INSERT,
                target="shop.orders",
                source=QuerySource("VALUES (1, 'a', null, 'b')"),
                by_position=True,
                partitions=[{"day": "1"}],
            ),
            UnknownColumn,
            "has 4 values for 3 columns",
        ),
        (
            replace(INSERT, source=PathSource("s3a://b/f", "csv", schema="id int, statsu string")),
            UnknownColumn,
            r"sets statsu, but shop.log has no such column. Did you mean status\?",
        ),
        (replace(STREAM, target="shop.x"), TableNotFound, "shop.x does not exist"),
        (
            replace(STREAM, source=StreamSource("json", {"path": "/nowhere"}, "id int")),
            StorageError,
            "/nowhere: the path does not exist",
        ),
        (
            replace(INSERT, source=PathSource("/no/where", "json")),
            StorageError,
            r"^The source /no/where: the path does not exist. Check the path of the source.$",
        ),
        (
            replace(MERGE, source=QuerySource("TABLE f", {"f": PathSource("file:///no", "csv")})),
            StorageError,
            "The source file:///no",
        ),
        (TransactionJob(statements=[INSERT, replace(DELETE, where="t.x")]), UnknownColumn, "t.x"),
    ],
)
def test_errors_of_spark_are_found_before_it_starts(
    job: Job, error: type[HiveAcidError], message: str, check: Check
) -> None:
    with pytest.raises(error, match=message):
        check(job)


def test_an_unreachable_metastore_is_reported(check: Check) -> None:
    options = MetastoreOptions(uris="thrift://127.0.0.1:9", connect_timeout_seconds=1)
    with MetastoreClient(options) as client, pytest.raises(MetastoreUnreachable):
        Preflight(client, DriverFiles(), print).check(DELETE)


def test_checks_that_only_the_driver_can_make_are_left_to_it() -> None:
    options = MetastoreOptions(uris="thrift://127.0.0.1:9", token_env="NO_SUCH_TOKEN")
    with MetastoreClient(options) as client:
        Preflight(client, DriverFiles(), print).check(replace(DELETE, metastore=options))


def test_neither_a_transaction_nor_a_lock_is_taken(client: MetastoreClient, check: Check) -> None:
    before = client.get_open_txns_info()
    check(TransactionJob(statements=[MERGE, INSERT], run_token="run"))
    with pytest.raises(UnknownColumn):
        check(replace(DELETE, where="t.x = 1", run_token="run"))
    assert client.get_open_txns_info() == before
    assert client.show_locks() == []


def test_an_empty_folder_is_refused_only_if_it_has_to_show_the_columns(
    check: Check, tmp_path: Path
) -> None:
    empty = replace(INSERT, source=PathSource(f"file:{tmp_path}", "csv", {"header": "true"}))
    with pytest.raises(StorageError, match="the folder is empty, so that its columns are unknown"):
        check(empty)
    assert check(replace(empty, source=replace(empty.source, schema="id int"))) == []
    (tmp_path / "part.csv").write_text("id\n1\n")
    assert check(empty) == []


def test_a_version_that_was_cleaned_is_refused(client: MetastoreClient, check: Check) -> None:
    ref = TableRef("shop", "cleaned")
    client.create_table(HiveTable.new(ref, COLUMNS))
    folders = AcidFolders(client, ref)
    _ = folders.insert(), folders.insert()
    insert = replace(INSERT, source=TableSource("shop.cleaned", as_of="1"))
    assert check(insert) == []
    folders.make("base_0000002")
    with pytest.raises(VersionGone, match=r"Version 1 of .* is not available"):
        check(insert)
    with pytest.raises(VersionGone):
        check(RestoreJob(target="shop.cleaned", as_of="1"))
    assert check(replace(INSERT, source=TableSource("shop.cleaned", as_of="2"))) == []


WRONG = replace(DELETE, where="t.x = 1", run_token="d/r/task/-1")


def test_a_run_that_may_have_been_applied_is_left_to_the_job(
    client: MetastoreClient, check: Check
) -> None:
    with pytest.raises(UnknownColumn):
        check(WRONG)
    table = client.get_table(TableRef("shop", "orders"))
    assert WRONG.token is not None
    note = RunNote(
        run_token=WRONG.token,
        txn_id=1,
        write_id=1,
        identity=table.identity,
        directories=(),
        report=RunReport(job="delete", target="shop.orders"),
    )
    file = NoteFile.new(note)
    write_note(Storage.of(table.folder), file)
    assert "names an unknown column: t.x" in check(WRONG)[0]
    with pytest.raises(UnknownColumn):
        check(replace(WRONG, run_token="d/r/other/-1"))
    Storage.of(table.folder).delete_file(file.path)


def test_a_run_whose_earlier_try_is_still_open_is_left_to_the_job(
    client: MetastoreClient, check: Check
) -> None:
    owner = Owner.of(WRONG.token, client.user)
    txn = open_transaction(client, owner)
    assert "names an unknown column: t.x" in check(WRONG)[0]
    client.abort_txn(txn)
    with pytest.raises(UnknownColumn):
        check(WRONG)


def test_a_missing_table_fails_the_run_in_any_case(check: Check) -> None:
    with pytest.raises(TableNotFound):
        check(replace(WRONG, target="shop.gone"))


@pytest.mark.parametrize(
    "look",
    [
        lambda client: clean(client, CleanJob(target="shop.ordrs")),
        lambda client: compactable(client, TableRef("shop", "ordrs")),
    ],
    ids=["clean", "compact"],
)
def test_jobs_without_spark_name_the_missing_table(
    look: Callable[[MetastoreClient], object], client: MetastoreClient
) -> None:
    with pytest.raises(TableNotFound, match=r"Did you mean shop.orders\?"):
        look(client)
