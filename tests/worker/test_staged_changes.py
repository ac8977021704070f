"""Changes that are staged without a lock, and later published once, or discarded."""

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hiveacid.cli.main import main
from hiveacid.errors import (
    AccessRefused,
    CheckFailed,
    ConflictError,
    HiveAcidError,
    InvalidJob,
    OverlapRefused,
    StagedChangeRefused,
)
from hiveacid.jobs.checks import InRange, NotNull, Passes, References, RowCount, Unique
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.sources import TableSource
from hiveacid.jobs.stage_jobs import PublishJob, StageJob
from hiveacid.jobs.write_jobs import InsertJob, RestoreJob, TransactionJob, UpdateJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.thrift.session import Session
from hiveacid.progress import Phase
from hiveacid.records import staged_changes as records
from hiveacid.records.earlier_attempts import EarlierAttempts
from hiveacid.records.staged_changes import MANIFEST, StagedChangeFolder
from hiveacid.rules.constraints import NotNull as Required
from hiveacid.rules.constraints import TableConstraints
from hiveacid.rules.names import STAGED_CHANGES
from hiveacid.storage.folder import Storage
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.worker.staged_changes import publish_change, staged_changes
from tests.clocks import set_clock
from tests.observers import At
from tests.worker.staging import BEFORE, BOTH, FAKE4, LAYOUTS, NEW, Warehouse, changes


@pytest.fixture
def warehouse(client: MetastoreClient, database: str) -> Warehouse:
    return Warehouse(client, database)


# A layout concerns only files, and a version of the metastore only transactions.
VERSIONS = ("fake 4.0.1", "fake 3.1.3")


@pytest.mark.parametrize(
    "kind", ["insert", "overwrite", "whole table", "update", "delete", "merge"]
)
@pytest.mark.parametrize(
    ("hms", "layout"), [*zip(2 * VERSIONS, LAYOUTS, strict=True)], indirect=["hms"]
)
def test_a_change_is_visible_only_when_it_is_published(warehouse, layout, kind):
    warehouse.create(layout)
    if kind == "merge":
        warehouse.create_source()
    change, after = changes(warehouse.t)[kind]
    if kind == "overwrite" and layout != "plain":
        after = [*after, (3, "c", 2)]  # No row of its partition is given.
    if layout == "insert-only" and kind not in ("insert", "overwrite", "whole table"):
        with pytest.raises(HiveAcidError, match="insert-only"):
            warehouse.stage(change)
        warehouse.require_idle()
        return
    staged = warehouse.stage(change)
    assert warehouse.rows() == sorted(BEFORE)
    warehouse.require_idle()
    assert warehouse.hidden() == [staged.staged]
    assert [each.name for each in staged_changes(warehouse.client, warehouse.t)] == [staged.staged]
    warehouse.cleaned()
    report = warehouse.publish(staged)
    assert warehouse.rows() == sorted(after)
    assert (report.already_done, report.warnings) == (False, ())
    counts = ("rows_inserted", "rows_updated", "rows_deleted")
    assert [getattr(report, each) for each in counts] == [getattr(staged, each) for each in counts]
    again = warehouse.publish(staged)
    assert again.already_done
    assert again.txn_id == report.txn_id
    assert warehouse.rows() == sorted(after)
    assert warehouse.hidden() == []
    warehouse.require_idle()


# Changes of others in between


UPDATE = "UPDATE t SET v = 'x' WHERE id = 1"


