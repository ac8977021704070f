"""Hive and Trino go on with a table that was rebalanced, by us or by Hive."""

import pytest

from tests.interop.checked import DAYS, NAMES
from tests.interop.test_compaction_interop import (
    append,
    change,
    change_with_hive,
    insert_with_hive,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]


@pytest.fixture(params=["unpartitioned", "partitioned"])
def table(request, create_table):
    return create_table(request.param)


def test_hive_and_trino_continue_with_our_rebalanced_tables(table):
    append(table, range(60))
    insert_with_hive(table, range(30))
    change(table, 7)
    change_with_hive(table, 5)
    before = {row[:3] for row in table.row_ids_seen_by_hive()}
    done = table.compact("rebalance", order_by=["name", "ID"]).partitions
    assert {each.outcome for each in done} == {"compacted"}
    table.check()
    assert not before & {row[:3] for row in table.row_ids_seen_by_hive()}
    check_order_of_names(table)

    # All engines find the rows by their new row ids.
    change_with_hive(table, 8)
    table.check_with_hive()
    table.trino.sql(f"delete from hive.{table.name} where id in (3, 9, 10)")
    table.take(*{3, 9, 10} & table.rows.keys())
    table.check_with_hive()
    change(table, 11)
    table.compact_with_hive("minor")
    table.check()
    append(table, range(60, 70))
    done = table.compact("rebalance", order_by=["amount"]).partitions
    assert {each.outcome for each in done} == {"compacted"}
    table.check()
    insert_with_hive(table, range(40, 50))
    table.compact_with_hive("major")
    table.check()
    assert table.clean().kept == ()
    table.check()


@pytest.mark.parametrize("table", ["unpartitioned"], indirect=True)
def test_we_continue_with_hive_s_rebalanced_tables(table):
    append(table, range(60))
    change(table, 7)
    table.ask_for_rebalance("name desc")
    table.hive.work()
    kinds = {(kind, state) for _, kind, state, _ in table.requests()}
    assert kinds == {("REBALANCE", "ready for cleaning")}
    table.check()
    with table.table() as ours:
        told = [entry for entry in ours.history() if entry.write_id is None]
    assert [entry.operation for entry in told] == ["rebalance"]
    change(table, 11)
    table.check()
    change_with_hive(table, 8)
    table.check_with_hive()
    done = table.compact("rebalance", order_by=["id"]).partitions
    assert {each.outcome for each in done} == {"compacted"}
    table.check()


def test_we_rebalance_what_hives_users_ask_for(table):
    append(table, range(60))
    change(table, 7)
    table.ask_for_rebalance("name", f"partition (day = '{DAYS[0]}')" if table.partitioned else "")
    (done,) = table.serve().partitions
    assert (done.outcome, done.type) == ("compacted", "rebalance"), done
    table.check()
    if not table.partitioned:
        check_order_of_names(table)


@pytest.mark.parametrize("table", ["partitioned"], indirect=True)
def test_hive_puts_the_rows_of_all_partitions_into_the_one_that_it_rebalances(table):
    """A request for a rebalance of one partition is served by this package."""
    append(table, range(60))
    table.ask_for_rebalance("name", f"partition (day = '{DAYS[0]}')")
    table.hive.work()
    seen = table.seen_by_us()
    assert seen == table.select(table.hive, table.name)
    assert len(seen) == 60 + sum(row[-1] != DAYS[0] for row in table.rows.values())


def check_order_of_names(table):
    """In each partition the row ids have the order of the names."""
    place = {row[3]: tuple(map(int, row[:3])) for row in table.row_ids_seen_by_hive()}
    for day in {row[-1] for row in table.rows.values()}:
        rows = [row for row in table.rows.values() if row[-1] == day or not table.partitioned]
        rows.sort(key=lambda row: (row[NAMES.index("name")], row[0]))
        ids = [str(row[0]) for row in rows]
        assert sorted(ids, key=place.__getitem__) == ids
