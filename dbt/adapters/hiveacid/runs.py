"""Names of runs: what makes a model of a repeated run the same change."""

import json
import threading
from pathlib import Path
from typing import Any

import click
from dbt_common.invocation import get_invocation_id

from hiveacid.foreign.text import parse_json

# Beside dbt's own artifacts: the first invocation of a chain of retries.
_FILE = "hiveacid_run.json"
_RESULTS = "run_results.json"
_storing = threading.Lock()


def retried_folder() -> str | None:
    """Return the folder with the results that this command retries: "" for that of artifacts.

    Only the command itself is asked: ``dbt retry`` has the settings of the command that it repeats.

    Returns:
        The folder; None if the command is no retry.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.info_name != "retry":
        return None
    return str(context.params.get("state") or "")


def run_of_invocation(target: Path, retried: Path | None) -> str:
    """Return the run of this invocation: that of the retried one, or one of its own.

    Args:
        target: The folder of artifacts, in which the run is stored for the next retry.
        retried: The folder with the results that are retried; None if the command is no retry.
    """
    invocation = str(get_invocation_id())
    with _storing:
        stored = _read(target / _FILE)
        if stored.get("invocation") == invocation:
            return str(stored["run"])
        run = invocation
        if retried is not None:
            results = _read(retried / _RESULTS)
            earlier = results.get("metadata", {}).get("invocation_id")
            run = str((stored["run"] if stored.get("invocation") == earlier else earlier) or run)
        target.mkdir(parents=True, exist_ok=True)
        file = target / f"{_FILE}.{invocation}"
        file.write_text(json.dumps({"invocation": invocation, "run": run}), encoding="utf-8")
        file.replace(target / _FILE)
    return run


def run_token(project: str, run: str, node: dict[str, Any]) -> str:
    """Return the run token of a node, in the form of those of Airflow's tasks.

    Args:
        project: The project.
        run: The run.
        node: The node, with its batch if it is one of a microbatch model.
    """
    batch = (node.get("batch") or {}).get("id", "-1")
    return f"{project}/{run}/{node['unique_id']}/{batch}"


def _read(file: Path) -> dict[str, Any]:
    try:
        found = parse_json(file.read_text())
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}
