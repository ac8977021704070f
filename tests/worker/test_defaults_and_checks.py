"""Defaults, checks, and omitted columns of each type, without Spark."""

from collections.abc import Callable
from typing import Any

import pytest

from hiveacid.cli.main import main
from hiveacid.errors import CheckFailed, SparkNeeded
from hiveacid.metastore.client import MetastoreClient
from tests.rows import unordered_rows_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


@pytest.fixture
def run(client: MetastoreClient, database: str) -> Callable[[str], int]:
    def run(script: str) -> int:
        arguments = ["sql", script, "--database", database, "--run-in", "worker"]
        return main([*arguments, "--metastore", client.options.uris])

    return run


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ("string DEFAULT 'q'", "q"),
        ("varchar(9) DEFAULT 'q r'", "q r"),
        ("date DEFAULT DATE '2026-01-31'", "2026-01-31"),
        ("double DEFAULT 1.5", 1.5),
        ("decimal(9,2) DEFAULT 1.5", "1.50"),
        ("bigint DEFAULT 7", 7),
        ("boolean DEFAULT TRUE", True),
        *((type_, None) for type_ in ("char(3)", "binary", "timestamp", "array<int>")),
        ("struct<a:int>", None),
    ],
)
def test_an_omitted_column_gets_its_default(
    run: Callable[[str], int],
    client: MetastoreClient,
    database: str,
    definition: str,
    value: Any,
) -> None:
    assert run(f"CREATE TABLE t (id int, v {definition}); INSERT INTO t (id) VALUES (1)") == 0
    (row,) = unordered_rows_of(client.options.uris, f"{database}.t")
    assert row == {"id": 1, "v": value}


@pytest.mark.parametrize(
    ("definition", "good", "bad"),
    [
        ("string CHECK (v <> 'x')", "'y'", "'x'"),
        ("varchar(5) CHECK (v <> 'y')", "'x'", "'y'"),
        ("date CHECK (v > DATE '2020-01-01')", "DATE '2026-01-31'", "DATE '2020-01-01'"),
        ("decimal(9,2) CHECK (v > 1.5)", "2.5", "1.5"),
        ("double CHECK (v > 0.5)", "1.5", "0.5"),
    ],
)
def test_a_check_is_evaluated(
    run: Callable[[str], int],
    client: MetastoreClient,
    database: str,
    definition: str,
    good: str,
    bad: str,
) -> None:
    assert run(f"CREATE TABLE t (id int, v {definition}); INSERT INTO t VALUES (1, {good})") == 0
    assert run(f"INSERT INTO t VALUES (2, {bad})") == CheckFailed.exit_code
    assert run("INSERT INTO t (id) VALUES (3)") == 0
    rows = unordered_rows_of(client.options.uris, f"{database}.t")
    assert sorted(row["id"] for row in rows) == [1, 3]


def test_a_merge_that_only_deletes_evaluates_no_constraint(
    run: Callable[[str], int], client: MetastoreClient, database: str
) -> None:
    assert run("CREATE TABLE t (id int, v string CHECK (upper(v) <> 'X'))") == 0
    merge = "MERGE INTO t USING t s ON t.id = s.id WHEN {} THEN "
    assert run(merge.format("MATCHED") + "DELETE") == 0
    assert run(merge.format("NOT MATCHED BY SOURCE") + "DELETE") == 0
    assert run(merge.format("MATCHED") + "UPDATE SET v = 'y'") == SparkNeeded.exit_code
