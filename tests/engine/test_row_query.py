"""A frame of some rows and columns: the right ones, from no more files than needed."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import InvalidJob, UnknownColumn
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import create, folder

Row = tuple[Any, ...]
TYPES = {
    "id": "bigint",
    "s": "string",
    "d": "date",
    "p": "decimal(9,1)",
    "place": "struct<x:int,id:int>",
    "c": "char(4)",
}
SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items()).replace("char(4)", "string")
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"keys": {"k": "int"}},
    "bucketed": {"bucket_columns": ["id"], "num_buckets": 4},
    "insert-only": {"kind": TableKind.INSERT_ONLY, "keys": {"k": "int"}},
}


def row(n: int) -> Row:
    text = ["é", "😀", "\ue000", "it's \\"][n] if n < 4 else f"text {n}"
    day = date(2000, 1, 1) + timedelta(days=n)
    return (n, text if n % 5 else None, day, Decimal(n) / 2, (n, -n), f"c{n % 100}")


# The condition, and its value for a row.
CONDITIONS: dict[str, Callable[[Row], Any]] = {
    "id = 150": lambda r: r[0] == 150,
    "t.id IN (3, 150, 777) AND s IS NOT NULL": lambda r: r[0] in (3, 777) and r[1],
    "ID BETWEEN 90 AND 110": lambda r: 90 <= r[0] <= 110,
    "s = '😀' OR s = 'é'": lambda r: r[1] in ("😀", "é"),
    "s = '\ue000'": lambda r: r[1] == "\ue000",
    "s = 'it\\'s \\\\'": lambda r: r[1] == "it's \\",
    "d = DATE'2000-04-10' AND id = 100": lambda r: r[0] == 100,
    "p = 75.5": lambda r: r[3] == Decimal("75.5"),
    "p = 75.55": lambda r: False,
    "place.id = -150": lambda r: r[4][1] == -150,
    "c = 'c7'": lambda r: r[5] == "c7",
    "1 = 0": lambda r: False,
    "id = (SELECT 150)": lambda r: r[0] == 150,
    "exists(array(id, 7), x -> x = 150)": lambda r: r[0] == 150,
    "id % 2 = 0 AND id < 10": lambda r: r[0] % 2 == 0 and r[0] < 10,
}
NUMBERS = [n for n in range(200) if n not in (5, 105)]


@pytest.fixture(scope="module", params=SHAPES)
def table(
    request: pytest.FixtureRequest, spark: SparkSession, fake4: EmbeddedMetastore
) -> Iterator[AcidTable]:
    shape, name = SHAPES[request.param], f"rows_wanted_{request.param.replace('-', '_')}"
    with MetastoreClient(fake4.options) as client:
        client.create_database(name)
        create(client, f"{name}.t", TYPES, **shape)
        key = ["id % 4 AS k"] if "keys" in shape else []
        with AcidTable(f"{name}.t", fake4.uri, spark=spark, run_in="spark") as acid:
            for numbers in (range(100), range(100, 200)):
                rows = [row(n) for n in numbers if n in NUMBERS or "kind" not in shape]
                acid.append(spark.createDataFrame(rows, SCHEMA).coalesce(1).selectExpr("*", *key))
            if "kind" not in shape:
                acid.delete("id IN (5, 105)")
            yield acid
        client.drop_database(name, cascade=True)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_rows_that_meet_a_condition_come_and_no_others(table, condition):
    meets = CONDITIONS[condition]
    frame = table.to_df(where=condition, columns=["place", "ID"])
    assert frame.columns == ["place", "ID"]
    expected = [(row(n)[4], n) for n in NUMBERS if meets(row(n))]
    assert sorted((tuple(r[0]), r[1]) for r in frame.collect()) == sorted(expected)


def test_all_columns_come_in_their_order_unless_some_are_named(table):
    frame = table.to_df("id = 150")
    assert frame.columns[: len(TYPES)] == list(TYPES)
    assert [tuple(r)[:4] for r in frame.collect()] == [row(150)[:4]]
    assert table.to_df(columns=["c", "c", "id"]).columns == ["c", "c", "id"]
    assert table.to_df(columns=["d"]).count() == len(NUMBERS)
    assert table.to_df(columns=[]).count() == len(NUMBERS)


def test_only_files_and_parts_that_may_hold_such_rows_are_read(table):
    def files(where: str | None) -> int:
        return len(table.to_df(where).inputFiles())

    def rows(where: str | None) -> int:
        frame = table.to_df(where)
        frame.collect()
        scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
        return scan.metrics().apply("numOutputRows").value()

    if "k" in table.to_df().columns:
        assert (files("k = 3"), files("k = 1"), files("k = 7")) == (2, 2, 0)
    if "bucketed" in table.ref.database:
        assert 0 < files("id = 150") < files(None)
    assert 0 < rows("id = 150") < rows(None)
    assert rows("id = 1500") == 0


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("keys", [None, {"k": "int"}])
def test_events_are_read_only_for_files_with_such_rows_and_earlier_deletes(
    spark, client, hms, database, keys
):
    table = create(client, f"{database}.t", {"id": "bigint"}, keys)
    columns = ["id", "id % 2 AS k"] if keys else ["id"]
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        for first in (0, 10, 20):
            acid.append(spark.range(first, first + 10, 1, 1).selectExpr(*columns))
        acid.delete("id = 15")
        acid.append(spark.range(40, 50, 1, 1).selectExpr(*columns))

        rows = sorted(r.id for r in acid.to_df().collect())
        assert rows == [*(id for id in range(30) if id != 15), *range(40, 50)]
        conditions = [f"id = {id}" for id in (13, 45, 1000)] + [f"k = {k}" for k in (0, 1) if keys]
        frames = [acid.to_df(where) for where in conditions]
        for events in folder(table).rglob("delete_delta_*/bucket_*"):
            events.unlink()

        def needs_events(frame: DataFrame) -> bool:
            try:
                frame.collect()
            except Py4JJavaError:
                return True
            return False

        needed = list(map(needs_events, frames))
        assert needed[:3] == [True, False, False]
        assert needed[3:] == ([False, True] if keys else [])


def test_errors_of_a_query_are_reported_before_any_read(table):
    with pytest.raises(UnknownColumn, match="no column x, y"):
        table.to_df(columns=["id", "x", "y"])
    with pytest.raises(UnknownColumn, match="nowhere"):
        table.to_df("nowhere = 1")
    with pytest.raises(InvalidJob, match="does not parse"):
        table.to_df("id = ")
