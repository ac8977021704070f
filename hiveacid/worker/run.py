"""Changes of rows in this process, without Spark."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, TypeGuard

import pyarrow as pa

from hiveacid.errors import SparkNeeded, UnsupportedFile, UnsupportedTable
from hiveacid.jobs.job import Job
from hiveacid.jobs.report import RunReport
from hiveacid.jobs.sources import Source
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RowJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.plan.insert import InsertMapping
from hiveacid.plan.job_fields import fields_of
from hiveacid.plan.merge import MergeText
from hiveacid.progress import PhaseClock, PhaseObserver
from hiveacid.rules.merge import validate_clauses
from hiveacid.rules.names import TableRef
from hiveacid.worker.engine import ArrowEngine
from hiveacid.worker.merge import MergeRows
from hiveacid.worker.sources import ArrowSource, SharedInputs, source_of, source_of_rows
from hiveacid.worker.statements import DeleteRows, InsertRows, UpdateRows
from hiveacid.writes.atomic_write import run_statements
from hiveacid.writes.statement import Preparation, Statement, WriteOptions

# The statement of the worker that a job describes

# Rows of a program, by the names of the batches of a job.
Batches = Mapping[str, pa.Table]
NO_BATCHES: Batches = MappingProxyType({})


def statements_of(job: "ChangeJob", batches: Batches = NO_BATCHES) -> list[Statement]:
    """Return the statements of a job, which read each file of their sources once.

    Args:
        job: The job.
        batches: The rows of its batches.

    Raises:
        SparkNeeded: The job has a part that is not evaluated here.
    """
    sources = {name: source_of_rows(rows) for name, rows in batches.items()}
    inputs = SharedInputs(sources)
    return [statement_of(part, job.orc_codec, inputs) for part in job.parts]


def statement_of(
    job: Job, orc_codec: str | None = None, inputs: SharedInputs | None = None
) -> Statement:
    """Return the statement of a job that changes one table.

    Args:
        job: The job.
        orc_codec: The compression of new files if the job does not define it.
        inputs: The inputs that it shares with other statements.

    Raises:
        SparkNeeded: The job has a part that is not evaluated here.
    """
    statement = _statement_of(job, orc_codec, inputs)
    statement.on_empty = job.on_empty if isinstance(job, RowJob) else None
    return statement


def _statement_of(job: Job, orc_codec: str | None, inputs: SharedInputs | None) -> Statement:
    target, codec = TableRef.parse(job.target), job.orc_codec or orc_codec
    rows = ("where", "params", "target_alias")
    match job:
        case DeleteJob():
            return DeleteRows(target, codec, **_taken(job, *rows, inputs="subqueries", trusted=""))
        case UpdateJob():
            values = _taken(job, *rows, "set", inputs="subqueries", trusted="")
            return UpdateRows(target, codec, **values)
        case InsertJob():
            refused = {"merge_schema": "merge_schema", "defaults": "the keyword DEFAULT in a row"}
            names = ("source", "overwrite", "whole_table")
            values = _taken(job, *names, part=InsertMapping, **refused)
            source = _source(values.pop("source"), inputs)
            return InsertRows(target, codec, source, InsertMapping.of(job), **values)
        case MergeJob():
            validate_clauses(job.when)
            refused = {"merge_schema": "merge_schema", "trusted": ""}
            values = _taken(job, "source", "params", part=MergeText, **refused)
            source = _source(values.pop("source"), inputs)
            return MergeRows(target, codec, source, MergeText.of(job), **values)
    raise SparkNeeded(f"{job.tag} statements")


def _taken(job: Job, *names: str, part: type[Any] | None = None, **refused: str) -> dict[str, Any]:
    """Return fields of a job by their names.

    Args:
        job: The job.
        names: The names of the fields that a statement evaluates.
        part: A class of further ones.
        refused: The reason for Spark if a field has a value, by the name of the field; empty if it
            only concerns Spark.

    Raises:
        SparkNeeded: One of them has a value.
        InvalidJob: The job has another field.
    """
    values = fields_of(job, *names, *refused, part=part)
    for name, reason in refused.items():
        if values.pop(name) and reason:
            raise SparkNeeded(reason)
    return values


def _source(
    source: Source, inputs: SharedInputs | None
) -> Callable[[MetastoreClient], ArrowSource]:
    return partial(source_of, source=source, params={}, shared=inputs)


# The jobs that may run here.
ChangeJob = RowJob | TransactionJob


def change_rows(
    client: MetastoreClient,
    job: ChangeJob,
    observers: Sequence[PhaseObserver] = (),
    batches: Batches = NO_BATCHES,
) -> RunReport:
    """Run a change in this process, exactly once like on Spark.

    Args:
        client: The metastore.
        job: The change.
        observers: Observers of the phases.
        batches: The rows of its batches.

    Raises:
        SparkNeeded: A part of it requires Spark; nothing is visible, and nothing is left.
    """
    job.validate()
    if job.run_in == "spark":
        raise SparkNeeded("The job asks for it with run_in='spark'.")
    options = WriteOptions.of(job, job.token)
    with reasons_of(job):
        statements = statements_of(job, batches)
        engine = ArrowEngine(job.run_in == "auto")
        report = run_statements(engine, client, options, observers, statements)
    if report.already_done and report.txn_id is not None:
        # The observers of the earlier attempt may be killed with it.
        for observer in observers:
            observer.opened(report.txn_id, report.write_ids)
    return report


def why_spark(client: MetastoreClient, job: ChangeJob, batches: Batches = NO_BATCHES) -> str | None:
    """Return why a change runs on Spark, as far as that is known before it runs; None if it does not.

    Args:
        client: The metastore.
        job: The change.
        batches: The rows of its batches.

    Raises:
        SparkNeeded: The job is limited to this process, and requires Spark.
    """
    engine = ArrowEngine(job.run_in == "auto")
    preparation = Preparation(engine, client, WriteOptions.of(job, None), PhaseClock())
    try:
        if job.run_in == "spark":
            raise SparkNeeded("The job asks for it with run_in='spark'.")
        with reasons_of(job), preparation.stack:
            for part, statement in zip(job.parts, statements_of(job, batches), strict=True):
                with engine.running(part.tag):
                    statement.prepare(preparation)
    except SparkNeeded as error:
        if job.run_in == "worker":
            raise
        return error.what
    return None


@contextmanager
def reasons_of(job: ChangeJob) -> Iterator[None]:
    """Make the reason for Spark a sentence on the job, if it is an error."""
    try:
        yield
    except SparkNeeded as error:
        if job.run_in == "worker":
            text = f"The {job.tag} of {job.target} requires Spark: {error.what.rstrip('.')}."
            raise SparkNeeded(text) from error
        raise
    except (UnsupportedFile, UnsupportedTable) as error:
        if job.run_in != "auto":
            raise
        # Spark may read more, or reports it as well.
        raise SparkNeeded(error.what) from error


def may_change_rows(job: Job) -> TypeGuard[ChangeJob]:
    """Whether the options of a job let it run in this process."""
    return isinstance(job, ChangeJob) and job.run_in != "spark"