@pytest.mark.parametrize(
    ("hms", "layout"),
    [*zip(VERSIONS, ["partitioned", "plain"], strict=True)],
    indirect=["hms"],
)
@pytest.mark.parametrize(
    ("kind", "other", "accepted"),
    [
        ("insert", UPDATE, True),
        ("insert", "INSERT OVERWRITE TABLE t VALUES (9, 'z', 1)", True),
        ("overwrite", "INSERT INTO t VALUES (9, 'z', 1)", False),
        ("overwrite", UPDATE, False),
        ("update", "INSERT INTO t VALUES (9, 'z', 1)", True),
        ("update", UPDATE, False),
        ("update", "DELETE FROM t WHERE id = 2", False),
        ("update", "INSERT OVERWRITE TABLE t VALUES (9, 'z', 1)", False),
        ("delete", "INSERT OVERWRITE TABLE t VALUES (9, 'z', 1)", False),
        ("merge", "INSERT INTO t VALUES (9, 'z', 1)", False),
        ("merge of matched", "INSERT INTO t VALUES (2, 'z', 1)", True),
        ("merge of matched", UPDATE, False),
        ("merge", "INSERT INTO u VALUES (9, 'z', 1)", False),
        ("merge", "DELETE FROM u WHERE id = 2", False),
        ("whole table", "INSERT INTO t VALUES (9, 'z', 9)", False),
        ("update", "ALTER TABLE t ADD COLUMNS (w int)", False),
        ("insert", "ALTER TABLE t ADD COLUMNS (w int)", False),
        ("insert", "ALTER TABLE t CHANGE COLUMN id id bigint", False),
        ("insert", "DROP TABLE t; CREATE TABLE t (id int, v string, k int)", False),
        ("merge", "DROP TABLE u; CREATE TABLE u (id int, v string, k int)", False),
        ("update", "ALTER TABLE t SET TBLPROPERTIES ('note'='x')", True),
    ],
)
def test_what_others_have_done_since_then_decides(warehouse, layout, kind, other, accepted):
    warehouse.create(layout)
    if kind.startswith("merge"):
        warehouse.create_source()
    change, _ = changes(warehouse.t)[kind]
    staged = warehouse.stage(change)
    if "VALUES" in other and "INTO t" not in other and layout == "partitioned":
        other = other.replace("TABLE t", "TABLE t PARTITION (k)")
    warehouse.sql(other)
    before = warehouse.rows()
    if accepted:
        assert not warehouse.publish(staged).already_done
        assert warehouse.rows() != before
        return
    with pytest.raises(ConflictError) as refused:
        warehouse.publish(staged)
    assert isinstance(refused.value, StagedChangeRefused)
    assert not refused.value.retryable
    assert warehouse.rows() == before
    warehouse.require_idle()
    if other.startswith("DROP TABLE t"):
        assert warehouse.hidden() == []
    else:
        assert warehouse.hidden() == [staged.staged]
        warehouse.discard(staged)
    assert warehouse.hidden() == []


@FAKE4
@pytest.mark.parametrize(
    ("other", "accepted"),
    [
        ("UPDATE t SET v = 'y' WHERE id = 2", True),
        ("UPDATE t SET v = 'y' WHERE id = 1", False),
        ("DELETE FROM t WHERE id = 1", False),
        ("INSERT OVERWRITE TABLE t VALUES (9, 'z', 1)", False),
        ("INSERT INTO t VALUES (9, 'z', 1)", True),
    ],
)
def test_the_policy_rows_compares_rows(warehouse, other, accepted):
    warehouse.create("plain")
    change = UpdateJob(target=warehouse.t, set={"v": "'x'"}, where="id = 1", conflict_policy="rows")
    staged = warehouse.stage(change)
    warehouse.sql(other)
    before = warehouse.rows()
    if accepted:
        warehouse.publish(staged)
        assert (1, "x", 1) in warehouse.rows()
    else:
        with pytest.raises(OverlapRefused):
            warehouse.publish(staged)
        assert warehouse.rows() == before


@FAKE4
@pytest.mark.parametrize("earlier", [False, True])
def test_a_compaction_in_between_does_not_matter_unless_it_hides_changes(warehouse, earlier):
    warehouse.create("plain")
    warehouse.sql("UPDATE t SET v = 'z' WHERE id = 3")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    if not earlier:
        warehouse.sql("UPDATE t SET v = 'y' WHERE id = 1")
    job = warehouse.job(CompactJob(target=warehouse.t, type="major"))
    with WorkerScheduler(1) as scheduler:
        (done,) = TableCompactor(scheduler, warehouse.client, job).run().partitions
    assert done.outcome == "compacted"
    warehouse.cleaned()
    assert warehouse.hidden() == [staged.staged]
    if earlier:
        warehouse.publish(staged)
        assert warehouse.rows() == [(1, "x", 1), (2, "x", 1), (3, "z", 2)]
    else:
        with pytest.raises(StagedChangeRefused, match="since then"):
            warehouse.publish(staged)
        assert (1, "y", 1) in warehouse.rows()


