"""ALTER TABLE: another name, more columns, other properties."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from hiveacid.errors import (
    InvalidJob,
    MetastoreCallFailed,
    TableExists,
    TableNotFound,
    TableReplaced,
)
from hiveacid.jobs.definitions.catalog_jobs import (
    AddColumnsJob,
    AlterColumnsJob,
    RenameTableJob,
    TablePropertiesJob,
)
from hiveacid.metastore.alteration import (
    alter_table,
    forget_row_count,
    mark_changed,
)
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import all_constraints
from hiveacid.metastore.partition_alteration import change_columns
from hiveacid.metastore.same_table import require_same_table
from hiveacid.metastore.table_rules import transactional_table
from hiveacid.metastore.txn.exclusive import ExclusiveTable
from hiveacid.rules.column_changes import ChangeRules, Column
from hiveacid.rules.constraints import constrained_columns
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.tables import find_table
from hiveacid.tables.location_owners import require_unshared


def rename_table(client: MetastoreClient, ref: TableRef, job: RenameTableJob) -> tuple[str, ...]:
    """Rename a table once no process with locks reads or writes it.

    The metastore moves its folder, unless the table has chosen one, and lets write ids, compactions
    and locks follow.

    Returns:
        Notes for the author of the statement.

    Raises:
        SharedLocation: Another table has files in its folder, which would move.
        TableExists: The new name is in use.
        TableNotFound: The table does not exist; an earlier attempt may have renamed it.
    """
    new = TableRef.parse(job.new_name)
    if find_table(client, new) is not None:
        if find_table(client, ref) is None:
            raise TableNotFound(
                f"There is no table {ref}, and {new} is there already.",
                remedy="If an earlier attempt has renamed it, nothing is left to do.",
            )
        raise TableExists(f"{new} is there already.", remedy="Choose another name, or drop it.")
    table = transactional_table(client, ref)

    def change(raw: Any) -> bool:
        if raw.tableName == new.name:
            return False
        raw.tableName = new.name
        # Version 4 drops some of the statistics of a table that gets another name, and refuses that
        # where it has promised them.
        forget_row_count(raw)
        return True

    with ExclusiveTable(client, ref, job.token, job.lock_wait_seconds) as held:
        require_unshared(client, [require_same_table(client, table)])
        try:
            # Another attempt of the run ends the lock before it continues.
            alter_table(client, table, change, held.confirm_alive)
        except (MetastoreCallFailed, TableReplaced):
            # Perhaps only its answer got lost; then the table is not found by its former name.
            renamed = None if find_table(client, ref) else find_table(client, new)
            if renamed is None or not renamed.identity.is_same(table.identity):
                raise
    return tuple(held.warnings)


def add_columns(client: MetastoreClient, ref: TableRef, job: AddColumnsJob) -> tuple[str, ...]:
    """Add columns behind those that a table has.

    Returns:
        Notes for the author of the statement.
    """
    found = transactional_table(client, ref)
    added = [HiveColumn(spec.name.lower(), spec.type, spec.comment) for spec in job.columns]
    known: list[str] = []

    def choose(table: HiveTable) -> Sequence[HiveColumn]:
        have = {column.name.lower(): column.type for column in table.columns}
        keys = {key.name.lower() for key in table.partition_keys}
        twice = [column for column in added if column.name in have or column.name in keys]
        earlier = job.run_token is not None and len(twice) == len(added)
        if earlier and all(have.get(column.name) == column.type for column in twice):
            # The choice is made again under the lock.
            known[:] = [column.name for column in twice]
            return table.columns
        if twice:
            raise InvalidJob(f"{ref} has the column {twice[0].name} already.")
        return [*table.columns, *added]

    change_columns(
        client,
        found,
        choose,
        run_token=job.token,
        lock_wait_seconds=job.lock_wait_seconds,
    )
    return (f"{ref} had the columns {', '.join(known)} already.",) if known else ()


def alter_columns(client: MetastoreClient, ref: TableRef, job: AlterColumnsJob) -> tuple[str, ...]:
    """Rename, widen, comment or move a column, or replace the list of columns.

    Returns:
        The facts that its author should know.

    Raises:
        UnsupportedTable: Rows would be lost, or some engine would read them differently.
    """
    found = transactional_table(client, ref)
    known: list[str] = []

    @cache
    def constrained() -> frozenset[str]:
        # Called under the lock, for which clients that change constraints wait.
        return constrained_columns(all_constraints(client, ref))

    def choose(table: HiveTable) -> Sequence[HiveColumn]:
        rules = ChangeRules(
            table=ref.full_name,
            by_position=table.finds_columns_by_position,
            keys=[key.name.lower() for key in table.partition_keys],
            buckets=[name.lower() for name in table.bucket_columns],
            constrained=constrained(),
        )
        columns = [Column(each.name, each.type, each.comment) for each in table.columns]
        if job.change is None:
            wanted = [Column(spec.name, spec.type, spec.comment) for spec in job.columns]
            return [HiveColumn(*column) for column in rules.replaced(columns, wanted)]
        # Another attempt finds the name that the first one has assigned.
        if job.run_token is not None and rules.is_renamed(columns, job.change):
            known.append(f"{ref} had the column {job.change.name} already.")
            return table.columns
        return [HiveColumn(*column) for column in rules.changed(columns, job.change)]

    change_columns(
        client, found, choose, run_token=job.token, lock_wait_seconds=job.lock_wait_seconds
    )
    return tuple(known)


def alter_properties(
    client: MetastoreClient, ref: TableRef, job: TablePropertiesJob
) -> tuple[str, ...]:
    """Set and unset properties of a table.

    Returns:
        Notes for the author of the statement.
    """
    table = transactional_table(client, ref)

    def change(raw: Any) -> bool:
        before = dict(raw.parameters)
        for name in job.unset:
            raw.parameters.pop(name, None)
        raw.parameters |= job.set
        if raw.parameters == before:
            return False
        mark_changed(raw)
        return True

    with ExclusiveTable(
        client, ref, job.token, job.lock_wait_seconds, type_=job.definition_lock
    ) as held:
        current = require_same_table(client, table)
        missing = [name for name in job.unset if name not in current.parameters]
        # A later attempt does not find what the first one has removed.
        if missing and not job.if_exists and job.run_token is None:
            raise InvalidJob(
                f"{ref} has no property {missing[0]!r}.",
                remedy="Write UNSET TBLPROPERTIES IF EXISTS.",
            )
        alter_table(client, current, change, held.confirm_alive)
    return tuple(held.warnings)
