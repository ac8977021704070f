"""Files whose transaction is lost at its commit are committed by a second one, and made once."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from airflow_hiveacid.acid.names import STAGING_PREFIX
from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.engine.write.statement import WriteOptions
from airflow_hiveacid.errors import (
    AnswerLost,
    CommitUncertain,
    OverlapRefused,
    TransactionAborted,
)
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.thrift.answers import TxnState
from airflow_hiveacid.metastore.txn.heartbeat import Heartbeat
from airflow_hiveacid.metastore.txn.live_transaction import LiveTransaction
from airflow_hiveacid.progress import Phase, PhaseObserver
from airflow_hiveacid.storage import Storage
from tests.engine.acid_tables import create, everything, problems_of_keys
from tests.engine.compaction_case import Case
from tests.observers import At

Change = Callable[[AcidTable], Any]
CONFLICTS = pytest.mark.conflicts
FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
OLD = [(1, "old", "x"), (2, "old", "x"), (3, "old", "y")]


class Entered(PhaseObserver):
    """Counts phases."""

    def __init__(self) -> None:
        self.times: Counter[Phase] = Counter()

    def enter(self, phase: Phase) -> None:
        self.times[phase] += 1


class Lost:
    """A table, and jobs whose transactions expire."""

    def __init__(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        self.case, self.monkeypatch = case, monkeypatch
        self._others = self._at_work()
        self._runs = 0

    def run(self, change: Change, *observers: PhaseObserver, **options: Any) -> Any:
        self._runs += 1
        token = options.pop("run_token", f"d/{self._runs}/t/-1")
        known = WriteOptions(lock_wait_seconds=0, run_token=token, **options)
        with AcidTable(
            self.case.name,
            self.case.uri,
            spark=self.case.spark,
            options=known,
            observers=observers,
        ) as table:
            return change(table)

    def expire(self, *, silent: bool = True) -> None:
        """Let the metastore abort what is at work, as it does after a silence."""
        if silent:
            self.monkeypatch.setattr(Heartbeat, "silence", 1e6)
        for txn_id in sorted(self._at_work() - self._others):
            self.case.client.abort_txn(txn_id)

    def merge(self, *rows: tuple[Any, ...]) -> Change:
        source = self.case.frame(*rows)
        return lambda table: (
            table.merge(source, "t.id = s.id AND t.p = s.p")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    def check_sound(self) -> None:
        table = self.case.client.get_table(self.case.ref)
        assert problems_of_keys(table) == []
        assert self.case.problems() == []
        assert [path for path in everything(table) if STAGING_PREFIX in path] == []
        assert self._at_work() <= self._others
        assert self.case.client.show_locks() == []

    def _at_work(self) -> set[int]:
        txns = self.case.client.get_open_txns_info()
        return {txn.txn_id for txn in txns if txn.state is TxnState.OPEN}


@pytest.fixture
def lost(spark, hms, client, database, monkeypatch) -> Lost:
    create(client, f"{database}.t", {"id": "int", "v": "string"}, {"p": "string"})
    case = Case(spark, client, hms.uri, f"{database}.t")
    case.append(*OLD)
    return Lost(case, monkeypatch)


def update(condition: str, value: str = "new") -> Change:
    return lambda table: table.update({"v": f"'{value}'"}, condition)


CHANGES: dict[str, tuple[Callable[[Lost], Change], list[tuple[Any, ...]]]] = {
    "append": (
        lambda lost: lambda table: table.append(lost.case.frame((4, "new", "z"))),
        [*OLD, (4, "new", "z")],
    ),
    "update": (
        lambda lost: update("id <> 2"),
        [(1, "new", "x"), (2, "old", "x"), (3, "new", "y")],
    ),
    "delete": (lambda lost: lambda table: table.delete("id = 2"), [OLD[0], OLD[2]]),
    "merge": (
        lambda lost: lost.merge((1, "new", "x"), (5, "new", "z")),
        [(1, "new", "x"), *OLD[1:], (5, "new", "z")],
    ),
    "overwrite": (
        lambda lost: lambda table: table.overwrite(lost.case.frame((6, "new", "x"))),
        [OLD[2], (6, "new", "x")],
    ),
}


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
def test_what_expires_is_committed_by_a_second_transaction(lost, kind, phase):
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
        pytest.param("compact", "hive", False, marks=CONFLICTS),
        pytest.param("compact", "rows", True, marks=CONFLICTS),
    ],
)
def test_what_others_have_done_since_decides(lost, other, policy, succeeds):
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
        # A job with a token would remove the files of aborted transactions before it begins.
        lost.run(others[other], run_token=None)

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
def test_what_is_not_committed_once_more(lost, silent, options):
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
