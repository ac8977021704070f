"""Hive's files that Trino misreads are found by the policy, and repaired by its compaction."""

import shutil
from pathlib import Path

import pytest

from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.names import partition_name
from hiveacid.spark.compaction import compact_table
from hiveacid.upkeep.survey import Survey
from tests.interop.checked import DAYS, customer
from tests.interop.making import lock_to_insert

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

FOR_TRINO = CompactionPolicy(
    max_deltas=None,
    max_delta_ratio=None,
    max_aborted=None,
    max_aborted_age_hours=None,
    right_for="trino",
)
DAY = DAYS[0]
PLACE = partition_name(["day"], [DAY])


@pytest.fixture
def table(create_table):
    table = create_table("partitioned")
    for ids in (range(20), range(20, 40)):
        rows = [customer(id_) for id_ in ids]
        with table.table() as ours:
            ours.append(table.frame(rows))
        table.put(rows)
    assert called_for(table) == {}
    table.check()
    return table


def called_for(table):
    with table.client() as client:
        found = Survey(client, FOR_TRINO).survey([table.ref])
    return {each.size.partition: each.type.value for each in found if each.type is not None}


def compact_for_trino(table):
    with table.client() as client:
        job = CompactJob(target=table.name, policy=FOR_TRINO)
        report = compact_table(lambda: table.spark, client, job)
    return {each.partition for each in report.partitions if each.outcome == "compacted"}


def seen_by_trino(table):
    return table.select(table.trino, f"hive.{table.name}")


def test_deletes_of_hive_are_found_and_repaired(table):
    table.hive.sql(f"delete from {table.name} where day = '{DAY}' and id < 10")
    table.hive.sql(
        f"update {table.name} set amount = 7 where day = '{DAY}' and id between 10 and 19"
    )
    gone = [id_ for id_ in table.rows if id_ < 10 and customer(id_)[-1] == DAY]
    table.take(*gone)
    table.put(customer(id_, 7) for id_ in range(10, 20) if customer(id_)[-1] == DAY)
    table.check_with_hive()
    # Those that were deleted, and those that were updated once more.
    updated = sum(customer(id_)[-1] == DAY for id_ in range(10, 20))
    assert len(seen_by_trino(table)) == len(table.rows) + len(gone) + updated

    assert called_for(table) == {PLACE: "minor"}
    assert compact_for_trino(table) == {PLACE}
    table.check()
    assert called_for(table) == {}

    # On a base, with rows and deletes of one write id, it takes a major one.
    assert table.clean().kept == ()
    table.compact("major")
    table.hive.sql(f"update {table.name} set amount = 8 where day = '{DAY}'")
    table.put(customer(id_, 8) for id_ in list(table.rows) if customer(id_)[-1] == DAY)
    table.check_with_hive()
    assert len(seen_by_trino(table)) > len(table.rows)
    assert called_for(table) == {PLACE: "major"}
    assert compact_for_trino(table) == {PLACE}
    table.check()
    assert called_for(table) == {}


def test_deletes_alone_on_a_base_need_a_minor_compaction_only(table):
    table.compact("major")
    table.hive.sql(f"delete from {table.name} where day = '{DAY}' and id < 10")
    gone = [id_ for id_ in table.rows if id_ < 10 and customer(id_)[-1] == DAY]
    table.take(*gone)
    table.check_with_hive()
    assert len(seen_by_trino(table)) == len(table.rows) + len(gone)
    assert called_for(table) == {PLACE: "minor"}
    assert compact_for_trino(table) == {PLACE}
    table.check()
    assert called_for(table) == {}


def test_an_empty_base_of_a_truncation_is_found_and_repaired(table):
    table.hive.sql(f"truncate table {table.name} partition (day = '{DAY}')")
    gone = [id_ for id_ in table.rows if customer(id_)[-1] == DAY]
    table.take(*gone)
    table.check_with_hive()
    assert len(seen_by_trino(table)) == len(table.rows) + len(gone)

    assert called_for(table) == {PLACE: "major"}
    assert compact_for_trino(table) == {PLACE}
    table.check()
    assert called_for(table) == {}


def test_an_empty_base_of_hive_s_compaction_is_found_and_repaired_by_a_cleaning(table):
    table.hive.sql(f"delete from {table.name} where day = '{DAY}'")
    table.hive.compact(table.name, "major", PLACE)
    gone = [id_ for id_ in table.rows if customer(id_)[-1] == DAY]
    table.take(*gone)
    table.check_with_hive()
    assert len(seen_by_trino(table)) == len(table.rows) + len(gone)

    # The metastore takes no new request before that of Hive is cleaned.
    assert called_for(table) == {PLACE: "major"}
    assert compact_for_trino(table) == set()
    assert table.clean().kept == ()
    table.check()
    assert called_for(table) == {}


def leave_uncommitted(table, sources):
    """Leave directories as a compaction does that is killed and aborted.

    Args:
        table: The table.
        sources: The directories whose files they get, by their names without the transaction.
    """
    with table.client() as client:
        txn_id = client.open_txn("compactor", "localhost", None)
        lock_to_insert(client, table.ref, txn_id)
        client.abort_txn(txn_id)
        (place,) = client.get_partitions(client.get_table(table.ref), [PLACE])
    folder = Path(place.folder.removeprefix("file:"))
    for name, source in sources.items():
        shutil.copytree(folder / source, folder / f"{name}_v{txn_id:07d}")


def compact_minor(table):
    with table.table() as ours:
        (done,) = ours.compact("minor", partitions=[PLACE]).partitions
    assert done.outcome == "compacted"
    return done


def test_rows_in_two_compactions_of_one_range_are_found_and_repaired(table):
    (made,) = compact_minor(table).published
    leave_uncommitted(table, {made.partition("_v")[0]: made})
    there = [row for row in table.expected() if row[-1] == DAY]
    table.check_with_hive()
    assert seen_by_trino(table) == sorted([*table.expected(), *there])

    # The metastore takes no new request before the first is cleaned, or something is written.
    row = customer(42)
    assert row[-1] == DAY
    with table.table() as ours:
        ours.append(table.frame([row]))
    table.put([row])
    assert called_for(table) == {PLACE: "major"}
    assert compact_for_trino(table) == {PLACE}
    table.check()
    assert called_for(table) == {}


def test_where_a_compaction_was_killed_between_its_directories_the_next_is_a_major_one(table):
    with table.table() as ours:
        ours.delete(f"day = '{DAY}' and id < 10")
    gone = [id_ for id_ in table.rows if id_ < 10 and customer(id_)[-1] == DAY]
    table.take(*gone)
    table.check()
    # The rows of the first write alone are enough to show that Trino takes it for the whole.
    leave_uncommitted(table, {"delta_0000001_0000003": "delta_0000001_0000001_0000"})
    table.check_with_hive()
    assert seen_by_trino(table) != table.expected()
    assert called_for(table) == {PLACE: "major"}

    assert compact_minor(table).type == "major"
    table.check()
    assert called_for(table) == {}
