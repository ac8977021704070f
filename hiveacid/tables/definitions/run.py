"""Running a script, and without Spark a job of DDL, or a script of nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs.definition_jobs import (
    AddColumnsJob,
    AlterColumnsJob,
    AnalyzeJob,
    CatalogJob,
    ConvertJob,
    CreateDatabaseJob,
    CreateTableAsJob,
    CreateTableJob,
    CreateTableLikeJob,
    DropDatabaseJob,
    DropTableJob,
    PartitionsJob,
    RenameTableJob,
    TablePropertiesJob,
    TruncateJob,
)
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.write_jobs import RowJob, TransactionJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import abort_open_transactions
from hiveacid.progress import PhaseObserver
from hiveacid.records.earlier_attempts import require_same_statements
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


def run_script(
    client: MetastoreClient,
    script: ScriptJob,
    run_one: Callable[[ScriptedJob, int], RunReport | CompactReport],
    observers: Sequence[PhaseObserver] = (),
) -> ScriptReport:
    """Run the statements of a script, up to one that fails.

    Args:
        client: The metastore.
        script: The script.
        run_one: Runs a statement, given with its number.
        observers: Receive the beginnings of statements.

    Raises:
        InvalidJob: The script has a run token, and a retry could not run it again.
        UnprovenRun: An earlier attempt has applied a statement that the script no longer contains.
    """
    script.validate()
    if script.run_token is not None:
        _require_same_statements(client, script)
    # A statement may need a lock that an earlier attempt has requested for a later one.
    if script.tokens:
        abort_open_transactions(client, *script.tokens)
    reports: list[RunReport | CompactReport] = []
    for number, job in enumerate(script.runs(), start=script.first + 1):
        try:
            for observer in observers:
                observer.statement()
            reports.append(run_one(job, number))
        except HiveAcidError as error:
            error.what = f"Statement {number} of {len(script.statements)}: {error.what}"
            raise
        if reports[-1].error is not None:
            break
    return ScriptReport.of(script.target, reports)


def _require_same_statements(client: MetastoreClient, script: ScriptJob) -> None:
    writing = (RowJob, TruncateJob, TransactionJob, CreateTableAsJob)
    changes = [run for run in replace(script, first=0).runs() if isinstance(run, writing)]
    tables = dict.fromkeys(TableRef.parse(table) for change in changes for table in change.tables)
    if changes:
        require_same_statements(client, [change.known_token for change in changes], tables)


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
