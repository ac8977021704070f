"""Validation of a job against the metastore's definition of its tables, with or without Spark."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from hiveacid.errors import (
    HiveAcidError,
    InsertOnlyTable,
    MetastoreError,
    NotTransactional,
    TableNotFound,
    UnknownColumn,
    UserError,
)
from hiveacid.metastore.catalog import HiveDatabase, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import TableRef
from hiveacid.rules.partition_filter import (
    KeyComparison,
    canonical_name,
    find_partitions,
    matching_partitions,
)
from hiveacid.rules.partition_keys import (
    equal_partitions,
    has_one_meaning,
    have_one_text,
    is_invalid,
    named_partition,
    values_by_name,
)
from hiveacid.rules.schema import TableKind
from hiveacid.rules.spelling import did_you_mean
from hiveacid.rules.sql_tokens import columns_of


def existing_table(client: MetastoreClient, ref: TableRef) -> HiveTable:
    """Describe a table.

    Raises:
        TableNotFound: It does not exist; the error suggests a similar name.
    """
    try:
        return client.get_table(ref)
    except TableNotFound as error:
        raise TableNotFound(error.what, remedy=_meant(client, ref)) from error


def transactional_table(client: MetastoreClient, ref: TableRef) -> HiveTable:
    """Describe a transactional table.

    Raises:
        TableNotFound: It does not exist.
        NotTransactional: It is a plain table or a view.
    """
    table = existing_table(client, ref)
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{ref} is not a transactional table; only those are altered.")
    return table


def require_transactional(table: HiveTable) -> None:
    """Raise NotTransactional for a plain table and for a view."""
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{table.ref} is not a transactional table.")


def require_versions(table: HiveTable) -> None:
    """Raise NotTransactional for a table whose versions are read, but which has none."""
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{table.ref} is not transactional: it has no versions.")


def existing_database(client: MetastoreClient, name: str) -> HiveDatabase:
    """Describe a database.

    Raises:
        TableNotFound: It does not exist; the error suggests a similar name.
    """
    try:
        return client.get_database(name)
    except TableNotFound as error:
        try:
            remedy = did_you_mean(name, client.get_databases())
        except MetastoreError:
            remedy = ""
        raise TableNotFound(f"The database {name} does not exist.", remedy=remedy) from error


def check_kind(table: HiveTable, operation: Operation) -> None:
    """Reject operations that this kind of table does not support.

    Raises:
        NotTransactional: The table is not transactional.
        InsertOnlyTable: The table takes inserts only.
    """
    require_transactional(table)
    changes = operation in (Operation.UPDATE, Operation.DELETE, Operation.MERGE)
    if table.kind is TableKind.INSERT_ONLY and changes:
        name = table.ref.full_name
        raise InsertOnlyTable(
            f"{name} is insert-only: {operation.value.lower()} is not possible.",
            remedy="Make it full ACID: CREATE TABLE ... STORED AS ORC TBLPROPERTIES "
            f"('transactional'='true') AS SELECT * FROM {name}; or, if it is stored as ORC and no "
            f"compaction has ever been there, ALTER TABLE {name} SET TBLPROPERTIES "
            "('transactional_properties'='default').",
        )


def find_columns(table: HiveTable, names: Sequence[str], what: str) -> list[str]:
    """The table's own spelling of some column names.

    Raises:
        UnknownColumn: The table has no such column.
    """
    known = {name.lower(): name for name in column_names(table)}
    unknown = [name for name in names if name.strip("`").lower() not in known]
    if unknown:
        raise UnknownColumn(
            f"{what} sets {', '.join(unknown)}, but {table.ref.full_name} has no such column.",
            remedy=columns_there(unknown, known.values()),
        )
    return [known[name.strip("`").lower()] for name in names]


def require_all_columns(
    table: HiveTable, names: Sequence[str], what: str, *, some: bool = False
) -> None:
    """Reject a source without one of the columns of a table.

    Args:
        table: The table.
        names: The columns of the source.
        what: The name of the operation, at the beginning of the message.
        some: Require only the partition keys.

    Raises:
        UnknownColumn: The source lacks a column.
    """
    have = {name.lower() for name in names}
    wanted = [key.name for key in table.partition_keys] if some else column_names(table)
    if missing := [name for name in wanted if name.lower() not in have]:
        raise UnknownColumn(
            f"{what} takes all columns from the source, which has no {', '.join(missing)}.",
            remedy=f"Add them to the source or name the columns; it has {', '.join(names)}.",
        )


def require_full_row(table: HiveTable, row: Sequence[str] | None) -> None:
    """Raise UnknownColumn unless the row of a merge has a value for each column, or is None."""
    names = column_names(table)
    if row is not None and len(names) != len(row):
        raise UnknownColumn(
            f"An insert clause of the merge has {len(row)} values, but "
            f"{table.ref.full_name} has {len(names)} columns: {', '.join(names)}.",
            remedy="Give a value for each of them, or name the columns.",
        )


def require_columns(text: str, alias: str, known: Collection[str], what: str) -> None:
    """Reject an expression with a column that the table certainly lacks.

    Args:
        text: The expression.
        alias: The table's name in it.
        known: The columns of the table.
        what: A description of the expression for the beginning of the message.

    Raises:
        UnknownColumn: The table lacks a column of the expression.
    """
    have = {name.lower() for name in known}
    # A name that begins with an underscore may be a column that Spark adds to files.
    unknown = [
        name for name in columns_of(text, alias) if name not in have and not name.startswith("_")
    ]
    if unknown and alias.lower() not in have:
        named = ", ".join(f"{alias}.{name}" for name in unknown)
        raise UnknownColumn(
            f"{what} names an unknown column: {named}.", remedy=columns_there(unknown, known)
        )


def require_partition_keys(table: HiveTable, spec: Iterable[str]) -> None:
    """Reject partition values whose names differ from the table's partition keys.

    Raises:
        UserError: A key is missing or unknown.
    """
    names, keys = list(spec), [key.name for key in table.partition_keys]
    if {name.lower() for name in names} != {key.lower() for key in keys}:
        raise UserError(
            f"{table.ref.full_name} is partitioned by {', '.join(keys) or 'nothing'}, "
            f"not by {', '.join(names)}.",
            remedy="Give a value for each of the table's partition keys.",
        )


def requested_partitions(
    client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> list[str]:
    """Return the names that the metastore has, or would have, for some requested partitions.

    Args:
        client: The metastore.
        table: The table.
        names: The requested names. Their keys may be in any order, and values in any spelling that
            the type has, unless there is a partition of exactly this name.

    Raises:
        UserError: The table has no partitions, a key is missing, unknown or repeated, or a value is
            invalid for its type.
    """
    if not table.partition_keys:
        raise UserError(
            f"{table.ref.full_name} has no partitions, so it has no partition {names[0]}.",
            remedy="Leave the partitions out.",
        )
    keys = table.key_types
    if have_one_text(keys.values()) and all(_is_canonical(name, keys) for name in names):
        return list(dict.fromkeys(names))
    return find_partitions(names, client.get_partition_names(table.ref), keys)


def _is_canonical(name: str, keys: Mapping[str, str]) -> bool:
    with suppress(HiveAcidError):
        return canonical_name(name, keys) == name
    return False


def equal_partitions_of(
    client: MetastoreClient, table: HiveTable, names: Sequence[str]
) -> dict[str, list[str]]:
    """Return the existing partitions whose values equal those of each name; see ``equal_partitions``.

    Names whose values have one text are returned without a call, whether they exist or not.

    Args:
        client: The metastore.
        table: The table.
        names: Names of partitions.
    """
    keys = table.key_types
    if not names or have_one_text(keys.values()):
        return {name: [name] for name in names}
    return equal_partitions(names, client.get_partition_names(table.ref), keys)


def specified_partitions(
    table: HiveTable,
    partitions: Sequence[Mapping[str, str | None]] | None,
    static: Mapping[str, str | None] | None,
    dynamic: Sequence[str],
) -> Sequence[Mapping[str, str | None]] | None:
    """Return the values of the partitions that an insert names; None if its rows determine them.

    Args:
        table: The table.
        partitions: The values of all keys of each partition.
        static: The values of some keys, or of all.
        dynamic: The partition keys whose values the rows have, in order; empty if none is named.

    Raises:
        UserError: A key is unknown, missing, or out of order, or its value is certainly invalid.
    """
    _require_insert_keys(table, static or (), dynamic)
    for key, value in (static or {}).items():
        require_value(table, key, value)
    if partitions is None and static:
        given = {key.lower() for key in static}
        return [static] if given == table.key_types.keys() else None
    return partitions


def names_of_partitions(
    table: HiveTable, specs: Iterable[Mapping[str, str | None]]
) -> list[str] | None:
    """Return the canonical names of partitions that are given by the values of all their keys.

    Args:
        table: The table.
        specs: The values of each partition, by the names of the keys.

    Returns:
        None if only Spark can read a value.

    Raises:
        UserError: A key is missing or unknown, or a value is certainly invalid for its type.
    """
    keys = table.key_types
    names: list[str] | None = []
    for spec in specs:
        require_partition_keys(table, spec)
        given = {key.lower(): value for key, value in spec.items()}
        for key, type_ in keys.items():
            require_value(table, key, given[key])
            if not has_one_meaning(given[key], type_):
                names = None
        if names is not None:
            names.append(named_partition([given[key] for key in keys], keys))
    return names and list(dict.fromkeys(names))


def require_value(table: HiveTable, key: str, text: str | None) -> None:
    """Reject a text that is certainly not a value of a partition key.

    Raises:
        UserError: It is not.
    """
    if text and is_invalid(text, table.key_types[key.lower()]):
        raise invalid_value(table, key, text)


def invalid_value(table: HiveTable, key: str, text: str) -> UserError:
    """Return the error for a text that is not a value of a partition key."""
    type_ = table.key_types[key.lower()]
    return UserError(
        f"{table.ref.full_name} has no partition where {key} is {text!r}: that is no {type_}."
    )


def partitions_of_insert(
    client: MetastoreClient, table: HiveTable, names: Sequence[str], *, replaces: bool
) -> list[str]:
    """Return the partitions that an insert into some partitions writes, and locks.

    Args:
        client: The metastore.
        table: The table.
        names: The canonical names of the partitions.
        replaces: Whether it replaces all rows of all partitions with equal values; otherwise it adds
            rows to the first.
    """
    equal = equal_partitions_of(client, table, names)
    most = None if replaces else 1
    return [each for name in names for each in equal[name][:most] or [name]]


def partitions_to_truncate(
    client: MetastoreClient, table: HiveTable, partition: Mapping[str, str | None] | None
) -> list[str]:
    """Return the partitions with some values of partition keys; by default, all partitions.

    Raises:
        UserError: A key is unknown, a value is invalid, or no partition has the values.
    """
    keys = table.key_types
    if unknown := {key.lower() for key in partition or ()} - keys.keys():
        raise UserError(f"{table.ref.full_name} has no partition key {min(unknown)}.")
    names = client.get_partition_names(table.ref) if keys else []
    if not partition:
        return names
    clause = [KeyComparison(key, value) for key, value in partition.items()]
    (chosen,) = matching_partitions([clause], keys, values_by_name(names, keys))
    if not chosen:
        wanted = " AND ".join(map(str, clause))
        raise UserError(f"{table.ref.full_name} has no partition where {wanted}.")
    return chosen


def _require_insert_keys(table: HiveTable, static: Iterable[str], dynamic: Sequence[str]) -> None:
    """Reject unknown keys with a value, and keys without one that are not exactly the other keys.

    Rows have the values of keys by position: a wrong key, or another order, would put them into
    other partitions, or overwrite more than the named ones.

    Args:
        table: The table.
        static: The partition keys with a value for all rows, in any order.
        dynamic: The partition keys whose values the rows have, in order; empty if none is named.

    Raises:
        UserError: A key is unknown, missing, or out of order.
    """
    what = f"The insert into {table.ref.full_name}"
    keys = [key.name.lower() for key in table.partition_keys]
    given, named = [name.lower() for name in static], [name.lower() for name in dynamic]
    if unknown := [name for name in given if name not in keys]:
        raise UserError(
            f"{what} has a value for {unknown[0]}, which is not one of the partition keys "
            f"{', '.join(keys)}."
        )
    first = len(given)
    if named and (named != keys[first:] or {*given} != {*keys[:first]}):
        raise UserError(
            f"{what} names the partition keys {', '.join([*given, *named])}, but the table is "
            f"partitioned by {', '.join(keys) or 'nothing'}.",
            remedy="Name all partition keys in the order of the table, those with values first.",
        )


def column_names(table: HiveTable) -> list[str]:
    """Return the names of the columns, those of the partition name last."""
    return [column.name for column in (*table.columns, *table.partition_keys)]


def columns_there(unknown: Sequence[str], known: Collection[str]) -> str:
    """Return the remedy for unknown columns: similar ones, and all that exist."""
    meant = did_you_mean(unknown[0].strip("`"), known) if len(unknown) == 1 else ""
    return f"{meant} The columns are {', '.join(known)}.".strip()


def _meant(client: MetastoreClient, ref: TableRef) -> str:
    """Suggest a similar existing table; empty if the metastore cannot list its tables."""
    try:
        databases = client.get_databases()
        if ref.database not in databases:
            return did_you_mean(ref.database, databases)
        tables = client.get_tables(ref.database)
    except MetastoreError:
        return ""
    return did_you_mean(ref.name, tables, before=f"{ref.database}.")
