"""CREATE TABLE, without Spark."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from hiveacid.errors import (
    InvalidJob,
    MetastoreCallFailed,
    TableExists,
    TableNotFound,
    TableReplaced,
    UnsupportedTable,
)
from hiveacid.jobs.definition_jobs import (
    AddColumnsJob,
    AlterColumnsJob,
    ColumnSpec,
    ConvertJob,
    CreateTableJob,
    CreateTableLikeJob,
    RenameTableJob,
    TablePropertiesJob,
)
from hiveacid.jobs.table_properties import RUN_PROPERTY, free_properties
from hiveacid.metastore.alteration import (
    alter_table,
    change_columns,
    compares_definitions,
    forget_row_count,
    mark_changed,
)
from hiveacid.metastore.catalog import HiveColumn, HiveDatabase, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import all_constraints, as_structs
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.table_rules import require_same_table, transactional_table
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.rules.constraints import constrained_columns, typed_default
from hiveacid.rules.location import Location
from hiveacid.rules.names import TableRef, is_hidden_path, original_bucket
from hiveacid.rules.schema import ChangeRules, Column, TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.new_folders import require_unused_table_folder
from hiveacid.tables.dropped_folders import require_unshared
from hiveacid.tables.locations import require_free_folder

# Creation of tables, views, and databases: once for each run, or only where they are missing


Created = TypeVar("Created", HiveDatabase, HiveTable)


def create_once(
    name: str,
    find: Callable[[], Created | None],
    create: Callable[[], None],
    *,
    run_token: str | None,
    if_not_exists: bool,
) -> tuple[str, ...]:
    """Create an object, unless an earlier attempt of the run has created it.

    Args:
        name: The object, as messages name it.
        find: Returns the object, or None if it does not exist.
        create: Creates it, with the run in its properties.
        run_token: The run.
        if_not_exists: Whether an object of the name may exist.

    Returns:
        Notes for the author of the statement.

    Raises:
        TableExists: Another object of the name exists.
    """
    existing = find()
    if existing is None:
        try:
            create()
            return ()
        except (MetastoreCallFailed, UnsupportedTable):
            existing = find()
            if existing is None:
                raise  # Otherwise another process has created it meanwhile.
    if run_token is not None and existing.parameters.get(RUN_PROPERTY) == run_token:
        return (f"{name} was created by an earlier attempt.",)
    if not if_not_exists:
        raise TableExists(f"{name} is there already.")
    return (f"{name} was there already, and is left as it was.",)


def create_table(client: MetastoreClient, ref: TableRef, job: CreateTableJob) -> tuple[str, ...]:
    """Create a transactional table, empty.

    Returns:
        Notes for the author of the statement.

    Raises:
        InvalidJob: A constraint could not be applied to writes.
    """
    if job.constraints:
        # It takes sqlglot, which most tables need not.
        from hiveacid.parser.constraint_rules import require_supported

        require_supported(job)
    table = HiveTable.new(
        ref,
        _columns(job.columns),
        partition_keys=_columns(job.partition_keys),
        bucket_columns=[name.lower() for name in job.bucket_columns],
        num_buckets=job.num_buckets,
        parameters=job.properties,
        kind=TableKind.INSERT_ONLY if job.insert_only else TableKind.FULL_ACID,
        location=_allowed(client, job.location),
        format=StorageFormat[job.format],
        serde_parameters=dict(job.serde_parameters),
    )
    types = {column.name.lower(): column.type for column in table.columns}
    declared = [typed_default(constraint, types) for constraint in job.constraints]
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
    model = client.get_table(TableRef.parse(job.like))
    if model.is_view:
        raise UnsupportedTable(
            f"{model.ref} is a view.", remedy="CREATE TABLE with the columns that it has."
        )
    for column in (*model.columns, *model.partition_keys):
        ColumnSpec(column.name, column.type).validate()
    kind = model.kind
    if kind is TableKind.NOT_ACID:
        # As in Hive 4, tables that cannot be full ACID become insert-only.
        orc = model.format is StorageFormat.ORC
        kind = TableKind.FULL_ACID if orc else TableKind.INSERT_ONLY
    table = HiveTable.new(
        ref,
        model.columns,
        partition_keys=model.partition_keys,
        bucket_columns=model.bucket_columns,
        num_buckets=model.num_buckets if model.bucket_columns else -1,
        parameters={**free_properties(model.parameters), **job.properties},
        kind=kind,
        location=_allowed(client, job.location),
        format=model.format,
        serde_parameters=model.serde_parameters,
    )
    return create(client, table, run_token=job.run_token, if_not_exists=job.if_not_exists)


def _allowed(client: MetastoreClient, location: str | None) -> Location | None:
    return None if location is None else client.allowed_locations.require(location)


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


def _columns(specs: Sequence[ColumnSpec]) -> list[HiveColumn]:
    return [HiveColumn(spec.name.lower(), spec.type, spec.comment) for spec in specs]


# CONVERT TABLE: a plain table becomes full ACID in place, or the error has statements that copy it


# Mark of the metastore of version 4 on tables requested as managed and not transactional.
_TRANSLATED = "TRANSLATED_TO_EXTERNAL"
# The metastore's message on files whose names don't contain their buckets.
_STRANGE_FILES = re.compile(r"Unexpected data file name format.*?File: (?P<file>[^\n]*)", re.DOTALL)
# The metastore's table of next write ids, in its message on a table that has write ids already.
_ALLOCATED = "NEXT_WRITE_ID"
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def convert_to_acid(client: MetastoreClient, ref: TableRef, job: ConvertJob) -> tuple[str, ...]:
    """Make a plain table of ORC files full ACID; its files stay as they are.

    No other process with locks reads or writes the table meanwhile. The metastore checks the names
    of the files, and assigns the first write id that they do not use.

    Files with other names are not renamed. Readers of a plain table hold no locks, so that a running
    query would miss files, and an object store copies a file before it removes the old one, so that
    a killed rename would leave rows twice.

    Returns:
        Notes for the owner.

    Raises:
        UnsupportedTable: The table cannot be converted; the remedy has statements that copy it.
    """

    def change(raw: Any) -> bool:
        now = HiveTable.from_thrift(raw)
        if now.kind is TableKind.FULL_ACID:
            return False
        _check_convertible(now)
        _make_acid(raw)
        mark_changed(raw)
        return True

    with ExclusiveTable(client, ref, job.token, job.lock_wait_seconds) as lock:
        table = client.get_table(ref)
        if table.kind is TableKind.FULL_ACID:
            return (f"{ref.full_name} is full ACID already.",)
        _check_convertible(table)
        _check_partitions_elsewhere(client, table)
        # Before the metastore compares the definition, it allocates the first write id, which a
        # refused call leaves behind. So only a database that can compare gets such a call.
        compares = compares_definitions(client, table, lock.confirm_alive)
        try:
            alter_table(client, table, change, lock.confirm_alive, compares=compares)
        except MetastoreCallFailed as error:
            if _ALLOCATED in error.what:
                raise _unsupported(
                    table, "has write ids of an earlier conversion, which the metastore refused."
                ) from error
            if strange := _STRANGE_FILES.search(error.what):
                raise _strange_file(table, strange["file"]) from error
            raise
        return tuple(lock.warnings)


def copy_statements(table: HiveTable) -> str:
    """Return the statements that create a full-ACID copy of a table, named like it with ``_acid``.

    Args:
        table: A table of any kind and format, or a view.
    """
    name, copy = _named(table.ref), _named(_copy_of(table.ref))
    plain = not table.is_view and table.kind is TableKind.NOT_ACID
    if plain and StorageFormat.of(table.serde, str(table.ref)) is StorageFormat.ORC:
        return f"CREATE TABLE {copy} LIKE {name}; INSERT INTO {copy} SELECT * FROM {name};"
    layout = ""
    if table.partition_keys:
        layout = (
            f" PARTITIONED BY ({', '.join(_as_short(key.name) for key in table.partition_keys)})"
        )
    if table.bucket_columns:
        buckets = ", ".join(map(_as_short, table.bucket_columns))
        layout += f" CLUSTERED BY ({buckets}) INTO {table.num_buckets} BUCKETS"
    return f"CREATE TABLE {copy}{layout} STORED AS ORC AS SELECT * FROM {name};"


def exchange_statements(ref: TableRef) -> str:
    """Return the statements that replace a managed table by its copy."""
    name = _named(ref)
    return f"DROP TABLE {name}; ALTER TABLE {_named(_copy_of(ref))} RENAME TO {name};"


def _unsupported(table: HiveTable, problem: str) -> UnsupportedTable:
    remedy = f"Stop its writers, and copy it: {copy_statements(table)}"
    if _is_managed(table):
        remedy += f" Compare the rows, then exchange both: {exchange_statements(table.ref)}"
    return UnsupportedTable(f"{table.ref.full_name} {problem}", remedy=remedy)


def _strange_file(table: HiveTable, file: str) -> UnsupportedTable:
    return _unsupported(
        table, f"has files without a bucket in their names, as Spark writes them, such as {file}."
    )


def _make_acid(raw: Any) -> None:
    """Mark the definition of a table as full ACID."""
    for name in ("EXTERNAL", _TRANSLATED, "external.table.purge"):
        raw.parameters.pop(name, None)
    raw.tableType = "MANAGED_TABLE"
    raw.parameters["transactional"] = "true"
    raw.parameters["transactional_properties"] = "default"


def _is_managed(table: HiveTable) -> bool:
    managed = table.raw.tableType == "MANAGED_TABLE" or _TRANSLATED in table.raw.parameters
    return managed and not table.is_view


def _check_convertible(table: HiveTable) -> None:
    if not _is_managed(table):
        raise _unsupported(table, "is no managed table, so it cannot be full ACID.")
    if table.kind is TableKind.INSERT_ONLY:
        raise _unsupported(table, "is insert-only; only plain tables are converted.")
    if StorageFormat.of(table.serde, table.ref.full_name) is not StorageFormat.ORC:
        raise _unsupported(table, "is not stored as ORC, so it cannot be full ACID.")
    if table.sort_columns:
        columns = ", ".join(table.sort_columns)
        raise _unsupported(table, f"is sorted by {columns}, so it cannot be full ACID.")


def _check_partitions_elsewhere(client: MetastoreClient, table: HiveTable) -> None:
    """Check the files that the metastore does not: it lists only the folder of the table."""
    if not table.partition_keys:
        return
    folder = table.folder.rstrip("/") + "/"
    for location in partition_locations(client, table).values():
        if location.startswith(folder) and ".." not in location.split("/"):
            continue
        for file in ReadOnlyStorage.of(location).list_files(recursive=True, missing_ok=True):
            is_hidden = is_hidden_path(file.path)
            if not is_hidden and original_bucket(file.path) is None:
                raise _strange_file(table, f"{location.rstrip('/')}/{file.path}")


def _copy_of(ref: TableRef) -> TableRef:
    return TableRef(ref.database, f"{ref.name}_acid")


def _named(ref: TableRef) -> str:
    return f"{_as_short(ref.database)}.{_as_short(ref.name)}"


def _as_short(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


# ALTER TABLE: another name, more columns, other properties


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

    require_unshared(client, [table])
    with ExclusiveTable(client, ref, job.token, job.lock_wait_seconds) as lock:
        require_unshared(client, [require_same_table(client, table)], partitions=False)
        try:
            # Another attempt of the run ends the lock before it continues.
            alter_table(client, table, change, lock.confirm_alive)
        except (MetastoreCallFailed, TableReplaced):
            # Perhaps only its answer got lost; then the table is not found by its former name.
            renamed = None if find_table(client, ref) else find_table(client, new)
            if renamed is None or not renamed.identity.is_same(table.identity):
                raise
    return tuple(lock.warnings)


def add_columns(client: MetastoreClient, ref: TableRef, job: AddColumnsJob) -> tuple[str, ...]:
    """Add columns behind those that a table has.

    Returns:
        Notes for the author of the statement.
    """
    table_before = transactional_table(client, ref)
    new_columns = [HiveColumn(spec.name.lower(), spec.type, spec.comment) for spec in job.columns]
    existing_names: list[str] = []

    def choose(table: HiveTable) -> Sequence[HiveColumn]:
        have = {column.name.lower(): column.type for column in table.columns}
        keys = {key.name.lower() for key in table.partition_keys}
        repeated = [column for column in new_columns if column.name in have or column.name in keys]
        earlier = job.run_token is not None and len(repeated) == len(new_columns)
        if earlier and all(have.get(column.name) == column.type for column in repeated):
            # The choice is made again under the lock.
            existing_names[:] = [column.name for column in repeated]
            return table.columns
        if repeated:
            raise InvalidJob(f"{ref} has the column {repeated[0].name} already.")
        return [*table.columns, *new_columns]

    change_columns(
        client,
        table_before,
        choose,
        run_token=job.token,
        lock_wait_seconds=job.lock_wait_seconds,
    )
    return (
        (f"{ref} had the columns {', '.join(existing_names)} already.",) if existing_names else ()
    )


def alter_columns(client: MetastoreClient, ref: TableRef, job: AlterColumnsJob) -> tuple[str, ...]:
    """Rename, widen, comment or move a column, or replace the list of columns.

    Returns:
        The facts that its author should know.

    Raises:
        UnsupportedTable: Rows would be lost, or some engine would read them differently.
    """
    table_before = transactional_table(client, ref)
    notes: list[str] = []

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
        columns = [Column(column.name, column.type, column.comment) for column in table.columns]
        if job.change is None:
            new_columns = [Column(spec.name, spec.type, spec.comment) for spec in job.columns]
            return [HiveColumn(*column) for column in rules.replaced(columns, new_columns)]
        # Another attempt finds the name that the first one has assigned.
        if job.run_token is not None and rules.is_renamed(columns, job.change):
            notes.append(f"{ref} had the column {job.change.name} already.")
            return table.columns
        return [HiveColumn(*column) for column in rules.changed(columns, job.change)]

    change_columns(
        client, table_before, choose, run_token=job.token, lock_wait_seconds=job.lock_wait_seconds
    )
    return tuple(notes)


def alter_properties(
    client: MetastoreClient, ref: TableRef, job: TablePropertiesJob
) -> tuple[str, ...]:
    """Set and unset properties of a table.

    Returns:
        Notes for the author of the statement.
    """
    table = transactional_table(client, ref)

    def change(raw: Any) -> bool:
        parameters = dict(raw.parameters)
        for name in job.unset:
            raw.parameters.pop(name, None)
        raw.parameters |= job.set
        if raw.parameters == parameters:
            return False
        mark_changed(raw)
        return True

    with ExclusiveTable(
        client, ref, job.token, job.lock_wait_seconds, type_=job.definition_lock
    ) as lock:
        current = require_same_table(client, table)
        missing = [name for name in job.unset if name not in current.parameters]
        # A later attempt does not find the keys that the first one has removed.
        if missing and not job.if_exists and job.run_token is None:
            raise InvalidJob(
                f"{ref} has no property {missing[0]!r}.",
                remedy="Write UNSET TBLPROPERTIES IF EXISTS.",
            )
        alter_table(client, current, change, lock.confirm_alive)
    return tuple(lock.warnings)
