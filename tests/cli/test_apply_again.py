"""`hiveacid history --apply-again`: runs that are applied once more."""

import json
from dataclasses import replace

import pytest

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definition_jobs import RenameTableJob
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import InsertJob, TransactionJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.table_history import forget_run
from hiveacid.rules.names import RUN_NOTES, TableRef
from hiveacid.rules.run_tokens import STATEMENT_LENGTH, statement_token
from hiveacid.storage.folder import Storage
from hiveacid.tables.definitions.run import run_ddl
from hiveacid.worker.run import change_rows

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
RUN = "shop/2026-11-28/load/-1"


@pytest.fixture
def job(client: MetastoreClient, database: str) -> TransactionJob:
    """A run that writes two tables."""
    inserts = []
    for name in ("t", "u"):
        ref = TableRef(database, name)
        client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
        source = QuerySource("VALUES (1)")
        inserts.append(InsertJob(target=ref.full_name, source=source, by_position=True))
    return TransactionJob(
        statements=inserts, run_token=RUN, run_in="worker", metastore=client.options
    )


def apply(client: MetastoreClient, job: TransactionJob | InsertJob) -> RunReport:
    return change_rows(client, job)


def test_a_run_is_described_and_then_forgotten_in_all_its_tables(client, job, hiveacid) -> None:
    applied = apply(client, job)
    status, said = hiveacid("history", job.target, "--apply-again", RUN)
    assert status == 0
    assert f"2 rows inserted, 0 updated, 0 deleted (transaction {applied.txn_id})" in said
    assert "With --yes, the next attempt of the run applies it again" in said
    assert apply(client, job).already_done
    _, printed = hiveacid("history", job.target, "--apply-again", RUN, "--json")
    described = json.loads(printed)
    assert (described["dry_run"], [run["rows_inserted"] for run in described["runs"]]) == (
        True,
        [2],
    )
    _, said = hiveacid("history", job.target, "--apply-again", RUN, "--yes")
    assert "\nThe next attempt of the run applies it again" in said
    again = apply(client, job)
    assert (again.already_done, again.rows_inserted) == (False, 2)
    assert apply(client, job).already_done


def test_all_statements_of_a_script_are_forgotten_and_other_runs_are_not(client, job) -> None:
    statement = replace(job.statements[0], run_in="worker", metastore=client.options)
    tokens = (statement_token(RUN, digit * STATEMENT_LENGTH) for digit in "ab")
    first, second = (replace(statement, run_token=token) for token in tokens)
    other = replace(statement, run_token=f"{RUN}0")
    for each in (first, second, other):
        apply(client, each)
    assert len(forget_run(client, TableRef.parse(first.target), RUN)) == 2
    assert [apply(client, each).already_done for each in (first, second, other)] == [
        False,
        False,
        True,
    ]


def test_a_forged_note_does_not_reach_the_notes_of_another_table(client, job) -> None:
    """A run of two tables names both; a note that names a foreign table has no such note there."""
    one, other = (
        replace(each, run_in="worker", metastore=client.options, run_token=RUN)
        for each in job.statements
    )
    forged, genuine = apply(client, one), apply(client, other)
    folder = Storage.of(client.get_table(TableRef.parse(one.target)).folder)
    (path,) = (path for path, *_ in folder.walk(RUN_NOTES))
    note = json.loads((folder.read_small(path) or b"").decode())
    note["txn_id"] = genuine.txn_id
    note["report"]["write_ids"][other.target] = 1
    folder.delete_file(path)
    folder.write_file(
        path.replace(f".{forged.txn_id}.", f".{genuine.txn_id}."), json.dumps(note).encode()
    )
    assert len(forget_run(client, TableRef.parse(one.target), RUN)) == 1
    assert apply(client, other).already_done


def test_a_run_of_a_table_that_was_renamed_is_forgotten(client, job) -> None:
    insert = replace(job.statements[0], run_in="worker", metastore=client.options, run_token=RUN)
    apply(client, insert)
    ref = TableRef.parse(insert.target)
    now = TableRef(ref.database, "renamed")
    run_ddl(client, RenameTableJob(target=ref.full_name, new_name=now.full_name))
    folder = Storage.of(client.get_table(now).folder)
    assert len([*folder.walk(RUN_NOTES)]) == 1
    forget_run(client, now, RUN)
    assert [*folder.walk(RUN_NOTES)] == []


def test_a_run_that_is_unknown_or_at_work_is_refused(client, job) -> None:
    ref = TableRef.parse(job.target)
    with pytest.raises(InvalidJob, match="has no note on the run"):
        forget_run(client, ref, RUN)
    apply(client, job)
    with (
        Transaction(client, reads=[ref], run_token=RUN) as txn,
        pytest.raises(InvalidJob, match=f"is at work: transaction {txn.txn_id} is open"),
    ):
        forget_run(client, ref, RUN)
    assert apply(client, job).already_done
