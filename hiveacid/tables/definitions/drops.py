"""DROP TABLE and DROP VIEW."""

from hiveacid.errors import MetastoreError, TableNotFound, UnsupportedTable
from hiveacid.jobs.definitions.catalog_jobs import DropTableJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.same_table import require_same_table
from hiveacid.metastore.txn.exclusive import ExclusiveTable
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.tables import find_table
from hiveacid.tables.location_owners import require_unshared


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
        found, other = ("view", "table") if table.is_view else ("table", "view")
        raise UnsupportedTable(
            f"{ref} is a {found}, and no {other}.", remedy=f"Write DROP {found.upper()}."
        )
    with ExclusiveTable(client, ref, job.token, job.lock_wait_seconds) as held:
        require_unshared(client, [require_same_table(client, table)])
        drop_held(client, ref, held)
    return tuple(held.warnings)


def drop_held(client: MetastoreClient, ref: TableRef, held: ExclusiveTable) -> None:
    """Drop a locked table; if it disappears, this call has dropped it."""
    # Another attempt of the run ends the lock before it continues.
    held.confirm_alive()
    try:
        client.drop_table(ref)
    except (MetastoreError, TableNotFound):
        if find_table(client, ref) is not None:
            raise
