"""The results of compactions in a table's directories and rows, on real metastores of both
versions."""

from typing import Any

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import WrongTableKind
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.run_options import Place
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.progress import Phase
from hiveacid.rules.schema import TableKind
from hiveacid.spark import parallel
from hiveacid.spark.compaction import compact_table
from tests.engine.acid_tables import create, folder, left_behind, row_ids
from tests.engine.compaction_case import LEFT, Case
from tests.observers import At


@pytest.fixture(params=["worker", "spark"])
def run_in(request: pytest.FixtureRequest) -> Place:
    return request.param


HIVE4, HIVE3 = ("hms", ["4.0.1"]), ("hms", ["3.1.3"])


def test_a_major_compaction_makes_a_base_of_everything(busy, hms):
    report = busy.compact("major")
    (done,) = report.partitions
    assert (done.outcome, done.type, done.rows) == ("compacted", "major", 3), report
    (base,) = done.published
    suffix = f"_v{done.txn_id:07d}" if hms.version.startswith("4") else ""
    assert base == f"base_0000004{suffix}"
    assert busy.rows() == LEFT
    assert busy.problems() == []
    files = {path.name for path in (folder(busy.client.get_table(busy.ref)) / base).iterdir()}
    hidden = {"_orc_acid_version", "_hiveacid.json", "_hiveacid_since.json"}
    hidden |= set() if suffix else {"_metadata_acid"}
    assert files == {"bucket_00000", *hidden}
    assert left_behind(busy.client) == []


@pytest.mark.parametrize(*HIVE4, indirect=True)
def test_a_minor_compaction_joins_inserts_and_deletes_apart(busy):
    before = {
        (kind, key) for kind in ("delta", "delete_delta") for key in row_ids(*_of(busy, kind))
    }
    (done,) = busy.compact("minor").partitions
    v = f"_v{done.txn_id:07d}"
    assert set(done.published) == {f"delta_0000001_0000004{v}", f"delete_delta_0000001_0000004{v}"}
    assert (done.rows, done.deletes) == (4, 1)
    assert busy.rows() == LEFT
    assert busy.problems() == []
    after = {(kind, key) for kind in ("delta", "delete_delta") for key in row_ids(*_of(busy, kind))}
    assert after == before


def _of(case: Case, kind: str) -> tuple[Any, str]:
    return case.client.get_table(case.ref), kind


@pytest.mark.parametrize(*HIVE3, indirect=True)
def test_a_minor_compaction_with_deletes_becomes_major_for_hive_3(busy):
    (done,) = busy.compact("minor").partitions
    assert (done.type, done.published) == ("major", ("base_0000004",))
    assert "two directories" in done.warnings[0]
    assert busy.rows() == LEFT


def test_a_minor_compaction_of_inserts_is_one_directory(make):
    case = make()
    for number in range(3):
        case.append((number, "a", "x"))
    (done,) = case.compact("minor").partitions
    (delta,) = done.published
    assert delta.startswith("delta_0000001_0000003")
    assert case.rows() == [(number, "a", "x") for number in range(3)]
    assert "changes nothing" in case.compact("minor").partitions[0].reason or (
        case.compact("minor").partitions[0].outcome == "skipped"
    )


def test_a_base_of_nothing_hides_all_that_was_deleted(busy):
    busy.change(lambda table: table.delete(all_rows=True))
    (done,) = busy.compact("major").partitions
    assert done.rows == 0
    assert busy.rows() == []
    root = folder(busy.client.get_table(busy.ref))
    assert (root / done.published[0] / "bucket_00000").stat().st_size > 0
    busy.append((9, "z", "x"))
    assert busy.rows() == [(9, "z", "x")]


def test_compacted_tables_can_be_changed_and_compacted_again(busy):
    busy.compact("major")
    busy.change(lambda table: table.update({"v": "'new'"}, "id = 3"))
    busy.append((5, "e", "x"))
    rows = [(1, "a", "x"), (3, "new", "y"), (4, "d", "y"), (5, "e", "x")]
    assert busy.rows() == rows
    busy.compact("minor")
    assert busy.rows() == rows
    busy.compact("major")
    assert busy.rows() == rows
    assert busy.problems() == []


def test_rows_of_an_aborted_write_never_get_into_a_base(busy):
    class Fails(Exception):
        pass

    def fail():
        raise Fails

    with busy.open(At(Phase.COMMIT, fail)) as table, pytest.raises(Fails):
        table.append(busy.frame((7, "lost", "x")))
    busy.append((8, "kept", "x"))
    busy.compact("major")
    assert busy.rows() == [*LEFT, (8, "kept", "x")]


