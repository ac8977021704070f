"""The routes of the page. Airflow's permission to view assets grants access."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeVar

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import (
    GetUserDep,
    requires_access_asset,
    requires_access_dag,
)
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from airflow_hiveacid.links import page_connections
from airflow_hiveacid.plugin.access import UserAccess
from airflow_hiveacid.plugin.dag_tables import tables_of_dag
from airflow_hiveacid.plugin.file_access import FileAccess
from airflow_hiveacid.plugin.measuring import Measured
from airflow_hiveacid.plugin.metastores import (
    PATIENCE_SECONDS,
    Metastore,
    instance_id,
    metastore_of,
    page_dag,
)
from airflow_hiveacid.plugin.page import CONTENT_SECURITY_POLICY, page
from airflow_hiveacid.plugin.table_list import Show, Sort, TableQuery, listing, table_csv
from hiveacid.errors import HiveAcidError
from hiveacid.jobs import codec
from hiveacid.jobs.reports.report import ErrorReport
from hiveacid.upkeep.health_score import TableHealth

T = TypeVar("T")

LOOKUPS = FileAccess(PATIENCE_SECONDS)

# Annotations stay real objects here: FastAPI must not have to look up their names.
app = FastAPI(
    title="Hive ACID tables",
    # On all routes: Airflow does not protect the routes of plugins.
    dependencies=[Depends(requires_access_asset("GET"))],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)


@app.middleware("http")
async def _secure(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await call_next(request)
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    return response


def _metastore(
    connection: Annotated[str | None, Query(max_length=250)] = None,
) -> Metastore:
    known = page_connections()
    if connection is None and known:
        return metastore_of(known[0])
    if connection not in known:
        raise HTTPException(404, "The page has no such metastore.")
    return metastore_of(connection)


OfMetastore = Annotated[Metastore, Depends(_metastore)]


def _query(
    database: Annotated[str | None, Query(max_length=250)] = None,
    text: Annotated[str, Query(max_length=250)] = "",
    show: Show = "all",
    sort: Sort = "score",
    descending: bool = False,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    size: Annotated[int, Query(ge=1, le=200)] = 50,
) -> TableQuery:
    return TableQuery(
        database=database or None,
        text=text,
        show=show,
        sort=sort,
        descending=descending,
        page=page,
        size=size,
    )


WantedTables = Annotated[TableQuery, Depends(_query)]


def _dag_id(dag_id: str) -> None:
    # Before a query to a database, which may fail on the name.
    if not re.fullmatch(r"[\w.~:+-]{1,250}", dag_id, re.ASCII):
        raise HTTPException(404, "The DAG does not exist.")


@app.get("/", response_class=HTMLResponse)
def show_page() -> str:
    """The page itself; it asks for everything else."""
    return page()


def _known(metastore: OfMetastore, access: UserAccess, refresh: bool = False) -> Measured:
    return access.measured(metastore.measuring.latest(refresh=refresh))


Known = Annotated[Measured, Depends(_known)]


def _of_dag(dag_id: str, query: WantedTables) -> TableQuery:
    tables = tables_of_dag(dag_id)
    return replace(query, patterns=list(tables.patterns) or None if tables else None)


WantedTablesOfDag = Annotated[TableQuery, Depends(_of_dag)]


@app.get("/api/tables")
def list_tables(known: Known, query: WantedTables) -> dict[str, Any]:
    """List all tables; refresh=true measures them again regardless of the figures' age."""
    return _list(known, query)


@app.get("/api/tables.csv")
def download_tables(known: Known, query: WantedTables) -> Response:
    """Return all matching tables, from all pages, as a file."""
    return _download(known, query)


@app.get(
    "/api/dags/{dag_id}/tables",
    dependencies=[Depends(_dag_id), Depends(requires_access_dag("GET"))],
)
def list_tables_of_dag(known: Known, query: WantedTablesOfDag) -> dict[str, Any]:
    """List the tables that a DAG works on; all tables if they are unknown."""
    return _list(known, query) | {"patterns": query.patterns}


@app.get(
    "/api/dags/{dag_id}/tables.csv",
    dependencies=[Depends(_dag_id), Depends(requires_access_dag("GET"))],
)
def download_tables_of_dag(known: Known, query: WantedTablesOfDag) -> Response:
    """The same as a file."""
    return _download(known, query)


