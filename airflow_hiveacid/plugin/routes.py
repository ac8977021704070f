"""The routes of the page. Airflow's permission to view assets grants access."""

import base64
import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeVar

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
from airflow_hiveacid.plugin.access import UserAccess, tables_of_dag
from airflow_hiveacid.plugin.metastores import (
    PATIENCE_SECONDS,
    FileAccess,
    Measured,
    Metastore,
    erasure_folder,
    instance_id,
    metastore_of,
    page_dag,
)
from hiveacid.dataclass import dataclass
from hiveacid.erasure.certificate import Certificate
from hiveacid.errors import HiveAcidError
from hiveacid.jobs import codec
from hiveacid.jobs.report import ErrorReport
from hiveacid.records.signatures import SigningKey
from hiveacid.upkeep.health_score import BlockingTxn, TableHealth

# The page as one document: its style, its program and its text, and nothing from elsewhere


_FOLDER = files("airflow_hiveacid.plugin")


def _read(*names: str) -> str:
    return "\n".join(_FOLDER.joinpath(name).read_text(encoding="utf-8") for name in names)


_STYLE = _read("page.css")
# In a function, so that no name of ours hides one of the browser.
_PROGRAM = f"(() => {{\n{_read('elements.js', 'picture.js', 'details.js', 'streams.js', 'mirrors.js', 'staged.js', 'erasures.js', 'maintenance.js', 'columns.js', 'page.js')}\n}})();"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Only this very style and this very program: text that a table or a user smuggles in stays text.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(_PROGRAM)}",
        f"style-src {_hash(_STYLE)}",
        "connect-src 'self'",
        "frame-ancestors 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)


@cache
def page() -> str:
    """The whole page."""
    return (
        _read("page.html").replace("/* the style */", _STYLE).replace("/* the program */", _PROGRAM)
    )


# The list of tables: filtered, sorted, and cut into pages, or all of it as CSV


Sort = Literal[
    "score", "table", "deltas", "bytes", "delete_ratio", "base", "obsolete", "txn", "queue"
]
Show = Literal["all", "needs", "busy", "queued", "failed"]


def _opened_at(health: TableHealth) -> float | None:
    return None if health.oldest_txn is None else health.oldest_txn.opened_at


def _unfinished(health: TableHealth) -> int:
    return sum(entry.unfinished for entry in health.queue)


def _failed(health: TableHealth) -> int:
    return len(health.queue) - _unfinished(health)


# Unknown values are None, and come last in either sort order.
_SORTS: Mapping[Sort, Callable[[TableHealth], Any]] = {
    "score": lambda health: health.score,
    "table": lambda health: health.table,
    "deltas": lambda health: health.deltas,
    "bytes": lambda health: health.base_bytes + health.delta_bytes,
    "delete_ratio": lambda health: health.delete_ratio,
    "base": lambda health: health.base_written_at,
    "obsolete": lambda health: health.obsolete_bytes,
    "txn": _opened_at,
    "queue": lambda health: (_failed(health), _unfinished(health)),
}
_FILTERS: Mapping[Show, Callable[[TableHealth], bool]] = {
    "all": lambda health: True,
    "needs": lambda health: bool(health.needs),
    "busy": lambda health: health.oldest_txn is not None,
    "queued": lambda health: bool(health.queue),
    "failed": lambda health: health.error is not None or _failed(health) > 0,
}
# Characters that begin a formula in a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def _states(health: TableHealth) -> list[dict[str, Any]]:
    """Return the number of requests in each state, failed ones first."""
    states = Counter((entry.unfinished, entry.state) for entry in health.queue)
    return [
        {"state": state, "count": states[unfinished, state], "failed": not unfinished}
        for unfinished, state in sorted(states)
    ]


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


