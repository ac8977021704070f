"""Running a job of DDL, or a script of nothing else, without Spark."""

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
from airflow_hiveacid.jobs.partitions_job import PartitionsJob
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.script_job import ScriptedJob, ScriptJob
from airflow_hiveacid.jobs.script_report import ScriptReport
from airflow_hiveacid.metastore.client import MetastoreClient


def run_ddl(client: MetastoreClient, job: CatalogJob) -> RunReport:
    """Do what a statement of DDL asks for.

    Args:
        client: The metastore.
        job: What to create, change or drop.

    Raises:
        TableExists: What is to be created is there already.
        TableNotFound: What is to be changed is not there.
        UnsupportedTable: It cannot be done to a table of this kind.
        LockTimeout: Somebody reads or writes the table all the time.
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
    name, warnings = _run(client, job)
    return RunReport(job=name, target=job.target.lower(), warnings=warnings)


def run_script_of_ddl(client: MetastoreClient, script: ScriptJob) -> ScriptReport:
    """Run a script that needs no Spark."""

    def run_one(job: ScriptedJob, _: int) -> RunReport:
        assert isinstance(job, CatalogJob)
        return run_ddl(client, job)

    # Only Spark can find out what a transaction has written.
    return run_script(client, script, run_one, was_applied=lambda _: True)


def _run(client: MetastoreClient, job: CatalogJob) -> tuple[str, tuple[str, ...]]:
    """The name of the job, and what its author should know."""
    match job:
        case CreateDatabaseJob():
            return "create_database", create_database(client, job)
        case DropDatabaseJob():
            return "drop_database", drop_database(client, job)
    ref = TableRef.parse(job.target)
    match job:
        case CreateTableJob():
            return "create_table", create_table(client, ref, job)
        case CreateTableLikeJob():
            return "create_table", create_table_like(client, ref, job)
        case DropTableJob():
            return "drop_table", drop_table(client, ref, job)
        case RenameTableJob():
            return "rename_table", rename_table(client, ref, job)
        case AddColumnsJob():
            return "add_columns", add_columns(client, ref, job)
        case AlterColumnsJob():
            return "alter_columns", alter_columns(client, ref, job)
        case TablePropertiesJob():
            return "table_properties", alter_properties(client, ref, job)
        case ConvertJob():
            return "convert", convert_to_acid(
                client, ref, run_token=job.token, lock_wait_seconds=job.lock_wait_seconds
            )
    raise InvalidJob(f"{type(job).__name__} is no job of DDL.")
