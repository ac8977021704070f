"""Running a job of DDL without Spark, or a script of nothing else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definition_jobs import (
    AddColumnsJob,
    AlterColumnsJob,
    AnalyzeJob,
    CatalogJob,
    ConvertJob,
    CreateDatabaseJob,
    CreateTableJob,
    CreateTableLikeJob,
    DropDatabaseJob,
    DropTableJob,
    PartitionsJob,
    RenameTableJob,
    TablePropertiesJob,
)
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.report import RunReport, ScriptReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.progress import PhaseObserver
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.databases import create_database, drop_database, drop_table
from hiveacid.tables.definitions.partitions import change_partitions
from hiveacid.tables.definitions.tables import (
    add_columns,
    alter_columns,
    alter_properties,
    convert_to_acid,
    create_table,
    create_table_like,
    rename_table,
)
from hiveacid.tables.script import run_script
from hiveacid.tables.statistics import analyze


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
    # Even if nothing is left to do: others would wait for the locks of a killed attempt.
    if job.tokens:
        abort_open_transactions(client, *job.tokens)
    if isinstance(job, PartitionsJob):
        changes = change_partitions(client, TableRef.parse(job.target), job)
        return RunReport(
            job=f"{job.action}_partitions",
            target=job.target.lower(),
            partitions=changes.names,
            warnings=changes.warnings,
        )
    return RunReport(job=job.tag, target=job.target.lower(), warnings=_apply(client, job))


def run_script_of_ddl(
    client: MetastoreClient, script: ScriptJob, observers: Sequence[PhaseObserver] = ()
) -> ScriptReport:
    """Run a script that needs no Spark.

    Args:
        client: The metastore.
        script: The script.
        observers: Observers of the script.
    """

    def run_one(job: ScriptedJob, _: int) -> RunReport:
        assert isinstance(job, CatalogJob)
        return run_ddl(client, job)

    return run_script(client, script, run_one, observers)


_ON_DATABASES: Mapping[type[CatalogJob], Callable[[MetastoreClient, Any], tuple[str, ...]]] = {
    CreateDatabaseJob: create_database,
    DropDatabaseJob: drop_database,
}
_ON_TABLES: Mapping[type[CatalogJob], Callable[[MetastoreClient, TableRef, Any], tuple[str, ...]]]
_ON_TABLES = {
    CreateTableJob: create_table,
    CreateTableLikeJob: create_table_like,
    DropTableJob: drop_table,
    RenameTableJob: rename_table,
    AddColumnsJob: add_columns,
    AlterColumnsJob: alter_columns,
    TablePropertiesJob: alter_properties,
    ConvertJob: convert_to_acid,
}


def _apply(client: MetastoreClient, job: CatalogJob) -> tuple[str, ...]:
    """Apply a job, and return its warnings."""
    if (change_database := _ON_DATABASES.get(type(job))) is not None:
        return change_database(client, job)
    if (change_table := _ON_TABLES.get(type(job))) is not None:
        return change_table(client, TableRef.parse(job.target), job)
    raise InvalidJob(f"{type(job).__name__} needs Spark.")
