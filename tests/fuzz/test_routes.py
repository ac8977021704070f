"""Addresses of the page, and arguments of the command line."""

import asyncio
import contextlib
import io
import ssl
from functools import cache
from types import SimpleNamespace
from urllib.parse import unquote

import pytest

from airflow_hiveacid.plugin import routes as page_routes
from airflow_hiveacid.plugin.access import DagTables, PageAccess
from airflow_hiveacid.plugin.metastores import Measured
from hiveacid.cli import main as command_line
from hiveacid.errors import MetastoreUnreachable
from hiveacid.upkeep.health_score import TableHealth
from tests.fuzz.driver import INPUTS, WORDS, Source, fuzz

ADDRESSES = (
    "/", "/api/tables", "/api/tables?database=shop&text=a&show=problems&sort=score&descending=true",
    "/api/tables?page=1&size=50", "/api/tables/shop.orders", "/api/tables/shop.orders/history",
    "/api/tables/shop.orders?connection=hive_acid_default", "/api/dags/some_dag/tables?sort=table",
    "/api/tables/shop.orders/versions/7", "/api/tables.csv?text=a", "/api/maintenance",
    "/api/tables?refresh=true",
)  # fmt: skip
LINES = (
    ["cat", "--directories", "{folder}", "--write-ids", "shop.t:5:3:3,5-7:1,2"],
    ["cat", "--directories", "{folder}", "--write-ids", "a.b:5:1::", "--txns", "9:3:3:", "--json"],
    ["cat", "{folder}", "--limit", "3"],
    ["cat", "{folder}", "--write-ids", "a.b:5:9223372036854775807::", "--row-ids"],
    ["history", "shop.t", "--metastore", "thrift://127.0.0.1:1", "--json"],
    ["plan", "shop.t", "--metastore", "thrift://127.0.0.1:1", "--partition", "day=1"],
    ["locks", "--metastore", "http://127.0.0.1:1/x"],
    ["tables", "--metastore", "thrift://127.0.0.1:1", "--tls"],
    ["clean", "shop.t", "--dry-run", "--metastore", "https://[::1]:1"],
)


@pytest.fixture
def get():
    """Asks for an address as a server does; the client that is made for tests takes ten times as long."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import routing
    from fastapi.dependencies import utils

    tables = tuple(TableHealth(table=f"shop.{n}", kind="full_acid", measured_at=1.0) for n in "abc")

    def unreachable(table, write_id=None):
        raise MetastoreUnreachable("No metastore answers.")

    fake = SimpleNamespace(
        measuring=SimpleNamespace(latest=lambda refresh=False: Measured(tables, 1.0, 0.5)),
        history=unreachable,
        directories=unreachable,
    )
    allow = {
        dependency.dependency: lambda: None
        for route in page_routes.app.routes
        for dependency in getattr(route, "dependencies", ())
        if dependency.dependency is not page_routes._dag_id
    }
    page_routes.app.dependency_overrides |= allow | {
        page_routes._metastore: lambda: fake,
        get_user: lambda: SimpleNamespace(get_name=lambda: "jane"),
    }

    dependants, look = {}, utils.get_dependant

    def known(*, call, **named):
        # Usually it resolves the overrides again for each request.
        key = call, named["path"], named["name"]
        if key not in dependants:
            dependants[key] = look(call=call, **named)
        return dependants[key]

    async def here(function, *arguments, **named):
        return function(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        for module in (routing, utils):
            patch.setattr(module, "run_in_threadpool", here)
        patch.setattr(utils, "get_dependant", known)
        patch.setattr(page_routes, "tables_of_dag", lambda dag_id: DagTables(("shop.*",)))
        # There is no database of Airflow's.
        for catalog in ("_assets", "_tables_of_dags"):
            patch.setattr(PageAccess, catalog, {})
        patch.setattr(PageAccess, "_reads_dag", lambda *_: True)
        with asyncio.Runner() as runner:
            yield lambda url: runner.run(_answer(page_routes.app, url))
    page_routes.app.dependency_overrides.clear()


async def _answer(app, url):
    said = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        said.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(url.path),
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("localhost", 50000),
        "server": ("localhost", 80),
    }
    await app(scope, receive, send)
    return said[0]["status"], b"".join(message.get("body", b"") for message in said)


@INPUTS
def test_routes(get, inputs):
    from starlette.testclient import httpx

    def read(address):
        try:
            url = httpx.URL(f"http://localhost/{address.lstrip('/')}")
            bytes(url.raw_path)
        except (httpx.InvalidURL, UnicodeEncodeError, ValueError):
            return  # It never leaves the browser.
        status, body = get(url)
        assert status in (200, 307, 404, 405, 422), status
        body.decode()

    fuzz(read, lambda source: source.text(ADDRESSES), inputs)


@INPUTS
def test_arguments(inputs, tmp_path, monkeypatch):
    # The constant parts, which take longer than all others.
    monkeypatch.setattr(command_line, "_parser", cache(command_line._parser))
    monkeypatch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
    folder = tmp_path / "t"
    (folder / "delta_0000001_0000001_0000").mkdir(parents=True)
    (folder / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"no ORC")

    def read(line):
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                status = command_line.main(line)
            except SystemExit as end:  # argparse rejects it
                status = end.code
        assert status in (0, 1, 2, 10, 20, 30, 40, 50), (status, said.getvalue())

    def make(source: Source):
        line = [part.replace("{folder}", str(folder)) for part in source.random.choice(LINES)]
        at = source.random.randrange(1, len(line))
        line[at] = source.text([line[at]], WORDS)
        # The values that an operating system accepts.
        return [part.replace("\0", "") for part in line]

    fuzz(read, make, inputs)
