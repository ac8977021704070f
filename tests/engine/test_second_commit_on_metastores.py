"""Second commits on real metastores: their answers decide whether files are committed again."""

import threading
from typing import Any

import pytest

from hiveacid.errors import OverlapRefused, TransactionAborted, WriteConflict
from hiveacid.jobs.options import PATIENCE_SECONDS
from hiveacid.metastore.txn import transaction
from hiveacid.progress import Phase
from hiveacid.rules.names import SIDECAR_FILE
from tests.engine.acid_tables import folder
from tests.engine.lost_commit import CHANGES, OLD, Lost, update
from tests.observers import At

CONFLICTS = pytest.mark.conflicts
EVERYWHERE = pytest.mark.parametrize("hms", ["4.0.1", "3.1.3", "fake 3.1.3"], indirect=True)
REAL = pytest.mark.parametrize("hms", ["4.0.1", "3.1.3"], indirect=True)
NEW, CHANGED = update("id = 1 AND p = 'x'"), [(1, "new", "x"), *OLD[1:]]


@EVERYWHERE
@pytest.mark.parametrize(
    "kind",
    [
        "merge",
        pytest.param("append", marks=CONFLICTS),
        pytest.param("delete", marks=CONFLICTS),
        pytest.param("overwrite", marks=CONFLICTS),
    ],
)
def test_expired_writes_are_committed_once(lost, kind):
    change, rows = CHANGES[kind]
    before: dict[Any, bytes] = {}

    def lose() -> None:
        before.update(lost.newest_columns())
        lost.expire()

    report = lost.run(change(lost), At(Phase.COMMIT, lose), run_token="d/r/t/-1")
    assert report.commit_retry is not None
    assert before == lost.newest_columns()
    assert lost.case.rows() == sorted(rows)
    again = lost.run(change(lost), run_token="d/r/t/-1")
    assert again.already_done
    assert again.commit_retry is not None
    assert lost.case.rows() == sorted(rows)
    lost.clean()


@CONFLICTS
@EVERYWHERE
def test_an_update_after_a_second_commit_and_a_compaction_find_its_rows(lost):
    change, _ = CHANGES["merge"]
    lost.run(change(lost), At(Phase.COMMIT, lost.expire))
    lost.run(update("id IN (1, 5)", "newer"))
    lost.run(lambda table: table.compact("major"))
    assert lost.case.rows() == [
        (1, "newer", "x"),
        *OLD[1:],
        (5, "newer", "z"),
    ]
    lost.clean()


@CONFLICTS
@REAL
@pytest.mark.parametrize("expired", [False, True])
def test_a_metastore_that_is_restarted_at_the_commit(lost, hms, expired):
    def restart() -> None:
        if expired:
            lost.expire()
        hms.restart()

    report = lost.run(NEW, At(Phase.COMMIT, restart))
    assert (report.commit_retry is not None) == expired
    assert lost.case.rows() == CHANGED
    lost.clean()


@CONFLICTS
@REAL
@pytest.mark.parametrize("phase", [Phase.REGISTER, Phase.PUBLISH, Phase.COMMIT])
@pytest.mark.parametrize("patience", [0, PATIENCE_SECONDS])
def test_a_metastore_that_is_away_for_a_while(lost, hms, phase, patience):
    back = threading.Timer(5, hms.start)

    def go() -> None:
        hms.kill()
        back.start()

    try:
        change = CHANGES["merge"][0](lost)
        report = lost.run(change, At(phase, go), patience_seconds=patience)
    finally:
        back.join()
    if patience:
        assert report.commit_retry is None
    elif phase is Phase.REGISTER:
        # A commit is asked about, and whether a transaction is alive: so far that is enough.
        assert report.commit_retry is not None
    assert lost.case.rows() == CHANGES["merge"][1]
    lost.clean()


@CONFLICTS
@EVERYWHERE
@pytest.mark.parametrize("policy", ["hive", "rows"])
def test_a_commit_that_is_refused_by_the_write_set(lost, policy, monkeypatch):
    """Another engine has changed the partition, of all things without a lock."""

    def between() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(transaction, "transaction_components", lambda *_: ())
            lost.run(update("id = 2 AND p = 'x'", "theirs"), run_token=None)

    at = At(Phase.COMMIT, between)
    theirs = [OLD[0], (2, "theirs", "x"), OLD[2]]
    if policy == "hive":
        with pytest.raises(
            WriteConflict, match=r"Not committed once more: .* has received write id 3"
        ):
            lost.run(NEW, at, conflict_policy=policy)
        assert lost.case.rows() == theirs
    else:
        report = lost.run(NEW, at, conflict_policy=policy)
        assert "committed first" in report.commit_retry.why
        assert lost.case.rows() == [CHANGED[0], *theirs[1:]]
    lost.clean()


@CONFLICTS
@EVERYWHERE
@pytest.mark.parametrize("policy", ["hive", "rows"])
@pytest.mark.parametrize("proven", [True, False], ids=["with_a_note", "without_a_note"])
def test_a_compaction_underneath(lost, policy, proven):
    lost.run(update("id = 2", "before"))

    def between() -> None:
        lost.expire()
        lost.run(lambda table: table.compact("major"), run_token=None)
        (note,) = folder(lost.case.client.get_table(lost.case.ref)).rglob(
            f"p=x/base_*/{SIDECAR_FILE}"
        )
        if not proven:
            note.unlink()

    before = [OLD[0], (2, "before", "x"), OLD[2]]
    if proven:
        assert lost.run(NEW, At(Phase.COMMIT, between), conflict_policy=policy).commit_retry
        assert lost.case.rows() == [CHANGED[0], *before[1:]]
    else:
        refused = OverlapRefused if policy == "rows" else TransactionAborted
        with pytest.raises(refused, match=r"p=x.* row ids that may have changed"):
            lost.run(NEW, At(Phase.COMMIT, between), conflict_policy=policy)
        assert lost.case.rows() == before
    lost.clean()


@CONFLICTS
@EVERYWHERE
@pytest.mark.parametrize("policy", ["hive", "strict", "rows"])
@pytest.mark.parametrize(
    ("other", "rows"),
    [
        ("append", [*CHANGED, (9, "more", "x")]),
        ("update", [CHANGED[0], (2, "theirs", "x"), OLD[2]]),
        ("elsewhere", [*CHANGED[:2], (3, "theirs", "y")]),
    ],
)
def test_a_disjoint_write_underneath(lost: Lost, policy, other, rows):
    others = {
        "append": lambda table: table.append(lost.case.frame((9, "more", "x"))),
        "update": update("id = 2 AND p = 'x'", "theirs"),
        "elsewhere": update("id = 3 AND p = 'y'", "theirs"),
    }

    def between() -> None:
        lost.expire()
        lost.run(others[other])

    # The matrix has an append before a change refuse the change.
    refused = {("append", "strict"), ("update", "hive"), ("update", "strict")}
    if (other, policy) in refused:
        with pytest.raises((OverlapRefused, TransactionAborted)):
            lost.run(NEW, At(Phase.COMMIT, between), conflict_policy=policy)
        assert lost.case.rows() == [OLD[0], *rows[1:]]
    else:
        assert lost.run(NEW, At(Phase.COMMIT, between), conflict_policy=policy).commit_retry
        assert lost.case.rows() == rows
    lost.clean()
