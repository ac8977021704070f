"""The authorization hook of `[hive_acid] authorizer`, and the audit records of jobs."""

import importlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, conf
from airflow.sdk import get_current_context

from airflow_hiveacid.acid.allowed_locations import AllowedLocations
from airflow_hiveacid.errors import AccessRefused, InvalidJob
from airflow_hiveacid.jobs.accesses import accesses_of, paths_of
from airflow_hiveacid.jobs.job import Access, Job

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)
audit_log = logging.getLogger("airflow_hiveacid.audit")

_SETTING = "[hive_acid] authorizer"
_OUTCOME = (
    *("txn_id", "write_ids", "rows_inserted", "rows_updated", "rows_deleted"),
    *("already_done", "dry_run"),
)


def require_access(user: str, accesses: Iterable[Access]) -> None:
    """Ask the authorizer for every access; without an authorizer all are allowed.

    :param user: ``dag:ID`` for a task, ``user:NAME`` for a user of the page, or ``process``.
    :param accesses: The accesses.
    :raises AccessRefused: The authorizer refuses one, cannot be imported, or fails.
    """
    path: str = conf.get("hive_acid", "authorizer", fallback="").strip()
    if not path:
        return
    for access in accesses:
        try:
            allowed = _authorizer(path)(
                user=user, table=access.table, columns=access.columns, action=access.action
            )
        except Exception as error:
            log.exception("The authorizer %s fails.", path)
            raise AccessRefused(
                f"{_SETTING} {path!r} fails: {type(error).__name__}: {error}. Until it works, "
                "everything is refused.",
                remedy="See the log for the error, and correct the callable or its path.",
            ) from error
        if allowed is not True:
            raise AccessRefused(
                f"{user} may not {access.action} {access.table}: {path} refuses it.",
                remedy=f"Ask those who run {_SETTING} for the permission.",
            )


def require_job_access(job: Job, context: "Context") -> None:
    """Check a job before it begins: its locations, and its accesses by the authorizer.

    :param job: The job, with its metastore.
    :param context: The context of the running task.
    :raises AccessRefused: A location or an access is refused.
    """
    allowed = AllowedLocations.parse(job.connection.allowed_locations or "")
    for path in paths_of(job):
        allowed.require(path)
    require_access(user_of(context["ti"].dag_id), accesses_of(job))


def user_of(dag_id: str) -> str:
    """Name the user that a task acts for: its DAG, as every task of it has the same rights.

    :param dag_id: The DAG.
    """
    return f"dag:{dag_id}"


def current_user() -> str:
    """Name the user that the running task acts for; ``process`` outside of a task."""
    try:
        return user_of(get_current_context()["ti"].dag_id)
    except (RuntimeError, AirflowException):
        return "process"


def audit(
    job: Job,
    context: "Context",
    outcome: str,
    *,
    report: Mapping[str, Any] | None = None,
    error: BaseException | None = None,
) -> None:
    """Write the audit record of a job.

    :param job: The job.
    :param context: The context of the task.
    :param outcome: ``done``, ``failed``, ``refused`` or ``killed``.
    :param report: The report, when the job is done.
    :param error: The error, when it is not. Its message is left out, as it may quote rows.
    """
    ti = context["ti"]
    told = report or {}
    record = {
        "format": 1,
        "time": time.time(),
        "user": user_of(ti.dag_id),
        **{name: getattr(ti, name, None) for name in _TASK},
        "job": type(job).__name__,
        "metastore": job.metastore and job.metastore.uris,
        "accesses": [
            {"table": each.table, "columns": each.columns, "action": each.action}
            for each in accesses_of(job)
        ],
        "paths": paths_of(job),
        "outcome": outcome,
        "error": error and type(error).__name__,
        **{name: told[name] for name in _OUTCOME if name in told},
    }
    audit_log.info("%s", json.dumps(record, default=str))


_TASK = ("dag_id", "run_id", "task_id", "map_index", "try_number")


@cache
def _authorizer(path: str) -> Callable[..., object]:
    module, _, name = path.rpartition(".")
    if not module:
        raise InvalidJob(f"{_SETTING} {path!r} is not the dotted path of a callable.")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    if not callable(found):
        raise InvalidJob(f"{_SETTING} {path!r} is not callable.")
    return found
