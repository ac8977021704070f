"""Jobs as JSON, and the list of all modules that define jobs."""

import json
from typing import Any

from hiveacid.errors import InvalidJob
from hiveacid.foreign.text import parse_json
from hiveacid.jobs import (  # noqa: F401 - importing a module makes its jobs known.
    definition_jobs,
    erase_job,
    export_job,
    iceberg_job,
    maintenance_jobs,
    script_job,
    stage_jobs,
    stream_job,
    write_jobs,
)
from hiveacid.jobs.codec import decode, encode
from hiveacid.jobs.job import Job


def job_types() -> dict[str, type[Job]]:
    """Return all concrete types of jobs by their tags."""
    return {kind.tag: kind for kind in Job.kinds()}


def to_json(job: Job) -> str:
    """Write a job as one line of JSON."""
    return json.dumps(encode(job), allow_nan=False)


def from_json(text: str) -> Job:
    """Parse a job from the text of ``to_json`` or of a person.

    Raises:
        InvalidJob: The text is not JSON, a key is missing or unknown, or a value has the wrong type.
    """
    try:
        data = parse_json(text, object_pairs_hook=_unique)
    except RecursionError:
        raise InvalidJob("The job is not valid JSON: it is nested too deeply.") from None
    except ValueError as error:
        raise InvalidJob(f"The job is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise InvalidJob(f"The job must be a JSON object, not {data!r}.")
    job: Job = decode(Job, data, "job")
    return job


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise InvalidJob(f"The job has the key {key!r} twice in one object.")
        data[key] = value
    return data
