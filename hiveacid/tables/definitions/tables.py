"""CREATE TABLE, without Spark."""

from collections.abc import Mapping, Sequence
from typing import Any

from hiveacid.errors import TableNotFound, UnsupportedTable
from hiveacid.jobs.definitions.catalog_jobs import CreateTableLikeJob
from hiveacid.jobs.definitions.ddl_jobs import ColumnSpec, CreateTableJob
from hiveacid.jobs.definitions.table_properties import (
    ORC_COMPRESS,
    RUN_PROPERTY,
    free_properties,
)
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import as_structs
from hiveacid.metastore.formats import StorageFormat
from hiveacid.rules.constraints import typed_default
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.storage.new_folders import require_unused_table_folder
from hiveacid.tables.definitions.creation import create_once
from hiveacid.tables.location_owners import require_free_folder


def create_table(client: MetastoreClient, ref: TableRef, job: CreateTableJob) -> tuple[str, ...]:
    """Create a transactional table, empty.

    Returns:
        Notes for the author of the statement.

    Raises:
        InvalidJob: A constraint could not be applied to writes.
    """
    if job.constraints:
        # It takes sqlglot, which most tables need not.
        from hiveacid.sql.constraint_rules import require_supported

        require_supported(job)
    table = HiveTable.new(
        ref,
        _columns(job.columns),
        partition_keys=_columns(job.partition_keys),
        bucket_columns=[name.lower() for name in job.bucket_columns],
        num_buckets=job.num_buckets,
        parameters={**_codec(client, StorageFormat[job.format]), **job.properties},
        kind=TableKind.INSERT_ONLY if job.insert_only else TableKind.FULL_ACID,
        location=job.location,
        format=StorageFormat[job.format],
        serde_parameters=dict(job.serde_parameters),
    )
    types = {column.name.lower(): column.type for column in table.columns}
    declared = [typed_default(each, types) for each in job.constraints]
    return create(
        client,
        table,
        run_token=job.run_token,
        if_not_exists=job.if_not_exists,
        constraints=as_structs(ref, declared),
    )


def create_table_like(
    client: MetastoreClient, ref: TableRef, job: CreateTableLikeJob
) -> tuple[str, ...]:
    """Create a transactional table that looks like another one, empty.

    Returns:
        Notes for the author of the statement.
    """
    other = client.get_table(TableRef.parse(job.like))
    if other.is_view:
        raise UnsupportedTable(
            f"{other.ref} is a view.", remedy="CREATE TABLE with the columns that it has."
        )
    for column in (*other.columns, *other.partition_keys):
        ColumnSpec(column.name, column.type).validate()
    kind = other.kind
    if kind is TableKind.NOT_ACID:
        # As in Hive 4, tables that cannot be full ACID become insert-only.
        orc = other.format is StorageFormat.ORC
        kind = TableKind.FULL_ACID if orc else TableKind.INSERT_ONLY
    table = HiveTable.new(
        ref,
        other.columns,
        partition_keys=other.partition_keys,
        bucket_columns=other.bucket_columns,
        num_buckets=other.num_buckets if other.bucket_columns else -1,
        parameters={**free_properties(other.parameters), **job.properties},
        kind=kind,
        location=job.location,
        format=other.format,
        serde_parameters=other.serde_parameters,
    )
    return create(client, table, run_token=job.run_token, if_not_exists=job.if_not_exists)


def create(
    client: MetastoreClient,
    table: HiveTable,
    *,
    run_token: str | None,
    if_not_exists: bool,
    constraints: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[str, ...]:
    """Create a table or a view, unless an earlier attempt of the run has created it.

    Args:
        client: The metastore.
        table: The description.
        run_token: The run.
        if_not_exists: Whether a table of the name may exist.
        constraints: Structs by the fields of the request.

    Returns:
        Notes for the author.

    Raises:
        SharedLocation: Another table is registered in the folder, around it, or inside it.
        TableExists: Another table of the name exists.
        UnsupportedTable: The folder of the table has directories of an earlier one.
    """
    ref = table.ref
    if run_token:
        table.raw.parameters[RUN_PROPERTY] = run_token

    def create_unused() -> None:
        if not table.is_view:
            require_free_folder(client, table)
            require_unused_table_folder(client, table)
        client.create_table(table, constraints)

    return create_once(
        ref.full_name,
        lambda: find_table(client, ref),
        create_unused,
        run_token=run_token,
        if_not_exists=if_not_exists,
    )


def find_table(client: MetastoreClient, ref: TableRef) -> HiveTable | None:
    """Describe a table; None if it does not exist."""
    try:
        return client.get_table(ref)
    except TableNotFound:
        return None


def _codec(client: MetastoreClient, form: StorageFormat) -> dict[str, str]:
    """The compression of new tables that state none: the better one, if all engines read it."""
    is_read = form is StorageFormat.ORC and client.version.reads_zstd
    return {ORC_COMPRESS: "ZSTD"} if is_read else {}


def _columns(specs: Sequence[ColumnSpec]) -> list[HiveColumn]:
    return [HiveColumn(spec.name.lower(), spec.type, spec.comment) for spec in specs]
