"""The statement that a job describes."""

from functools import singledispatch

from pyspark.sql import SparkSession

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definition_jobs import TruncateJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    RowJob,
    UpdateJob,
)
from hiveacid.rules.merge import validate_clauses
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import AsOf
from hiveacid.spark.statements.conditions import Expressions
from hiveacid.spark.statements.insert import InsertPlan, InsertStatement, TruncateStatement
from hiveacid.spark.statements.merge import MergeStatement
from hiveacid.spark.statements.restore import RestoreStatement
from hiveacid.spark.statements.row_change import DeleteStatement, UpdateStatement
from hiveacid.writes.statement import Statement


def statement_of(job: Job, spark: SparkSession, orc_codec: str | None = None) -> Statement:
    """Return the statement of a job that changes one table.

    Args:
        job: The job.
        spark: The session that will run the statement.
        orc_codec: The compression of new files if the job does not define it.

    Raises:
        InvalidJob: The job changes no table, or its clauses contradict each other.
    """
    statement = _statement_of(job, spark, orc_codec)
    statement.on_empty = job.on_empty if isinstance(job, RowJob) else None
    return statement


@singledispatch
def _statement_of(job: Job, spark: SparkSession, orc_codec: str | None) -> Statement:
    """Return the statement; each type of job registers its own."""
    raise InvalidJob(f"{type(job).__name__} does not change the rows of one table.")


@_statement_of.register
def _insert(job: InsertJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    plan = InsertPlan(
        job.partitions,
        job.by_position,
        job.columns,
        job.static,
        job.dynamic,
        job.defaults,
        job.whole_table,
    )
    return InsertStatement(
        *_target_and_codec(job, orc_codec),
        job.source,
        plan,
        job.overwrite,
        job.merge_schema,
        job.exclude,
    )


@_statement_of.register
def _truncate(job: TruncateJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    return TruncateStatement(*_target_and_codec(job, orc_codec), job.partition)


@_statement_of.register
def _update(job: UpdateJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    given = Expressions(spark, job.params, job.trusted)
    where, values = given.sql(job.where), given.all_sql(job.set)
    inputs = job.inputs or {}
    return UpdateStatement(
        *_target_and_codec(job, orc_codec), where, inputs, job.target_alias, values
    )


@_statement_of.register
def _delete(job: DeleteJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    where = Expressions(spark, job.params, job.trusted).sql(job.where)
    return DeleteStatement(
        *_target_and_codec(job, orc_codec), where, job.inputs or {}, job.target_alias
    )


@_statement_of.register
def _restore(job: RestoreJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    return RestoreStatement(*_target_and_codec(job, orc_codec), AsOf.parse(job.as_of))


@_statement_of.register
def _merge(job: MergeJob, spark: SparkSession, orc_codec: str | None) -> Statement:
    validate_clauses(job.when)
    given = Expressions(spark, job.params, job.trusted)
    return MergeStatement(
        *_target_and_codec(job, orc_codec),
        job.source,
        given.sql(job.on),
        tuple(map(given.clause, job.when)),
        job.source_alias,
        job.target_alias,
        job.merge_schema,
        job.exclude,
    )


def _target_and_codec(job: Job, orc_codec: str | None) -> tuple[TableRef, str | None]:
    return TableRef.parse(job.target), job.orc_codec or orc_codec
