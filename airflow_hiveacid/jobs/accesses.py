"""Tables and paths that a job accesses, as far as its fields name them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from airflow_hiveacid.jobs.catalog_jobs import CreateTableLikeJob, RenameTableJob
from airflow_hiveacid.jobs.export_job import ExportChangesJob
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.multi_table_job import StatementsJob
from airflow_hiveacid.jobs.script_job import ScriptJob
from airflow_hiveacid.jobs.sources import ChangesSource, TableSource
from airflow_hiveacid.jobs.view_job import CreateViewJob
from airflow_hiveacid.jobs.write_jobs import UpdateJob

READ = "read"
_LOCATIONS = ("path", "location", "managed_location", "checkpoint")


@dataclass(frozen=True, slots=True)
class Access:
    """One access to a table.

    Attributes:
        table: "database.table", or a database.
        columns: The columns; None means that all may be accessed.
        action: "read", or the kind of the job: "merge", "insert", "clean", "drop_table", ...
    """

    table: str
    columns: tuple[str, ...] | None
    action: str


def accesses_of(job: Job) -> tuple[Access, ...]:
    """List the accesses of a job and all jobs inside it, without repetition.

    A query names its inputs; tables that Spark finds by other names are not among them.

    Args:
        job: The job.
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


def _accesses(job: Job) -> Iterator[Access]:
    for part in _parts(job):
        if isinstance(part, TableSource | ChangesSource):
            yield Access(part.name.lower(), None, READ)
        elif isinstance(part, ExportChangesJob):
            yield Access(part.target.lower(), None, READ)
        elif isinstance(part, Job) and not isinstance(part, StatementsJob | ScriptJob):
            columns = tuple(part.set) if isinstance(part, UpdateJob) else None
            for table in part.tables:
                yield Access(table.lower(), columns, _kind(part))
            if isinstance(part, CreateTableLikeJob):
                yield Access(part.like.lower(), None, READ)
            if isinstance(part, CreateViewJob):
                yield from (Access(name.lower(), None, READ) for name in part.reads)
            if isinstance(part, RenameTableJob):
                yield Access(part.new_name.lower(), None, _kind(part))


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


def _kind(job: Job) -> str:
    name = type(job).__name__.removesuffix("Job")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
