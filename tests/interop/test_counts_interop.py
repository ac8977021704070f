"""Hive 4's answers to count(*), which it takes from the metastore if its statistics are accurate."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.progress import Phase
from tests.interop.checked import customer
from tests.observers import At

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]


class Killed(Exception):
    pass


def kill():
    raise Killed


@pytest.mark.parametrize("shape", ["unpartitioned", "partitioned_bucketed"])
def test_hive_counts_right_after_racing_and_killed_appends(
    shape, create_table, eventually, monkeypatch
):
    table = create_table(shape)

    def append(ids):
        rows = [*map(customer, ids)]
        with table.table() as ours:
            ours.append(table.frame(rows))
        table.put(rows)

    def die(ids):
        observers = [At(Phase.PUBLISH, kill)]
        killed = AcidTable(
            table.name, table.uri, spark=table.spark, run_in="spark", observers=observers
        )
        with monkeypatch.context() as patch, killed:
            # A dead process reverts nothing; the metastore then aborts the transaction.
            patch.setattr(LiveTransaction, "_remove_owned", lambda _: None)
            with pytest.raises(Killed):
                killed.append(table.frame([*map(customer, ids)]))

    def compact_with_hive(kind):
        def cleaned():
            table.hive.clean()
            return {state for _, _, state, _ in table.requests()} <= {"succeeded"}

        eventually("Hive has cleaned", cleaned)
        table.compact_with_hive(kind)

    # Hive's own rows come with a number that it believes in.
    append(range(3))
    table.hive.sql(f"insert overwrite table {table.name} select * from {table.name}")
    table.check_with_hive()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append, (range(n, n + 6) for n in range(10, 64, 6))))
    die(range(100, 106))
    compact_with_hive("minor")
    table.check_with_hive()
    append(range(200, 206))
    die(range(300, 306))
    compact_with_hive("major")
    table.check_with_hive()
    # Hive adds to the number that it finds.
    table.hive.sql(
        f"insert into {table.name} select id + 3000, name, amount, since, day from {table.name} "
        "where id between 200 and 205"
    )
    table.put((id_ + 3000, *customer(id_)[1:]) for id_ in range(200, 206))
    table.hive.sql(f"delete from {table.name} where id = 200")
    table.take(200)
    compact_with_hive("major")
    table.check_with_hive()
