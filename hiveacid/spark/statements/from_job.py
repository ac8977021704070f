"""The statement that a job describes."""

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definition_jobs import TruncateJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.sources import BatchSource, Source
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    RowJob,
    UpdateJob,
)
from hiveacid.plan.insert import InsertMapping
from hiveacid.plan.job_fields import fields_of
from hiveacid.plan.merge import MergeText
from hiveacid.rules.merge import validate_clauses
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark.statements.conditions import Expressions
from hiveacid.spark.statements.insert import InsertStatement, TruncateStatement
from hiveacid.spark.statements.merge import MergeStatement
from hiveacid.spark.statements.restore import RestoreStatement
from hiveacid.spark.statements.row_change import DeleteStatement, UpdateStatement
from hiveacid.writes.statement import Statement


def statement_of(
    job: Job,
    spark: SparkSession,
    orc_codec: str | None = None,
    frames: Mapping[str, DataFrame] | None = None,
) -> Statement:
    """Return the statement of a job that changes one table.

    Args:
        job: The job.
        spark: The session that will run the statement.
        orc_codec: The compression of new files if the job does not define it.
        frames: The rows of batches that keep the settings of their session.

    Raises:
        InvalidJob: The job changes no table, or its clauses contradict each other.
    """
    statement = _statement_of(job, spark, orc_codec)
    match statement:
        case InsertStatement():
            statement.rows = _with_frame(statement.rows, frames)
        case MergeStatement():
            statement.source = _with_frame(statement.source, frames)
    statement.on_empty = job.on_empty if isinstance(job, RowJob) else None
    return statement


@singledispatch
def _statement_of(job: Job, spark: SparkSession, orc_codec: str | None) -> Statement:
    """Return the statement; each type of job registers its own."""
    raise InvalidJob(f"{type(job).__name__} does not change the rows of one table.")


@_statement_of.register
def _insert(job: InsertJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    names = ("overwrite", "whole_table", "merge_schema")
    values = fields_of(job, "source", *names, part=InsertMapping)
    rows, mapping, replaces = values.pop("source"), InsertMapping.of(job), values.pop("overwrite")
    return InsertStatement(*_target_and_codec(job, orc_codec), rows, mapping, replaces, **values)


@_statement_of.register
def _truncate(job: TruncateJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    return TruncateStatement(*_target_and_codec(job, orc_codec), **fields_of(job, "partition"))


@_statement_of.register
def _update(job: UpdateJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    fields, sql = _change_of_rows(job, spark, "set")
    fields["set"] = sql.all_sql(job.set)
    return UpdateStatement(*_target_and_codec(job, orc_codec), **fields)


@_statement_of.register
def _delete(job: DeleteJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    fields, _ = _change_of_rows(job, spark)
    return DeleteStatement(*_target_and_codec(job, orc_codec), **fields)


def _change_of_rows(
    job: DeleteJob | UpdateJob, spark: SparkSession, *names: str
) -> tuple[dict[str, Any], Expressions]:
    fields = fields_of(job, "where", "inputs", "target_alias", "params", "trusted", *names)
    sql = Expressions(spark, fields.pop("params"), fields.pop("trusted"))
    return fields | {"where": sql.sql(job.where), "inputs": job.inputs or {}}, sql


@_statement_of.register
def _restore(job: RestoreJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    as_of = AsOf.parse(fields_of(job, "as_of")["as_of"])
    return RestoreStatement(*_target_and_codec(job, orc_codec), as_of)


@_statement_of.register
def _merge(job: MergeJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    validate_clauses(job.when)
    values = fields_of(job, "source", "params", "trusted", part=MergeText)
    sql = Expressions(spark, values["params"], values["trusted"])
    merge = MergeText.of(job)
    merge = replace(merge, on=sql.sql(merge.on), when=tuple(map(sql.clause, merge.when)))
    return MergeStatement(*_target_and_codec(job, orc_codec), values["source"], merge)


def _target_and_codec(job: Job, orc_codec: str | None) -> tuple[TableRef, str | None]:
    return TableRef.parse(job.target), job.orc_codec or orc_codec


def _with_frame(
    source: DataFrame | Source, frames: Mapping[str, DataFrame] | None
) -> DataFrame | Source:
    return (frames or {}).get(source.name, source) if isinstance(source, BatchSource) else source
