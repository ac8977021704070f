"""Tables and paths that a job accesses, as far as its fields name them."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.jobs.job import READ, Access, Job
from airflow_hiveacid.jobs.sources import ChangesSource, TableSource

_LOCATIONS = ("path", "location", "managed_location", "checkpoint")


def accesses_of(job: object) -> tuple[Access, ...]:
    """List the accesses of a job, or of a question in SQL, and of all jobs inside it.

    A query names its inputs; tables that Spark resolves by other names are not included.

    Args:
        job: The job or the question.
    """
    return tuple(dict.fromkeys(_accesses(job)))


def paths_of(job: Job) -> tuple[str, ...]:
    """List the locations that a job names itself.

    Args:
        job: The job.
    """
    return tuple(
        dict.fromkeys(
            value
            for part in _parts(job)
            for name in _LOCATIONS
            if isinstance(value := getattr(part, name, None), str)
        )
    )


def _accesses(job: object) -> Iterator[Access]:
    for part in _parts(job):
        if isinstance(part, TableSource | ChangesSource):
            yield Access(part.name.lower(), None, READ)
        elif isinstance(part, TableRef):
            yield Access(part.full_name, None, READ)
        elif isinstance(part, Job):
            yield from part.own_accesses()


def _parts(value: object) -> Iterator[object]:
    """Yield all dataclasses inside a value, and itself."""
    if isinstance(value, Mapping):
        for entry in value.values():
            yield from _parts(entry)
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _parts(entry)
    elif is_dataclass(value):
        yield value
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
