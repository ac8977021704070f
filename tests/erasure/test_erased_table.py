"""AcidTable.erase: a request of one table, by a program."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest

from hiveacid.api.table import AcidTable
from hiveacid.erasure.requests import Eraser
from hiveacid.errors import AccessRefused, EmptySource, InvalidJob, TypeMismatch, UnknownColumn
from hiveacid.jobs.sources import TableSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.erasures import ErasureFolder
from hiveacid.rules.names import TableRef
from tests.erasure.remnants import remnants
from tests.places import place_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
PERSONS = ["ada@example.org", "grace@example.org", "emmy@example.org"]


@pytest.fixture
def table(client: MetastoreClient, database: str) -> Iterator[AcidTable]:
    columns = [HiveColumn("who", "string"), HiveColumn("id", "bigint"), HiveColumn("born", "date")]
    client.create_table(HiveTable.new(TableRef(database, "t"), columns))
    with AcidTable(f"{database}.t", client.options, run_in="worker") as table:
        born = [date(1815, 12, 10), date(1906, 12, 9), date(1882, 3, 23)]
        table.append(pa.table({"who": PERSONS, "id": [7, 8, 9], "born": born}))
        yield table


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return f"file:{tmp_path}/erasures"


def ids(table: AcidTable) -> list[int]:
    return sorted(table.scan(["id"]).to_arrow()["id"].to_pylist())


def test_keys_are_erased_with_a_certificate(
    table: AcidTable, client: MetastoreClient, folder: str
) -> None:
    options: dict[str, Any] = {"request": "r1", "folder": folder, "retention": "0"}
    planned = table.erase(PERSONS[:2], "who", dry_run=True, **options)
    assert (planned.rows_deleted, ids(table)) == (2, [7, 8, 9])
    with Transaction(client, reads=[table.ref]):
        report = table.erase(PERSONS[:2], "who", within_days=3, **options)
        assert (report.rows_deleted, report.certificate) == (2, None)
        assert {wait.kind for wait in report.waits} == {"reader"}
    report = table.erase(PERSONS[:2], "who", **options)
    assert report.certificate == f"{folder}/r1/certificate.json"
    assert ids(table) == [9]
    place = place_of(client.get_table(table.ref).folder)
    assert remnants(place, PERSONS[:2]) == {}
    (steps,), problems = Eraser(client, folder).requests()
    erasure = steps.erasure
    assert problems == {}
    assert [each.table.name for each in erasure.tables] == [table.ref.full_name]
    assert erasure.left(erasure_time(erasure.requested_at)).days == 3


def erasure_time(text: str) -> Any:
    return pandas.Timestamp(text).to_pydatetime()


@pytest.mark.parametrize(
    ("keys", "column"),
    [
        ([7, 8], "id"),
        ({"8", "7"}, "ID"),
        ((Decimal("7.0"), Decimal(8)), "id"),
        ([date(1815, 12, 10), date(1906, 12, 9), None], "born"),
        (pa.array(PERSONS[:2]), "who"),
        (pa.table({"any name": [7, 8]}), "id"),
        (pandas.DataFrame({"k": [7, 8]}, index=[8, 9]), "id"),
        (pandas.Series(PERSONS[:2]), "who"),
        (polars.DataFrame({"k": PERSONS[:2]}), "who"),
        (polars.Series([7, 8]), "id"),
    ],
    ids=[
        *("numbers", "set of texts", "decimals", "dates", "array", "table", "data frame", "series"),
        *("frame of polars", "series of polars"),
    ],
)
def test_keys_are_values_or_a_frame_of_one_column(
    table: AcidTable, folder: str, keys: Any, column: str
) -> None:
    report = table.erase(keys, column, request="r1", folder=folder, retention="0")
    assert (report.rows_deleted, ids(table)) == (2, [9])
    assert report.certificate


def test_keys_come_from_a_source(table: AcidTable, client: MetastoreClient, folder: str) -> None:
    requests = TableRef(table.ref.database, "requests")
    client.create_table(HiveTable.new(requests, [HiveColumn("person", "bigint")]))
    with AcidTable(requests.full_name, client.options, run_in="worker") as asked:
        asked.append(pa.table({"person": [8, 9]}))
    source = TableSource(requests.full_name)
    assert table.erase(source, "id", request="r1", folder=folder).rows_deleted == 2
    assert ids(table) == [7]


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ("ada@example.org", InvalidJob),
        (7, InvalidJob),
        ([7, "x"], InvalidJob),
        (pa.table({"a": [7], "b": [8]}), InvalidJob),
        ([7.5], TypeMismatch),
        ([], EmptySource),
        ([None], EmptySource),
    ],
    ids=str,
)
def test_other_keys_are_refused_before_a_request_is_made(
    table: AcidTable, folder: str, keys: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        table.erase(keys, "id", request="r1", folder=folder)
    assert (ids(table), ErasureFolder(folder, None).names()) == ([7, 8, 9], [])


def test_the_column_exists_and_the_authorizer_permits_it(
    table: AcidTable, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownColumn):
        table.erase([7], "person", request="r1", folder=folder)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.refuse_erasures")
    with pytest.raises(AccessRefused, match="may not erase"):
        table.erase([7], "id", request="r1", folder=folder)
    assert (ids(table), ErasureFolder(folder, None).names()) == ([7, 8, 9], [])


def refuse_erasures(*, user: str, table: str, columns: object, action: str) -> bool:
    return action != "erase"
