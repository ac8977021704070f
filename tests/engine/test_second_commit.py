"""Files whose transaction is lost at its commit are committed by a second one, and made once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hiveacid.api.transaction import AcidTransaction
from hiveacid.errors import (
    AnswerLost,
    CommitUncertain,
    LockTimeout,
    OverlapRefused,
    TransactionAborted,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnLiveness
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.progress import Phase
from hiveacid.rules.locks import DataOperation, Operation, lock_components
from hiveacid.rules.names import STAGING_PREFIX
from hiveacid.rules.schema import TableKind
from hiveacid.storage.folder import Storage
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import create
from tests.engine.compaction_case import Case
from tests.engine.lost_commit import CHANGES, OLD, Change, Entered, Lost, update
from tests.observers import At

CONFLICTS = pytest.mark.conflicts
FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
BOTH = pytest.mark.parametrize(
    "hms",
    ["fake 4.0.1", "fake 3.1.3", *[pytest.param(v, marks=CONFLICTS) for v in ("4.0.1", "3.1.3")]],
    indirect=True,
)


@FAKE
@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        pytest.param("append", Phase.COMMIT, marks=CONFLICTS),
        pytest.param("update", Phase.PUBLISH, marks=CONFLICTS),
        ("merge", Phase.COMMIT),
        pytest.param("update", Phase.COMMIT, marks=CONFLICTS),
        pytest.param("delete", Phase.COMMIT, marks=CONFLICTS),
        pytest.param("delete", Phase.PUBLISH, marks=CONFLICTS),
        pytest.param("overwrite", Phase.COMMIT, marks=CONFLICTS),
        pytest.param("overwrite", Phase.PUBLISH, marks=CONFLICTS),
    ],
)
def test_expired_writes_are_committed_by_a_second_transaction(lost, kind, phase):
    change, rows = CHANGES[kind]
    entered = Entered()
    report = lost.run(change(lost), entered, At(phase, lost.expire))
    retry = report.commit_retry
    assert retry is not None
    assert retry.txn_id < report.txn_id
    assert retry.rows == sum((report.rows_inserted, 2 * report.rows_updated, report.rows_deleted))
    assert retry.bytes == report.bytes
    assert entered.times[Phase.COMMIT] == (2 if phase is Phase.COMMIT else 1)
    assert entered.times[Phase.READ] <= 2
    assert lost.case.rows() == sorted(rows)
    lost.check_sound()


@FAKE
@pytest.mark.parametrize(
    ("other", "policy", "succeeds"),
    [
        pytest.param("append", "hive", True, marks=CONFLICTS),
        pytest.param("update", "hive", False, marks=CONFLICTS),
        ("update", "rows", True),
        pytest.param("same", "rows", False, marks=CONFLICTS),
        pytest.param("compact", "hive", True, marks=CONFLICTS),
        pytest.param("compact", "rows", True, marks=CONFLICTS),
    ],
)
def test_later_changes_of_others_decide(lost, other, policy, succeeds):
    others: dict[str, Change] = {
        "append": lambda table: table.append(lost.case.frame((9, "more", "x"))),
        "update": update("id = 2 AND p = 'x'", "theirs"),
        "same": update("id = 1 AND p = 'x'", "theirs"),
        "compact": lambda table: table.compact("major"),
    }

    def between() -> None:
        lost.expire()
        if other == "compact":
            lost.run(update("id = 3", "again"), run_token=None)
        lost.run(others[other])

    if other == "compact" and policy == "hive":
        lost.run(update("id = 2", "before"))
    change, at = update("id = 1 AND p = 'x'"), At(Phase.COMMIT, between)
    if succeeds:
        assert lost.run(change, at, conflict_policy=policy).commit_retry is not None
    else:
        with pytest.raises(OverlapRefused if policy == "rows" else TransactionAborted):
            lost.run(change, at, conflict_policy=policy)
    ours = {row for row in lost.case.rows() if row[0] == 1}
    expected = "new" if succeeds else "theirs" if other == "same" else "old"
    assert ours == {(1, expected, "x")}
    if other != "compact":
        lost.check_sound()


@FAKE
@pytest.mark.parametrize(
    ("silent", "options"),
    [
        pytest.param(False, {}, id="somebody_has_aborted_it"),
        pytest.param(True, {"run_token": None}, id="no_token", marks=CONFLICTS),
        pytest.param(True, {"max_restarts": 0}, id="no_restarts", marks=CONFLICTS),
    ],
)
def test_writes_without_a_second_commit(lost, silent, options):
    at = At(Phase.COMMIT, lambda: lost.expire(silent=silent))
    with pytest.raises(TransactionAborted):
        lost.run(update("id = 1"), at, **options)
    assert lost.case.rows() == OLD
    lost.check_sound()


@FAKE
@pytest.mark.parametrize("committed", [False, True])
def test_an_uncertain_commit_is_repeated_only_if_it_is_surely_aborted(lost, committed, monkeypatch):
    commit, calls = MetastoreClient.commit_txn, []

    def away(client: MetastoreClient, txn_id: int) -> None:
        calls.append(txn_id)
        if len(calls) == 1:
            if committed:
                commit(client, txn_id)
            raise AnswerLost("It went away.")
        commit(client, txn_id)

    def unknown(txn: LiveTransaction, failure: Exception) -> None:
        raise CommitUncertain("It has not come back.") from failure

    def begin() -> None:
        monkeypatch.setattr(MetastoreClient, "commit_txn", away)
        monkeypatch.setattr(LiveTransaction, "_find_outcome", unknown)

    change = CHANGES["append"][0](lost)
    if committed:
        with pytest.raises(CommitUncertain):
            lost.run(change, At(Phase.COMMIT, begin))
    else:
        report = lost.run(change, At(Phase.COMMIT, begin))
        assert report.commit_retry.why.startswith("It has not come back.")
    assert lost.case.rows() == CHANGES["append"][1]
    lost.check_sound()


@FAKE
@pytest.mark.parametrize(
    ("call", "arrives"),
    [
        ("add_dynamic_partitions", True),
        pytest.param("add_dynamic_partitions", False, marks=CONFLICTS),
        pytest.param("add_partitions", True, marks=CONFLICTS),
        pytest.param("add_partitions", False, marks=CONFLICTS),
        pytest.param("heartbeat", True, marks=CONFLICTS),
    ],
)
def test_an_answer_that_is_lost_before_the_commit(lost, call, arrives, monkeypatch):
    carry_out, calls = getattr(MetastoreClient, call), []

    def away(client: MetastoreClient, *arguments: Any) -> Any:
        calls.append(arguments)
        if arrives or len(calls) > 1:
            carry_out(client, *arguments)
        if len(calls) == 1:
            raise AnswerLost("It went away.")
        return TxnLiveness.OPEN

    def begin() -> None:
        monkeypatch.setattr(MetastoreClient, call, away)

    change, rows = CHANGES["merge"]
    report = lost.run(change(lost), At(Phase.REGISTER, begin))
    if call != "heartbeat":
        assert report.commit_retry.why == "It went away."
    # Added rows are present.
    assert len(calls) > 1 or (call == "add_partitions" and arrives)
    assert lost.case.rows() == sorted(rows)
    lost.check_sound()


@BOTH
@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        ("merge", Phase.WRITE),
        pytest.param("update", Phase.READ, marks=CONFLICTS),
        pytest.param("append", Phase.WRITE, marks=CONFLICTS),
        pytest.param("delete", Phase.READ, marks=CONFLICTS),
        pytest.param("overwrite", Phase.WRITE, marks=CONFLICTS),
    ],
)
def test_transactions_that_expire_during_reads_or_writes_are_not_committed(lost, kind, phase):
    change, rows = CHANGES[kind]
    with pytest.raises(TransactionAborted, match="was aborted by the metastore"):
        lost.run(change(lost), At(phase, lost.expire), run_token="d/r/t/-1")
    assert lost.case.rows() == OLD
    lost.check_sound()
    assert not lost.run(change(lost), run_token="d/r/t/-1").already_done
    assert lost.case.rows() == sorted(rows)


@BOTH
@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
def test_a_restore_that_has_read_a_half_cleaned_table_is_not_committed(
    lost, database, monkeypatch, kind
):
    case = Case(lost.case.spark, lost.case.client, lost.case.uri, f"{database}.half")
    create(case.client, case.name, {"id": "int", "v": "string", "p": "string"}, kind=kind)
    case.append((1, "old", "x"))
    case.append((2, "old", "x"))
    half = Lost(case, monkeypatch)
    storage = Storage.of(case.client.get_table(case.ref).folder)
    # Of the deletes that the restore would make; of the rows that it would keep.
    cleaned = 2 if kind is TableKind.FULL_ACID else 1

    def expire_and_clean() -> None:
        half.expire()
        if case.client.features.hides_compactions:
            case.compact("major")
        storage.delete_directory(f"delta_{cleaned:07d}_{cleaned:07d}_0000")

    with pytest.raises(TransactionAborted, match="was aborted by the metastore"):
        half.run(lambda table: table.restore(1), At(Phase.READ, expire_and_clean))
    if case.client.features.hides_compactions:
        assert case.rows() == [(1, "old", "x"), (2, "old", "x")]


@BOTH
def test_a_restore_is_committed_once_more(lost):
    lost.run(lambda table: table.append(lost.case.frame((9, "more", "x"))))
    lost.run(lambda table: table.delete("id = 1"))
    report = lost.run(lambda table: table.restore(1), At(Phase.COMMIT, lost.expire))
    assert report.commit_retry is not None
    assert (report.rows_inserted, report.rows_deleted) == (1, 1)
    assert lost.case.rows() == OLD
    lost.clean()


@CONFLICTS
@FAKE
def test_a_served_writer_does_not_queue_again(lost):
    queue = queue_of(lost.case.ref)
    (component,) = lock_components(True, Operation.OVERWRITE, queue, False)
    number = replace(component, operation=DataOperation.NO_TXN, is_transactional=False)
    waiting: list[int] = []

    def lose() -> None:
        waiting.append(lost.case.client.lock([number], None, "next", "host", "next").lock_id)
        lost.expire()

    assert lost.run(update("id = 1"), At(Phase.COMMIT, lose)).commit_retry is not None
    with pytest.raises(LockTimeout):
        lost.run(update("id = 2"))
    lost.case.client.unlock(*waiting)
    assert lost.case.rows() == [(1, "new", "x"), *OLD[1:]]
    lost.check_sound()


@CONFLICTS
@FAKE
def test_an_abort_during_a_lost_answer_ends_the_run(lost, monkeypatch):
    def away(client: MetastoreClient, *arguments: Any) -> Any:
        lost.expire(silent=False)
        raise AnswerLost("It went away.")

    def begin() -> None:
        monkeypatch.setattr(MetastoreClient, "add_dynamic_partitions", away)

    with pytest.raises(AnswerLost):
        lost.run(update("id = 1"), At(Phase.REGISTER, begin))
    assert lost.case.rows() == OLD
    lost.check_sound()


@CONFLICTS
@FAKE
def test_tables_of_all_kinds_that_change_together(lost):
    case, database = lost.case, lost.case.ref.database
    flat, bucketed = f"{database}.flat", f"{database}.bucketed"
    columns = {"id": "int", "v": "string", "p": "string"}
    create(case.client, flat, columns, kind=TableKind.INSERT_ONLY)
    create(case.client, bucketed, columns, bucket_columns=["id"], num_buckets=2)
    rows = [(7, "new", "x"), (8, "new", "y")]
    options = WriteOptions(run_token="d/all/t/-1")
    with AcidTransaction(
        case.uri,
        spark=case.spark,
        run_in="spark",
        options=options,
        observers=[At(Phase.COMMIT, lost.expire)],
    ) as txn:
        txn.table(flat).append(case.frame(*rows))
        txn.table(bucketed).append(case.frame(*rows))
        txn.table(case.name).append(case.frame(*rows))
        txn.table(case.name).update({"v": "'changed'"}, "id = 1")
    assert txn.report.commit_retry is not None
    assert case.rows() == [(1, "changed", "x"), *OLD[1:], *rows]
    for name in (flat, bucketed):
        assert Case(case.spark, case.client, case.uri, name).rows() == rows
    lost.check_sound()


@FAKE
def test_other_jobs_leave_a_driver_that_was_asleep_time_to_commit_once_more(lost):
    def between() -> None:
        lost.expire()
        lost.run(CHANGES["append"][0](lost))

    report = lost.run(update("id = 1"), At(Phase.COMMIT, between))
    assert report.commit_retry is not None
    assert lost.case.rows() == [(1, "new", "x"), *OLD[1:], (4, "new", "z")]
    lost.check_sound()


@FAKE
def test_a_try_that_was_overtaken_by_the_next_one_is_not_committed_once_more(lost):
    change = CHANGES["append"][0](lost)

    def again() -> None:
        lost.expire()
        lost.run(change, run_token="d/r/t/-1")

    with pytest.raises(TransactionAborted):
        lost.run(change, At(Phase.COMMIT, again), run_token="d/r/t/-1")
    assert lost.run(change, run_token="d/r/t/-1").already_done
    assert lost.case.rows() == CHANGES["append"][1]
    lost.check_sound()


@CONFLICTS
@FAKE
@pytest.mark.parametrize("phase", [Phase.PUBLISH, Phase.COMMIT])
def test_a_second_commit_that_fails_leaves_nothing_and_the_next_try_is_applied_once(lost, phase):
    def fail() -> None:
        raise ZeroDivisionError

    first = At(Phase.COMMIT, lost.expire)
    with pytest.raises(ZeroDivisionError):
        lost.run(update("id = 1"), first, Later(first, phase, fail), run_token="d/r/t/-1")
    assert lost.case.rows() == OLD
    lost.check_sound()
    assert not lost.run(update("id = 1"), run_token="d/r/t/-1").already_done
    assert lost.run(update("id = 1"), run_token="d/r/t/-1").already_done
    lost.check_sound()


class Later(At):
    """Does something when a phase is entered after another observer has done its part."""

    def __init__(self, first: At, phase: Phase, action: Callable[[], Any]) -> None:
        super().__init__(phase, action)
        self.first, self.passed = first, False

    def enter(self, phase: Phase) -> None:
        if self.passed:
            super().enter(phase)
        self.passed = not self.first.times


@CONFLICTS
@FAKE
def test_files_that_a_cleaner_has_removed_are_not_committed(lost):
    def expire() -> None:
        lost.expire()
        table = lost.case.client.get_table(lost.case.ref)
        storage = Storage.of(table.folder)
        for name in storage.list_directories():
            if name.startswith(STAGING_PREFIX):
                storage.delete_directory(name)

    with pytest.raises(TransactionAborted):
        lost.run(update("id = 1"), At(Phase.COMMIT, expire))
    assert lost.case.rows() == OLD
    lost.check_sound()
