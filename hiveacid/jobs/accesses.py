"""Tables and paths that a job accesses, as far as its fields name them."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from hiveacid.jobs.job import READ, Access
from hiveacid.jobs.sources import ChangesSource, TableSource
from hiveacid.rules.names import TableRef


def accesses_of(job: object) -> tuple[Access, ...]:
    """List the accesses of a job, or of a question in SQL, and of all jobs inside it.

    A query names its inputs; tables that Spark resolves by other names are not included.

    Args:
        job: The job or the question.

    Returns:
        The accesses; an empty tuple for an incomplete job, which ``require_access`` refuses.
    """
    return tuple(dict.fromkeys(_accesses(job)))


def paths_read(job: object) -> tuple[str, ...]:
    """List the locations that a job names, and reads."""
    return _paths(job, "paths_read")


def paths_written(job: object) -> tuple[str, ...]:
    """List the locations that a job names, and creates or writes."""
    return _paths(job, "paths_written")


def paths_of(job: object) -> tuple[str, ...]:
    """List the locations that a job names itself.

    Args:
        job: The job.
    """
    return tuple(dict.fromkeys((*paths_read(job), *paths_written(job))))


def _paths(job: object, name: str) -> tuple[str, ...]:
    found = (path for part in _parts(job) for path in getattr(part, name, ()))
    return tuple(dict.fromkeys(found))


def _accesses(job: object) -> Iterator[Access]:
    for part in _parts(job):
        if isinstance(part, TableSource | ChangesSource):
            yield Access(part.name.lower(), None, READ)
        elif isinstance(part, TableRef):
            yield Access(part.full_name, None, READ)
        elif (own_accesses := getattr(part, "own_accesses", None)) is not None:
            yield from own_accesses()


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