@app.get("/api/maintenance")
def show_maintenance(request: Request, user: GetUserDep) -> dict[str, Any]:
    """Return the buttons' DAG, and the user's permission; Airflow's own API starts it."""
    dag_id = page_dag()
    if dag_id is None:
        return {"dag_id": None}
    dag = DagModel.get_dagmodel(dag_id)
    try:
        requires_access_dag("POST", DagAccessEntity.RUN, dag_id)(request, user)
        allowed = True
    except HTTPException:
        allowed = False
    return {
        "dag_id": dag_id,
        "allowed": allowed,
        # Users who may not start it do not learn whether it exists.
        "there": allowed and dag is not None and not dag.is_stale,
        "paused": allowed and dag is not None and dag.is_paused,
    }


def _health(table: str, metastore: OfMetastore, access: UserAccess) -> TableHealth:
    for health in metastore.measuring.latest().tables or ():
        if health.table == table and access.sees(table):
            return access.health(health)
    raise HTTPException(404, "The table does not exist, or was not measured yet.")


WantedTable = Annotated[TableHealth, Depends(_health)]


@app.get("/api/tables/{table}")
def show_table(wanted: WantedTable) -> dict[str, Any]:
    """All that is known of the health of a table."""
    health: dict[str, Any] = codec.encode(wanted)
    return health | {"instance": instance_id()}


# Routes that open files are not plain functions: Airflow runs plain functions of all routes in the
# same 40 threads.
@app.get("/api/tables/{table}/history")
async def show_history(
    wanted: WantedTable, metastore: OfMetastore, access: UserAccess
) -> dict[str, Any]:
    """The writes and compactions of a table, looked up now."""
    read = partial(metastore.history, wanted.table)
    answer = await _answer("entries", metastore, wanted, read, access.history)
    return {"instance": instance_id(), **answer}


@app.get("/api/tables/{table}/streams")
async def show_streams(
    wanted: WantedTable, metastore: OfMetastore, access: UserAccess
) -> dict[str, Any]:
    """The states of the streams into a table, looked up now."""
    read = partial(metastore.streams, wanted.table)
    answer = await _answer("streams", metastore, wanted, read, access.streams)
    return {"instance": instance_id(), **answer}


@app.get("/api/tables/{table}/mirrors")
async def show_mirrors(
    wanted: WantedTable, metastore: OfMetastore, access: UserAccess
) -> dict[str, Any]:
    """The mirrors of a table in Iceberg with their lag, looked up now."""
    read = partial(metastore.mirrors, wanted.table)
    answer = await _answer("mirrors", metastore, wanted, read, access.mirrors)
    return {"instance": instance_id(), **answer}


@app.get("/api/tables/{table}/versions/{write_id}")
async def show_version(
    write_id: Annotated[int, Path(ge=0, lt=2**63)], wanted: WantedTable, metastore: OfMetastore
) -> dict[str, Any]:
    """The directories of one write, looked up now."""
    read = partial(metastore.directories, wanted.table, write_id)
    return await _answer("directories", metastore, wanted, read)


async def _answer(
    name: str,
    metastore: Metastore,
    wanted: TableHealth,
    read: partial[T],
    permitted: Callable[[T], object] = lambda found: found,
) -> dict[str, Any]:
    """Look into a table, and return the data that the user may see."""
    try:
        kind = id(metastore), name, read.args
        found = await LOOKUPS.answer(wanted.table, kind, read)
    except HiveAcidError as error:
        return {name: [], "error": codec.encode(ErrorReport.of(error))}
    # Permissions are looked up in Airflow's database.
    shown = await run_in_threadpool(lambda: codec.encode(permitted(found)))
    return {name: shown, "error": None}


def _download(known: Measured, query: TableQuery) -> Response:
    # A file must not look complete if it is not.
    complete = () if known.at is None else known.tables or ()
    return Response(
        table_csv(complete, query),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="hive-acid-tables.csv"'},
    )


def _list(known: Measured, query: TableQuery) -> dict[str, Any]:
    return {
        "connections": page_connections(),
        "measured": known.at is not None,
        "measured_at": known.at,
        "seconds": known.seconds,
        "running": known.running,
        "done": known.done,
        "error": codec.encode(known.error),
        **listing(known.tables or (), query),
    }
