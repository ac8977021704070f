"""Directories that a transaction publishes, withdraws and removes, and no others."""

from contextlib import contextmanager
from functools import partial
from unittest.mock import Mock

import pytest

from hiveacid.errors import AnswerLost, CommitUncertain, StorageError
from hiveacid.metastore.txn.owner import Outcome
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import SIDECAR_FILE
from hiveacid.rules.notes import directory_note
from hiveacid.storage.staging import StagedDirectories
from hiveacid.storage.uploads import Upload, UploadedFile, Uploads

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
FINAL = "delta_0000001_0000001_0000"


@pytest.fixture
def txn(client, folders):
    """The transaction of a writer, without a clause that ends it."""
    txn = Transaction(client, targets=[Target(folders.ref, Operation.INSERT)])
    txn.__enter__()
    yield txn
    txn.abort("the test is over")


@pytest.fixture
def published(folders, txn):
    """Return the published directories of that transaction."""
    staged = StagedDirectories(folders.table.folder, txn, folders.table.identity)
    staged.complete(FINAL, [], {SIDECAR_FILE: directory_note({"txn_id": txn.txn_id}, [])})
    staged.publish(FINAL)
    assert folders.directories() == [FINAL]
    return staged


def recreate(folders, txn):
    """Have the transaction aborted and the table created again, with rows of the same write id."""
    folders.client.abort_txn(txn.txn_id)
    table = folders.table
    folders.client.drop_table(folders.ref)
    folders.client.create_table(table)
    assert folders.insert() == FINAL


def test_an_abort_removes_what_was_published(folders, txn, published):
    txn.abort("it has failed")
    assert folders.directories() == []
    assert txn.warnings == []


def test_an_abort_removes_nothing_of_a_table_that_was_created_again(folders, txn, published):
    recreate(folders, txn)
    txn.abort("it has slept")
    assert folders.directories() == [FINAL]


def test_nothing_of_a_table_that_was_created_again_is_withdrawn(folders, txn, published):
    recreate(folders, txn)
    published.withdraw(FINAL)
    assert folders.directories() == [FINAL]


@contextmanager
def asleep_after_reading(published, act):
    """Act directly after the first note was read, before the process does anything with it."""
    read, waiting = published.storage.read_small, [act]

    def asleep(path, *limit):
        content = read(path, *limit)
        if waiting:
            waiting.pop()()
        return content

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published.storage, "read_small", asleep)
        yield
    assert not waiting


@pytest.mark.parametrize("act", ["abort", "withdraw"])
def test_a_table_that_was_created_again_after_the_look_at_a_note_keeps_its_rows(
    folders, txn, published, hms, act
):
    hms.let_tables_age()
    with asleep_after_reading(published, partial(recreate, folders, txn)):
        if act == "abort":
            txn.abort("it has slept")
        else:
            published.withdraw(FINAL)
    assert folders.directories() == [FINAL]
    assert [path.name for path in folders.root.iterdir() if path.name != FINAL] == []


def test_a_cleaning_puts_back_what_a_killed_writer_of_an_earlier_table_has_hidden(
    folders, txn, published, hms, monkeypatch
):
    hms.let_tables_age()

    def die(*_):
        raise SystemExit

    def recreate_and_die():
        recreate(folders, txn)
        monkeypatch.setattr(published.storage, "read_small", die)

    with asleep_after_reading(published, recreate_and_die), pytest.raises(SystemExit):
        txn.abort("it has slept")
    assert folders.directories() == []
    folders.clean()
    assert folders.directories() == [FINAL]


def test_a_directory_of_a_table_that_was_created_again_proves_no_commit(
    folders, txn, published, monkeypatch
):
    recreate(folders, txn)

    def lose_answer(_):
        raise AnswerLost("The answer got lost.")

    monkeypatch.setattr(folders.client, "commit_txn", lose_answer)
    # An abort that is cleaned and forgotten looks like a commit.
    monkeypatch.setattr(txn, "_outcome", lambda: Outcome.COMMITTED)
    with pytest.raises(CommitUncertain, match="none of its directories is left"):
        txn.commit()


@pytest.mark.parametrize("lost", [False, True])
def test_half_a_directory_of_an_object_store_goes_as_long_as_it_can_be_nobody_elses(
    folders, txn, monkeypatch, lost
):
    uploads = Mock(spec=Uploads)
    monkeypatch.setattr(Uploads, "of", lambda _: uploads)
    staged = StagedDirectories(folders.table.folder, txn, folders.table.identity)

    def break_down(_):
        folders.make(FINAL)
        raise StorageError("The store is away.")

    uploads.begin.side_effect = lambda path: UploadedFile(uploads, Upload(path, "an upload"))
    uploads.send.return_value = "a part"
    uploads.complete.side_effect = break_down
    staged.complete(FINAL, [], {SIDECAR_FILE: b"{}"})
    with pytest.raises(StorageError):
        staged.publish(FINAL)
    if lost:
        folders.client.abort_txn(txn.txn_id)
    txn.abort("the store was away")
    assert folders.directories() == ([FINAL] if lost else [])
    assert len(txn.warnings) == lost
