"""Two tries of one run that overlap: an append, which would show twice, is applied once."""

from contextlib import ExitStack

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import TransactionAborted
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.progress import Phase
from hiveacid.rules.locks import Operation, Target
from hiveacid.spark.run import run
from tests.engine.acid_tables import create, files, rows_of
from tests.observers import At


@pytest.fixture
def table(client, database):
    return create(client, f"{database}.events", {"id": "int"})


@pytest.fixture
def job(hms, table):
    source = QuerySource(sql="SELECT 1 AS id")
    return InsertJob(
        target=table.ref.full_name, source=source, metastore=hms.options, run_token="d/r/t/-1"
    )


def ids(spark, hms, table):
    with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as opened:
        return [row[0] for row in rows_of(opened.to_df())]


def test_a_try_that_was_overtaken_before_it_opened_its_transaction_applies_nothing(
    spark, hms, table, job
):
    reports = []
    late = run(spark, job, [At(Phase.OPEN, lambda: reports.append(run(spark, job)))])
    assert late.already_done
    assert late.write_ids == reports[0].write_ids
    assert not reports[0].already_done
    assert ids(spark, hms, table) == [1]


def test_a_try_that_is_overtaken_at_work_can_not_commit(spark, hms, table, job):
    reports = []
    with pytest.raises(TransactionAborted):
        run(spark, job, [At(Phase.PUBLISH, lambda: reports.append(run(spark, job)))])
    assert ids(spark, hms, table) == [1]
    written = f"delta_{reports[0].write_ids[table.ref.full_name]:07d}"
    assert {name.split("/")[0][:13] for name in files(table) if "delta_" in name} == {written}


def test_a_try_ends_what_an_older_one_opened_after_it_had_looked(spark, hms, client, table, job):
    with ExitStack() as older:
        txn = Transaction(
            client, targets=[Target(table.ref, Operation.INSERT)], run_token=job.token
        )
        report = run(spark, job, [At(Phase.OPEN, lambda: older.enter_context(txn))])
        assert not report.already_done
        assert report.txn_id > txn.txn_id
        with pytest.raises(TransactionAborted):
            txn.commit()
    assert ids(spark, hms, table) == [1]


def test_a_writer_that_was_asleep_shows_nothing_of_an_aborted_transaction(
    spark, hms, client, table, job
):
    """Its last heartbeat was well; then it was stopped, and aborted before it goes on to publish."""
    opened = []

    class Aborting(At):
        def opened(self, txn_id, write_ids):
            opened.append(txn_id)

    asleep = Aborting(Phase.PUBLISH, lambda: client.abort_txn(opened[-1]))
    with pytest.raises(TransactionAborted):
        run(spark, job, [asleep])
    assert [name for name in files(table) if "delta_" in name] == []
