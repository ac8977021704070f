"""Hive and Trino read tables while rows are published and checked, and see none of them before the commit."""

import sys
from dataclasses import replace

import pytest

from hiveacid.errors import CheckFailed
from hiveacid.jobs.checks import Passes
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, TransactionJob, UpdateJob
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.spark.run import run
from hiveacid.worker.run import change_rows
from tests.interop.checked import customer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

# What the check of the current test does, and its verdict.
_current = []


def read_by_others(rows):
    look, passes = _current[-1]
    look()
    return passes


@pytest.fixture(params=["worker", "spark"])
def write(request, spark, monkeypatch):
    """Run a job whose check lets others read first."""

    def write(job, tables, *, passes):
        def look():
            for table in tables:
                table.check()

        monkeypatch.setattr(sys.modules[__name__], "_current", [(look, passes)])
        if request.param == "worker":
            with tables[0].client() as client:
                return change_rows(client, replace(job, run_in="worker"))
        return run(spark, job)

    return write


@pytest.mark.parametrize("shape", ["unpartitioned", "partitioned_bucketed"])
def test_hive_and_trino_see_no_row_before_the_commit_and_none_of_a_failed_write(
    create_table, write, shape
):
    tables = [create_table(shape), create_table(shape)]
    given = create_table("unpartitioned")
    for table in tables:
        with table.table() as ours:
            ours.append(table.frame(rows(range(20))))
        table.put(rows(range(20)))
    with given.table() as ours:
        ours.append(given.frame(rows(range(15, 30), amount=7)))
    main, other = tables
    source = TableSource(given.name)
    check = Passes(function=f"{__name__}:read_by_others", table=main.name)
    common = {"metastore": MetastoreOptions(uris=main.uri), "checks": [check]}
    when = [MatchedUpdate(), NotMatchedInsert()]
    merge = MergeJob(
        target=main.name, source=source, on="t.id = s.id AND t.day <=> s.day", when=when
    )
    update = UpdateJob(target=other.name, set={"name": "'changed'"}, where="id < 9")
    jobs = [
        InsertJob(target=main.name, source=QuerySource("SELECT * FROM g", {"g": source}), **common),
        DeleteJob(target=main.name, where="id < 5", **common),
        TransactionJob(statements=[merge, update], **common),
    ]
    for job in jobs:
        with pytest.raises(CheckFailed):
            write(job, tables, passes=False)
        main.check()
        other.check()
    assert write(jobs[-1], tables, passes=True).checks[0].passed
    main.put(rows(range(15, 30), amount=7))
    other.put([(id_, "changed", *customer(id_)[2:]) for id_ in range(9)])
    main.check()
    other.check()


def rows(ids, amount=None):
    return [customer(id_, amount) for id_ in ids]
