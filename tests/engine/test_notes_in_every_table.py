"""Each table that a run writes proves by itself whether the run was applied."""

import shutil
from dataclasses import replace

import pytest

from hiveacid.errors import AnswerLost, TableNotFound
from hiveacid.jobs.definition_jobs import RenameTableJob
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.client import MetastoreClient
from tests.engine.killed_load import LATER, MAIN, OTHER
from tests.fakes.metastore import REAL_AND_FAKE

pytestmark = REAL_AND_FAKE


def test_statements_in_another_order_find_the_run(load):
    first = load.run()
    load.reverse()
    again = load.run()
    assert (again.already_done, again.txn_id) == (True, first.txn_id)
    assert again.write_ids == first.write_ids
    assert (load.rows(load.main), load.rows(load.other)) == ([MAIN], [OTHER])


@pytest.mark.parametrize("reverses", [False, True])
def test_a_table_that_was_created_again_disproves_nothing(load, kill, reverses):
    """One of its aborted write ids has the number that the run had in the earlier table."""
    kill("mark_committed")
    load.create_again(load.other)
    load.abort_a_write(load.other)
    if reverses:
        load.reverse()
    assert load.run().already_done
    assert (load.rows(load.main), load.rows(load.other)) == ([MAIN], [])
    assert load.notes(load.main) == ["committed.json"]


@pytest.mark.parametrize("which", ["main", "other"])
def test_the_table_that_is_left_proves_the_run(load, which):
    load.run()
    gone = getattr(load, which)
    load.create_again(gone)
    assert load.run().already_done
    load.client.drop_table(gone)
    assert load.run().already_done
    (left,) = {load.main, load.other} - {gone}
    assert len(load.rows(left)) == 1
    load.create_again(left)
    with pytest.raises(TableNotFound):
        load.run()


def test_cleaning_a_table_keeps_its_proof(load, kill):
    """The other table has none: nothing was written into it."""
    load.job = load.of([], [OTHER])
    kill("mark_committed")
    load.compact_and_clean(load.other)
    assert [*load.folder(load.other).glob("p=*/delta_*")] == []
    assert load.run().already_done
    assert load.rows(load.other) == [OTHER, LATER]
    assert (load.notes(load.main), load.notes(load.other)) == (["committed.json"],) * 2


def test_a_note_that_is_left_in_the_folder_of_a_new_table_is_no_proof(load):
    load.run()
    for ref in (load.main, load.other):
        load.create_again(ref, keep_files=True)
        for delta in load.folder(ref).glob("p=*/delta_*"):
            shutil.rmtree(delta)
    assert not load.run().already_done
    assert (load.rows(load.main), load.rows(load.other)) == ([MAIN], [OTHER])
    assert load.run().already_done


@pytest.mark.parametrize("reverses", [False, True])
def test_a_run_killed_between_its_notes_was_not_applied(load, kill, reverses):
    kill("write_note", 2)
    assert sorted([load.notes(load.main), load.notes(load.other)]) == [[], ["json"]]
    if reverses:
        load.reverse()
    assert not load.run().already_done
    assert (load.rows(load.main), load.rows(load.other)) == ([MAIN], [OTHER])


@pytest.mark.parametrize("which", ["main", "other"])
def test_a_run_killed_between_its_marks_was_applied(load, kill, which):
    kill("mark_committed", 2)
    assert (load.notes(load.main), load.notes(load.other)) == (["committed.json"], ["json"])
    load.create_again(getattr(load, which))
    assert load.run().already_done


def test_a_table_that_is_renamed_meanwhile_keeps_its_proof(load, kill):
    kill("mark_committed")
    load.create_again(load.other)
    away = replace(load.main, name="away")
    load.tables.run(RenameTableJob(target=str(load.main), new_name=str(away)))
    load.tables.run(CleanJob(target=str(away), retention="0"))
    load.tables.run(RenameTableJob(target=str(away), new_name=str(load.main)))
    assert load.run().already_done
    assert load.rows(load.main) == [MAIN]


def test_a_lost_answer_is_settled_although_a_table_was_created_again(load, monkeypatch):
    commit = MetastoreClient.commit_txn

    def lose(client, txn_id):
        monkeypatch.undo()
        commit(client, txn_id)
        load.create_again(load.other)
        raise AnswerLost("The connection is gone.")

    monkeypatch.setattr(MetastoreClient, "commit_txn", lose)
    assert not load.run().already_done
    assert load.run().already_done
    assert load.rows(load.main) == [MAIN]
