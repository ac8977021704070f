"""Tables of a DAG, as far as its tasks determine them before they run."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow.models.serialized_dag import SerializedDagModel

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.accesses import accesses_of

_OURS = "airflow_hiveacid."
_SENSORS = f"{_OURS}sensors."
# The functions of these tasks return sources or statements when the tasks run.
_OF_FUNCTIONS = (f"{_OURS}decorators.source_function",)
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
    return tables_of(json.loads(data) if isinstance(data, str) else data)


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

    tasks = [each.get("__var", each) for each in dag.get("tasks") or ()]
    own = [task for task in tasks if str(task.get("_task_module", "")).startswith(_OURS)]
    sensors = {task["task_id"] for task in own if str(task["_task_module"]).startswith(_SENSORS)}
    names, complete = set(_assets(dag)), True
    for task in own:
        # Another run may have other parameters.
        given = list(_names(task, lambda text: text))
        names.update(known(name).strip() for name in _names(task, known))
        # The tables of a sensor's results are those of the sensor.
        waits = _inputs_of_need(task)
        determined = bool(waits) and waits <= sensors
        complete &= determined or _are_known(task, given)
    patterns = sorted({name.lower() for name in names if _is_known(name)})
    return DagTables(tuple(patterns), complete)


def _names(task: Mapping[str, Any], known: Callable[[str], str]) -> Iterator[str]:
    """Yield the names and patterns of tables of a task, perhaps templates."""
    # Arguments that all instances of a mapped task share are stored separately.
    for values in (task, task.get("partial_kwargs") or {}):
        # The other table of a sensor of mirrors is one of Iceberg.
        named = values.get("target") or values.get("table")
        patterns = values.get("tables")
        for given in (named, *(patterns if isinstance(patterns, list) else [patterns])):
            if isinstance(given, str):
                yield given
        if isinstance(values.get("job"), str):
            for quoted, plain in _TABLE_OF_A_JOB.findall(values["job"]):
                yield quoted or plain
        if isinstance(values.get("sql"), str):
            yield from _names_in_sql(values, known)


def _names_in_sql(values: Mapping[str, Any], known: Callable[[str], str]) -> Iterator[str]:
    """Yield the tables of statements; a template if they are unknown."""
    # Only the web server of a page with such a DAG needs the parser.
    from hiveacid.sql.script import to_jobs

    text, database = known(values["sql"]), known(str(values.get("database", "default")))
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
    given = mapped.get("__var", mapped) if isinstance(mapped, dict) else {}
    need = given.get("need") if isinstance(given, dict) else None
    if not isinstance(need, dict) or need.get("__type") != "xcomref":
        return set()
    return {str(need["__var"]["task_id"])}


def _are_known(task: Mapping[str, Any], names: list[str]) -> bool:
    fixed = not str(task["_task_module"]).startswith(_OF_FUNCTIONS)
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
