"""The valid fields of a job over several tables, and its serialization."""

from dataclasses import replace

import pytest

from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import before_rendering
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, TransactionJob, UpdateJob
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert

DIM = MergeJob(
    target="dw.customers",
    source=TableSource("stage.customers"),
    on="t.id = s.id",
    when=(MatchedUpdate(), NotMatchedInsert()),
)
FACT = InsertJob(target="dw.{{ params.fact }}", source=QuerySource("SELECT 1"), orc_codec="lz4")
METASTORE = MetastoreOptions(uris="thrift://hms:9083")


def overwrite(day):
    return InsertJob(
        target="dw.sales",
        source=TableSource("stage.sales"),
        overwrite=True,
        partitions=({"day": day},),
    )


def test_it_equals_its_json_copy_and_is_known_by_its_first_table():
    job = TransactionJob(statements=[DIM, FACT], metastore=METASTORE, run_token="a run")
    with before_rendering():
        job.validate()
    assert job.target == "dw.customers"
    assert from_json(to_json(job)) == job


def test_templates_in_its_statements_are_rendered():
    job = TransactionJob(statements=[FACT, DIM])
    with before_rendering():
        job.validate()
    rendered = job.render(lambda text: text.replace("{{ params.fact }}", "sales"))
    rendered.validate()
    assert rendered.target == rendered.statements[0].target == "dw.sales"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ([], "statements is empty"),
        (["DELETE"], r"statements\[0\]: 'DELETE' cannot be part of a transaction"),
        (
            [TransactionJob(statements=[DIM])],
            r"statements\[0\]: .* cannot be part of a transaction",
        ),
        ([DIM, InsertJob(target="x", source=TableSource("a.b"))], r"statements\[1\]: 'x' is not"),
        ([replace(DIM, run_token="own")], r"statements\[0\].run_token is that of the whole"),
        (
            [DIM, UpdateJob(target="DW.Customers", set={"v": "1"}, where="true")],
            "changed by 2 statements",
        ),
        ([overwrite("1"), overwrite("2"), replace(overwrite("2"), overwrite=False)], "'day': '2'"),
    ],
)
def test_statements_unsupported_in_a_transaction_are_refused(statements, message):
    with pytest.raises(InvalidJob, match=message):
        TransactionJob(statements=statements).validate()


def test_inserts_and_one_change_of_a_table_are_fine_and_so_are_overwrites_of_different_partitions():
    insert = InsertJob(target="dw.customers", source=TableSource("stage.customers"))
    TransactionJob(statements=[insert, DIM, insert]).validate()
    changes = [DeleteJob(target="dw.sales", where="day = '3'"), overwrite("1"), overwrite("2")]
    TransactionJob(statements=changes).validate()
