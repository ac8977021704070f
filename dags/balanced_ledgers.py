"""Every day: load the debits and the credits of a ledger together, and only if they balance.

Both inserts are one transaction. Its checks run before it commits: no reader sees a day whose debits and
credits differ, that has an account without an entry in the table of accounts, or that has less than half of the
usual number of rows. The task then fails without a retry, and its log shows some of the rows.

Needs two connections: `hive_acid_default` (the metastore) and `spark_default` (for example with
`local[*]` as its host). The feeds are JSON lines, `{"account": 7, "day": "2026-11-20", "amount": 12.5}`.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_hiveacid import HiveAcidTransactionOperator, PathSource
from hiveacid.jobs import (
    Balanced,
    Holds,
    InsertJob,
    NotNull,
    References,
    RowCount,
    TransactionJob,
)


def load(side: str) -> InsertJob:
    """Return the insert of one side of the ledger, with the checks of its rows."""
    return InsertJob(
        target=f"ledger.{side}",
        source=PathSource(
            path=f"{{{{ params.feed }}}}/{side}/{{{{ ds }}}}",
            format="json",
            schema="account BIGINT, day DATE, amount DECIMAL(18,2)",
        ),
        checks=[
            NotNull(columns=["account", "day", "amount"]),
            Holds(sql="amount > 0"),
            Holds(sql="day = date '{{ ds }}'", name="the day of the run"),
            References(columns=["account"], to="ledger.accounts"),
            RowCount(last=7, min_ratio=0.5, name="usual number of rows"),
        ],
    )


with DAG(
    dag_id="balanced_ledgers",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={"feed": Param("/var/feeds/ledger", type="string", description="Folder of the feeds")},
    doc_md=__doc__,
    tags=["hive-acid", "example"],
):
    HiveAcidTransactionOperator(
        task_id="load",
        job=TransactionJob(
            statements=[load("debits"), load("credits")],
            checks=[
                Balanced(totals={"ledger.debits": "amount", "ledger.credits": "amount"}),
            ],
        ),
    )