@BOTH
def test_a_dropped_partition_does_not_come_back(warehouse):
    warehouse.create("partitioned")
    for again in ("", "; ALTER TABLE t ADD PARTITION (k=1)"):
        staged = warehouse.stage(changes(warehouse.t)["update"][0])
        warehouse.sql("ALTER TABLE t DROP PARTITION (k=1)" + again)
        with pytest.raises(ConflictError):
            warehouse.publish(staged)
        assert warehouse.rows() == [(3, "c", 2)]
        warehouse.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1)")


@FAKE4
def test_new_constraints_are_refused(warehouse, monkeypatch):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])
    late = TableConstraints(not_null=[Required(column="v")])
    monkeypatch.setattr("hiveacid.writes.statement.constraints_on_writes", lambda *_: late)
    with pytest.raises(StagedChangeRefused, match="constraints"):
        warehouse.publish(staged)
    assert warehouse.rows() == BEFORE


# Exactly once


@FAKE4
@pytest.mark.parametrize("kind", ["insert", "update", "overwrite"])
@pytest.mark.parametrize(
    "phase", [Phase.LOCK, Phase.WRITE, Phase.REGISTER, Phase.PUBLISH, Phase.COMMIT]
)
def test_a_publication_that_is_killed_can_be_repeated(warehouse, kind, phase):
    warehouse.create("partitioned")
    change, after = changes(warehouse.t)[kind]
    after = [*after, (3, "c", 2)] if kind == "overwrite" else after
    staged = warehouse.stage(change)

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warehouse.publish(staged, At(phase, die))
    assert warehouse.rows() == sorted(BEFORE)
    warehouse.require_idle()
    assert not warehouse.publish(staged).already_done
    assert warehouse.rows() == sorted(after)
    assert warehouse.publish(staged).already_done
    assert warehouse.rows() == sorted(after)


@BOTH
def test_a_publication_that_dies_after_its_commit_is_found(warehouse, monkeypatch):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])
    commit = MetastoreClient.commit_txn

    def lost(client: MetastoreClient, txn_id: int) -> None:
        commit(client, txn_id)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MetastoreClient, "commit_txn", lost)
        with pytest.raises(KeyboardInterrupt):
            warehouse.publish(staged)
    after = warehouse.rows()
    assert len(after) == len(BEFORE) + 2
    assert warehouse.hidden() == [staged.staged]
    with pytest.raises(StagedChangeRefused, match="was published"):
        warehouse.discard(staged)
    assert warehouse.publish(staged).already_done
    assert (warehouse.rows(), warehouse.hidden()) == (after, [])


