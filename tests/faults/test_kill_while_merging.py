"""kill -9 of a merge: all or nothing shows, and one retry makes it right."""

import signal

import pytest

from hiveacid.jobs.write_jobs import InsertJob, MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.faults.submitted_driver import json_source, left_behind, run_driver
from tests.rows import rows_of

TABLE = TableRef("killed", "accounts")
COMMITTED = "commit:kill:after"
CASES = [
    *(("hms4", fault) for fault in ("write:kill", "publish:kill", COMMITTED)),
    *(("hms3", fault) for fault in ("register:kill", "commit:kill")),
]


@pytest.fixture(scope="module")
def metastore(request, spark, tmp_path_factory):
    """A metastore with a table of six rows in three partitions; each test goes on from the last."""
    metastore = request.getfixturevalue(request.param)
    with MetastoreClient(metastore.options) as client:
        client.create_database(TABLE.database)
        columns = [HiveColumn("id", "int"), HiveColumn("v", "string")]
        client.create_table(
            HiveTable.new(TABLE, columns, partition_keys=[HiveColumn("p", "string")])
        )
        rows = [{"id": n, "v": "old", "p": f"p{n % 3}"} for n in range(6)]
        source = json_source(tmp_path_factory.mktemp("feed") / "rows.json", rows)
        run(spark, InsertJob(target=str(TABLE), metastore=metastore.options, source=source))
        yield metastore
        client.drop_database(TABLE.database, cascade=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("metastore", "fault"), CASES, indirect=["metastore"])
def test_after_a_kill_all_or_nothing_shows_and_one_retry_completes_it(
    metastore, fault, spark, tmp_path
):
    def rows():
        return rows_of(metastore.uri, str(TABLE))

    old = rows()
    first, *others, last = old
    new = [
        first | {"v": fault},
        *others,
        {"id": last["id"] + 1, "v": "new", "p": first["p"]},
        {"id": last["id"] + 2, "v": "new", "p": f"a new one for {fault}"},
    ]
    changes = [new[0] | {"op": "u"}, last | {"op": "d"}, *(row | {"op": "u"} for row in new[-2:])]
    merge = MergeJob(
        target=str(TABLE),
        metastore=metastore.options,
        run_token=f"a run that is killed at {fault}",
        source=json_source(
            tmp_path / "changes.json", changes, "id INT, v STRING, p STRING, op STRING"
        ),
        on="t.p = s.p AND t.id = s.id",
        when=(
            MatchedDelete(condition="s.op = 'd'"),
            MatchedUpdate(set={"v": "s.v"}),
            NotMatchedInsert(),
        ),
    )

    status, errors = run_driver(merge, fault, tmp_path)
    assert status == -signal.SIGKILL, errors
    assert rows() == (new if fault == COMMITTED else old)

    report = run(spark, merge)
    assert report.already_done is (fault == COMMITTED)
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (2, 1, 1)
    assert rows() == new
    assert left_behind(merge, [TABLE]) == []
