"""CREATE TABLE and CONVERT, which need the metastore alone."""

from collections.abc import Sequence
from typing import Any

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.errors import (
    MetastoreCallFailed,
    TableExists,
    TableNotFound,
    UnsupportedTable,
)
from airflow_hiveacid.jobs.ddl_jobs import ColumnSpec, ConvertJob, CreateTableJob
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.script_job import ScriptJob
from airflow_hiveacid.jobs.script_report import ScriptReport
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.metastore.thrift import idl_tables
from airflow_hiveacid.metastore.txn.exclusive import ExclusiveTable

# The property of a table that tells which run has created it.
_RUN = "hiveacid.run_token"
# The metastore of version 4 says so of tables that were to be managed and not transactional.
_TRANSLATED = "TRANSLATED_TO_EXTERNAL"
# What the metastore says of files whose names don't tell their buckets.
_STRANGE_FILES = "Unexpected data file name format"


def run_ddl(client: MetastoreClient, job: CreateTableJob | ConvertJob) -> RunReport:
    """Do what a statement of DDL asks for.

    Args:
        client: The metastore.
        job: What to create or to convert.

    Raises:
        TableExists: The table to create is there already.
        UnsupportedTable: The table cannot be made transactional.
    """
    job.validate()
    ref = TableRef.parse(job.target)
    if isinstance(job, CreateTableJob):
        warnings = create_table(client, ref, job)
        return RunReport(job="create_table", target=ref.full_name, warnings=warnings)
    warnings = convert_to_acid(
        client, ref, run_token=job.token, lock_wait_seconds=job.lock_wait_seconds
    )
    return RunReport(job="convert", target=ref.full_name, warnings=warnings)


def run_script_of_ddl(client: MetastoreClient, script: ScriptJob) -> ScriptReport:
    """Run a script that needs no Spark."""
    ddl = [job for job in script.runs() if isinstance(job, CreateTableJob | ConvertJob)]
    return ScriptReport.of(script.target, [run_ddl(client, job) for job in ddl])


def create_table(client: MetastoreClient, ref: TableRef, job: CreateTableJob) -> tuple[str, ...]:
    """Create a transactional table, empty.

    Returns:
        What its author should know.
    """
    existing = _find(client, ref)
    if existing is None:
        table = HiveTable.new(
            ref,
            _columns(job.columns),
            partition_keys=_columns(job.partition_keys),
            bucket_columns=[name.lower() for name in job.bucket_columns],
            num_buckets=job.num_buckets,
            parameters={**job.properties, **({_RUN: job.run_token} if job.run_token else {})},
            kind=TableKind.INSERT_ONLY if job.insert_only else TableKind.FULL_ACID,
            location=job.location,
            format=StorageFormat[job.format],
            serde_parameters=dict(job.serde_parameters),
        )
        try:
            client.create_table(table)
            return ()
        except MetastoreCallFailed:
            existing = _find(client, ref)
            if existing is None:
                raise  # Else somebody else has created it meanwhile.
    if job.run_token is not None and existing.parameters.get(_RUN) == job.run_token:
        return (f"{ref.full_name} was created by an earlier try.",)
    if not job.if_not_exists:
        raise TableExists(f"{ref.full_name} is there already.")
    return (f"{ref.full_name} was there already, and is left as it was.",)


def convert_to_acid(
    client: MetastoreClient,
    ref: TableRef,
    *,
    run_token: str | None = None,
    lock_wait_seconds: float = 300,
) -> tuple[str, ...]:
    """Make a plain table of ORC files full ACID; its files stay as they are.

    Nobody else who asks for locks reads or writes the table meanwhile. The metastore looks at the
    names of the files, and gives the first write id that is free of theirs.

    Returns:
        What its owner should know.
    """
    with ExclusiveTable(client, ref, run_token, lock_wait_seconds) as held:
        table = client.get_table(ref)
        if table.kind is TableKind.FULL_ACID:
            return (f"{ref.full_name} is full ACID already.",)
        _check_convertible(table)
        _make_acid(table.raw)
        try:
            client.call(
                idl_tables.alter_table_with_environment_context,
                ref.database,
                ref.name,
                table.raw,
                idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"}),
                about=ref.full_name,
            )
        except MetastoreCallFailed as error:
            if _STRANGE_FILES in error.what:
                raise UnsupportedTable(
                    f"{ref.full_name} has files whose names don't tell their buckets: {error.what}",
                    remedy="Create a full-ACID table and INSERT INTO it SELECT * FROM this one.",
                ) from error
            raise
        return tuple(held.warnings)


def _make_acid(raw: Any) -> None:
    """Let the definition of a table say that it is full ACID."""
    for name in ("EXTERNAL", _TRANSLATED, "external.table.purge"):
        raw.parameters.pop(name, None)
    raw.tableType = "MANAGED_TABLE"
    raw.parameters["transactional"] = "true"
    raw.parameters["transactional_properties"] = "default"


def _check_convertible(table: HiveTable) -> None:
    name = table.ref.full_name
    remedy = "Create a full-ACID table and INSERT INTO it SELECT * FROM this one."
    ours = table.raw.tableType == "MANAGED_TABLE" or _TRANSLATED in table.raw.parameters
    if table.is_view or not ours:
        raise UnsupportedTable(
            f"{name} is no managed table, so it cannot be full ACID.", remedy=remedy
        )
    if table.kind is TableKind.INSERT_ONLY:
        raise UnsupportedTable(
            f"{name} is insert-only; only plain tables are converted.",
            remedy=remedy,
        )
    if StorageFormat.of(table.serde, name) is not StorageFormat.ORC:
        raise UnsupportedTable(
            f"{name} is not stored as ORC, so it cannot be full ACID.", remedy=remedy
        )
    if table.sort_columns:
        raise UnsupportedTable(
            f"{name} is sorted by {', '.join(table.sort_columns)}, so it cannot be full ACID.",
            remedy=remedy,
        )


def _find(client: MetastoreClient, ref: TableRef) -> HiveTable | None:
    try:
        return client.get_table(ref)
    except TableNotFound:
        return None


def _columns(specs: Sequence[ColumnSpec]) -> list[HiveColumn]:
    return [HiveColumn(spec.name.lower(), spec.type, spec.comment) for spec in specs]