class Killed(BaseException):
    """The process ends."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any], int, bool], bool]:
    """Kill work before or after a call of the metastore; return whether it came to this call.

    Like that of a killed process, its cleaning up is not done.
    """

    def go(work: Callable[[], Any], number: int, after: bool) -> bool:
        invoke, calls = Session._invoke, [0]

        def counted(session: Session, *arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return invoke(session, *arguments, **options)
            calls[0] += 1
            if calls[0] > number or (calls[0] == number and not after):
                raise Killed
            answer = invoke(session, *arguments, **options)
            if calls[0] == number:
                raise Killed
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(Session, "_invoke", counted)
            with suppress(Killed, HiveAcidError):
                work()
        return calls[0] >= number

    return go


@FAKE4
@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("after", [False, True])
def test_a_publication_killed_at_any_call_is_repeated_once(warehouse, kill, after):
    warehouse.create("partitioned")
    before = warehouse.rows()
    number, reached = 0, True
    while reached:
        number += 1
        staged = warehouse.stage(InsertJob(target=warehouse.t, source=NEW, by_position=True))
        reached = kill(lambda staged=staged: warehouse.publish(staged), number, after)
        at_once = len(warehouse.rows()) - len(before)
        assert at_once in (0, 2)
        again = warehouse.publish(staged)
        assert again.already_done == (at_once == 2)
        before = sorted([*before, (2, "B", 1), (4, "D", 3)])
        assert warehouse.rows() == before
    assert number > 10
    warehouse.require_idle()
    warehouse.cleaned()
    assert warehouse.hidden() == []


@FAKE4
@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("after", [False, True])
def test_a_staging_killed_at_any_call_leaves_nothing_after_its_retry(warehouse, kill, after):
    warehouse.create("plain")
    change = UpdateJob(target=warehouse.t, set={"v": "'x'"}, where="id = 1")
    number, reached = 0, True
    while reached:
        number += 1
        run = f"d/{number}/killed/-1"
        reached = kill(lambda run=run: warehouse.stage(change, run=run), number, after)
        staged = warehouse.stage(change, run=run)
        assert warehouse.rows() == BEFORE
        assert [each.name for each in staged_changes(warehouse.client, warehouse.t)] == [
            staged.staged
        ]
        warehouse.require_idle()
        warehouse.discard(staged)
    assert number > 10
    warehouse.cleaned()
    assert warehouse.hidden() == []


@FAKE4
def test_a_run_is_staged_anew_until_it_is_published(warehouse):
    warehouse.create("plain")
    change, _ = changes(warehouse.t)["insert"]
    first = warehouse.stage(change, run="d/r/t/-1")
    second = warehouse.stage(change, run="d/r/t/-1")
    assert warehouse.hidden() == [second.staged]
    with pytest.raises(StagedChangeRefused, match="no staged change"):
        warehouse.publish(first)
    warehouse.publish(second)
    third = warehouse.stage(change, run="d/r/t/-1")
    assert third.already_done
    assert warehouse.publish(third).already_done
    assert len(warehouse.rows()) == len(BEFORE) + 2


@FAKE4
@pytest.mark.parametrize("phase", [Phase.READ, Phase.WRITE, Phase.PUBLISH])
def test_a_killed_staging_leaves_nothing(warehouse, phase, monkeypatch):
    warehouse.create("plain")
    change, _ = changes(warehouse.t)["update"]

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warehouse.stage(change, At(phase, die))
    warehouse.require_idle()
    assert warehouse.hidden() == []


@FAKE4
def test_a_staging_whose_transaction_is_lost_leaves_nothing(warehouse):
    warehouse.create("plain")

    def lose() -> None:
        for txn in warehouse.client.get_open_txns_info():
            if txn.state is TxnState.OPEN:
                warehouse.client.abort_txn(txn.txn_id)

    with pytest.raises(ConflictError):
        warehouse.stage(changes(warehouse.t)["update"][0], At(Phase.PUBLISH, lose))
    assert warehouse.hidden() == []
    assert staged_changes(warehouse.client, warehouse.t) == []


@FAKE4
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_cleaning_before_the_manifest_spares_the_files_of_a_live_staging(
    warehouse, monkeypatch, is_lost
):
    warehouse.create("plain")
    write = Storage.write_file

    def late(storage: Storage, path: str, content: bytes, **options: Any) -> None:
        if path.endswith(MANIFEST):
            for txn in warehouse.client.get_open_txns_info() if is_lost else ():
                warehouse.client.abort_txn(txn.txn_id)
            warehouse.cleaned()
            assert len(warehouse.hidden()) == 2 - 2 * is_lost  # With the folder of the engine.
        write(storage, path, content, **options)

    monkeypatch.setattr(Storage, "write_file", late)
    change, after = changes(warehouse.t)["update"]
    if is_lost:
        with pytest.raises(ConflictError):
            warehouse.stage(change)
        assert (warehouse.rows(), warehouse.hidden()) == (BEFORE, [])
    else:
        warehouse.publish(warehouse.stage(change))
        assert warehouse.rows() == after


@FAKE4
def test_a_manifest_without_its_files_cannot_be_published(warehouse):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    folder = warehouse.folder() / STAGED_CHANGES / staged.staged
    for file in folder.iterdir():
        if file.name != MANIFEST:
            file.unlink()
    with pytest.raises(StagedChangeRefused, match="is missing"):
        warehouse.publish(staged)
    warehouse.discard(staged)
    assert (warehouse.rows(), warehouse.hidden()) == (BEFORE, [])


# The end without a publication


@FAKE4
def test_a_discarded_change_cannot_be_published(warehouse):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    assert not warehouse.discard(staged).already_done
    assert warehouse.discard(staged).already_done
    assert warehouse.hidden() == []
    with pytest.raises(StagedChangeRefused, match="discarded"):
        warehouse.publish(staged)
    assert warehouse.rows() == BEFORE


@BOTH
@pytest.mark.parametrize("phase", [Phase.LOCK, Phase.WRITE, Phase.PUBLISH, Phase.COMMIT])
def test_a_discard_during_a_publication_ends_it(warehouse, phase):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    with pytest.raises(ConflictError):
        warehouse.publish(staged, At(phase, lambda: warehouse.discard(staged)))
    assert (warehouse.rows(), warehouse.hidden()) == (BEFORE, [])
    warehouse.require_idle()


def _age(warehouse: Warehouse, name: str, age: timedelta) -> None:
    """Give the manifests of a staged change an age, by the clock of their storage."""
    for manifest in warehouse.folder().rglob(f"{STAGED_CHANGES}/{name}/{MANIFEST}"):
        then = time.time() - age.total_seconds()
        os.utime(manifest, (then, then))


@FAKE4
@pytest.mark.parametrize("ahead_days", [-10, 0, 2])
def test_a_cleaning_removes_expired_changes_only(warehouse, monkeypatch, ahead_days):
    warehouse.create("partitioned")
    set_clock(monkeypatch.setattr, [timedelta(days=ahead_days)])
    staged = warehouse.stage(changes(warehouse.t)["update"][0], expires_after="1 h")
    warehouse.cleaned()
    assert warehouse.hidden() == [staged.staged]
    _age(warehouse, staged.staged, timedelta(hours=1.5))
    with pytest.raises(StagedChangeRefused, match="expired"):
        warehouse.publish(staged)
    warehouse.cleaned()
    assert warehouse.hidden() == [staged.staged]
    monkeypatch.setattr(records, "GRACE", timedelta())
    report = clean(warehouse.client, warehouse.job(CleanJob(target=warehouse.t, dry_run=True)))
    assert [each.path for each in report.removed]
    assert warehouse.hidden() == [staged.staged]
    warehouse.cleaned()
    assert warehouse.hidden() == []
    assert warehouse.rows() == BEFORE


@FAKE4
@pytest.mark.parametrize(("stager", "others"), [(-10, 10), (10, -10)])
def test_a_change_can_be_published_until_it_expires(warehouse, monkeypatch, stager, others):
    """Neither the clock of the process that staged it counts, nor those of later processes."""
    warehouse.create("plain")
    change, after = changes(warehouse.t)["update"]
    with monkeypatch.context() as patched:
        set_clock(patched.setattr, [timedelta(days=stager)])
        staged = warehouse.stage(change, expires_after="2 days")
    expires = datetime.fromisoformat(staged.expires) - datetime.now(UTC)
    assert timedelta(days=1.9) < expires <= timedelta(days=2)
    set_clock(monkeypatch.setattr, [timedelta(days=others)])
    for hours in (0, 47):
        _age(warehouse, staged.staged, timedelta(hours=hours))
        warehouse.cleaned()
        assert warehouse.hidden() == [staged.staged]
    warehouse.publish(staged)
    assert (warehouse.rows(), warehouse.hidden()) == (after, [])


@FAKE4
def test_a_cleaning_removes_what_a_discard_has_left(warehouse):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    (warehouse.folder() / STAGED_CHANGES / staged.staged / MANIFEST).unlink()
    assert staged_changes(warehouse.client, warehouse.t) == []
    warehouse.cleaned()
    assert warehouse.hidden() == []


@FAKE4
def test_a_damaged_manifest_is_listed_until_it_is_discarded(warehouse, capsys):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    (warehouse.folder() / STAGED_CHANGES / staged.staged / MANIFEST).write_text("{}")
    capsys.readouterr()
    assert main(["staged", warehouse.t, "--metastore", warehouse.client.options.uris]) == 0
    listed = capsys.readouterr().out.splitlines()[-1]
    assert listed.startswith(f"{staged.staged}: The manifest")
    assert listed.endswith("Discard it.")
    warehouse.cleaned()
    assert warehouse.hidden() == [staged.staged]
    warehouse.discard(staged)
    assert warehouse.hidden() == []


@FAKE4
@pytest.mark.parametrize("expires", ["9999-12-31T23:59:59+00:00", "9999-12-31T23:59:59-14:00"])
def test_a_cleaning_survives_any_expiry(warehouse, expires):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["update"][0])
    file = warehouse.folder() / STAGED_CHANGES / staged.staged / MANIFEST
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"expires": expires}))
    warehouse.cleaned()
    assert warehouse.hidden() == [staged.staged]
    warehouse.discard(staged)
    assert warehouse.hidden() == []


@FAKE4
def test_a_cleaning_removes_a_published_change_before_the_proof_of_it(warehouse, monkeypatch):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])
    with monkeypatch.context() as patched:
        patched.setattr(StagedChangeFolder, "remove", lambda *_: None)
        warehouse.publish(staged)
    assert warehouse.hidden() == [staged.staged]
    warehouse.cleaned()
    assert warehouse.hidden() == []
    assert len(warehouse.rows()) == len(BEFORE) + 2


@FAKE4
def test_a_discard_that_was_killed_still_ends_a_publication(warehouse, monkeypatch):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])

    def discard_twice() -> None:
        def die(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(EarlierAttempts, "end", die)
            with pytest.raises(KeyboardInterrupt):
                warehouse.discard(staged)
        warehouse.discard(staged)

    with pytest.raises(ConflictError):
        warehouse.publish(staged, At(Phase.REGISTER, discard_twice))
    assert (warehouse.rows(), warehouse.hidden()) == (BEFORE, [])
    warehouse.require_idle()


@FAKE4
@pytest.mark.parametrize("layout", ["plain", "partitioned"])
def test_a_change_without_rows_can_be_published(warehouse, layout):
    warehouse.create(layout)
    staged = warehouse.stage(UpdateJob(target=warehouse.t, set={"v": "'x'"}, where="id = 77"))
    assert warehouse.publish(staged).rows_updated == 0
    assert warehouse.rows() == BEFORE
    assert warehouse.hidden() == []
    assert warehouse.publish(staged).already_done
    # Now there are rows: a run that changed nothing is evaluated again.
    change = UpdateJob(target=warehouse.t, set={"v": "'x'"}, where="id = 1")
    again = warehouse.stage(change, run="d/1/t/-1")
    assert not again.already_done
    assert warehouse.hidden() == [again.staged]
    warehouse.cleaned()
    assert warehouse.hidden() == [again.staged]
    assert not warehouse.publish(again).already_done
    assert (1, "x", 1) in warehouse.rows()


@FAKE4
def test_a_renamed_table_is_another_one(warehouse):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])
    warehouse.sql("ALTER TABLE t RENAME TO t2")
    named = replace(staged, target=f"{warehouse.database}.t2", tables=())
    with pytest.raises(StagedChangeRefused, match="renamed"):
        warehouse.publish(named)
    warehouse.discard(named)
    assert warehouse.hidden("t2") == []


# Several tables, checks, and refused changes


@BOTH
def test_a_transaction_of_several_tables_is_published_together(warehouse):
    warehouse.create("partitioned")
    warehouse.create_source()
    change = TransactionJob(
        statements=(
            UpdateJob(target=warehouse.t, set={"v": "'x'"}, where="k = 1"),
            InsertJob(target=warehouse.u, source=TableSource(warehouse.t), by_position=True),
            InsertJob(target=warehouse.u, source=NEW, by_position=True),
        )
    )
    u = warehouse.rows("u")
    staged = warehouse.stage(change)
    assert warehouse.hidden() == warehouse.hidden("u") == [staged.staged]
    alone = PublishJob(target=warehouse.u, staged=staged.staged)
    with pytest.raises(StagedChangeRefused, match="not only"):
        publish_change(warehouse.client, warehouse.job(alone))
    assert warehouse.rows("u") == u
    report = warehouse.publish(staged)
    assert report.job == "transaction"
    assert warehouse.rows() == [(1, "x", 1), (2, "x", 1), (3, "c", 2)]
    assert warehouse.rows("u") == sorted([*u, *BEFORE, (2, "B", 1), (4, "D", 3)])
    assert warehouse.hidden() == warehouse.hidden("u") == []


@FAKE4
def test_a_publication_is_known_by_the_notes_of_each_table(warehouse):
    warehouse.create("plain")
    warehouse.create_source()
    update = UpdateJob(target=warehouse.t, set={"v": "'x'"}, where="k = 1")
    insert = InsertJob(target=warehouse.u, source=NEW, by_position=True)
    staged = warehouse.stage(TransactionJob(statements=(update, insert)))
    report = warehouse.publish(staged)
    warehouse.sql("DROP TABLE t; CREATE TABLE t (id int, v string, k int)")
    again = warehouse.publish(staged)
    assert (again.already_done, again.txn_id) == (True, report.txn_id)
    assert warehouse.rows() == []


@FAKE4
def test_a_publication_that_another_one_has_overtaken_can_be_repeated(warehouse):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])
    with pytest.raises(ConflictError) as overtaken:
        warehouse.publish(staged, At(Phase.WRITE, lambda: warehouse.publish(staged)))
    assert overtaken.value.retryable
    assert warehouse.publish(staged).already_done
    assert len(warehouse.rows()) == len(BEFORE) + 2


@FAKE4
@pytest.mark.parametrize("dropped", ["t", "u"])
def test_the_rest_of_a_change_of_dropped_tables_can_be_discarded(warehouse, dropped):
    warehouse.create("plain")
    warehouse.create_source()
    change = TransactionJob(
        statements=(
            UpdateJob(target=warehouse.t, set={"v": "'x'"}, where="k = 1"),
            InsertJob(target=warehouse.u, source=NEW, by_position=True),
        )
    )
    staged = warehouse.stage(change)
    warehouse.sql(f"DROP TABLE {dropped}")
    left = "u" if dropped == "t" else "t"
    rows = warehouse.rows(left)
    with pytest.raises(StagedChangeRefused, match="dropped"):
        warehouse.publish(staged)
    warehouse.discard(staged)
    assert (warehouse.rows(left), warehouse.hidden(left)) == (rows, [])


@FAKE4
def test_checks_run_at_the_publication_and_counts_also_before(warehouse):
    warehouse.create("plain")
    insert, _ = changes(warehouse.t)["insert"]
    with pytest.raises(CheckFailed):
        warehouse.stage(replace(insert, checks=[RowCount(max=1)]))
    assert warehouse.hidden() == []
    checks = [RowCount(max=9), NotNull(columns=["id"]), Unique(columns=["id"], whole_table=True)]
    staged = warehouse.stage(replace(insert, checks=checks))
    with pytest.raises(CheckFailed):
        warehouse.publish(staged)
    assert warehouse.rows() == BEFORE
    warehouse.sql("DELETE FROM t WHERE id = 2")
    report = warehouse.publish(staged)
    assert [each.passed for each in report.checks] == [True, True, True]


@FAKE4
def test_changes_that_cannot_be_staged_are_refused(warehouse):
    t = warehouse.t
    insert, _ = changes(t)["insert"]
    for change in (
        replace(insert, conflict_policy="strict"),
        replace(insert, checks=[Passes(function="os:getcwd")]),
        InsertJob(target=t, source=NEW, merge_schema=True),
        InsertJob(
            target=t,
            source=NEW,
            quarantine=warehouse.u,
            checks=[InRange(column="id", max=3, severity="quarantine")],
        ),
        RestoreJob(target=t, as_of="1"),
        CompactJob(target=t),
    ):
        with pytest.raises(InvalidJob):
            StageJob(change=change).validate()
    with pytest.raises(InvalidJob):
        StageJob(change=insert, expires_after="0").validate()
    with pytest.raises(InvalidJob):
        PublishJob(target=t, staged="../x").validate()


# Manifests of other users


def _set(record: Any, path: Sequence[Any], value: Any) -> None:
    *above, last = path
    for key in above:
        record = record[key]
    record[last] = value


FILE = ("statements", 0, "inputs", 0, "groups", 0, "files", 0)


@FAKE4
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*FILE, "path"), "../../t/x"),
        ((*FILE, "path"), "/etc/passwd"),
        ((*FILE, "path"), "0/nothing"),
        ((*FILE, "path"), "0/\ud800"),
        ((*FILE, "bytes"), 7),
        ((*FILE, "bucket"), -1),
        ((*FILE, "bucket"), 10**9),
        (("statements", 0, "inputs", 0, "replace"), True),
        (("statements", 0, "inputs", 0, "width"), 1),
        (("statements", 0, "inputs", 0, "groups", 0, "partition"), "k=1/../../x"),
        (("statements", 0, "inputs", 0, "groups", 0, "partition"), "z=1"),
        (("statements", 0, "inputs", 0, "groups", 0, "partition"), None),
        (("statements", 0, "inputs", 0, "groups", 0, "files"), []),
        (("statements", 0, "operation"), "select"),
        (("statements", 0, "operation"), "overwrite"),
        (("statements", 0, "table", "name"), "other.table"),
        (("statements", 0, "constraints"), None),
        (("statements", 0, "codec"), "rot13"),
        (("statements", 0, "report", "rows_inserted"), 7),
        (("statements", 0, "reads"), ["other.table"]),
        (("statements",), []),
        (("run_token",), "d/other/t/-1"),
        (("write_ids",), {}),
        (("write_ids",), {"a.b": "nonsense"}),
        (("expires",), "never"),
        (("expires",), "2000-01-01"),
        (("conflict_policy",), "none"),
        (("checks",), [{"kind": "passes", "function": "os:getcwd"}]),
        (("checks",), [{"kind": "holds", "sql": "1=1", "trusted": True}]),
        (("txn_id",), 1),
    ],
)
def test_forged_manifests_are_refused(warehouse, path, value):
    warehouse.create("partitioned")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])
    file = warehouse.folder() / STAGED_CHANGES / staged.staged / MANIFEST
    record = json.loads(file.read_bytes())
    _set(record, path, value)
    file.write_text(json.dumps(record))
    with pytest.raises(HiveAcidError):
        warehouse.publish(staged)
    assert warehouse.rows() == BEFORE
    warehouse.require_idle()
    warehouse.cleaned()
    warehouse.discard(staged)
    assert warehouse.hidden() == []


@FAKE4
def test_links_are_not_followed(warehouse, tmp_path):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])
    folder = warehouse.folder() / STAGED_CHANGES / staged.staged
    (found,) = folder.rglob("*.orc")
    secret = tmp_path / "secret"
    secret.write_bytes(found.read_bytes())
    found.unlink()
    found.symlink_to(secret)
    with pytest.raises(StagedChangeRefused):
        warehouse.publish(staged)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StagedChangeRefused):
        warehouse.publish(staged)
    warehouse.cleaned()
    assert (tmp_path / "elsewhere").exists()
    assert warehouse.rows() == BEFORE


# The command


@FAKE4
def test_the_command_lists_publishes_and_discards(warehouse, capsys):
    warehouse.create("plain")
    change, _ = changes(warehouse.t)["insert"]
    first, second = warehouse.stage(change), warehouse.stage(change)

    def hiveacid(*arguments: str, status: int = 0) -> Any:
        capsys.readouterr()
        uri = warehouse.client.options.uris
        command = ["staged", warehouse.t, *arguments, "--metastore", uri]
        assert main([*command, "--json"]) == main(command) == status
        lines = capsys.readouterr().out.splitlines()
        return json.loads(lines[0]) if lines else None

    listed = hiveacid()["staged"]
    assert [each["name"] for each in listed] == [first.staged, second.staged]
    assert (listed[0]["rows_inserted"], listed[0]["job"]) == (2, "insert")
    row = {"_change_type": "insert", "id": 2, "v": "B", "k": 1}
    assert hiveacid("--rows", first.staged, "--limit", "1") == row
    assert hiveacid("--publish", first.staged)["rows_inserted"] == 2
    assert hiveacid("--discard", second.staged)["job"] == "discard"
    assert hiveacid()["staged"] == []
    assert len(warehouse.rows()) == len(BEFORE) + 2
    hiveacid("--publish", second.staged, status=10)
    hiveacid("--publish", "x", status=20)


# Permissions


def refuse_ends(*, action: str, **_: Any) -> bool:
    return action not in ("publish", "discard")


def refuse_secret(*, table: str, **_: Any) -> bool:
    return not table.endswith(".u")


@FAKE4
@pytest.mark.parametrize("action", ["--publish", "--discard"])
def test_the_authorizer_is_asked_for_each_end(warehouse, monkeypatch, action, capsys):
    warehouse.create("plain")
    staged = warehouse.stage(changes(warehouse.t)["insert"][0])
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_ends")
    uri = warehouse.client.options.uris
    assert main(["staged", warehouse.t, "--metastore", uri]) == 0
    assert main(["staged", warehouse.t, action, staged.staged, "--metastore", uri]) == 20
    assert f"may not {action[2:]} {warehouse.t}" in capsys.readouterr().err
    assert (warehouse.rows(), warehouse.hidden()) == (BEFORE, [staged.staged])


@FAKE4
def test_the_publisher_needs_access_to_the_tables_of_checks(warehouse, monkeypatch):
    warehouse.create("plain")
    warehouse.create_source()
    insert, _ = changes(warehouse.t)["insert"]
    check = References(columns=["id"], to=warehouse.u)
    staged = warehouse.stage(replace(insert, checks=[check]))
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_secret")
    with pytest.raises(AccessRefused, match="may not read"):
        warehouse.publish(staged)
    monkeypatch.delenv("AIRFLOW__HIVE_ACID__AUTHORIZER")
    assert warehouse.publish(staged).checks[0].passed
