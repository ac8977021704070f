"""Each verb of AcidTable has the same result in both engines."""

from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import hiveacid
from hiveacid.api.changes import TableChanges
from hiveacid.api.table import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.errors import InvalidJob, SparkNeeded
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.spark.spark_versions import from_arrow

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

COLUMNS = {
    "id": "bigint",
    "name": "string",
    "price": "decimal(10,2)",
    "day": "date",
    "at": "timestamp",
    "share": "double",
}
BEFORE = [
    {
        "id": number,
        "name": name,
        "price": Decimal("1.50") * number,
        "day": date(2026, 1, number),
        "at": datetime(2026, 1, 1, number, 30),
        "share": number / 4,
    }
    for number, name in ((1, "a"), (2, None), (3, "c"))
]
NEW = [
    {**BEFORE[1], "name": "B"},
    {**BEFORE[0], "id": 7, "name": None, "price": None, "day": None, "at": None, "share": None},
]
ARROW = pa.Table.from_pylist(NEW)

FORMS: dict[str, Callable[[], Any]] = {
    "dictionaries": lambda: NEW,
    "a table": lambda: ARROW,
    "a batch": lambda: ARROW.to_batches()[0],
    "a reader": ARROW.to_reader,
    "pandas": lambda: ARROW.to_pandas(types_mapper=pandas.ArrowDtype),
    "Polars": lambda: polars.from_arrow(ARROW),
}


def merge(table: "TableChanges[Any]", rows: Any) -> Any:
    merging = table.merge(rows, "t.id = s.id", params={"least": 2})
    merging = merging.when_matched_update({"name": "s.name"}, "t.id >= :least")
    merging = merging.when_not_matched_insert_all()
    return merging.when_not_matched_by_source_delete("t.id = 3").execute()


CHANGES: dict[str, Callable[["TableChanges[Any]"], Any]] = {
    "append": lambda table: table.append(NEW),
    "append some columns": lambda table: table.append(pa.table({"name": ["x"], "ID": [9]})),
    "append by position": lambda table: table.append(ARROW, by_position=True),
    "overwrite": lambda table: table.overwrite(ARROW),
    "upsert": lambda table: table.upsert(ARROW, on=["ID"]),
    "upsert some columns": lambda table: table.upsert(ARROW.select(["id", "name"]), on=["id"]),
    "merge": lambda table: merge(table, ARROW),
    "update": lambda table: table.update(
        {"name": "concat(name, :more)"}, "id > :id", {"id": 1, "more": "!"}
    ),
    "update all": lambda table: table.update({"price": "price * 2"}, all_rows=True),
    "delete": lambda table: table.delete("t.id = :id", {"id": 2}),
    "delete all": lambda table: table.delete(all_rows=True),
}


