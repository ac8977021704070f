"""Hive and Trino read our compactions; Hive compacts, cleans and requests further ones."""

from decimal import Decimal

import pytest

from tests.interop.checked import DAYS, DEFAULT_PARTITION, NAMES, OTHER_DAY, as_text, customer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

SHAPES = ("unpartitioned", "partitioned_bucketed")
READY = "ready for cleaning"
# Hive inserts copies of rows that it finds; their days are the same ones when 3 divides this.
FAR = 3000


@pytest.fixture(params=SHAPES)
def table(request, create_table):
    return create_table(request.param)


@pytest.mark.parametrize("table", [*SHAPES, "zstd"], indirect=True)
def test_hive_and_trino_read_our_compactions_and_hive_continues(table):
    append(table, range(60), (1006, None, None, None, OTHER_DAY))
    append(table, range(60, 90))
    insert_with_hive(table, range(30))
    change(table, 7)
    change_with_hive(table, 5)
    table.check_with_hive()

    # Only now Trino finds the delete files of Hive 4's own making.
    assert {each.outcome for each in table.compact("minor").partitions} == {"compacted"}
    assert not any("base_" in name for name in table.directories())
    table.check()

    change(table, 11)
    table.check()

    insert_with_hive(table, range(30, 50))
    change_with_hive(table, 13)
    assert {each.outcome for each in table.compact("major").partitions} == {"compacted"}
    table.check()

    change_with_hive(table, 8)
    table.check_with_hive()
    table.compact_with_hive("minor")
    table.check()

    change(table, 19)
    table.check()
    table.compact_with_hive("major")
    table.check()
    assert table.codecs() == {table.codec}

    # Files that Hive has replaced are removed, and those of its rollbacks.
    cleaned = table.clean()
    assert cleaned.kept == ()
    assert {state for _, _, state, _ in table.requests()} == {"succeeded"}
    left = [name for name in table.directories() if OTHER_DAY not in name]
    assert all("base_" in name for name in left)
    table.check()


def test_compacted_deletes_leave_no_visible_row(table):
    append(table, range(40))
    append(table, range(40, 60))
    with table.table() as ours:
        where = f"day = '{DAYS[1]}'" if table.partitioned else None
        ours.delete(where, all_rows=where is None)
    table.take(*(id_ for id_ in list(table.rows) if id_ % 3 == 1 or not table.partitioned))
    table.check()

    # Trino ignores a directory without files, and would read older ones.
    empty = [each.partition for each in table.compact("major").partitions if each.rows == 0]
    assert len(empty) == 1
    table.check()

    assert table.clean().kept == ()
    table.check()
    append(table, range(100, 110))
    table.check()


def test_hives_cleaner_removes_what_we_replaced_once_nobody_reads_it(table, eventually):
    def cleaned():
        # It counts a transaction as ended only a second after the next one could have begun.
        table.hive.clean()
        return {state for _, _, state, _ in table.requests()} == {"succeeded"}

    append(table, range(40))
    append(table, range(40, 60))
    change(table, 7)
    table.hive.roll_back(f"delete from {table.name} where id % 3 < 2")
    expected, before = table.expected(), table.directories()

    with table.table() as reader:
        rows = reader.to_df()
        table.compact("minor")
        table.hive.clean()
        assert before < table.directories()
        assert sorted(as_text(tuple(row)) for row in rows.select(NAMES).collect()) == expected
    eventually("Hive has cleaned after the minor compaction", cleaned)
    assert not before & table.directories()
    table.check()

    change(table, 11)
    table.compact("major")
    eventually("Hive has cleaned after the major compaction", cleaned)
    assert all("base_" in name for name in table.directories())
    table.check()


def test_we_serve_what_alter_table_compact_asks_for(table):
    append(table, range(40))
    append(table, range(40, 60))
    change(table, 7)
    for kind in ("minor", "major"):
        places = ask_in_hive(table, kind)
        asked = {(place, kind.upper(), "initiated") for place in places}
        assert asked <= {request[:3] for request in table.requests()}
        served = table.serve()
        assert [(each.type, each.outcome) for each in served.partitions] == [
            (kind, "compacted")
        ] * len(places)
        done = {(place, kind.upper(), READY) for place in places}
        assert done <= {request[:3] for request in table.requests()}
        table.check()
        change(table, 11)

    table.compact("major")
    assert table.clean().kept == ()
    assert {state for _, _, state, _ in table.requests()} == {"succeeded"}
    ask_in_hive(table, "minor")
    assert {each.outcome for each in table.serve().partitions} == {"skipped"}
    refused = [error for _, _, state, error in table.requests() if state == "refused"]
    assert set(refused) == {"There is no delta to compact."}
    table.check()


def append(table, ids, *more):
    rows = [*map(customer, ids), *more]
    with table.table() as ours:
        ours.append(table.frame(rows))
    table.put(rows)


def change(table, step):
    """Update and delete some rows of every partition."""
    with table.table() as ours:
        ours.update({"amount": f"{step}"}, f"id % {step} = 0 or id = 1006")
        ours.delete(f"id % {step} = 1 and id <> 1006")
    expect_changed(table, step, {id_ for id_ in table.rows if id_ % step == 0 or id_ == 1006})


def change_with_hive(table, step):
    """The same, and two changes that are rolled back."""
    name = table.name
    table.hive.sql(f"update {name} set amount = {step} where id % {step} = 0 and id <> 1006")
    table.hive.roll_back(f"update {name} set amount = 0 where id % 2 = 0 and id <> 1006")
    table.hive.roll_back(f"delete from {name} where id % 2 = 1 and id <> 1006")
    table.hive.sql(f"delete from {name} where id % {step} = 1 and id <> 1006")
    expect_changed(table, step, {id_ for id_ in table.rows if id_ % step == 0 and id_ != 1006})


def expect_changed(table, step, updated):
    for id_ in updated:
        row = list(table.rows[id_])
        row[NAMES.index("amount")] = Decimal(step).quantize(Decimal("0.01"))
        table.put([tuple(row)])
    table.take(*(id_ for id_ in list(table.rows) if id_ % step == 1 and id_ != 1006))


def insert_with_hive(table, ids):
    """Insert copies of some rows under other ids."""
    copies = f"id + {FAR}, concat('n', id + {FAR}), id + {FAR}, date_add(since, {FAR}), day"
    where = f"id between {ids.start} and {ids.stop - 1}"
    table.hive.sql(f"insert into {table.name} select {copies} from {table.name} where {where}")
    table.put(customer(id_ + FAR) for id_ in ids if id_ in table.rows)


def ask_in_hive(table, kind):
    """Request a compaction of every partition; return Hive's names of them."""
    with table.client() as client:
        names = client.get_partition_names(table.ref)
    for day in DAYS if table.partitioned else ():
        value = DEFAULT_PARTITION if day is None else day
        table.hive.sql(f"alter table {table.name} partition (day = '{value}') compact '{kind}'")
    if not table.partitioned:
        table.hive.sql(f"alter table {table.name} compact '{kind}'")
    return names or [" --- "]
