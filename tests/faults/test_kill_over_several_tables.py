"""kill -9 in a transaction over two tables and eight partitions: both show all of it, or nothing."""

import signal

import pytest

from hiveacid.jobs.write_jobs import InsertJob, MergeJob, TransactionJob, UpdateJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.spark.run import run
from tests.faults.submitted_driver import json_source, left_behind, run_driver
from tests.rows import rows_of

CUSTOMERS, SALES = TableRef("killed_both", "customers"), TableRef("killed_both", "sales")
PARTITIONS = 8
COMMITTED = "commit:kill:after"
CASES = [
    *(
        # The steps in between are tried by the hundred without Spark.
        pytest.param("hms4", f"{phase}:kill", marks=pytest.mark.faults)
        for phase in Phase
        if phase is not Phase.CLEAN
    ),
    ("hms4", "publish:kill:after"),  # The first of the tables has all its files then.
    ("hms4", COMMITTED),
    pytest.param("hms3", "publish:kill:after", marks=pytest.mark.faults),
    ("hms3", "commit:kill"),
    pytest.param("hms3", COMMITTED, marks=pytest.mark.faults),
]


@pytest.fixture(scope="module")
def metastore(request, spark, tmp_path_factory):
    """A metastore with customers, and sales in eight partitions; each test goes on from the last."""
    metastore = request.getfixturevalue(request.param)
    with MetastoreClient(metastore.options) as client:
        client.create_database(CUSTOMERS.database)
        columns = [HiveColumn("id", "int"), HiveColumn("v", "string")]
        client.create_table(HiveTable.new(CUSTOMERS, columns))
        client.create_table(
            HiveTable.new(SALES, columns, partition_keys=[HiveColumn("p", "string")])
        )
        feed = tmp_path_factory.mktemp("feed")
        customers = json_source(
            feed / "customers.json", [{"id": 0, "v": "old"}], "id INT, v STRING"
        )
        sales = [{"id": n, "v": "old", "p": f"p{n % PARTITIONS}"} for n in range(2 * PARTITIONS)]
        load = TransactionJob(
            metastore=metastore.options,
            statements=(
                InsertJob(target=str(CUSTOMERS), source=customers),
                InsertJob(target=str(SALES), source=json_source(feed / "sales.json", sales)),
            ),
        )
        assert run(spark, load).rows_inserted == 1 + len(sales)
        yield metastore
        client.drop_database(CUSTOMERS.database, cascade=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("metastore", "fault"), CASES, indirect=["metastore"])
def test_after_a_kill_both_tables_are_old_or_both_new_and_one_retry_completes_it(
    metastore, fault, spark, tmp_path
):
    def rows():
        return [rows_of(metastore.uri, str(table)) for table in (CUSTOMERS, SALES)]

    old = rows()
    customers, sales = old
    new_id = max(row["id"] for row in sales) + 1
    # In each partition: the first row goes, the others change, a new one comes.
    first = {min(row["id"] for row in sales if row["p"] == f"p{p}") for p in range(PARTITIONS)}
    kept = [row | {"v": fault} for row in sales if row["id"] not in first]
    come = [{"id": new_id + p, "v": "new", "p": f"p{p}"} for p in range(PARTITIONS)]
    changes = [
        *(row | {"op": "d" if row["id"] in first else "u", "v": fault} for row in sales),
        *(row | {"op": "i"} for row in come),
    ]
    new = [[customers[0] | {"v": fault}], [*kept, *come]]
    job = TransactionJob(
        metastore=metastore.options,
        run_token=f"a load that is killed at {fault}",
        statements=(
            UpdateJob(target=str(CUSTOMERS), set={"v": f"'{fault}'"}, all_rows=True),
            MergeJob(
                target=str(SALES),
                source=json_source(
                    tmp_path / "sales.json", changes, "id INT, v STRING, p STRING, op STRING"
                ),
                on="t.p = s.p AND t.id = s.id",
                when=(
                    MatchedDelete(condition="s.op = 'd'"),
                    MatchedUpdate(set={"v": "s.v"}),
                    NotMatchedInsert(),
                ),
            ),
        ),
    )

    status, errors = run_driver(job, fault, tmp_path)
    assert status == -signal.SIGKILL, errors
    assert rows() == (new if fault == COMMITTED else old)

    report = run(spark, job)
    assert report.already_done is (fault == COMMITTED)
    of_customers, of_sales = report.tables
    assert (of_customers.table, of_customers.rows_updated) == (str(CUSTOMERS), 1)
    assert (of_sales.rows_inserted, of_sales.rows_updated, of_sales.rows_deleted) == (
        PARTITIONS,
        len(sales) - PARTITIONS,
        PARTITIONS,
    )
    assert len(of_sales.partitions) == PARTITIONS
    assert rows() == new
    assert left_behind(job, [CUSTOMERS, SALES]) == []