class Twins:
    """Two equal tables, each for one engine."""

    def __init__(self, spark: SparkSession, client: MetastoreClient, database: str) -> None:
        self.database = database
        columns = [HiveColumn(*column) for column in COLUMNS.items()]
        for name in ("worker", "spark"):
            client.create_table(HiveTable.new(TableRef(database, name), columns))
        options = client.options
        self.worker = AcidTable(f"{database}.worker", options, "worker")
        self.spark = AcidTable(f"{database}.spark", options, "spark", spark=spark)
        self.both = (self.worker, self.spark)
        for table in self.both:
            table.append(BEFORE)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, which must be those of both tables."""
        first, second = (
            sorted(table.to_arrow().to_pylist(), key=lambda row: (row["id"] or 0, str(row["name"])))
            for table in self.both
        )
        assert first == second
        return first


@pytest.fixture
def twins(spark: SparkSession, client: MetastoreClient, database: str) -> Iterator[Twins]:
    twins = Twins(spark, client, database)
    with twins.worker, twins.spark:
        yield twins


def effect(report: RunReport) -> tuple[Any, ...]:
    counts = (report.rows_inserted, report.rows_updated, report.rows_deleted)
    return report.job, *counts, report.already_done


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_the_same_in_both_engines(
    twins: Twins, change: Callable[["TableChanges[Any]"], RunReport]
) -> None:
    before = twins.rows()
    first, second = (effect(change(table)) for table in twins.both)
    assert first == second
    assert any(first[1:])
    assert twins.rows() != before


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_rows_have_many_forms(twins: Twins, form: Callable[[], Any]) -> None:
    for table in twins.both:
        assert table.append(form()).rows_inserted == 2
        assert table.upsert(form(), on=["id"]).rows_updated == 3
    # The row with the id 2 is there twice.
    assert [row for row in twins.rows() if row["id"] in (2, 7)] == [NEW[0], NEW[0], NEW[1]]


def test_frames_and_columns_of_spark_run_on_spark(
    twins: Twins, spark: SparkSession, client: MetastoreClient
) -> None:
    frame = from_arrow(spark, ARROW)
    with AcidTable(twins.worker.ref.full_name, client.options, spark=spark) as table:
        assert table.upsert(frame, on=["id"]).rows_inserted == 1
        assert table.delete(F.col("t.id").isin(1, 3)).rows_deleted == 2
        assert sorted(row.id for row in table.to_df().collect()) == [2, 7]
    for change in (
        lambda: twins.worker.append(frame),
        lambda: twins.worker.delete(F.col("t.id") == 1),
        lambda: twins.worker.merge(ARROW, "t.id = s.id").when_matched_delete(F.lit(True)),
    ):
        with pytest.raises(SparkNeeded):
            change()


def test_a_change_that_is_too_hard_for_the_worker_runs_on_spark(
    twins: Twins, spark: SparkSession, client: MetastoreClient
) -> None:
    hard = {"name": "md5(name)"}
    with pytest.raises(SparkNeeded, match="requires Spark"):
        twins.worker.update(hard, "id = 1")
    assert twins.worker.plan.update({"name": "'x'"}, "id = 1").details["statement"]["runs"] == (
        "in the worker"
    )
    with AcidTable(twins.worker.ref.full_name, client.options, spark=spark) as table:
        place = table.plan.update(hard, "id = 1").details["statement"]["runs"]
        assert str(place).startswith("on Spark: ")
        assert table.update(hard, "id = 1").rows_updated == 1
    assert twins.spark.update(hard, "id = 1").rows_updated == 1
    twins.rows()


def test_a_plan_changes_nothing_and_names_the_locks(twins: Twins) -> None:
    before = twins.rows()
    for table in twins.both:
        for change in CHANGES.values():
            plan = change(table.plan)
            assert plan.details["statement"]["table"] == table.ref.full_name
            assert table.ref.full_name in plan.details["locks"]
    assert twins.rows() == before


def test_versions(twins: Twins) -> None:
    for table in twins.both:
        table.delete("id = 1")
        assert [entry.operation for entry in table.history()] == ["delete", "insert"]
        assert table.detail().newest_version == 2
        assert [each.deleted for each in table.diff(1)] == [1]
        assert table.restore(1, dry_run=True).rows_inserted == 1
        assert table.to_arrow(["id"], as_of_write_id=1).num_rows == 3
    changes = twins.spark.changes(1).collect()
    assert [(row.id, row._change_type) for row in changes] == [(1, "delete")]
    with pytest.raises(SparkNeeded):
        twins.worker.restore(1)
    with pytest.raises(SparkNeeded):
        twins.worker.truncate()
    assert twins.spark.restore(1).rows_inserted == 1
    assert len(twins.spark.to_arrow()) == 3
    twins.spark.truncate()
    assert len(twins.spark.to_arrow()) == 0


def test_compactions(twins: Twins) -> None:
    for table in twins.both:
        table.delete("id = 1")
        (partition,) = table.compact("major").partitions
        assert partition.outcome == "compacted"
    assert len(twins.rows()) == 2


def test_rows_can_be_read_in_many_forms(twins: Twins) -> None:
    expected = [(row["id"], row["name"]) for row in BEFORE]
    names = ["id", "name"]
    for table in twins.both:
        arrow, frame = table.to_arrow(names), table.to_pandas(names)
        assert sorted(tuple(row.values()) for row in arrow.to_pylist()) == expected
        assert sorted(frame["id"]) == [1, 2, 3]
        assert sorted(table.to_polars(names).rows()) == expected
        found = table.to_duckdb("orders").sql(
            "SELECT id, name FROM orders WHERE id > 0 ORDER BY id"
        )
        assert found.fetchall() == expected
        assert table.schema.names == list(COLUMNS)
    assert sorted(tuple(row) for row in twins.spark.to_df(None, names).collect()) == expected


def test_a_transaction_is_the_same_in_both_engines(
    twins: Twins, spark: SparkSession, client: MetastoreClient
) -> None:
    effects = []
    for table, more in ((twins.worker, {"run_in": "worker"}), (twins.spark, {"run_in": "spark"})):
        name = table.ref.full_name
        with AcidTransaction(client.options, spark=spark, **more) as txn:
            txn.table(name).append(NEW)
            txn.table(name).append([{**NEW[0], "id": 8}])
            txn.table(name).delete("id = 3")
            assert txn.report is None
        assert txn.report is not None
        effects.append(effect(txn.report))
    assert effects[0] == effects[1] == ("transaction", 3, 0, 1, False)
    assert [row["id"] for row in twins.rows()] == [1, 2, 2, 7, 8]


def test_a_transaction_mixes_rows_of_arrow_and_of_spark(
    twins: Twins, spark: SparkSession, client: MetastoreClient
) -> None:
    with AcidTransaction(client.options, spark=spark) as txn:
        txn.table(twins.worker.ref.full_name).append(NEW)
        txn.table(twins.spark.ref.full_name).append(from_arrow(spark, ARROW))
    assert len(twins.rows()) == 5


def test_sql_returns_rows_and_reports(
    twins: Twins, spark: SparkSession, client: MetastoreClient
) -> None:
    for table in twins.both:
        place: Any = {
            "metastore": client.options,
            "database": twins.database,
            "run_in": table._engines.run_in,
            "spark": spark,
        }
        name = table.ref.name
        report = hiveacid.sql(f"UPDATE {name} SET name = :n WHERE id = 1", {"n": "z"}, **place)
        assert effect(report) == ("update", 0, 1, 0, False)
        rows = hiveacid.sql(f"SELECT id, name FROM {name}", **place).to_pylist()
        assert {"id": 1, "name": "z"} in rows
        times = hiveacid.sql(f"SELECT max(at) AS last FROM {name}", **place).to_pylist()
        assert times == [{"last": BEFORE[2]["at"]}]
        total = hiveacid.sql(f"SELECT sum(id) AS total FROM {name}", **place)
        assert total.to_pylist() == [{"total": 6}]
        answer = hiveacid.sql("SHOW TABLES", **place)
        assert sorted(answer.rows) == [("spark",), ("worker",)]
        plan = hiveacid.sql(f"EXPLAIN DELETE FROM {name} WHERE id = 1", **place)
        assert plan.details["statement"]["does"] == "delete"
        assert hiveacid.sql(f"SHOW HISTORY {name}", **place)[0].operation == "update"
        last = hiveacid.sql(f"DELETE FROM {name} WHERE id = 2; SELECT * FROM {name}", **place)
        assert last.num_rows == 2
    twins.rows()


def test_mistakes_are_the_same_in_both_engines(twins: Twins) -> None:
    for table in twins.both:
        with pytest.raises(InvalidJob, match="no condition"):
            table.delete()
        with pytest.raises(InvalidJob):
            table.merge(TableSource("a.b"), "t.id = s.id").execute()
        with pytest.raises(InvalidJob, match="run_in"):
            AcidTable(table.ref.full_name, table._client.options, "here")
