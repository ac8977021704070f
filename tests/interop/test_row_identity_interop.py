"""Rows are renumbered by Hive or by us under a change that has read them, which is refused."""

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.errors import OverlapRefused
from hiveacid.progress import Phase
from hiveacid.writes.statement import WriteOptions
from tests.interop.checked import customer
from tests.interop.test_compaction_interop import append, change, change_with_hive
from tests.observers import At

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]


@pytest.fixture
def table(create_table):
    table = create_table("unpartitioned")
    append(table, range(30))
    append(table, range(30, 40))
    change(table, 7)
    return table


def changed_beside(table, *others):
    """Update a row and merge a new one under the policy rows, with others between read and commit."""
    source = table.frame([customer(200)])
    changes = [
        lambda ours: ours.update({"name": "'mine'"}, "id = 4"),
        lambda ours: ours.merge(source, "t.id = s.id").when_not_matched_insert_all().execute(),
    ]
    options = WriteOptions(conflict_policy="rows", lock_wait_seconds=60)
    for work, other in zip(changes, others, strict=True):
        between = At(Phase.WRITE, other)
        args = {"spark": table.spark, "options": options, "observers": [between]}
        with (
            AcidTable(table.name, table.uri, **args) as ours,
            pytest.raises(OverlapRefused, match="row ids that may have changed"),
        ):
            work(ours)
        assert between.times == 0
        table.check_with_hive()


def test_a_change_is_refused_after_a_rebalance_of_hive(table):
    def rebalance(order_by, *ids):
        append(table, ids)
        table.ask_for_rebalance(order_by)
        table.hive.work()

    changed_beside(
        table,
        lambda: rebalance("name desc", *range(40, 45)),
        lambda: rebalance("id desc", *range(45, 50)),
    )


def test_a_change_is_refused_after_a_compaction_of_hive_which_proves_nothing(table):
    def compact(*ids):
        append(table, ids)
        table.compact_with_hive("major")

    changed_beside(table, lambda: compact(*range(40, 45)), lambda: compact(*range(45, 50)))


def test_engines_change_rows_that_we_have_renumbered_and_no_row_id_is_used_again(table):
    used = {row[:3] for row in table.row_ids_seen_by_hive()}
    with table.table() as ours:
        ours.delete("id >= 35")
    table.take(*(id_ for id_ in list(table.rows) if id_ >= 35))
    table.compact("major")

    def rebalance(*ids, order_by=()):
        append(table, ids)
        done = table.compact("rebalance", order_by=order_by).partitions
        assert {each.outcome for each in done} == {"compacted"}

    changed_beside(
        table,
        lambda: rebalance(*range(40, 45)),
        lambda: rebalance(*range(45, 50), order_by=["name"]),
    )
    table.check()
    seen = {row[:3] for row in table.row_ids_seen_by_hive()}
    assert not used & seen

    change_with_hive(table, 9)
    table.check_with_hive()
    table.compact("minor")
    table.check()
    table.trino.sql(f"delete from hive.{table.name} where id in (3, 11, 47)")
    table.take(3, 11, 47)
    table.check()
    change(table, 5)
    append(table, range(60, 65))
    table.compact_with_hive("minor")
    table.check()
    # Hive refuses a second request for the same highest write id.
    append(table, range(65, 70))
    table.compact_with_hive("major")
    table.check()