def test_only_what_is_below_the_smallest_open_write_id_is_compacted(busy):
    def work():
        (done,) = busy.compact("major").partitions
        assert done.published[0].startswith("base_0000004")

    with busy.open(At(Phase.COMMIT, work)) as table:
        table.append(busy.frame((5, "e", "x")))
    assert busy.rows() == [*LEFT, (5, "e", "x")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", ["minor", "major"])
def test_writers_do_not_wait_for_a_compaction_and_lose_nothing_by_it(busy, type_):
    def write():
        busy.append((5, "e", "x"))
        busy.change(lambda table: table.update({"v": "'new'"}, "id = 1"))
        source = busy.frame((3, "merged", "y"), (6, "f", "x"))
        busy.change(
            lambda table: (
                table.merge(source, "t.id = s.id")
                .when_matched_update(set={"v": "s.v"})
                .when_not_matched_insert_all()
                .execute()
            )
        )

    (done,) = busy.compact(type_, At(Phase.PUBLISH, write)).partitions
    assert done.outcome == "compacted", done
    rows = [(1, "new", "x"), (3, "merged", "y"), (4, "d", "y"), (5, "e", "x"), (6, "f", "x")]
    assert busy.rows() == rows
    busy.compact("major")
    assert busy.rows() == rows


def test_of_two_compactors_at_once_one_lets_the_other_do_it(busy):
    others = []
    (done,) = busy.compact(
        "major", At(Phase.PUBLISH, lambda: others.append(busy.compact("major")))
    ).partitions
    assert done.outcome == "compacted"
    (other,) = others[0].partitions
    assert other.outcome == "skipped"
    assert sum(name.startswith("base_") for name in busy.directories()) == 1
    assert busy.rows() == LEFT


def test_partitions_are_compacted_each_by_itself_and_a_failure_stays_alone(make):
    case = make(keys={"p": "string"})
    for number in range(2):
        case.append(*[(number, "a", name) for name in ("good", "bad", "fine")])
    root = folder(case.client.get_table(case.ref))
    broken = next((root / "p=bad").glob("delta_*_0000002_*/bucket_*"))
    broken.write_bytes(broken.read_bytes()[:-20])
    before = set(case.directories())

    report = case.compact("major")
    outcomes = {done.partition: done.outcome for done in report.partitions}
    assert outcomes == {"p=good": "compacted", "p=bad": "failed", "p=fine": "compacted"}, report
    assert report.error is not None
    assert "p=bad" in report.error.message
    (failed,) = [done for done in report.partitions if done.error is not None]
    assert failed.error is not None
    assert str(broken.relative_to(root)) in failed.error.message
    assert before <= set(case.directories())
    assert not any(name.startswith("p=bad/base") for name in case.directories())
    assert not list(root.rglob("_tmp_hiveacid_*"))
    assert left_behind(case.client) == []


def test_small_partitions_are_compacted_without_tasks_of_spark(busy, monkeypatch):
    monkeypatch.setattr(parallel, "DRIVER_BYTES", 1 << 20)
    monkeypatch.setattr(parallel, "in_groups", None)
    assert busy.compact("major", run_in="spark").error is None
    assert (busy.rows(), busy.problems()) == (LEFT, [])


def test_buckets_stay_what_they_are(make):
    case = make(bucket_columns=["id"], num_buckets=3)
    for number in range(4):
        case.append(*[(number * 10 + step, "a", "x") for step in range(10)])
    case.change(lambda table: table.delete("id % 7 = 0"))
    table = case.client.get_table(case.ref)
    before = set(row_ids(table, "delta")) - set(row_ids(table, "delete_delta"))
    rows = case.rows()
    case.compact("major")
    assert case.rows() == rows
    assert set(row_ids(table, "base")) == before
    assert case.problems() == []


@pytest.mark.sampled(1)
def test_the_policy_compacts_partitions_with_a_reason(make):
    case = make(keys={"p": "string"})
    for number in range(12):
        case.append((number, "a", "much"), *([(number, "a", "little")] if number < 2 else []))
    report = case.compact()
    by_partition = {done.partition: done for done in report.partitions}
    assert (by_partition["p=much"].outcome, by_partition["p=much"].type) == ("compacted", "major")
    assert "12" in by_partition["p=much"].reason
    assert by_partition["p=little"].outcome == "skipped"
    assert "2" in by_partition["p=little"].reason
    assert len(case.rows()) == 14


def test_plain_tables_are_refused(make, spark, hms, client, database):
    create(client, f"{database}.plain", {"id": "int"}, kind=TableKind.NOT_ACID)
    with (
        AcidTable(f"{database}.plain", hms.uri, spark=spark, run_in="spark") as table,
        pytest.raises(WrongTableKind),
    ):
        table.compact("major")


@pytest.mark.parametrize(*HIVE4, indirect=True)
def test_a_worker_serves_what_others_asked_for(make, spark):
    case = make(keys={"p": "string"})
    for number in range(2):
        case.append((number, "a", "one"), (number, "a", "two"))
    queue = CompactionQueue(case.client)
    for name, type_ in (("p=one", "major"), ("p=two", "minor")):
        assert queue.request(case.ref, name, type_, pool=None, run_as=None).accepted
    job = CompactJob(target=case.name, mode="serve", run_in=case.run_in)
    report = compact_table(lambda: spark, case.client, job)
    served = {done.partition: (done.outcome, done.type) for done in report.partitions}
    assert served == {"p=one": ("compacted", "major"), "p=two": ("compacted", "minor")}
    states = {entry.partition: entry.state for entry in queue.show(case.ref)}
    assert states == {"p=one": "ready for cleaning", "p=two": "ready for cleaning"}
    assert len(case.rows()) == 4


@pytest.mark.parametrize(*HIVE3, indirect=True)
def test_hive_3_has_no_queue_to_use(busy, spark):
    from hiveacid.errors import UnsupportedMetastore

    job = CompactJob(target=busy.name, mode="queue")
    with pytest.raises(UnsupportedMetastore, match="queue"):
        compact_table(lambda: spark, busy.client, job)
