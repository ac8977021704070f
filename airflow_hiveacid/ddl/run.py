"""Running a job of DDL, or a script of nothing else, without Spark."""

from functools import singledispatch

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.analysis.analyze import analyze
from airflow_hiveacid.ddl.alterations import (
    add_columns,
    alter_columns,
    alter_properties,
    rename_table,
)
from airflow_hiveacid.ddl.databases import create_database, drop_database
from airflow_hiveacid.ddl.drops import drop_table
from airflow_hiveacid.ddl.partitions import change_partitions
from airflow_hiveacid.ddl.script_progress import run_script
from airflow_hiveacid.ddl.tables import convert_to_acid, create_table, create_table_like
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.analyze_job import AnalyzeJob
from airflow_hiveacid.jobs.catalog_jobs import (
    AddColumnsJob,
    AlterColumnsJob,
    CreateDatabaseJob,
    CreateTableLikeJob,
    DropDatabaseJob,
    DropTableJob,
    RenameTableJob,
    TablePropertiesJob,
)
from airflow_hiveacid.jobs.ddl_jobs import CatalogJob, ConvertJob, CreateTableJob
from airflow_hiveacid.jobs.job import ScriptedJob
from airflow_hiveacid.jobs.partitions_job import PartitionsJob
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.script_job import ScriptJob
from airflow_hiveacid.jobs.script_report import ScriptReport
from airflow_hiveacid.metastore.client import MetastoreClient


def run_ddl(client: MetastoreClient, job: CatalogJob) -> RunReport:
    """Run a DDL statement.

    Args:
        client: The metastore.
        job: The job of the statement.

    Raises:
        TableExists: The object to create exists already.
        TableNotFound: The object to change does not exist.
        UnsupportedTable: This kind of table does not support the statement.
        LockTimeout: Other processes read or write the table all the time.
    """
    if isinstance(job, AnalyzeJob):
        return analyze(client, job).as_run()
    job.validate()
    if isinstance(job, PartitionsJob):
        changed = change_partitions(client, TableRef.parse(job.target), job)
        return RunReport(
            job=f"{job.action}_partitions",
            target=job.target.lower(),
            partitions=changed.names,
            warnings=changed.warnings,
        )
    return RunReport(job=job.tag, target=job.target.lower(), warnings=_apply(job, client))


def run_script_of_ddl(client: MetastoreClient, script: ScriptJob) -> ScriptReport:
    """Run a script that needs no Spark."""

    def run_one(job: ScriptedJob, _: int) -> RunReport:
        assert isinstance(job, CatalogJob)
        return run_ddl(client, job)

    # Only Spark can determine the writes of a transaction.
    return run_script(client, script, run_one, was_applied=lambda _: True)


@singledispatch
def _apply(job: CatalogJob, client: MetastoreClient) -> tuple[str, ...]:
    """Apply a job, and return its warnings; each type of job registers its function here."""
    raise InvalidJob(f"{type(job).__name__} needs Spark.")


@_apply.register
def _create_database(job: CreateDatabaseJob, client: MetastoreClient) -> tuple[str, ...]:
    return create_database(client, job)


@_apply.register
def _drop_database(job: DropDatabaseJob, client: MetastoreClient) -> tuple[str, ...]:
    return drop_database(client, job)


@_apply.register
def _create_table(job: CreateTableJob, client: MetastoreClient) -> tuple[str, ...]:
    return create_table(client, TableRef.parse(job.target), job)


@_apply.register
def _create_table_like(job: CreateTableLikeJob, client: MetastoreClient) -> tuple[str, ...]:
    return create_table_like(client, TableRef.parse(job.target), job)


@_apply.register
def _drop_table(job: DropTableJob, client: MetastoreClient) -> tuple[str, ...]:
    return drop_table(client, TableRef.parse(job.target), job)


@_apply.register
def _rename_table(job: RenameTableJob, client: MetastoreClient) -> tuple[str, ...]:
    return rename_table(client, TableRef.parse(job.target), job)


@_apply.register
def _add_columns(job: AddColumnsJob, client: MetastoreClient) -> tuple[str, ...]:
    return add_columns(client, TableRef.parse(job.target), job)


@_apply.register
def _alter_columns(job: AlterColumnsJob, client: MetastoreClient) -> tuple[str, ...]:
    return alter_columns(client, TableRef.parse(job.target), job)


@_apply.register
def _alter_properties(job: TablePropertiesJob, client: MetastoreClient) -> tuple[str, ...]:
    return alter_properties(client, TableRef.parse(job.target), job)


@_apply.register
def _convert(job: ConvertJob, client: MetastoreClient) -> tuple[str, ...]:
    return convert_to_acid(
        client,
        TableRef.parse(job.target),
        run_token=job.token,
        lock_wait_seconds=job.lock_wait_seconds,
    )
