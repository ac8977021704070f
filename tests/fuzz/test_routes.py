"""Addresses of the page, and arguments of the command line."""

import contextlib
import io
from types import SimpleNamespace

import pytest

from airflow_hiveacid.acid.health import TableHealth
from airflow_hiveacid.cli.main import main
from airflow_hiveacid.errors import MetastoreUnreachable
from airflow_hiveacid.plugin import app as page_app
from airflow_hiveacid.plugin.measuring import Measured
from tests.fuzz.driver import INPUTS, WORDS, Source, fuzz

ADDRESSES = (
    "/", "/api/tables", "/api/tables?database=shop&text=a&show=problems&sort=score&descending=true",
    "/api/tables?page=1&size=50", "/api/tables/shop.orders", "/api/tables/shop.orders/history",
    "/api/tables/shop.orders?connection=hive_acid_default", "/api/dags/some_dag/tables?sort=table",
)  # fmt: skip
LINES = (
    ["inspect", "{folder}", "--write-ids", "shop.t:5:3:3,5-7:1,2"],
    ["inspect", "{folder}", "--write-ids", "a.b:5:1::", "--txns", "9:3:3:", "--json"],
    ["cat", "{folder}", "--limit", "3"],
    ["cat", "{folder}", "--write-ids", "a.b:5:9223372036854775807::", "--row-ids"],
    ["history", "shop.t", "--metastore", "thrift://127.0.0.1:1", "--json"],
    ["plan", "shop.t", "--metastore", "thrift://127.0.0.1:1", "--partition", "day=1"],
    ["locks", "--metastore", "http://127.0.0.1:1/x"],
    ["tables", "--metastore", "thrift://127.0.0.1:1", "--tls"],
    ["clean", "shop.t", "--dry-run", "--metastore", "https://[::1]:1"],
)


@pytest.fixture
def browser():
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    tables = tuple(TableHealth(table=f"shop.{n}", kind="full_acid", measured_at=1.0) for n in "abc")

    def unreachable(table):
        raise MetastoreUnreachable("No metastore answers.")

    fake = SimpleNamespace(
        measuring=SimpleNamespace(look=lambda: Measured(tables, 1.0, 0.5)), history=unreachable
    )
    allow = {
        dependency.dependency: lambda: None
        for route in page_app.app.routes
        for dependency in getattr(route, "dependencies", ())
        if dependency.dependency is not page_app._dag_id
    }
    page_app.app.dependency_overrides |= allow | {
        page_app._metastore: lambda: fake,
        get_user: lambda: None,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_app, "tables_of_dag", lambda dag_id: ["shop.*"])
        with TestClient(page_app.app, base_url="http://localhost") as client:
            yield client
    page_app.app.dependency_overrides.clear()


@INPUTS
def test_routes(browser, inputs):
    from starlette.testclient import httpx

    def read(address):
        try:
            url = httpx.URL(f"http://localhost/{address.lstrip('/')}")
            bytes(url.raw_path)
        except (httpx.InvalidURL, UnicodeEncodeError, ValueError):
            return  # It never leaves the browser.
        answer = browser.get(url, follow_redirects=False)
        assert answer.status_code in (200, 307, 404, 405, 422), answer.status_code
        answer.content.decode()

    # A request takes milliseconds.
    fuzz(read, lambda source: source.text(ADDRESSES), inputs[: max(100, len(inputs) // 10)])


@INPUTS
def test_arguments(inputs, tmp_path):
    folder = tmp_path / "t"
    (folder / "delta_0000001_0000001_0000").mkdir(parents=True)
    (folder / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"no ORC")

    def read(line):
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                status = main(line)
            except SystemExit as end:  # argparse says no
                status = end.code
        assert status in (0, 1, 2, 10, 20, 30, 40, 50), (status, said.getvalue())

    def make(source: Source):
        line = [part.replace("{folder}", str(folder)) for part in source.random.choice(LINES)]
        at = source.random.randrange(1, len(line))
        line[at] = source.text([line[at]], WORDS)
        # What an operating system lets through.
        return [part.replace("\0", "") for part in line]

    fuzz(read, make, inputs[: max(100, len(inputs) // 10)])