_CSV: Mapping[str, Callable[[TableHealth], object]] = {
    "table": lambda health: health.table,
    "score": lambda health: health.score,
    "kind": lambda health: health.kind,
    "partitions": lambda health: health.partitions,
    "deltas": lambda health: health.deltas,
    "max_deltas": lambda health: health.max_deltas,
    "base_bytes": lambda health: health.base_bytes,
    "delta_bytes": lambda health: health.delta_bytes,
    "delete_bytes": lambda health: health.delete_bytes,
    "base_written_at": lambda health: _time(health.base_written_at),
    "obsolete_bytes": lambda health: health.obsolete_bytes,
    "oldest_txn_opened_at": lambda health: _time(_opened_at(health)),
    "oldest_txn_by": lambda health: health.oldest_txn and _holder(health.oldest_txn),
    "queue": lambda health: ", ".join(
        f"{state['count']} {state['state']}" for state in _states(health)
    ),
    "needs": lambda health: len(health.needs),
    "verdict": lambda health: health.verdict,
    "measured_at": lambda health: _time(health.measured_at),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """Selection and order of the listed tables.

    Attributes:
        patterns: Names or patterns of tables, at least one must match; all tables if None.
        database: Only tables of this database; of all databases if None.
        text: Only tables whose name contains this.
        show: Only tables of this kind.
        sort: The sort key.
        descending: The largest first.
        page: The number of the page, from 1.
        size: The number of tables on a page.
    """

    patterns: Sequence[str] | None = None
    database: str | None = None
    text: str = ""
    show: Show = "all"
    sort: Sort = "score"
    descending: bool = False
    page: int = 1
    size: int = 50

    def in_scope(self, tables: Sequence[TableHealth]) -> list[TableHealth]:
        """The tables that a pattern fits."""
        patterns = self.patterns
        return [
            health
            for health in tables
            if patterns is None or any(fnmatchcase(health.table, pattern) for pattern in patterns)
        ]

    def inside(self, tables: Sequence[TableHealth]) -> list[TableHealth]:
        """Those of the database, and of the name."""
        text = self.text.strip().lower()
        return [
            health
            for health in tables
            if self.database in (None, _database(health)) and text in health.table
        ]

    def sorted(self, tables: Sequence[TableHealth]) -> list[TableHealth]:
        """Those of the kind, in their order."""
        fitting = list(filter(_FILTERS[self.show], tables))
        # By name first, so that equal ones have an evident order.
        fitting.sort(key=_SORTS["table"])
        value = _SORTS[self.sort]
        with_value = [health for health in fitting if value(health) is not None]
        with_value.sort(key=value, reverse=self.descending)
        return with_value + [health for health in fitting if value(health) is None]


def listing(tables: Sequence[TableHealth], query: TableQuery) -> dict[str, Any]:
    """List tables as plain values.

    Args:
        tables: All of them.
        query: The selection and order.

    Returns:
        "databases" with their numbers of tables, "counts" by filter, "obsolete_bytes", the "total"
        of the tables that fit, and the "rows" of the page.
    """
    tables = query.in_scope(tables)
    databases = Counter(_database(health) for health in tables)
    tables_inside = query.inside(tables)
    fitting = query.sorted(tables_inside)
    first = (query.page - 1) * query.size
    return {
        "databases": [{"name": name, "tables": databases[name]} for name in sorted(databases)],
        "counts": {name: sum(map(fits, tables_inside)) for name, fits in _FILTERS.items()},
        "obsolete_bytes": sum(health.obsolete_bytes for health in tables_inside),
        "total": len(fitting),
        "rows": [_row(health) for health in fitting[first : first + query.size]],
    }


def table_csv(tables: Sequence[TableHealth], query: TableQuery) -> str:
    """Return all matching tables, from all pages, as CSV.

    Args:
        tables: All of them.
        query: The selection and order of the tables.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_CSV)
    for health in query.sorted(query.inside(query.in_scope(tables))):
        writer.writerow(map(_cell, (value(health) for value in _CSV.values())))
    return text.getvalue()


def _cell(value: object) -> object:
    # Tables are named by others: a name that begins like a formula must not become one.
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _row(health: TableHealth) -> dict[str, Any]:
    """Return a table's values for the list; all others are in its details."""
    row: dict[str, Any] = codec.encode(health)
    for left_out in ("penalties", "needs", "error"):
        del row[left_out]
    return row | {
        "needs": len(health.needs),
        "need": codec.encode(health.needs[0]) if health.needs else None,
        "queue": _states(health),
        "broken": health.error is not None,
    }


def _holder(txn: BlockingTxn) -> str:
    return txn.run_token or f"{txn.user}@{txn.host}"


def _database(health: TableHealth) -> str:
    return health.table.partition(".")[0]


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
    connections = page_connections()
    if connection is None and connections:
        return metastore_of(connections[0])
    if connection not in connections:
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
def list_tables(measurement: Known, query: WantedTables) -> dict[str, Any]:
    """List all tables; refresh=true measures them again regardless of the figures' age."""
    return _list(measurement, query)


@app.get("/api/tables.csv")
def download_tables(measurement: Known, query: WantedTables) -> Response:
    """Return all matching tables, from all pages, as a file."""
    return _download(measurement, query)


@app.get(
    "/api/dags/{dag_id}/tables",
    dependencies=[Depends(_dag_id), Depends(requires_access_dag("GET"))],
)
def list_tables_of_dag(measurement: Known, query: WantedTablesOfDag) -> dict[str, Any]:
    """List the tables that a DAG works on; all tables if they are unknown."""
    return _list(measurement, query) | {"patterns": query.patterns}


@app.get(
    "/api/dags/{dag_id}/tables.csv",
    dependencies=[Depends(_dag_id), Depends(requires_access_dag("GET"))],
)
def download_tables_of_dag(measurement: Known, query: WantedTablesOfDag) -> Response:
    """The same as a file."""
    return _download(measurement, query)


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
        if health.table == table and access.sees_files(health):
            return access.health(health)
    raise HTTPException(404, "The table does not exist, or was not measured yet.")


WantedTable = Annotated[TableHealth, Depends(_health)]
# Methods of Metastore.
Part = Literal["history", "streams", "mirrors", "staged", "oldest"]


@app.get("/api/tables/{table}")
def show_table(wanted: WantedTable) -> dict[str, Any]:
    """All that is known of the health of a table."""
    health: dict[str, Any] = codec.encode(wanted)
    return health | {"instance": instance_id()}


# Routes that open files are not plain functions: Airflow runs plain functions of all routes in the
# same 40 threads.
@app.get("/api/tables/{table}/{part}")
async def show_part(
    part: Part, wanted: WantedTable, metastore: OfMetastore, access: UserAccess
) -> dict[str, Any]:
    """A part of the details of a table, looked up now."""
    read = partial(getattr(metastore, part), wanted.table)
    answer = await _answer(part, metastore, wanted.table, read, access.shown)
    return {"instance": instance_id(), **answer}


@app.get("/api/tables/{table}/versions/{write_id}")
async def show_version(
    write_id: Annotated[int, Path(ge=0, lt=2**63)], wanted: WantedTable, metastore: OfMetastore
) -> dict[str, Any]:
    """The directories of one write, looked up now."""
    read = partial(metastore.directories, wanted.table, write_id)
    return await _answer("directories", metastore, wanted.table, read)


@app.get("/api/erasures")
async def list_erasures(metastore: OfMetastore, access: UserAccess) -> dict[str, Any]:
    """The requests to erase keys, looked up now."""
    folder = erasure_folder()
    if folder is None:
        return {"erasures": [], "error": None}
    read = partial(metastore.erasures, folder)
    return await _answer("erasures", metastore, folder, read, access.erasures)


async def _certificate(request: str, metastore: OfMetastore, access: UserAccess) -> Certificate:
    folder = erasure_folder()
    certificate = None
    if folder is not None:
        read = partial(metastore.certificate, folder, request)
        try:
            certificate = await LOOKUPS.answer(
                folder, (id(metastore), "certificate", request), read
            )
        except HiveAcidError as error:
            raise HTTPException(503, str(error)) from error
    if certificate is None or not await run_in_threadpool(
        access.sees_erasure, certificate.user, certificate.table_names
    ):
        raise HTTPException(404, "The request does not exist, or has no certificate yet.")
    return certificate


WantedCertificate = Annotated[Certificate, Depends(_certificate)]


@app.get("/api/erasures/{request}/certificate")
def show_certificate(certificate: WantedCertificate, access: UserAccess) -> dict[str, Any]:
    """A certificate as text, and the state of its signature."""
    signature = certificate.signature_state(SigningKey.readable())
    may_save = access.may_save(certificate.table_names)
    return {"text": certificate.text, "signature": signature, "may_save": may_save}


@app.get("/api/erasures/{request}/certificate.json")
def download_certificate(
    request: str, certificate: WantedCertificate, access: UserAccess
) -> Response:
    """A certificate as a file, with hashes of the keys."""
    if not access.may_save(certificate.table_names):
        raise HTTPException(403, "You may not save certificates.")
    return _file(certificate.content, "application/json", f"erasure-{request}.json")


async def _answer(
    name: str,
    metastore: Metastore,
    place: str,
    read: partial[T],
    permitted: Callable[[T], object] = lambda found: found,
) -> dict[str, Any]:
    """Look into a table or a folder, and return the data that the user may see."""
    try:
        kind = id(metastore), name, read.args
        answer = await LOOKUPS.answer(place, kind, read)
    except HiveAcidError as error:
        return {name: [], "error": codec.encode(ErrorReport.of(error))}
    # Permissions are looked up in Airflow's database.
    encoded_answer = await run_in_threadpool(lambda: codec.encode(permitted(answer)))
    return {name: encoded_answer, "error": None}


def _download(measurement: Measured, query: TableQuery) -> Response:
    # A file must not look complete if it is not.
    complete = () if measurement.at is None else measurement.tables or ()
    return _file(table_csv(complete, query), "text/csv; charset=utf-8", "hive-acid-tables.csv")


def _file(content: str | bytes, media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=headers)


def _list(measurement: Measured, query: TableQuery) -> dict[str, Any]:
    return {
        "connections": page_connections(),
        "measured": measurement.at is not None,
        "measured_at": measurement.at,
        "seconds": measurement.seconds,
        "running": measurement.running,
        "done": measurement.done,
        "error": codec.encode(measurement.error),
        **listing(measurement.tables or (), query),
    }
