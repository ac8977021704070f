"""The note on the progress of a script names the transactions of this script only."""

from dataclasses import replace

import pytest

from airflow_hiveacid.jobs.options.run_token import marked_token, statement_token
from airflow_hiveacid.records.script_note import BegunStatement, ScriptNote

RUN = "dag/run/task/-1"
OWN = statement_token(RUN, "0123456789ab.2")


def note(token=OWN, transaction=None, run_token=RUN):
    transaction = transaction or marked_token(token, ["db.t"])
    begun = BegunStatement(token=token, transaction=transaction)
    return ScriptNote(run_token=run_token, begun=begun)


@pytest.mark.parametrize(
    "own",
    [note(), replace(note(), begun=None), note(statement_token(f"{RUN}#7", 1), None, f"{RUN}#7")],
)
def test_a_note_of_the_script_is_read(own):
    assert ScriptNote.parse(own.to_bytes()) == own


@pytest.mark.parametrize(
    "transaction",
    [
        "other/run/task/-1@01234567",
        marked_token(statement_token("other/run/task/-1", "0123456789ab"), ["db.t"]),
        "source of " + OWN,
        RUN,
    ],
)
def test_a_note_that_names_a_transaction_of_another_run_is_none(transaction):
    assert ScriptNote.parse(note(transaction=transaction).to_bytes()) is None
    assert ScriptNote.parse(note(token=transaction).to_bytes()) is None
