"""Validation of a job against the metastore's definition of its tables, with or without Spark."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import (
    HiveAcidError,
    MetastoreCallFailed,
    MetastoreError,
    TableNotFound,
    TableReplaced,
    UnknownColumn,
    UnsupportedTable,
    UserError,
    WrongTableKind,
)
from hiveacid.jobs.table_properties import FILE_PROPERTIES
from hiveacid.metastore.catalog import HiveColumn, HiveDatabase, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient, batches
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.locks import Operation
from hiveacid.rules.names import LocatedTable, TableRef, partition_name, plain_location, same_place
from hiveacid.rules.partitions import (
    KeyComparison,
    canonical_name,
    equal_partitions,
    find_partitions,
    has_one_meaning,
    have_one_text,
    is_invalid,
    matching_partitions,
    named_partition,
    require_different_values,
    values_by_name,
)
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_names import unquoted
from hiveacid.rules.texts import did_you_mean


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
        WrongTableKind: It is a plain table or a view.
    """
    table = existing_table(client, ref)
    if table.kind is TableKind.NOT_ACID:
        raise WrongTableKind(f"{ref} is not a transactional table; only those are altered.")
    return table


def require_transactional(table: HiveTable) -> None:
    """Raise WrongTableKind for a plain table and for a view."""
    if table.kind is TableKind.NOT_ACID:
        raise WrongTableKind(f"{table.ref} is not a transactional table.")


