"""Insert-only tables of every format: read, appended to, overwritten, and what they refuse."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.acid.directory import Rules
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.engine.flat_snapshot import FlatSnapshot
from airflow_hiveacid.engine.table import AcidTable
from airflow_hiveacid.metastore.catalog import HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.embedded import EmbeddedMetastore
from airflow_hiveacid.metastore.formats import StorageFormat
from tests.engine.acid_tables import create, files, left_behind, rows_of
from tests.golden import GoldenSnapshot, GoldenTable, golden_snapshots

HMS = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

ORC, PARQUET, TEXTFILE, CSV, JSON = StorageFormat
Make = Callable[..., tuple[AcidTable, HiveTable]]


@pytest.fixture
def make_only(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[Make]:
    """Creates insert-only tables."""
    opened: list[AcidTable] = []

    def made(
        columns: dict[str, str], keys: dict[str, str] | None = None, **more: Any
    ) -> tuple[AcidTable, HiveTable]:
        name = f"{database}.t{len(opened)}"
        table = create(client, name, columns, keys, kind=TableKind.INSERT_ONLY, **more)
        opened.append(AcidTable(name, hms.uri, spark=spark))
        return opened[-1], table

    yield made
    for acid in opened:
        acid.close()
    assert left_behind(client) == []


@pytest.mark.parametrize("snapshot", golden_snapshots(TableKind.INSERT_ONLY), ids=str)
def test_tables_of_hive_have_the_rows_that_hive_selected(
    spark: SparkSession, snapshot: GoldenSnapshot
) -> None:
    golden = GoldenTable.read(snapshot.table)
    found = FlatSnapshot.of_insert_only(
        golden.hive_table(),
        golden.hive_partitions(),
        snapshot.write_ids,
        snapshot.txns,
        Rules.HIVE4,
    )
    rows = found.rows(spark)
    texts = rows.selectExpr(*[f"cast(`{name}` as string)" for name in rows.columns])
    assert sorted(map(tuple, texts.collect()), key=str) == sorted(
        (tuple(row[1:]) for row in snapshot.rows), key=str
    )


@HMS
@pytest.mark.parametrize("form", StorageFormat)
def test_rows_are_appended_and_overwritten(
    make_only: Make, spark: SparkSession, form: StorageFormat
) -> None:
    number = "string" if form is CSV else "int"
    acid, table = make_only({"id": number, "name": "string"}, {"day": "string"}, format=form)
    schema = f"id {number}, name string, day string"

    def frame(*rows: tuple[int, str, str]) -> Any:
        typed = [(str(n) if form is CSV else n, name, day) for n, name, day in rows]
        return spark.createDataFrame(typed, schema)

    def seen() -> list[tuple[int, str, str]]:
        return sorted((int(n), name, day) for n, name, day in acid.to_df().collect())

    report = acid.append(frame((1, "a", "mon"), (2, 'b"\\', "tue"), (3, "c", "tue")))
    assert (report.rows_inserted, report.partitions) == (3, ("day=mon", "day=tue"))
    acid.append(frame((4, "d", "mon")))
    assert seen() == [(1, "a", "mon"), (2, 'b"\\', "tue"), (3, "c", "tue"), (4, "d", "mon")]
    overwritten = acid.overwrite(frame((5, "e", "mon")))
    assert overwritten.partitions == ("day=mon",)
    assert seen() == [(2, 'b"\\', "tue"), (3, "c", "tue"), (5, "e", "mon")]
    acid.overwrite(frame(), [{"day": "tue"}])
    acid.append(frame((6, "f", "mon")))
    assert seen() == [(5, "e", "mon"), (6, "f", "mon")]
    found = [path for path in files(table) if "_hiveacid" not in path]
    assert found == [
        "day=mon/base_0000003/000000_0",
        "day=mon/delta_0000001_0000001_0000/000000_0",
        "day=mon/delta_0000002_0000002_0000/000000_0",
        "day=mon/delta_0000005_0000005_0000/000000_0",
        "day=tue/base_0000004/000000_0",
        "day=tue/delta_0000001_0000001_0000/000000_0",
    ]


@HMS
@pytest.mark.parametrize("form", StorageFormat)
def test_compactions_keep_the_rows(
    make_only: Make, spark: SparkSession, form: StorageFormat
) -> None:
    number = "string" if form is CSV else "int"
    acid, table = make_only({"id": number, "name": "string"}, format=form)

    def append(*ids: int) -> None:
        rows = [(str(i) if form is CSV else i, f"n{i}") for i in ids]
        acid.append(spark.createDataFrame(rows, f"id {number}, name string").coalesce(1))

    def names() -> list[str]:
        return sorted(path for path in files(table) if path.rpartition("/")[2][0].isdigit())

    for start in (0, 10, 20):
        append(*range(start, start + 5))
    before = rows_of(acid.to_df())
    (minor,) = acid.compact("minor").partitions
    assert (minor.outcome, minor.rows) == ("compacted", 15)
    assert minor.published[0].startswith("delta_0000001_0000003_v")
    assert rows_of(acid.to_df()) == before
    append(30)
    (major,) = acid.compact("major").partitions
    assert major.published[0].startswith("base_0000004_v")
    assert major.replaced == (minor.published[0], "delta_0000004_0000004_0000")
    assert rows_of(acid.to_df()) == sorted([*before, _row(30, form)])
    assert major.stripes_copied == (4 if form is ORC else 0)
    assert f"{major.published[0]}/000000_0" in names()
    assert acid.compact("major").partitions[0].outcome == "skipped"


def _row(number: int, form: StorageFormat) -> tuple[Any, ...]:
    return (str(number) if form is CSV else number, f"n{number}")
