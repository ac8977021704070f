"""Several tables, or several statements on one, in one transaction."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.errors import (
    CheckFailed,
    InvalidJob,
    UserError,
)
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import InsertJob, MergeJob, TransactionJob
from hiveacid.metastore.txn.owner import find_open_transactions
from hiveacid.progress import Phase
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from hiveacid.rules.row_id import decode_bucket
from hiveacid.spark.run import run
from tests.engine.acid_tables import (
    create,
    files,
    left_behind,
    problems_of_keys,
    row_ids,
    rows_of,
)
from tests.engine.compaction_case import report_of_compaction
from tests.observers import At

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

CUSTOMERS = [(1, "ann"), (2, "bob")]
SALES = [(10, 1, "mon"), (20, 2, "tue")]


@pytest.fixture
def shop(spark, hms, client, database):
    """Customers, and sales by day."""
    return Shop(spark, hms.uri, client, database)


class Shop:
    def __init__(self, spark, uri, client, database):
        self.spark, self.uri, self.client = spark, uri, client
        self.customers = create(client, f"{database}.customers", {"id": "int", "name": "string"})
        self.sales = create(
            client, f"{database}.sales", {"id": "int", "customer": "int"}, {"day": "string"}
        )
        with self.transaction() as txn:
            txn.table(self.name("customers")).append(self.some_customers(*CUSTOMERS))
            txn.table(self.name("sales")).append(self.some_sales(*SALES))

    def name(self, table):
        return getattr(self, table).ref.full_name

    def some_customers(self, *rows):
        return self.spark.createDataFrame(rows, "id int, name string")

    def some_sales(self, *rows):
        return self.spark.createDataFrame(rows, "id int, customer int, day string")

    def transaction(self, *observers):
        return AcidTransaction(self.uri, spark=self.spark, run_in="spark", observers=observers)

    def table(self, table):
        return AcidTable(self.name(table), self.uri, spark=self.spark, run_in="spark")

    def rows(self, table):
        with self.table(table) as acid:
            return rows_of(acid.to_df())

    def both(self):
        return [self.rows("customers"), self.rows("sales")]

    def files(self):
        return [files(self.customers), files(self.sales)]


def test_all_tables_change_together_and_are_reported(shop):
    seen = []
    look = At(Phase.COMMIT, lambda: seen.append(shop.both()))
    with shop.transaction(look) as txn:
        merge = txn.table(shop.name("customers")).merge(
            shop.some_customers((2, "bea"), (3, "cid")), "t.id = s.id"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        txn.table(shop.name("sales")).append(shop.some_sales((30, 3, "tue"), (31, 3, "wed")))
        txn.table(shop.name("sales")).delete("id = 10")
        assert txn.report is None
    assert seen == [[CUSTOMERS, SALES]]  # All files exist, and no reader sees any.
    assert shop.both() == [
        [(1, "ann"), (2, "bea"), (3, "cid")],
        [(20, 2, "tue"), (30, 3, "tue"), (31, 3, "wed")],
    ]
    report = txn.report
    assert (report.job, report.target) == ("transaction", shop.name("customers"))
    assert report.write_ids == {shop.name("customers"): 2, shop.name("sales"): 2}
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (3, 1, 1)
    customers, sales = report.tables
    assert (customers.table, customers.rows_inserted, customers.rows_updated) == (
        shop.name("customers"),
        1,
        1,
    )
    assert (sales.rows_inserted, sales.rows_deleted) == (2, 1)
    assert sales.partitions == ("day=mon", "day=tue", "day=wed")
    assert report.files == customers.files + sales.files
    assert RunReport.from_dict(report.to_dict()) == report


def test_each_statement_has_its_number_in_directories_and_row_ids(shop):
    with shop.transaction() as txn:
        table = txn.table(shop.name("sales"))
        table.append(shop.some_sales((1, 1, "mon")))
        txn.table(shop.name("customers")).append(shop.some_customers((3, "cid")))
        table.append(shop.some_sales((2, 1, "mon")))
        table.update({"customer": "9"}, "id = 10")
    written = [path for path in files(shop.sales) if "_0000002_0000002" in path]
    assert [path for path in written if path.endswith("bucket_00000")] == [
        "day=mon/delete_delta_0000002_0000002_0003/bucket_00000",
        "day=mon/delta_0000002_0000002_0000/bucket_00000",
        "day=mon/delta_0000002_0000002_0002/bucket_00000",
        "day=mon/delta_0000002_0000002_0003/bucket_00000",
    ]
    keys = [key for key in row_ids(shop.sales, "delta") if key[:2] == ("day=mon", 2)]
    assert [(decode_bucket(bucket).statement_id, row) for _, _, bucket, row in keys] == [
        (0, 0),
        (2, 0),
        (3, 0),
    ]
    assert problems_of_keys(shop.sales) == []
    assert [row for row in shop.rows("sales") if row[2] == "mon"] == [
        (1, 1, "mon"),
        (2, 1, "mon"),
        (10, 9, "mon"),
    ]
    rows = shop.rows("sales")
    with shop.table("sales") as sales:
        (done,) = report_of_compaction(sales, "minor", partitions=["day=mon"]).partitions
    assert done.outcome == "compacted", done
    assert shop.rows("sales") == rows


def test_sources_and_targets_are_read_as_of_one_moment(shop):
    def append():
        with shop.table("customers") as customers:
            customers.append(shop.some_customers((7, "too late")))

    source = QuerySource(
        "SELECT max(id) AS id, concat_ws(',', sort_array(collect_list(name))) AS name FROM c",
        {"c": TableSource(shop.name("customers"))},
    )
    with shop.transaction(At(Phase.WRITE, append)) as txn:
        txn.table(shop.name("customers")).update({"name": "upper(name)"}, "id = 1")
        txn.table(shop.name("customers")).append(source)
    assert shop.rows("customers") == [(1, "ANN"), (2, "ann,bob"), (2, "bob"), (7, "too late")]


@pytest.mark.parametrize(
    ("broken", "error"),
    [("body", ZeroDivisionError), ("statement", CheckFailed), ("commit", RuntimeError)],
)
def test_when_one_part_fails_nothing_of_the_others_is_left(shop, broken, error):
    def fail():
        raise RuntimeError("the commit fails")

    def load():
        with shop.transaction(*([At(Phase.COMMIT, fail)] if broken == "commit" else [])) as txn:
            customers = txn.table(shop.name("customers"))
            customers.append(shop.some_customers((3, "cid")))
            twice = (2, "x") if broken == "statement" else (4, "x")
            merge = customers.merge(shop.some_customers((2, "bea"), twice), "t.id = s.id")
            merge.when_matched_update_all().execute()
            txn.table(shop.name("sales")).overwrite(shop.some_sales((5, 5, "sun")))
            if broken == "body":
                raise ZeroDivisionError

    before, rows = shop.files(), shop.both()
    with pytest.raises(error):
        load()
    assert (shop.files(), shop.both()) == (before, rows)
    assert left_behind(shop.client) == []


def test_a_partition_that_is_overwritten_takes_no_rows_of_another_statement(shop):
    def load(day, where):
        with shop.transaction() as txn:
            sales = txn.table(shop.name("sales"))
            sales.overwrite(shop.some_sales((1, 1, "tue")))
            sales.update({"day": f"'{day}'"}, where)

    before = shop.files()
    with pytest.raises(UserError, match="day=tue is overwritten and written at the same time"):
        load("tue", "id = 10")
    assert shop.files() == before
    load("wed", "id = 10")
    assert shop.rows("sales") == [(1, 1, "tue"), (10, 1, "wed")]


def test_two_statements_that_change_rows_of_one_table_are_refused(shop):
    txn = shop.transaction()
    txn.table(shop.name("sales")).delete("id = 10")
    txn.table(shop.name("sales")).update({"customer": "2"}, all_rows=True)
    with pytest.raises(InvalidJob, match="changed by 2 statements"), txn:
        pass
    assert shop.both() == [CUSTOMERS, SALES]


def test_a_transaction_without_statements_does_nothing(shop):
    with shop.transaction() as txn:
        pass
    assert txn.report is None


def test_the_statements_of_the_docs_have_the_documented_effects(shop, hms, client, database):
    """Its job and its notebook, with the tables of the test."""
    text = (Path(__file__).parents[2] / "docs" / "loads.md").read_text()
    snippets = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    operator, notebook = [snippet for snippet in snippets if "shop.sales" in snippet]
    text = operator.replace("stage.", f"{database}.stage_").replace("shop.", f"{database}.")
    create(client, f"{database}.stage_customers", {"id": "int", "name": "string"})
    create(client, f"{database}.stage_sales", {"id": "int", "customer": "int", "day": "string"})
    with shop.transaction() as txn:
        txn.table(f"{database}.stage_customers").append(shop.some_customers((3, "cid")))
        txn.table(f"{database}.stage_sales").append(shop.some_sales((30, 3, "tue")))
    names = {}
    exec(text, names)
    run(shop.spark, replace(names["load"].job, metastore=hms.options))
    assert shop.both() == [[*CUSTOMERS, (3, "cid")], [*SALES, (30, 3, "tue")]]

    text = notebook.replace("thrift://hms:9083", hms.uri).replace("shop.", f"{database}.")
    frames = {
        "new_customers": shop.some_customers((4, "dee")),
        "new_sales": shop.some_sales((40, 4, "wed")),
    }
    exec(text, {"spark": shop.spark, **frames})
    assert shop.rows("customers")[-1] == (4, "dee")
    assert shop.rows("sales")[-1] == (40, 4, "wed")


def test_a_job_is_applied_once_however_often_it_is_run(shop, hms, client):
    job = TransactionJob(
        metastore=hms.options,
        run_token="the load of a day",
        statements=(
            MergeJob(
                target=shop.name("customers"),
                source=QuerySource("SELECT 2 AS id, 'bea' AS name"),
                on="t.id = s.id",
                when=(MatchedUpdate(), NotMatchedInsert()),
            ),
            InsertJob(
                target=shop.name("sales"),
                source=TableSource(shop.name("sales")),
            ),
        ),
    )
    first, second = run(shop.spark, job), run(shop.spark, job)
    assert not first.already_done
    assert second.already_done
    assert (second.txn_id, second.write_ids, second.tables) == (
        first.txn_id,
        first.write_ids,
        first.tables,
    )
    assert shop.both() == [[(1, "ann"), (2, "bea")], sorted(SALES * 2)]
    assert find_open_transactions(client, *job.tokens) == []
