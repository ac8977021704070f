"""Permissions of a user of the page: the visible tables and DAG runs."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.asset import AssetModel
from airflow.models.dag import DagModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Request
from sqlalchemy import select

from airflow_hiveacid.plugin.metastores import Measured, instance_id
from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError
from hiveacid.foreign.text import parse_json
from hiveacid.jobs.erase_job import EraseJob, Wait
from hiveacid.jobs.job import SHOW, Access, accesses_of
from hiveacid.metastore.authorizer import may_access
from hiveacid.records.known_erasures import KnownErasure
from hiveacid.rules.run_tokens import dag_of
from hiveacid.upkeep.health_score import TableHealth

# Tables of a DAG, as far as its tasks determine them before they run


_OURS = "airflow_hiveacid."
_SENSORS = f"{_OURS}sensors."
# The functions of these tasks return sources when the tasks run.
_OF_FUNCTIONS = ("@task.hive_acid_insert", "@task.hive_acid_merge")
# A job travels as its text, which is YAML.
_TABLE_OF_A_JOB = re.compile(
    r"^[ -]*(?:target|kind: (?:table|changes)\n *name): (?:\"(.*)\"|(.*))$", re.MULTILINE
)
_PARAM = re.compile(r"\{\{\s*params\.(\w+)\s*\}\}")
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
# A name that replaces a template in a statement; a table with this name is unknown.
_UNKNOWN = "hiveacid_unknown_name"


@dataclass(frozen=True, slots=True)
class DagTables:
    """Tables that a DAG works on.

    Attributes:
        patterns: Their names, and patterns like "sales.*".
        complete: Whether no task of this package determines its tables only while it runs.
    """

    patterns: tuple[str, ...] = ()
    complete: bool = True


def tables_of_dag(dag_id: str) -> DagTables | None:
    """Return the tables that a DAG works on.

    Parameters of the DAG have their default values.

    Args:
        dag_id: The DAG.

    Returns:
        None if the DAG is unknown.
    """
    serialized = SerializedDagModel.get(dag_id)
    if serialized is None:
        return None
    # Of 3.1 it is a text where the column is not compressed.
    data: Any = serialized.data
    return tables_of(parse_json(data) if isinstance(data, str) else data)


def tables_of(serialized: Mapping[str, Any]) -> DagTables:
    """The same for a DAG as Airflow keeps it, as plain values.

    Args:
        serialized: The DAG.
    """
    dag = serialized["dag"]
    params = {
        name: param.get("default") if isinstance(param, dict) else param
        for name, param in dag.get("params") or ()
    }

    def default(param: re.Match[str]) -> str:
        value = params.get(param[1])
        return value if isinstance(value, str) else param[0]

    def known(text: str) -> str:
        return _PARAM.sub(default, text)

    tasks = [task.get("__var", task) for task in dag.get("tasks") or ()]
    acid_tasks = [task for task in tasks if str(task.get("_task_module", "")).startswith(_OURS)]
    sensors = {
        task["task_id"] for task in acid_tasks if str(task["_task_module"]).startswith(_SENSORS)
    }
    names, complete = set(_assets(dag)), True
    for task in acid_tasks:
        # Another run may have other parameters.
        names_in_task = list(_names(task, lambda text: text))
        names.update(known(name).strip() for name in _names(task, known))
        # The tables of a sensor's results are those of the sensor.
        waits = _inputs_of_need(task)
        determined = bool(waits) and waits <= sensors
        complete &= determined or _are_known(task, names_in_task)
    patterns = sorted({name.lower() for name in names if _is_known(name)})
    return DagTables(tuple(patterns), complete)


def _names(task: Mapping[str, Any], with_params: Callable[[str], str]) -> Iterator[str]:
    """Yield the names and patterns of tables of a task, perhaps templates."""
    # Arguments that all instances of a mapped task share are stored separately.
    for values in (task, task.get("partial_kwargs") or {}):
        # The other table of a sensor of mirrors is one of Iceberg.
        table = values.get("target") or values.get("table")
        patterns = values.get("tables")
        for text in (table, *(patterns if isinstance(patterns, list) else [patterns])):
            if isinstance(text, str):
                yield text
        if isinstance(values.get("job"), str):
            for quoted, plain in _TABLE_OF_A_JOB.findall(values["job"]):
                yield quoted or plain
        if isinstance(values.get("sql"), str):
            yield from _names_in_sql(values, with_params)


def _names_in_sql(values: Mapping[str, Any], with_params: Callable[[str], str]) -> Iterator[str]:
    """Yield the tables of statements; a template if they are unknown."""
    # Only the web server of a page with such a DAG needs the parser.
    from hiveacid.parser.script import to_jobs

    text, database = with_params(values["sql"]), with_params(str(values.get("database", "default")))
    parameters = values.get("parameters")
    if "{%" in text or not isinstance(parameters or {}, dict):
        yield text
        return
    try:
        jobs = to_jobs(
            _TEMPLATE.sub(_UNKNOWN, text),
            _TEMPLATE.sub(_UNKNOWN, database),
            {name: str(value) for name, value in (parameters or {}).items()},
            trusted=True,
            all_rows=True,
        )
        for access in accesses_of(jobs):
            # A statement on a database may concern each of its tables.
            yield access.table if "." in access.table else f"{access.table}.*"
    except HiveAcidError:
        yield _UNKNOWN


def _inputs_of_need(task: Mapping[str, Any]) -> set[str]:
    """Return the tasks whose results are the needs of a compaction or a cleaning."""
    mapped = (task.get("expand_input") or {}).get("value") or {}
    arguments = mapped.get("__var", mapped) if isinstance(mapped, dict) else {}
    need = arguments.get("need") if isinstance(arguments, dict) else None
    if not isinstance(need, dict) or need.get("__type") != "xcomref":
        return set()
    return {str(need["__var"]["task_id"])}


def _are_known(task: Mapping[str, Any], names: list[str]) -> bool:
    fixed = task.get("_operator_name") not in _OF_FUNCTIONS
    return fixed and bool(names) and all(map(_is_known, names))


def _is_known(name: str) -> bool:
    return "." in name and "{" not in name and _UNKNOWN not in name


def _assets(value: Any) -> Iterator[str]:
    """The tables of assets, and those that their watchers of ours watch, wherever they are."""
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _assets(entry)
    elif isinstance(value, dict):
        uri = value.get("uri")
        if isinstance(uri, str) and uri.startswith("hiveacid://"):
            yield unquote(urlsplit(uri).path).strip("/").replace("/", ".")
        if str(value.get("classpath", "")).startswith(_OURS):
            table = value.get("kwargs", {}).get("table")
            if isinstance(table, str):
                yield table
        for entry in value.values():
            yield from _assets(entry)


# The runs in a reason, as ``Blocker.describe`` names them: of several ones, also all in between.
_RUN_IN_WORDS = re.compile(r" \((?:Airflow task|run) .*\)")
_DAG_IN_WORDS = re.compile(r" of DAG ([\w.~+-]+)(?: in Airflow ([\w.~+-]+))?")


class PageAccess:
    """Permissions of the user of one request; each is asked for once."""

    def __init__(self, request: Request, user: GetUserDep) -> None:
        """Remember the user.

        Args:
            request: The request.
            user: The user, by Airflow's login.
        """
        self._request = request
        self._user = user
        self._dags: dict[str, bool] = {}

    def measured(self, measurement: Measured) -> Measured:
        """Return a measurement with the tables that the user may see.

        Args:
            measurement: The measurement.
        """
        if measurement.tables is None:
            return measurement
        return replace(
            measurement,
            tables=tuple(
                self.health(table) for table in measurement.tables if self.sees_files(table)
            ),
        )

    def sees_files(self, health: TableHealth) -> bool:
        """Return whether the user may see a table, and the tables that share its files.

        Args:
            health: The health of the table.
        """
        return self.sees(health.table) and health.is_shown_to(self._name)

    def sees(self, table: str) -> bool:
        """Return whether the user may see a table.

        Every asset of the table has to be readable, and one of the DAGs that work on it. If none is
        known, the table may be one of a DAG that determines its tables at run time: all such DAGs
        have to be readable. The authorizer has to allow it, too.

        Args:
            table: "database.table".
        """
        if not all(map(self._reads_asset, self._assets.get(table, ()))):
            return False
        dags = [
            dag_id
            for dag_id, tables in self._tables_of_dags.items()
            if any(fnmatchcase(table, pattern) for pattern in tables.patterns)
        ]
        if dags:
            readable = any(map(self._reads_dag, dags))
        else:
            readable = all(
                self._reads_dag(dag_id)
                for dag_id, tables in self._tables_of_dags.items()
                if not tables.complete
            )
        if not readable:
            return False
        return may_access(self._name, Access(table, (), SHOW))

    def health(self, health: TableHealth) -> TableHealth:
        """Return the health of a table without runs that are hidden from the user.

        Args:
            health: The health.
        """
        txn = health.oldest_txn
        if txn is None or self._sees_run(txn.run_token):
            return health
        return replace(health, oldest_txn=replace(txn, run_token=None))

    def shown(self, entries: Any) -> Any:
        """Return what was looked up of a table without hidden runs, and other hidden tables.

        Args:
            entries: Its history, streams, mirrors, staged changes, or oldest version.
        """
        return list(map(self._shown, entries)) if isinstance(entries, Sequence) else entries

    def erasures(self, erasures: Sequence[KnownErasure]) -> list[KnownErasure]:
        """Return the requests to erase keys that the user may see, without hidden runs.

        Args:
            erasures: The requests.
        """
        return [
            replace(erasure, waits=tuple(map(self._wait, erasure.waits)))
            for erasure in erasures
            if self.sees_erasure(erasure.user, (table.table for table in erasure.tables))
        ]

    def sees_erasure(self, user: str, tables: Iterable[str]) -> bool:
        """Return whether the user may see a request.

        All of its tables have to be visible, and the DAG that made it has to be readable.

        Args:
            user: The user who made it.
            tables: Its tables.
        """
        kind, _, name = user.partition(":")
        readable = kind != "dag" or self._reads_dag(name)
        return readable and all(map(self.sees, tables))

    def may_save(self, tables: Iterable[str]) -> bool:
        """Return whether the user may save a certificate.

        Its hashes tell everyone who can guess keys which keys were erased. So it is for users who may
        do more with assets than read them, and whom the authorizer allows to erase.

        Args:
            tables: The tables of the request.
        """
        auth = get_auth_manager()
        return auth.is_authorized_asset(method="POST", user=self._user) and all(
            may_access(self._name, Access(table, None, EraseJob.tag)) for table in tables
        )

    @property
    def _name(self) -> str:
        return f"user:{self._user.get_name()}"

    def _shown(self, entry: Any) -> Any:
        hidden_fields: dict[str, Any] = {}
        if not self._sees_run(entry.run_token):
            hidden_fields = {name: None for name in ("run_token", "run_id") if hasattr(entry, name)}
        if hasattr(entry, "tables"):
            hidden_fields["tables"] = tuple(filter(self.sees, entry.tables))
        return replace(entry, **hidden_fields)

    def _wait(self, wait: Wait) -> Wait:
        if _RUN_IN_WORDS.search(wait.reason) is None:
            return wait
        dags = _DAG_IN_WORDS.findall(wait.reason)
        tokens = [f"{airflow}:{dag}/" if airflow else f"{dag}/" for dag, airflow in dags]
        if " (run " not in wait.reason and all(map(self._sees_run, tokens)):
            return wait
        return replace(wait, reason=_RUN_IN_WORDS.sub("", wait.reason))

    def _sees_run(self, token: str | None) -> bool:
        if token is None:
            return True
        dag_id = dag_of(token, instance_id())
        return dag_id is not None and self._reads_dag(dag_id)

    def _reads_dag(self, dag_id: str) -> bool:
        if dag_id not in self._dags:
            try:
                requires_access_dag("GET", None, dag_id)(self._request, self._user)
                self._dags[dag_id] = True
            except HTTPException:
                self._dags[dag_id] = False
        return self._dags[dag_id]

    def _reads_asset(self, asset_id: int) -> bool:
        details = AssetDetails(id=str(asset_id))
        return get_auth_manager().is_authorized_asset(
            method="GET", user=self._user, details=details
        )

    @cached_property
    def _assets(self) -> dict[str, list[int]]:
        """The ids of the assets of each table, of whichever metastore."""
        with create_session() as session:
            query = select(AssetModel.id, AssetModel.uri).where(
                AssetModel.uri.startswith("hiveacid://")
            )
            rows: Sequence[Any] = session.execute(query).all()
        ids_by_table: dict[str, list[int]] = {}
        for asset_id, uri in rows:
            names = unquote(urlsplit(uri).path).strip("/").split("/")
            ids_by_table.setdefault(".".join(names[:2]), []).append(asset_id)
        return ids_by_table

    @cached_property
    def _tables_of_dags(self) -> dict[str, DagTables]:
        """The tables that each DAG works on."""
        with create_session() as session:
            query = (
                select(SerializedDagModel.dag_id, SerializedDagModel.dag_hash)
                .join(DagModel, DagModel.dag_id == SerializedDagModel.dag_id)
                .where(~DagModel.is_stale)
                .order_by(SerializedDagModel.created_at)
            )
            newest: dict[str, str] = {row[0]: row[1] for row in session.execute(query)}
        return {dag_id: _tables_of(dag_id, version) for dag_id, version in newest.items()}


@lru_cache(maxsize=10_000)
def _tables_of(dag_id: str, _version: str) -> DagTables:
    return tables_of_dag(dag_id) or DagTables()


def _page_access(request: Request, user: GetUserDep) -> PageAccess:
    return PageAccess(request, user)


UserAccess = Annotated[PageAccess, Depends(_page_access)]
