"""The cost of a change in the metastore depends on the touched partitions, not on all of them."""

from collections import Counter
from collections.abc import Callable

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.metastore.catalog import HivePartition
from hiveacid.rules.names import partition_name
from hiveacid.spark.read.pruning import called
from hiveacid.spark.session import file_writer
from tests.engine.acid_tables import create
from tests.metastore_calls import counted_calls

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
# A number may have several spellings, and so several names.
TEXT, NUMBER = {"day": "string"}, {"day": "int"}
BATCH = [(1, 10, "3"), (4, 40, "5"), (6, 60, "7")]


def merge(table: AcidTable, batch):
    changes = table.merge(batch, "t.day = s.day and t.id = s.id")
    changes.when_matched_update_all().when_not_matched_insert_all().execute()


def update(table: AcidTable, batch):
    table.update({"v": "v + 1"}, "day in ('3', '5', '7')")


def delete(table: AcidTable, batch):
    table.delete("id = 1 and day in ('3', '5', '7')")


@FAKE
@pytest.mark.parametrize(
    ("work", "keys"), [(merge, TEXT), (merge, NUMBER), (update, NUMBER), (delete, TEXT)]
)
def test_partitions_that_are_not_touched_cost_no_call(
    spark, hms, client, database, work: Callable, keys
):
    seen: list[Counter[str]] = []
    for others in (20, 40):
        table = create(client, f"{database}.t{others}", {"id": "int", "v": "int"}, keys)
        days = range(others)
        client.add_partitions(table.ref, [HivePartition.new(table, [str(day)]) for day in days])
        batch = spark.createDataFrame(BATCH, "id int, v int, day string")
        batch = batch.withColumn("day", batch.day.cast(keys["day"]))
        with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as acid:
            acid.append(batch)
            with counted_calls() as calls:
                work(acid, batch)
        # Those three, when they are read, when they are located, and when they are published.
        assert calls["partitions described"] <= 4 * len(BATCH)
        # The clock sends some of them.
        assert calls.pop("heartbeat_txn_range") < 20
        seen.append(calls)
    assert seen[0] == seen[1]


TEXTS = [
    *("0", "1", "01", "-1", "-0", "+1", " 1", "1 ", "1.0", "1e1", "", "x", "\u0661", None),
    *("999999999", "2147483647", "2147483648", "9" * 18, str(2**63 - 1), str(2**63), "9" * 30),
    *("2026-01-01", "2026-1-1", "2026-02-30", "0001-01-01", "0000-01-01", "9999-12-31"),
    *("2026-01-01 00:00:00", "2026-01-01T", "+2026-01-01", "20260101", "2026-01"),
]


@pytest.mark.parametrize("type", ["tinyint", "smallint", "int", "bigint", "date", "string"])
@FAKE
def test_partitions_are_found_by_what_spark_reads_in_their_names(spark, client, database, type):
    table = create(client, f"{database}.t", {"id": "int"}, {"key": type})
    rows = spark.createDataFrame([(text,) for text in TEXTS], "text string")
    read = rows.selectExpr(f"cast(try_cast(text as {type}) as string)").collect()
    names = [partition_name(["key"], [text]) for text in TEXTS]
    belongs = [partition_name(["key"], list(row)) for row in read]
    for wanted in set(belongs):
        those = [name for name, other in zip(names, belongs, strict=True) if other == wanted]
        assert called(spark, table, [wanted], names) == those


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
@pytest.mark.parametrize("work", [merge, update, delete])
def test_no_definition_is_read_twice_in_a_step(spark, hms, client, database, work: Callable):
    """The table is described once to prepare, under the lock, and before the publishing."""
    table = create(client, f"{database}.t", {"id": "int", "v": "int", "day": "string"})
    with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.createDataFrame(BATCH, "id int, v int, day string"))
        with counted_calls() as calls:
            work(acid, spark.createDataFrame(BATCH, "id int, v int, day string"))
    # Without a number of the table, its write id shows that it was not created again.
    allocations = 3 if client.get_table(table.ref).identity.id is None else 1
    assert (calls["get_table_req"], calls["allocate_table_write_ids"]) == (3, allocations)


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_a_source_is_described_as_often_as_the_target(spark, hms, client, database):
    """Once to prepare, once under the lock for all its uses, and once after the last read."""
    for name in ("s", "t"):
        create(client, f"{database}.{name}", {"id": "int", "v": "int", "day": "string"})
    source = TableSource(f"{database}.s")
    query = QuerySource(
        "SELECT * FROM s WHERE id IN (SELECT id FROM r)", {"s": source, "r": source}
    )
    with (
        AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid,
        counted_calls() as calls,
    ):
        acid.append(query)
    assert calls["get_table_req"] == 3 + 3


def test_a_partition_that_spark_writes_costs_one_file(spark, tmp_path):
    """Java starts a process for each local file, also for one of checksums."""
    rows = spark.range(3).selectExpr("id", "id as day")
    file_writer(rows, str(tmp_path / "rows")).partitionBy("day").orc(str(tmp_path / "rows"))
    found = [path.suffix for path in (tmp_path / "rows").rglob("*") if path.is_file()]
    assert found == 3 * [".orc"]
    rows.write.orc(str(tmp_path / "of_user"))
    assert [*(tmp_path / "of_user").glob(".*.crc")]
