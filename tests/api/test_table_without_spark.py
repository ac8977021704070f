"""AcidTable: small changes by a program without Spark."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import CheckFailed, InvalidJob, SparkNeeded, UnknownColumn
from hiveacid.jobs import NotNull, Unique
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.writes.statement import WriteOptions

pytestmark = pytest.mark.parametrize("hms", ["4.0.1"], indirect=True)

PROGRAM = """
import sys, pyarrow
from hiveacid import AcidTable
with AcidTable(*sys.argv[1:]) as table:
    table.append(pyarrow.table({"id": [1, 2], "v": ["a", "b"]}))
    table.delete("id = 2")
    print(table.scan().to_arrow().to_pylist())
"""


@pytest.fixture
def table(client: MetastoreClient, database: str) -> Iterator[AcidTable]:
    columns = [HiveColumn("id", "bigint"), HiveColumn("v", "string"), HiveColumn("n", "int")]
    client.create_table(HiveTable.new(TableRef(database, "t"), columns))
    with AcidTable(f"{database}.t", client.options, run_in="worker") as table:
        yield table


def rows(table: AcidTable, *columns: str) -> list[tuple[Any, ...]]:
    found = table.scan(columns or None).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_rows_are_added_changed_and_deleted(table: AcidTable) -> None:
    frame = pandas.DataFrame({"id": [1, 2, 3], "v": ["a", None, "c"]}, index=[5, 6, 7])
    assert table.append(frame).rows_inserted == 3
    assert rows(table) == [(1, "a", None), (2, None, None), (3, "c", None)]
    changed = table.update({"v": "concat(v, :x)", "n": "7"}, "t.id > :id", {"id": 2, "x": "!"})
    assert (changed.job, changed.rows_updated) == ("update", 1)
    merged = table.upsert(polars.DataFrame({"V": ["B", "D"], "id": [2, 4]}), on=["ID"])
    assert (merged.job, merged.rows_inserted, merged.rows_updated) == ("merge", 1, 1)
    assert rows(table) == [(1, "a", None), (2, "B", None), (3, "c!", 7), (4, "D", None)]
    assert table.delete("v = 'a'").rows_deleted == 1
    assert rows(table, "id") == [(2,), (3,), (4,)]
    assert table.scan(["v"], pc.field("id") == 3).to_arrow().to_pylist() == [{"v": "c!"}]
    table.upsert(pa.table({"id": [3, 5]}), on=["id"])
    assert rows(table, "id", "v") == [(2, "B"), (3, "c!"), (4, "D"), (5, None)]
    assert table.delete(all_rows=True).rows_deleted == 4


def test_a_run_with_a_token_is_applied_once(table: AcidTable, client: MetastoreClient) -> None:
    for _ in range(2):
        options = WriteOptions(run_token="load-1")
        with AcidTable(
            table.ref.full_name, client.options, run_in="worker", options=options
        ) as again:
            report = again.append(pa.table({"id": [1]}))
    assert report.already_done
    assert rows(table, "id") == [(1,)]


def test_each_change_is_checked(table: AcidTable, client: MetastoreClient) -> None:
    options = WriteOptions(
        checks=(Unique(columns=["id"], whole_table=True), NotNull(columns=["v"]))
    )
    with AcidTable(
        table.ref.full_name, client.options, run_in="worker", options=options
    ) as checked:
        checked.append(pa.table({"id": [1, 2], "v": ["a", "b"]}))
        with pytest.raises(CheckFailed, match=r"unique\(id\)"):
            checked.append(pa.table({"id": [2], "v": ["c"]}))
        with pytest.raises(CheckFailed, match=r"not_null\(v\)"):
            checked.update({"v": "NULL"}, "id = 1")
        assert len(checked.delete("id = 1").checks) == 2
    assert rows(table) == [(2, "b", None)]


def test_what_requires_spark_changes_nothing(table: AcidTable, client: MetastoreClient) -> None:
    table.append(pa.table({"id": [1], "v": ["a"]}))
    for change in (
        lambda: table.append(pa.table({"v": [[1]]})),
        lambda: table.update({"v": "md5(v)"}, "id = 1"),
        lambda: table.delete("id IN (SELECT 1)"),
        lambda: table.upsert(pa.table({"id": [1.5]}), on=["id"]),
    ):
        with pytest.raises(SparkNeeded, match=f"{table.ref.full_name} requires"):
            change()
    assert rows(table) == [(1, "a", None)]
    assert client.show_locks() == []


def test_mistakes_have_their_own_errors(table: AcidTable) -> None:
    table.append(pa.table({"id": [1]}))
    with pytest.raises(InvalidJob, match="no condition"):
        table.delete()
    with pytest.raises(InvalidJob, match="no condition"):
        table.update({"v": "'x'"})
    with pytest.raises(UnknownColumn, match="sets new, but"):
        table.append(pa.table({"id": [1], "new": [2]}))
    with pytest.raises(UnknownColumn, match="no column k"):
        table.upsert(pa.table({"id": [1]}), on=["id", "k"])
    with pytest.raises(InvalidJob, match="on"):
        table.upsert(pa.table({"id": [1]}), on="id")
    with pytest.raises(CheckFailed):
        table.upsert(pa.table({"id": [1, 1], "v": ["a", "b"]}), on=["id"])
    with pytest.raises(TypeError, match="not of type list"):
        table.append([1])
    assert rows(table, "id") == [(1,)]


def test_it_needs_neither_spark_nor_java(
    table: AcidTable, client: MetastoreClient, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        'import sys\nfor name in ("pyspark", "py4j"):\n    sys.modules[name] = None\n'
    )
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, table.ref.full_name, client.options.uris],
        env={"PATH": str(tmp_path), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[{'id': 1, 'v': 'a', 'n': None}]\n", done.stderr