def require_versions(table: HiveTable) -> None:
    """Raise WrongTableKind for a table whose versions are read, but which has none."""
    if table.kind is TableKind.NOT_ACID:
        raise WrongTableKind(f"{table.ref} is not transactional: it has no versions.")


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
        WrongTableKind: The table is not transactional; or the table takes inserts only.
    """
    require_transactional(table)
    changes = operation in (Operation.UPDATE, Operation.DELETE, Operation.MERGE)
    if table.kind is TableKind.INSERT_ONLY and changes:
        name = table.ref.full_name
        raise WrongTableKind(
            f"{name} is insert-only: {operation.value.lower()} is not possible.",
            remedy="Make it full ACID: CREATE TABLE ... STORED AS ORC TBLPROPERTIES "
            f"('transactional'='true') AS SELECT * FROM {name}; or, if it is stored as ORC and no "
            f"compaction has ever been there, ALTER TABLE {name} SET TBLPROPERTIES "
            "('transactional_properties'='default').",
        )


def column_of(table: HiveTable, name: str) -> HiveColumn:
    """Return a column of a table by its name.

    Raises:
        UnknownColumn: There is no such column.
    """
    for column in table.columns:
        if column.name.lower() == name.lower():
            return column
    raise UnknownColumn(f"{table.ref} has no column {name}.")


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
        static_keys = {key.lower() for key in static}
        return [static] if static_keys == table.key_types.keys() else None
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
        values_by_key = {key.lower(): value for key, value in spec.items()}
        for key, type_ in keys.items():
            require_value(table, key, values_by_key[key])
            if not has_one_meaning(values_by_key[key], type_):
                names = None
        if names is not None:
            names.append(named_partition([values_by_key[key] for key in keys], keys))
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
    limit = None if replaces else 1
    return [partition for name in names for partition in equal[name][:limit] or [name]]


def partitions_to_empty(
    client: MetastoreClient,
    table: HiveTable,
    partition_names: Sequence[str] | None,
    *,
    whole_table: bool,
) -> Sequence[str | None]:
    """Return the partitions whose rows an overwrite replaces even by none.

    Args:
        client: The metastore.
        table: The table.
        partition_names: The partitions that the overwrite names, if any.
        whole_table: Whether it replaces all rows of the table.
    """
    if not table.partition_keys:
        return [None]
    return client.get_partition_names(table.ref) if whole_table else partition_names or ()


def partitions_to_truncate(
    client: MetastoreClient, table: HiveTable, partition: Mapping[str, str | None] | None
) -> list[str]:
    """Return the partitions with some values of partition keys; by default, all partitions.

    Raises:
        UserError: A key is unknown, a value is invalid, or no partition has the values.
    """
    keys = table.key_types
    if unknown_keys := {key.lower() for key in partition or ()} - keys.keys():
        raise UserError(f"{table.ref.full_name} has no partition key {min(unknown_keys)}.")
    names = client.get_partition_names(table.ref) if keys else []
    if not partition:
        return names
    clause = [KeyComparison(key, value) for key, value in partition.items()]
    (matching_names,) = matching_partitions([clause], keys, values_by_name(names, keys))
    if not matching_names:
        condition = " AND ".join(map(str, clause))
        raise UserError(f"{table.ref.full_name} has no partition where {condition}.")
    return matching_names


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
    subject = f"The insert into {table.ref.full_name}"
    keys = [key.name.lower() for key in table.partition_keys]
    static_keys, dynamic_keys = (
        [name.lower() for name in static],
        [name.lower() for name in dynamic],
    )
    if unknown_keys := [name for name in static_keys if name not in keys]:
        raise UserError(
            f"{subject} has a value for {unknown_keys[0]}, which is not one of the partition keys "
            f"{', '.join(keys)}."
        )
    first = len(static_keys)
    if dynamic_keys and (dynamic_keys != keys[first:] or {*static_keys} != {*keys[:first]}):
        raise UserError(
            f"{subject} names the partition keys {', '.join([*static_keys, *dynamic_keys])}, but the table is "
            f"partitioned by {', '.join(keys) or 'nothing'}.",
            remedy="Name all partition keys in the order of the table, those with values first.",
        )


def column_names(table: HiveTable) -> list[str]:
    """Return the names of the columns, those of the partition name last."""
    return [column.name for column in (*table.columns, *table.partition_keys)]


def columns_there(unknown_names: Sequence[str], column_names: Collection[str]) -> str:
    """Return the remedy for unknown columns: similar ones, and all that exist."""
    suggestion = (
        did_you_mean(unquoted(unknown_names[0]), column_names) if len(unknown_names) == 1 else ""
    )
    return f"{suggestion} The columns are {', '.join(column_names)}.".strip()


def _meant(client: MetastoreClient, ref: TableRef) -> str:
    """Suggest a similar existing table; empty if the metastore cannot list its tables."""
    try:
        databases = client.get_databases()
        if ref.database not in databases:
            return did_you_mean(ref.database, databases)
        tables = client.get_tables(ref.database)
    except MetastoreError:
        return ""
    return did_you_mean(ref.name, tables, prefix=f"{ref.database}.")


# Parameters of views that Spark has stored: its text alone does not define a view of Spark


# The prefixes of the parameters, which describe one text.
PREFIXES = ("view.", "spark.sql.")


def database_of(view: HiveTable) -> str:
    """Return the database of tables that the query of a view names without one.

    Raises:
        UnsupportedTable: Spark would look for them in another catalog.
    """
    catalog, *names = _numbered(view, "view.catalogAndNamespace.part.") or ("spark_catalog",)
    if catalog != "spark_catalog" or len(names) > 1:
        raise UnsupportedTable(
            f"The view {view.ref.full_name} reads tables of the catalog {catalog} of Spark.",
            remedy="Name catalog and database of each table in a query of your own.",
        )
    return names[0] if names else view.parameters.get("view.default.database", view.ref.database)


def outputs_of(view: HiveTable) -> Sequence[str]:
    """Return the columns of the query that are those of a view; empty if Spark stored none."""
    return _numbered(view, "view.query.out.col.")


def _numbered(view: HiveTable, prefix: str) -> Sequence[str]:
    """Return the values of the parameters for the elements of a list."""
    values: list[str] = []
    while (value := view.parameters.get(f"{prefix}{len(values)}")) is not None:
        values.append(value)
    return values


# Locations and storage of partitions, read without their columns and properties


# Version 4 fetches these fields by SQL of its own, at less than half the cost of a complete description.
_FIELDS = [
    "values",
    "createTime",
    "sd.location",
    "sd.inputFormat",
    "sd.numBuckets",
    "sd.bucketCols",
    "sd.serdeInfo.serializationLib",
    "sd.serdeInfo.parameters",
]
# PartitionFilterMode of the metastore.
_BY_NAMES = 0


@dataclass(frozen=True, slots=True)
class PartitionStorage:
    """Everything about a partition that decides where its files are and how they are read.

    Attributes:
        location: Its folder, without redundant slashes.
        created: The time of its creation in seconds; 0 if this process has added it.
        bucket_columns: The columns that its rows are distributed by.
        num_buckets: The number of its buckets; 0 without buckets, also where an engine stores -1.
        input_format: The Java class that reads the partition.
        serde: The Java class of the row format.
        serde_parameters: The properties of the row format.
    """

    location: str | None
    created: int
    bucket_columns: tuple[str, ...]
    num_buckets: int
    input_format: str | None
    serde: str | None
    serde_parameters: Mapping[str, str]

    @classmethod
    def of(cls, partition: HivePartition) -> Self:
        """Take it from a complete description."""
        return cls._from_thrift(partition.raw, partition.raw.sd, partition.location)

    @classmethod
    def _from_thrift(cls, partition: Any, storage: Any, location: str | None) -> Self:
        serde = storage.serdeInfo or idl_tables.SerDeInfo()
        return cls(
            location=location and plain_location(location),
            created=partition.createTime or 0,
            bucket_columns=tuple(storage.bucketCols or ()),
            num_buckets=max(storage.numBuckets or 0, 0),
            input_format=storage.inputFormat,
            serde=serde.serializationLib,
            serde_parameters=dict(serde.parameters or {}),
        )

    @classmethod
    def read(
        cls, client: MetastoreClient, table: HiveTable, names: Sequence[str]
    ) -> dict[str, Self]:
        """Read the storage of those partitions of the given names that exist.

        Args:
            client: The metastore.
            table: The table.
            names: The names of partitions.

        Raises:
            TableNotFound: The table was dropped meanwhile.
        """
        if not client.features.takes_requests:
            return {
                partition.name: cls.of(partition)
                for partition in client.get_partitions(table, names)
            }
        try:
            specs = [
                spec
                for batch in batches(names)
                for spec in client.call(
                    idl_tables.get_partitions_with_specs,
                    _request(table, batch),
                    about=table.ref.full_name,
                ).partitionSpec
            ]
        except MetastoreCallFailed:
            client.get_table(table.ref)  # If it was dropped, the error says so.
            raise
        keys = [key.name for key in table.partition_keys]
        return {
            partition_name(keys, partition.values): cls._from_thrift(partition, storage, location)
            for spec in specs
            for partition, storage, location in partitions_of(spec)
        }


def partitions_of(spec: Any) -> Iterator[tuple[Any, Any, str]]:
    """Yield the partitions of an answer, the storage that some have in common, and their locations."""
    if spec.partitionList is not None:
        for partition in spec.partitionList.partitions:
            yield partition, partition.sd, partition.sd.location
    if spec.sharedSDPartitionSpec is not None:
        storage = spec.sharedSDPartitionSpec.sd
        for partition in spec.sharedSDPartitionSpec.partitions:
            # Without a slash in between: of "/t" and "/t2/p=1" the relative path is "2/p=1".
            yield partition, storage, f"{storage.location}{partition.relativePath}"


def _request(table: HiveTable, names: Sequence[str]) -> Any:
    return idl_tables.GetPartitionsRequest(
        catName=table.raw.catName,
        dbName=table.ref.database,
        tblName=table.ref.name,
        projectionSpec=idl_tables.GetPartitionsProjectionSpec(_FIELDS),
        filterSpec=idl_tables.GetPartitionsFilterSpec(_BY_NAMES, list(names)),
    )


# Detection of tables that were replaced or changed while a job was running.
#
# Locks do not prevent other clients that request no locks from dropping, moving or changing a
# table.


def require_same_table(
    client: MetastoreClient, table: HiveTable, allocated: tuple[int, int] | None = None
) -> HiveTable:
    """Verify that a table was neither dropped nor moved.

    Args:
        client: The metastore.
        table: The table as it was.
        allocated: A transaction, and its write id for the table: write ids of a new table restart
            at 1. They are compared if the metastore does not number its tables: the creation time
            alone is in whole seconds.

    Returns:
        The current table.

    Raises:
        TableReplaced: The table was dropped, moved or replaced.
    """
    now = same_creation(client, table)
    _require_same_write_id(client, now, table, allocated)
    if not same_place(now.location, table.location):
        raise TableReplaced(
            f"{table.ref} was moved from {table.location} to {now.location} meanwhile."
        )
    return now


def _require_same_write_id(
    client: MetastoreClient, now: HiveTable, table: HiveTable, allocated: tuple[int, int] | None
) -> None:
    numbered = now.identity.id is not None and table.identity.id is not None
    if allocated is not None and not numbered:
        txn, write_id = allocated
        if (current_write_id := client.allocate_write_id(txn, table.ref)) != write_id:
            raise TableReplaced(
                f"{table.ref} was dropped and created again meanwhile: transaction {txn} had write"
                f" id {write_id}, and has {current_write_id}."
            )


def same_creation(client: MetastoreClient, table: HiveTable) -> HiveTable:
    """Return the current definition of a table, which may have been moved.

    Raises:
        TableReplaced: The table was dropped or replaced.
    """
    try:
        now = client.get_table(table.ref)
    except TableNotFound as error:
        raise TableReplaced(f"{table.ref} was dropped or renamed meanwhile.") from error
    if not now.identity.is_same(table.identity):
        raise TableReplaced(
            f"{table.ref} was dropped and created again meanwhile: it was {table.identity}, and is"
            f" {now.identity}."
        )
    return now


def located(table: HiveTable) -> LocatedTable:
    """Describe a table for files that must remain distinct from those of any other table.

    Raises:
        UnsupportedTable: The table has no files, like a view.
    """
    return LocatedTable(
        name=table.ref.full_name,
        location=table.folder,
        identity=table.identity,
    )


def require_same_definition(
    client: MetastoreClient,
    table: HiveTable,
    partitions: Sequence[HivePartition] = (),
    allocated: tuple[int, int] | None = None,
    *,
    may_grow: bool = False,
    now: HiveTable | None = None,
) -> HiveTable:
    """Verify that files written for a table, and for some partitions, still fit.

    Args:
        client: The metastore.
        table: The table as it was.
        partitions: The partitions as they were; all must exist by now.
        allocated: See ``require_same_table``.
        may_grow: Whether additional columns are allowed: new rows are null there, but a job that
            rewrites rows would lose values that other writers stored there.
        now: The current table, if ``require_same_table`` has just returned it, without a
            transaction.

    Returns:
        The current table.

    Raises:
        TableReplaced: The table is another one, or has other columns or properties that decide how
            its files are read; or a partition is missing, has another location, or has another
            storage.
    """
    if now is None:
        now = require_same_table(client, table, allocated)
    else:
        _require_same_write_id(client, now, table, allocated)
    require_described(now, table, may_grow=may_grow)
    if not partitions:
        return now
    present = PartitionStorage.read(client, now, [partition.name for partition in partitions])
    for partition in partitions:
        current, old_storage = present.get(partition.name), PartitionStorage.of(partition)
        subject = f"The partition {partition.name} of {table.ref}"
        remedy = "Nothing was published; run the job again."
        if current is None:
            # A metastore has not added a partition that it takes for another one.
            partition_names = [*present, *client.get_partition_names(table.ref)]
            require_different_values(table.ref.full_name, [partition.name], partition_names)
            raise TableReplaced(f"{subject} was dropped meanwhile.", remedy=remedy)
        if not same_place(current.location, old_storage.location):
            raise TableReplaced(
                f"{subject} was moved from {old_storage.location} to {current.location} meanwhile.",
                remedy=remedy,
            )
        if old_storage.created and current.created != old_storage.created:
            raise TableReplaced(f"{subject} was dropped and added again meanwhile.", remedy=remedy)
        if replace(current, location=None, created=0) != replace(
            old_storage, location=None, created=0
        ):
            raise TableReplaced(
                f"{subject} has other buckets, another format, or other properties of the format than"
                " before.",
                remedy=remedy,
            )
    return now


def require_described(now: HiveTable, table: HiveTable, *, may_grow: bool = False) -> None:
    """Verify that an earlier definition of a table describes its files like the current one.

    Args:
        now: The current definition.
        table: The earlier definition of the same table.
        may_grow: See ``require_same_definition``.

    Raises:
        TableReplaced: The definitions differ.
    """
    common_columns = now.columns[: len(table.columns)] if may_grow else now.columns
    if _layout(now) != _layout(table) or _types(common_columns) != _types(table.columns):
        raise TableReplaced(
            f"The columns of {table.ref}, its storage, or a property that decides how its files are"
            " read, were changed meanwhile.",
            remedy="Nothing was published; run the job again.",
        )


def definition_digest(table: HiveTable) -> str:
    """Compute a digest of everything that decides which rows the files of a table contain.

    Args:
        table: The table, or a view.
    """
    columns = [*_types(table.columns), *_types(table.partition_keys)]
    content = [table.location, columns, *map(_plain, _layout(table))]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _layout(table: HiveTable) -> tuple[object, ...]:
    """Return everything that decides which rows the files of a table contain, besides the columns."""
    return (
        table.kind,
        table.view_text,
        _types(table.partition_keys),
        table.bucket_columns,
        max(table.num_buckets, 0),
        table.serde,
        dict(table.serde_parameters),
        table.input_format,
        {name: table.parameters.get(name) for name in FILE_PROPERTIES},
    )


def _types(columns: Sequence[HiveColumn]) -> list[tuple[str, str]]:
    return [(column.name.lower(), column.type.lower()) for column in columns]


# Access to many tables in few calls: all tables that match a pattern, or a few fields of each


_WANTED = ("dbName", "tableName", "parameters")
# With many more names in one query, Derby runs out of stack.
TABLES_PER_CALL = 200


def tables_of(client: MetastoreClient, pattern: str) -> list[TableRef]:
    """Return the tables that match a pattern, by name.

    Args:
        client: The metastore.
        pattern: "database.table" is that table, of any kind. Wildcards in the name of the table, as
            in "sales.*" or "sales.day_*", match all transactional tables.

    Raises:
        TableNotFound: The database does not exist.
    """
    pattern_ref = TableRef.parse(pattern)
    if "*" not in pattern_ref.name:
        return [pattern_ref]
    database = existing_database(client, pattern_ref.database).name
    names = [name for name in client.get_tables(database) if fnmatchcase(name, pattern_ref.name)]
    return sorted(
        TableRef(table.dbName, table.tableName)
        for table in projected_tables(client, database, names, _WANTED)
        if TableKind.of(table.parameters or {}) is not TableKind.NOT_ACID
    )


def transactional_tables(
    client: MetastoreClient, database: str, names: Sequence[str] | None = None
) -> Iterator[HiveTable]:
    """Describe the transactional tables of a database.

    Args:
        client: The metastore: two calls, and more only for a very large database.
        database: The database; a missing one has no tables.
        names: Search only these names; by default all.
    """
    among = client.get_tables(database) if names is None else names
    for table in map(HiveTable.from_thrift, projected_tables(client, database, among)):
        if table.kind is not TableKind.NOT_ACID:
            yield table


def projected_tables(
    client: MetastoreClient, database: str, names: Sequence[str], fields: Sequence[str] = ()
) -> Iterator[Any]:
    """Yield the metastore's structs of the existing tables with these names.

    Args:
        client: The metastore, called once for every 200 tables.
        database: The database of the tables.
        names: Their names.
        fields: The required fields, like "sd.location"; by default all. Version 4 omits the rest;
            version 3 always sends all fields.
    """
    for start in range(0, len(names), TABLES_PER_CALL):
        request = idl_tables.GetTablesRequest(
            dbName=database,
            tblNames=names[start : start + TABLES_PER_CALL],
            capabilities=idl_tables.ClientCapabilities([idl_tables.INSERT_ONLY_TABLES]),
            processorCapabilities=list(idl_tables.CAPABILITIES),
            processorIdentifier=idl_tables.PROCESSOR,
            projectionSpec=idl_tables.GetProjectionsSpec(list(fields)) if fields else None,
        )
        call = idl_tables.get_table_objects_by_name_req
        yield from client.call(call, request, about=database).tables
