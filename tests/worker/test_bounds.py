"""What a statement of the worker holds at once, and that it knows so before it holds it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import CheckFailed, SparkNeeded
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.write_jobs import RowJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.tables.scan.table_scan import TableScan
from hiveacid.worker import engine, merge, pairs, sources
from hiveacid.worker.pairs import Partners, row_sizes
from hiveacid.worker.run import change_rows
from tests.fakes.metastore import FakeMetastore

Run = Callable[[str], RunReport]
COLUMNS = {"k": "int", "v": "varchar(9)", "x": "double", "d": "date"}


@pytest.fixture
def client(fake4: FakeMetastore) -> Iterator[MetastoreClient]:
    with MetastoreClient(fake4.options) as client:
        client.create_database("bounds")
        columns = [HiveColumn(name, type_) for name, type_ in COLUMNS.items()]
        for name in ("t", "s"):
            client.create_table(HiveTable.new(TableRef("bounds", name), columns))
        yield client
        client.drop_database("bounds", cascade=True)


@pytest.fixture
def run(client: MetastoreClient) -> Run:
    def run(text: str) -> RunReport:
        (job,) = to_jobs(text)
        assert isinstance(job, RowJob)
        return change_rows(client, replace(job, run_in="worker"))

    return run


def fill(client: MetastoreClient, name: str, keys: list[int | None]) -> None:
    with AcidTable(f"bounds.{name}", client.options, run_in="worker") as table:
        table.append(pa.table({"k": pa.array(keys, pa.int32()), "v": [name] * len(keys)}))


def rows(client: MetastoreClient) -> list[Any]:
    found = TableScan("bounds.t", client.options, columns=["k", "v"]).to_arrow().to_pylist()
    return sorted((row["k"], row["v"]) for row in found)


# Pairs


def partners(*columns: list[Any]) -> Partners:
    return Partners([pa.chunked_array([column]) for column in columns], np.ones(len(columns[0])))


def all_pairs(of: Partners, *columns: list[Any]) -> list[tuple[int, int]]:
    sizes = np.ones(len(columns[0]))
    parts = of.of([pa.chunked_array([column]) for column in columns], sizes, "The test")
    return [(int(a), int(b)) for at, by in parts for a, b in zip(at, by, strict=True)]


def test_pairs_have_equal_keys() -> None:
    of = partners([1, 2, 1, None, 3], ["a", "a", "a", "a", None])
    assert all_pairs(of, [2, 1, 9, None, 3, 1], ["a", "a", "a", "a", None, "b"]) == [
        (0, 1),
        (1, 0),
        (1, 2),
    ]
    assert all_pairs(partners([None, None]), [None, 1]) == []
    assert all_pairs(partners([]), []) == all_pairs(partners([1]), []) == []


def test_pairs_are_those_of_a_nested_loop() -> None:
    random = np.random.default_rng(1)
    one, other = (
        [
            [None if n == 7 else int(n) for n in random.integers(0, 8, 90)],
            [f"t{n}" for n in random.integers(0, 3, 90)],
            [bool(n) for n in random.integers(0, 2, 90)],
        ]
        for _ in range(2)
    )
    expected = [
        (a, b)
        for a, mine in enumerate(zip(*one, strict=True))
        for b, theirs in enumerate(zip(*other, strict=True))
        if mine == theirs and None not in mine
    ]
    assert all_pairs(partners(*other), *one) == expected


def test_only_some_pairs_are_built_at_once() -> None:
    keys = pa.chunked_array([np.zeros(3000, np.int32)])
    sizes = np.full(3000, 10.0)
    parts = [len(at) for at, _ in Partners([keys], sizes).of([keys], sizes, "The test")]
    assert sum(parts) == 9_000_000
    assert max(parts) <= pairs._PAIRS + 3000
    large = np.full(3000, 1000.0)
    found = next(Partners([keys], large).of([keys], large, "The test"))
    assert 2000 * len(found[0]) <= pairs._BYTES + 2000 * 3000


def test_rows_count_the_bytes_of_nested_values() -> None:
    given = pa.table(
        {
            "i": pa.array([1, 2, 3], pa.int32()),
            "t": ["", "a" * 100, None],
            "l": [["a" * 50, "b"], None, []],
            "m": pa.array([[("a", "b" * 70)], [], None], pa.map_(pa.string(), pa.string())),
            "s": [{"x": "a" * 30}, {"x": None}, None],
        }
    )
    sizes = row_sizes(given)
    assert sizes[0] > 50 + 70 + 30
    assert 100 < sizes[1] < 150
    assert sizes[2] < 50
    assert row_sizes(given.slice(1, 1)).tolist() == [sizes[1]]


@pytest.mark.parametrize("count", [3000, 6000])
def test_equal_keys_are_duplicates_without_all_pairs(
    count: int, client: MetastoreClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("t", "s"):
        fill(client, name, [1] * count)
    built = []
    beside = merge._beside
    monkeypatch.setattr(merge, "_beside", lambda *two: (built.append(len(two[0])), beside(*two))[1])
    statement = "MERGE INTO bounds.t t USING bounds.s s ON t.k = s.k WHEN MATCHED"
    with pytest.raises(CheckFailed):
        run(f"{statement} THEN UPDATE SET v = s.v")
    assert sum(built) <= pairs._PAIRS + count
    assert client.show_locks() == []
    built.clear()
    assert run(f"{statement} THEN DELETE").rows_deleted == count
    assert built == []


def test_more_pairs_are_left_to_spark(
    client: MetastoreClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("t", "s"):
        fill(client, name, [1] * 10)
    merge = "MERGE INTO bounds.t t USING bounds.s s ON t.k = s.k WHEN MATCHED AND FALSE THEN DELETE"
    monkeypatch.setattr(pairs, "MOST_PAIRS", 100)
    assert run(merge).rows_deleted == 0
    monkeypatch.setattr(pairs, "MOST_PAIRS", 99)
    with pytest.raises(SparkNeeded, match="more than 99 pairs of equal keys"):
        run(merge)
    monkeypatch.setattr(pairs, "MOST_PAIRS", 100)
    monkeypatch.setattr(pairs, "MOST_HELD", 100)
    with pytest.raises(SparkNeeded, match="a row with more than 0 MB of pairs"):
        run(merge)


# Conditions without columns


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("FALSE", "none"),
        ("false AND t.k = s.k", "none"),
        ("1 != 1", "none"),
        ("t.k = s.k AND NULL", "none"),
        ("t.k = s.k AND (1 = 1 AND 2 > 3)", "none"),
        ("NULL AND NULL", "none"),
        ("t.k = s.k AND 1 = 1", "equal"),
        ("TRUE AND t.k = s.k", "equal"),
        ("TRUE", "all"),
        ("1 = 1", "all"),
        ("NOT FALSE", "all"),
    ],
)
def test_conditions_without_columns_pair_all_rows_or_none(
    on: str, pairs: str, client: MetastoreClient, run: Run
) -> None:
    fill(client, "t", [1, 2, None])
    fill(client, "s", [1])
    done = run(
        f"MERGE INTO bounds.t t USING bounds.s s ON {on} WHEN MATCHED THEN UPDATE SET v = s.v"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    counts = {"none": (1, 0), "equal": (0, 1), "all": (0, 3)}
    assert (done.rows_inserted, done.rows_updated) == counts[pairs]
    done = run(
        f"MERGE INTO bounds.t t USING bounds.s s ON {on} WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert done.rows_deleted == {"none": 4, "equal": 2, "all": 0}[pairs]


def test_all_pairs_with_several_rows_are_duplicates(client: MetastoreClient, run: Run) -> None:
    fill(client, "t", [1])
    fill(client, "s", [1, 2])
    with pytest.raises(CheckFailed, match="2 source rows"):
        run("MERGE INTO bounds.t t USING bounds.s s ON TRUE WHEN MATCHED THEN UPDATE SET v = s.v")


@pytest.mark.parametrize("on", ["NULL", "t.k < s.k", "t.k = 1"])
def test_other_conditions_without_equal_columns_need_spark(on: str, run: Run) -> None:
    with pytest.raises(SparkNeeded):
        run(f"MERGE INTO bounds.t t USING bounds.s s ON {on} WHEN MATCHED THEN DELETE")


# Literals of another kind


def test_literals_of_another_kind_are_compared_and_stored(
    client: MetastoreClient, run: Run
) -> None:
    run("INSERT INTO bounds.t VALUES (1, 'a', 1.5, '2026-01-31'), (2, 'b', 2, '2026-02-28')")
    run("INSERT INTO bounds.t VALUES (3, 'c', 3000000000, NULL)")
    run("UPDATE bounds.t SET k = 10 WHERE v = 'a'")
    run("UPDATE bounds.t SET k = 20 WHERE d = '2026-02-28' AND v IN ('b', 'c') AND x = 2")
    run("UPDATE bounds.t SET k = 30 WHERE x = 3000000000 AND k % 2 = 1 AND d IS NULL")
    assert rows(client) == [(10, "a"), (20, "b"), (30, "c")]


# Other limits


def test_many_deletes_are_left_to_spark(
    client: MetastoreClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, "t", [1, 2, 3, 4])
    run("DELETE FROM bounds.t WHERE k < 3")
    run("DELETE FROM bounds.t WHERE k = 3")
    for module, text in (
        (sources, "INSERT INTO bounds.s SELECT * FROM bounds.t"),
        (engine, "DELETE FROM bounds.t WHERE k = 4"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST_EVENTS", 2)
            with pytest.raises(SparkNeeded, match="more than 2 deletes"):
                run(text)
            patch.setattr(module, "MOST_EVENTS", 3)
            run(text)


def test_many_literals_are_left_to_spark(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_MOST_VALUES", 3)
    assert run("INSERT INTO bounds.t (k) VALUES (1), (2), (3)").rows_inserted == 3
    with pytest.raises(SparkNeeded, match="VALUES with more than 3 values"):
        run("INSERT INTO bounds.t (k, v) VALUES (1, 'a'), (2, 'b')")
