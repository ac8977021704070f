"""The statement that a job describes."""

from pyspark.sql import SparkSession

from airflow_hiveacid.acid.as_of import AsOf
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.merge import validate_clauses
from airflow_hiveacid.engine.statements.conditions import Expressions
from airflow_hiveacid.engine.statements.insert import InsertPlan, InsertStatement, TruncateStatement
from airflow_hiveacid.engine.statements.merge import MergeStatement
from airflow_hiveacid.engine.statements.restore import RestoreStatement
from airflow_hiveacid.engine.statements.row_change import DeleteStatement, UpdateStatement
from airflow_hiveacid.engine.write.statement import Statement
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.ddl_jobs import TruncateJob
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RestoreJob, UpdateJob


def statement_of(spark: SparkSession, job: Job, orc_codec: str | None = None) -> Statement:
    """Make the statement of a job that changes one table.

    Args:
        spark: The session that will run it.
        job: The job.
        orc_codec: The compression of new files, when the job does not say.

    Raises:
        InvalidJob: It changes no table, or its clauses make no sense.
    """
    target, codec = TableRef.parse(job.target), job.orc_codec or orc_codec
    match job:
        case InsertJob():
            plan = InsertPlan(
                job.partitions, job.by_position, job.columns, job.static, job.defaults
            )
            return InsertStatement(target, codec, job.source, plan, job.overwrite, job.merge_schema)
        case TruncateJob():
            return TruncateStatement(target, codec, job.partition)
        case UpdateJob():
            given = Expressions(spark, job.params, job.trusted)
            where, values = given.sql(job.where), given.all_sql(job.set)
            inputs = job.inputs or {}
            return UpdateStatement(target, codec, where, inputs, job.target_alias, values)
        case DeleteJob():
            where = Expressions(spark, job.params, job.trusted).sql(job.where)
            return DeleteStatement(target, codec, where, job.inputs or {}, job.target_alias)
        case RestoreJob():
            return RestoreStatement(target, codec, AsOf.parse(job.as_of))
        case MergeJob():
            validate_clauses(job.when)
            given = Expressions(spark, job.params, job.trusted)
            return MergeStatement(
                target,
                codec,
                job.source,
                given.sql(job.on),
                tuple(map(given.clause, job.when)),
                job.source_alias,
                job.target_alias,
                job.merge_schema,
            )
    raise InvalidJob(f"{type(job).__name__} is no job that changes a table.")
