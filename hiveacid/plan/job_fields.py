"""The fields of a job that define its change: an engine takes them by their names.

A field that an engine does not take would be ignored, and the change would not be that of the job. So
each field is taken, or settled before an engine gets the job, or the job is refused.
"""

from dataclasses import fields
from typing import Any

from hiveacid.errors import InvalidJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.run_options import RunOptions

_SETTLED = frozenset(
    [
        # The options of a write, its table, and its checks belong to the run.
        *(field.name for field in fields(RunOptions)),
        *("target", "metastore", "run_in", "on_empty", "checks"),
        # The validation requires it where a condition is missing.
        "all_rows",
        # The rows for it are a statement of their own.
        "quarantine",
    ]
)


def fields_of(job: Job, *names: str, part: type[Any] | None = None) -> dict[str, Any]:
    """Return the values of fields by their names.

    Args:
        job: The job.
        names: The names of the fields that the engine takes.
        part: A dataclass of this room that takes others by their names.

    Raises:
        InvalidJob: The job has another field.
    """
    part_names = [] if part is None else [field.name for field in fields(part)]
    unknown_fields = {field.name for field in fields(job)} - _SETTLED - {*names, *part_names}
    if unknown_fields:
        raise InvalidJob(
            f"The {job.tag} of {job.target} has a field that is not evaluated:"
            f" {', '.join(sorted(unknown_fields))}.",
            remedy="Run it with the version of hiveacid that the job was written for.",
        )
    return {name: getattr(job, name) for name in names}
