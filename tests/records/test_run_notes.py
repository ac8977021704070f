"""The proofs in notes on a run."""

import pytest

from hiveacid.jobs.report import RunReport
from hiveacid.records.proofs import RunOutcome, outcome_by_lists
from hiveacid.records.run_notes import RunNote
from hiveacid.rules.names import TableIdentity
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList

TXNS = ValidTxnList(high_watermark=20, open=(12,), aborted=(13,))
WRITE_IDS = ValidWriteIdList("db.t", high_watermark=9, open=(7,), aborted=(8,))
NOTE = RunNote(
    run_token="r",
    txn_id=3,
    write_id=2,
    report=RunReport(job="insert", target="shop.orders"),
    identity=TableIdentity(created=100, id=7),
)


@pytest.mark.parametrize(
    ("txn_id", "write_id", "outcome"),
    [
        (11, 3, RunOutcome.UNPROVEN),
        (12, 3, RunOutcome.OPEN),
        (13, 3, RunOutcome.ABORTED),
        (21, 30, RunOutcome.OPEN),
        (0, 3, RunOutcome.NO_EVIDENCE),
        (11, 0, RunOutcome.NO_EVIDENCE),
        (11, 10, RunOutcome.NO_EVIDENCE),
        # It belongs to another transaction, as in a table that was created again.
        (11, 7, RunOutcome.NO_EVIDENCE),
        (11, 8, RunOutcome.NO_EVIDENCE),
    ],
)
def test_an_abort_is_proved_by_the_transaction_and_not_by_a_write_id(txn_id, write_id, outcome):
    assert outcome_by_lists(txn_id, write_id, TXNS, WRITE_IDS) is outcome


def test_one_table_that_proves_something_is_enough():
    ordered = [*RunOutcome]
    assert ordered == [
        RunOutcome.APPLIED,
        RunOutcome.ABORTED,
        RunOutcome.OPEN,
        RunOutcome.UNPROVEN,
        RunOutcome.NO_EVIDENCE,
    ]
    for number, outcome in enumerate(ordered):
        assert min(ordered[number:]) is outcome


@pytest.mark.parametrize(
    ("created", "number", "is_same"),
    [
        (100, 7, True),
        (100, None, True),  # Written by version 4, read after a step back to 3.1.
        (100, 8, False),
        (101, 7, False),
        (101, None, False),
    ],
)
def test_a_note_is_about_the_table_in_which_it_was_written(created, number, is_same):
    assert NOTE.identity.is_same(TableIdentity(created=created, id=number)) == is_same
