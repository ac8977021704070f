"""The authorization of jobs by operators, and their audit records."""

import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from hiveacid.errors import AccessRefused, TaskKilled, without_secrets
from hiveacid.jobs.job import Job, accesses_of, paths_of
from hiveacid.metastore.authorizer import user_of

if TYPE_CHECKING:
    from airflow.sdk import Context

audit_log = logging.getLogger("airflow_hiveacid.audit")
# Its records are for handlers of its own: the log of a task is for people, who may delete it.
audit_log.propagate = False

_OUTCOME = (
    *("txn_id", "write_ids", "rows_inserted", "rows_updated", "rows_deleted"),
    *("already_done", "dry_run"),
)


def require_job_access(job: Job, context: "Context") -> None:
    """Check a job before it begins: its locations, and its accesses by the authorizer.

    :param job: The job, with its metastore.
    :param context: The context of the running task.
    :raises AccessRefused: A location or an access is refused.
    """
    # Thrift and Arrow are heavy, and this module is imported while DAGs are parsed.
    from hiveacid.metastore.client import MetastoreClient
    from hiveacid.tables import locations as location_owners

    with MetastoreClient(job.connection) as client:
        location_owners.require_job_access(client, user_of(context["ti"].dag_id), job)


def outcome_of(error: BaseException | None) -> str:
    """Return the outcome of a job: ``done``, ``skipped``, ``failed``, ``refused`` or ``killed``.

    :param error: The error; None if the job is done.
    """
    match error:
        case None:
            return "done"
        case AirflowSkipException():
            return "skipped"
        case AccessRefused():
            return "refused"
        case TaskKilled() | KeyboardInterrupt():
            return "killed"
    return "failed"


def audit(
    job: Job,
    context: "Context",
    *,
    report: Mapping[str, Any] | None = None,
    error: BaseException | None = None,
) -> None:
    """Write the audit record of a job.

    :param job: The job.
    :param context: The context of the task.
    :param report: The report, when the job is done.
    :param error: The error, when it is not. Its message is left out, as it may quote rows.
    """
    ti = context["ti"]
    reported = report or {}
    record = {
        "format": 1,
        "time": time.time(),
        "user": user_of(ti.dag_id),
        **{name: getattr(ti, name, None) for name in _TASK},
        "job": type(job).__name__,
        "metastore": job.metastore and job.metastore.uris,
        "accesses": [
            {"table": access.table, "columns": access.columns, "action": access.action}
            for access in accesses_of(job)
        ],
        "paths": [without_secrets(path) for path in paths_of(job)],
        "outcome": outcome_of(error),
        "error": error and type(error).__name__,
        **{name: reported[name] for name in _OUTCOME if name in reported},
    }
    audit_log.info("%s", json.dumps(record, default=str))


_TASK = ("dag_id", "run_id", "task_id", "map_index", "try_number")
