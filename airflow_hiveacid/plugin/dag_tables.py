"""Tables of a DAG, as far as its tasks determine them before they run."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow.models.serialized_dag import SerializedDagModel

_OURS = "airflow_hiveacid."
# A job travels as its text, which is YAML.
_TABLE_OF_A_JOB = re.compile(
    r"^[ -]*(?:target|kind: (?:table|changes)\n *name): (?:\"(.*)\"|(.*))$", re.MULTILINE
)
_PARAM = re.compile(r"\{\{\s*params\.(\w+)\s*\}\}")


def tables_of_dag(dag_id: str) -> list[str] | None:
    """Return names and patterns of the tables that a DAG works on.

    Parameters of the DAG have their default values.

    Args:
        dag_id: The DAG.

    Returns:
        None if the DAG is unknown or names no table: the tables of a mapped task are determined
        while it runs.
    """
    serialized = SerializedDagModel.get(dag_id)
    if serialized is None:
        return None
    # Of 3.1 it is a text where the column is not compressed.
    data: Any = serialized.data
    return tables_of(json.loads(data) if isinstance(data, str) else data)


def tables_of(serialized: Mapping[str, Any]) -> list[str] | None:
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

    texts = (_PARAM.sub(default, text).strip().lower() for text in _texts(dag))
    return sorted({text for text in texts if "{{" not in text and "." in text}) or None


def _texts(dag: Mapping[str, Any]) -> Iterator[str]:
    for task in dag.get("tasks") or ():
        fields = task.get("__var", task)
        if not str(fields.get("_task_module", "")).startswith(_OURS):
            continue
        # Arguments that all instances of a mapped task share are stored separately.
        for values in (fields, fields.get("partial_kwargs") or {}):
            patterns = values.get("tables")
            for given in (
                values.get("table"),
                *(patterns if isinstance(patterns, list) else [patterns]),
            ):
                if isinstance(given, str):
                    yield given
            if isinstance(values.get("job"), str):
                for quoted, plain in _TABLE_OF_A_JOB.findall(values["job"]):
                    yield quoted or plain
    yield from _assets(dag)


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
