"""The example project as in the documentation; Hive and Trino read what it has built."""

import csv
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal, InvalidOperation
from pathlib import Path

import pytest
from conftest import VERSION

from tests.interop.engines import Hive, Trino

pytestmark = [
    pytest.mark.skipif(VERSION != "4.0.1", reason="the metastore of this Hive has version 4.0.1"),
    pytest.mark.timeout(1800),
]

EXAMPLE = Path(__file__).parents[1] / "example"
ORDERS = """
1 1 completed 15   2026-01-01
2 1 completed 20   2026-01-02
3 2 returned  7    2026-01-02
4 3 completed 12.5 2026-01-03
5 4 placed    9    2026-01-03
"""
# The tables after each build: a day has been added to the seeds before the second one.
FIRST = {
    "orders (order_id, customer_id, status, amount, ordered_on)": ORDERS
    + "6 2 placed 0 2026-01-04",
    "customers (customer_id, name, first_order, orders, amount)": """
1 Ada  2026-01-01 2 35
2 Ben  2026-01-02 2 7
3 Cleo 2026-01-03 1 12.5
4 Dan  2026-01-03 1 9
5 Eve  NULL       0 0
""",
    "daily_revenue (ordered_on, orders, amount)": """
2026-01-01 1 15
2026-01-02 1 20
2026-01-03 2 21.5
2026-01-04 1 0
""",
    "order_states (order_id, status, dbt_valid_to is null)": """
1 completed true
2 completed true
3 returned  true
4 completed true
5 placed    true
6 placed    true
""",
}
SECOND = {
    "orders (order_id, customer_id, status, amount, ordered_on)": ORDERS
    + "6 2 completed 3 2026-01-04\n7 5 placed 0 2026-01-05",
    "customers (customer_id, name, first_order, orders, amount)": """
1 Ada  2026-01-01 2 35
2 Ben  2026-01-02 2 10
3 Cleo 2026-01-03 1 12.5
4 Dan  2026-01-03 1 9
5 Eve  2026-01-05 1 0
""",
    "daily_revenue (ordered_on, orders, amount)": """
2026-01-01 1 15
2026-01-02 1 20
2026-01-03 2 21.5
2026-01-04 1 3
2026-01-05 1 0
""",
    "order_states (order_id, status, dbt_valid_to is null)": """
1 completed true
2 completed true
3 returned  true
4 completed true
5 placed    true
6 placed    false
6 completed true
7 placed    true
""",
}
SEEDS = {
    "raw_customers": "stg_customers (customer_id, name, country)",
    "raw_orders": "stg_orders (order_id, customer_id, ordered_on, status)",
}


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    folder = tmp_path_factory.mktemp("hive")
    (warehouse := folder / "warehouse").mkdir()
    with closing(Hive(folder, warehouse)) as hive:
        yield hive


@pytest.fixture(scope="module")
def trino(tmp_path_factory: pytest.TempPathFactory, hive: Hive) -> Iterator[Trino]:
    with closing(Trino(tmp_path_factory.mktemp("trino"), hive.metastore_uri)) as trino:
        yield trino


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, whose artifacts dbt writes beside it."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "example"))


def _build(project: Path, metastore: str) -> None:
    subprocess.run(
        ["dbt", "build", "--project-dir", str(project), "--profiles-dir", str(project)],
        env={**os.environ, "HIVEACID_METASTORE": metastore},
        cwd=project,
        check=True,
    )


def _plain(value: str) -> object:
    try:
        return str(Decimal(value).normalize() + 0)
    except InvalidOperation:
        # Trino's answers have the True of Python.
        return {"True": "true", "False": "false"}.get(value, value)


def _sorted(rows: list[tuple[str, ...]]) -> list[tuple[object, ...]]:
    return sorted(tuple(map(_plain, map(str.strip, row))) for row in rows)


def _require(hive: Hive, trino: Trino, project: Path, expected: dict[str, str]) -> None:
    wanted = {
        what: [tuple(line.split()) for line in text.split("\n") if line]
        for what, text in expected.items()
    }
    for seed, what in SEEDS.items():
        with (project / "seeds" / f"{seed}.csv").open(newline="") as file:
            wanted[what] = [
                tuple(cell or "NULL" for cell in row) for row in [*csv.reader(file)][1:]
            ]
    for what, rows in wanted.items():
        name, _, columns = what.rstrip(")").partition(" (")
        for engine in (hive, trino):
            found = engine.sql(f"select {columns} from shop.{name}")
            assert _sorted(found) == _sorted(rows), (type(engine).__name__, name)


def test_hive_and_trino_read_the_tables_of_the_example(
    hive: Hive, trino: Trino, project: Path
) -> None:
    _build(project, hive.metastore_uri)
    _require(hive, trino, project, FIRST)
    orders, payments = project / "seeds/raw_orders.csv", project / "seeds/raw_payments.csv"
    changed = orders.read_text().replace("6,2,2026-01-04,placed", "6,2,2026-01-04,completed")
    orders.write_text(f"{changed.rstrip()}\n7,5,2026-01-05,placed\n")
    payments.write_text(f"{payments.read_text().rstrip()}\n7,6,card,300\n")
    _build(project, hive.metastore_uri)
    _require(hive, trino, project, SECOND)
