"""CREATE DATABASE and DROP DATABASE."""

from collections.abc import Sequence

from hiveacid.errors import (
    MetastoreCallFailed,
    MetastoreError,
    TableNotFound,
    UnsupportedTable,
    UserError,
)
from hiveacid.jobs.definition_jobs import CreateDatabaseJob, DropDatabaseJob, DropTableJob
from hiveacid.jobs.job import Access
from hiveacid.jobs.table_properties import RUN_PROPERTY
from hiveacid.metastore.authorizer import program_user, require_access
from hiveacid.metastore.catalog import HiveDatabase
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import require_same_table
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.rules.names import TableRef, first_names
from hiveacid.tables.definitions.tables import create_once, find_table
from hiveacid.tables.dropped_folders import require_unshared
from hiveacid.tables.locations import require_free

# DROP TABLE and DROP VIEW


def drop_table(client: MetastoreClient, ref: TableRef, job: DropTableJob) -> tuple[str, ...]:
    """Drop a table or a view once no process with locks reads or writes it.

    Returns:
        Notes for the author of the statement.

    Raises:
        SharedLocation: Another table has files in its folder, which the drop would delete.
    """
    kind = "view" if job.view else "table"
    table = find_table(client, ref)
    if table is None:
        if not job.if_exists:
            raise TableNotFound(
                f"There is no {kind} {ref}.",
                remedy=f"Write DROP {kind.upper()} IF EXISTS where an earlier attempt may have dropped it.",
            )
        return (f"There was no {kind} {ref}.",)
    if table.is_view is not job.view:
        found, opposite = ("view", "table") if table.is_view else ("table", "view")
        raise UnsupportedTable(
            f"{ref} is a {found}, and no {opposite}.", remedy=f"Write DROP {found.upper()}."
        )
    require_unshared(client, [table])
    with ExclusiveTable(client, ref, job.token, job.lock_wait_seconds) as lock:
        require_unshared(client, [require_same_table(client, table)], partitions=False)
        drop_held(client, ref, lock)
    return tuple(lock.warnings)


def drop_held(client: MetastoreClient, ref: TableRef, lock: ExclusiveTable) -> None:
    """Drop a locked table; if it disappears, this call has dropped it."""
    # Another attempt of the run ends the lock before it continues.
    lock.confirm_alive()
    try:
        client.drop_table(ref)
    except (MetastoreError, TableNotFound):
        if find_table(client, ref) is not None:
            raise


_DROP = DropTableJob.tag


def create_database(client: MetastoreClient, job: CreateDatabaseJob) -> tuple[str, ...]:
    """Create a database.

    Returns:
        Notes for the author of the statement.

    Raises:
        SharedLocation: A table is registered in its folder, around it, or inside it.
    """
    name, token = job.target.lower(), job.run_token
    if job.managed_location is not None and not client.features.has_managed_locations:
        raise UserError(
            "A metastore of version 3 knows no MANAGEDLOCATION.", remedy="Write LOCATION alone."
        )

    def create() -> None:
        # Its folder is deleted with it.
        if job.paths_written:
            require_free(client, job.paths_written, f"The database {name}")
        client.create_database(
            name,
            location=job.location,
            managed_location=job.managed_location,
            comment=job.comment,
            parameters={**job.properties, **({RUN_PROPERTY: token} if token else {})},
        )

    return create_once(
        f"The database {name}",
        lambda: _find(client, name),
        create,
        run_token=token,
        if_not_exists=job.if_not_exists,
    )


def drop_database(client: MetastoreClient, job: DropDatabaseJob) -> tuple[str, ...]:
    """Drop a database, and with CASCADE all of its tables once they are not in use.

    Returns:
        Notes for the author of the statement.

    Raises:
        AccessRefused: The authorizer refuses the drop of a table.
        SharedLocation: A table of another database has files in the folder of the database or of one
            of its tables.
    """
    name = job.target.lower()
    if (database := _find(client, name)) is None:
        if not job.if_exists:
            raise TableNotFound(f"There is no database {name}.", remedy="Write IF EXISTS.")
        return (f"There was no database {name}.",)
    refs = [TableRef(name, table) for table in sorted(client.get_tables(name))]
    if refs and not job.cascade:
        raise UserError(
            f"The database {name} has tables: {first_names([ref.name for ref in refs])}.",
            remedy="Write CASCADE to drop them.",
        )
    if refs:
        # Some may be newer than the check of the whole job.
        require_access(program_user(), [Access(ref.full_name, None, _DROP) for ref in refs])
    warnings: list[str] = []
    if refs:
        first, *next_refs = refs
        _require_unshared(client, refs)
        _require_own(client, database)
        # All at once: a statement that cannot lock all of them drops nothing.
        with ExclusiveTable(
            client, first, job.token, job.lock_wait_seconds, other_refs=next_refs
        ) as lock:
            _require_unshared(client, refs, partitions=False)
            _require_own(client, database, partitions=False)
            for ref in refs:
                drop_held(client, ref, lock)
        warnings = lock.warnings
    else:
        _require_own(client, database)
    # It refuses to drop a table that was created since.
    try:
        client.drop_database(name)
    except MetastoreCallFailed:
        if _find(client, name) is not None:
            raise
    return tuple(warnings)


def _require_unshared(
    client: MetastoreClient, refs: Sequence[TableRef], *, partitions: bool = True
) -> None:
    existing = (find_table(client, ref) for ref in refs)
    tables = [table for table in existing if table is not None]
    require_unshared(client, tables, partitions=partitions)


def _require_own(
    client: MetastoreClient, database: HiveDatabase, *, partitions: bool = True
) -> None:
    """Refuse to drop a database whose folder has tables of others: it is deleted with all files."""
    folders = tuple(filter(None, (database.location, database.managed_location)))
    require_free(
        client,
        folders,
        f"The dropped database {database.name}",
        tolerated=lambda table: TableRef.parse(table).database == database.name,
        partitions=partitions,
    )


def _find(client: MetastoreClient, name: str) -> HiveDatabase | None:
    try:
        return client.get_database(name)
    except TableNotFound:
        return None
