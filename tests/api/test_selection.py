"""The queries that `hiveacid sql` answers without Spark."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from hiveacid.api.selection import scanned
from hiveacid.api.table import AcidTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.questions import Select
from hiveacid.parser.script import to_steps
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import FakeMetastore


def test_names_that_are_no_columns_are_left_to_spark(tmp_path: Path) -> None:
    ref = TableRef("default", "t")
    table = HiveTable.new(ref, [HiveColumn("a", "int")], partition_keys=[HiveColumn("day", "date")])
    with FakeMetastore("4.0.1", directory=tmp_path) as hms:
        with MetastoreClient(hms.options) as client:
            client.create_table(table)

        def columns(sql: str) -> list[str] | None:
            (question,) = to_steps(sql)
            assert isinstance(question, Select)
            found = scanned(question, hms.options, 1)
            return None if found is None else found.schema.names

        assert columns("SELECT Day, a FROM t") == ["day", "a"]
        assert columns("SELECT * FROM t") == ["a", "day"]
        assert columns("SELECT a, current_date FROM t") is None


def test_counts_and_bounds_of_all_rows_need_no_spark(tmp_path: Path) -> None:
    ref = TableRef("default", "t")
    types = {"id": "bigint", "name": "string", "price": "decimal(10,2)", "rate": "double"}
    columns = [HiveColumn(*each) for each in types.items()]
    keys = [HiveColumn("day", "date"), HiveColumn("country", "string")]
    table = HiveTable.new(ref, columns, partition_keys=keys)
    rows = {
        "id": [3, None, -7],
        "name": ["b", "ä", None],
        "price": [Decimal("2.50"), Decimal("-1"), None],
        "rate": [1.0, float("nan"), 2.0],
        "day": [date(2026, 5, 1), date(2026, 5, 2), date(2026, 5, 1)],
        "country": ["de", "fr", "de"],
    }
    with FakeMetastore("4.0.1", directory=tmp_path) as hms:
        with MetastoreClient(hms.options) as client:
            client.create_table(table)

        def answer(sql: str) -> dict[str, Any] | None:
            (question,) = to_steps(sql)
            assert isinstance(question, Select)
            found = scanned(question, hms.options, 1)
            if found is None:
                return None
            (row,) = found.to_pylist()
            return row

        of_all = "SELECT count(*), count(id) n, min(id), max(name), min(price), max(day) FROM t"
        nothing = {"min(id)": None, "max(name)": None, "min(price)": None, "max(day)": None}
        assert answer(of_all) == {"count(1)": 0, "n": 0, **nothing}
        with AcidTable("default.t", hms.options, run_in="worker") as written:
            written.append(pa.table(rows))
            written.append(pa.table({"id": [9], "day": [date(2026, 5, 2)], "country": ["it"]}))
            written.delete("id = 3")
        assert answer("SELECT count(1) AS n FROM t") == {"n": 3}
        assert answer("SELECT count(*) AS n FROM t VERSION AS OF 1") == {"n": 3}
        assert answer(of_all) == {
            "count(1)": 3,
            "n": 2,
            "min(id)": -7,
            "max(name)": "ä",
            "min(price)": Decimal("-1.00"),
            "max(day)": date(2026, 5, 2),
        }
        assert answer("SELECT max(country) AS m FROM t") == {"m": "it"}
        assert answer("SELECT count(rate) FROM t") == {"count(rate)": 2}
        # Two columns of the result can be the same one.
        twice = "SELECT count(id) a, count(id) b, count(id), count(*), count(*) n, min(id) FROM t"
        assert answer(twice) == {
            "a": 2,
            "b": 2,
            "count(id)": 2,
            "count(1)": 3,
            "n": 3,
            "min(id)": -7,
        }
        (question,) = to_steps("SELECT count(id), count(id) FROM t")
        assert isinstance(question, Select)
        found = scanned(question, hms.options, 1)
        assert found is not None
        assert [column.to_pylist() for column in found.columns] == [[2], [2]]
        # Spark orders NaN behind all numbers.
        assert answer("SELECT max(rate) FROM t") is None
        assert answer("SELECT max(unknown) FROM t") is None
