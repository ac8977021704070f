"""Answers to SHOW and DESCRIBE, from the metastore alone."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, UnknownColumn
from hiveacid.jobs.table_properties import free_properties
from hiveacid.metastore.catalog import HiveColumn, HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue
from hiveacid.metastore.constraints import all_constraints
from hiveacid.metastore.table_rules import (
    existing_database,
    existing_table,
    projected_tables,
    requested_partitions,
    require_transactional,
)
from hiveacid.parser import questions
from hiveacid.rules.constraints import (
    NO_CONSTRAINTS,
    Check,
    Constraint,
    Default,
    Key,
    NotNull,
    TableConstraints,
)
from hiveacid.rules.names import TableRef, parse_partition_name, partition_name
from hiveacid.rules.partitions import KeyComparison, matching_partitions
from hiveacid.rules.run_tokens import unmarked_token
from hiveacid.rules.schema import Array, HiveType, Map, Struct, TableKind, Union, parse_type
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.texts import printable

# The CREATE TABLE statement of an existing table


# Names that the metastore has chosen: those of another table have to differ.
_GENERATED = re.compile(r"(nn|dc|pk|uk|fk)_\d+(_\d+)+")
# Text formats that need a ROW FORMAT SERDE clause.
_ROW_FORMAT = (StorageFormat.CSV, StorageFormat.JSON)


def create_statement(table: HiveTable, constraints: TableConstraints = NO_CONSTRAINTS) -> str:
    """A statement that `hiveacid sql` and Hive understand.

    It has no LOCATION: run under another name or in another database, it would create a second
    table in the folder of the first one. Hive takes one constraint with each column only, and this
    package any number.

    Args:
        table: A transactional table.
        constraints: Its constraints.

    Raises:
        WrongTableKind: It is a plain table, or a view.
        UnsupportedTable: It is stored in a format that is not known, or has an unknown type.
    """
    require_transactional(table)
    return "\n".join(_lines(table, constraints))


def _lines(table: HiveTable, constraints: TableConstraints) -> Iterator[str]:
    yield f"CREATE TABLE {_name(table.ref.database)}.{_name(table.ref.name)} ("
    elements = [_column_clause(column, constraints) for column in table.columns]
    elements += [
        f"  {_declared(constraint)}" for constraint in constraints.all if _is_of_table(constraint)
    ]
    yield ",\n".join(elements)
    yield ")"
    properties = free_properties(table.parameters)
    if comment := properties.pop("comment", None):
        yield f"COMMENT {_text(comment)}"
    if table.partition_keys:
        yield "PARTITIONED BY ("
        yield ",\n".join(map(_column_clause, table.partition_keys))
        yield ")"
    if table.bucket_columns:
        names = ", ".join(map(_name, table.bucket_columns))
        yield f"CLUSTERED BY ({names}) INTO {table.num_buckets} BUCKETS"
    form = table.format
    serde = {**table.serde_parameters}
    # Hive adds it to every table, and it equals the default.
    if serde.get("serialization.format") == "1":
        del serde["serialization.format"]
    if form in _ROW_FORMAT or serde:
        yield f"ROW FORMAT SERDE {_text(table.serde or '')}"
        if serde:
            yield f"WITH SERDEPROPERTIES ({_pairs(serde)})"
    yield f"STORED AS {'TEXTFILE' if form.is_text else form.name}"
    kind = "insert_only" if table.kind is TableKind.INSERT_ONLY else "default"
    properties_with_kind = {"transactional": "true", "transactional_properties": kind, **properties}
    yield f"TBLPROPERTIES ({_pairs(properties_with_kind)})"


def _column_clause(column: HiveColumn, constraints: TableConstraints = NO_CONSTRAINTS) -> str:
    comment = f" COMMENT {_text(column.comment)}" if column.comment else ""
    declared = "".join(
        f" {_declared(constraint)}"
        for constraint in constraints.all
        if not _is_of_table(constraint)
        and getattr(constraint, "column", "").lower() == column.name.lower()
    )
    return f"  {_name(column.name)} {_type(parse_type(column.type))}{declared}{comment}"


def _type(type_: HiveType) -> str:
    """Return a type with the names of fields in quotes: they may be keywords, or have blanks."""
    match type_:
        case Array(element):
            return f"array<{_type(element)}>"
        case Map(key, value):
            return f"map<{_type(key)},{_type(value)}>"
        case Struct(fields):
            return f"struct<{','.join(f'{_name(name)}:{_type(field_type)}' for name, field_type in fields)}>"
        case Union(choices):
            return f"uniontype<{','.join(map(_type, choices))}>"
    return str(type_)


def _is_of_table(constraint: Constraint) -> bool:
    """Whether a constraint is declared behind the columns."""
    return isinstance(constraint, Key) or constraint.column is None


def _declared(constraint: Constraint) -> str:
    match constraint:
        case NotNull():
            clause = "NOT NULL"
        case Default():
            clause = f"DEFAULT {_expression(constraint.value)}"
        case Check():
            clause = f"CHECK ({_expression(constraint.expression)})"
        case Key():
            kind = {"primary": "PRIMARY KEY", "unique": "UNIQUE"}.get(constraint.type)
            clause = f"{kind or 'FOREIGN KEY'} ({', '.join(map(_name, constraint.columns))})"
            if constraint.references is not None:
                referenced_table = ".".join(map(_name, constraint.references.split(".")))
                columns = ", ".join(map(_name, constraint.referenced_columns))
                clause += f" REFERENCES {referenced_table} ({columns})"
    flags = (
        "ENABLE" if constraint.enabled else "DISABLE",
        "VALIDATE" if constraint.validated else "NOVALIDATE",
        "RELY" if constraint.rely else "NORELY",
    )
    name = constraint.name or ""
    start = f"CONSTRAINT {_name(name)} " if name and not _GENERATED.fullmatch(name) else ""
    return f"{start}{clause} {' '.join(flags)}"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(
        f"{_text(name)} = {_text(value)}" for name, value in sorted(properties.items())
    )


def _name(name: str) -> str:
    return printable(quoted(name))


def _expression(text: str) -> str:
    """Return an expression in one line."""
    return printable(text.replace("\n", " "))


def _text(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{printable(plain)}'"


Cell = str | int | None
Rows = list[tuple[Cell, ...]]
_COLUMN = ("col_name", "data_type", "comment")


@dataclass(frozen=True)
class Answer:
    """Rows with the names of their columns, as Hive calls them.

    Attributes:
        columns: The names.
        rows: The rows.
        details: More about it, by topic: names and values.
    """

    columns: tuple[str, ...]
    rows: Rows
    details: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values, fit for JSON."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"columns": list(self.columns), "rows": rows, **self.details}


def answer(client: MetastoreClient, question: questions.Question) -> Answer:
    """Answer a question.

    Args:
        client: The metastore.
        question: The question.

    Raises:
        TableNotFound: The table or database does not exist.
    """
    match question:
        case questions.ShowDatabases(pattern):
            return _names("database_name", client.get_databases(), pattern)
        case questions.ShowTables(database, pattern):
            existing_database(client, database)  # Of one that is missing it lists no tables.
            return _names("tab_name", client.get_tables(database), pattern)
        case questions.ShowViews(database, pattern):
            names = client.get_tables(existing_database(client, database).name)
            raw_tables = projected_tables(client, database, names, ("tableName", "tableType"))
            views = [
                raw_table.tableName
                for raw_table in raw_tables
                if raw_table.tableType == "VIRTUAL_VIEW"
            ]
            return _names("tab_name", views, pattern)
        case questions.ShowPartitions(table, values):
            return _partitions(client, table, dict(values))
        case questions.ShowColumns(table):
            known = existing_table(client, table)
            names = [column.name for column in (*known.columns, *known.partition_keys)]
            return Answer(("field",), [(name,) for name in names])
        case questions.ShowProperties(table, name):
            return _properties(existing_table(client, table), name)
        case questions.ShowCreateTable(table):
            table_definition = existing_table(client, table)
            statement = create_statement(table_definition, all_constraints(client, table))
            return Answer(("createtab_stmt",), [(statement,)])
        case questions.ShowTransactions():
            return _transactions(client)
        case questions.ShowLocks(ref):
            return _locks(client, ref)
        case questions.ShowCompactions(database, ref):
            return _compactions(client, database, ref)
        case questions.Describe(table, extended):
            return _table(existing_table(client, table), extended)
        case questions.DescribeColumn(table, name):
            return _column(existing_table(client, table), name)
        case questions.DescribePartition(table, given, extended):
            return _partition(client, existing_table(client, table), dict(given), extended)
        case questions.DescribeDatabase(name, extended):
            return _database(client, name, extended)
    raise InvalidJob(f"{type(question).__name__} is not answered by the metastore alone.")


def _names(column: str, names: Sequence[str], pattern: str | None) -> Answer:
    matching_names = sorted(name for name in names if questions.matches(pattern, name))
    return Answer((column,), [(name,) for name in matching_names])


def _partitions(
    client: MetastoreClient, ref: TableRef, requested: Mapping[str, str | None]
) -> Answer:
    table = existing_table(client, ref)
    keys = [key.name for key in table.partition_keys]
    if not keys:
        raise InvalidJob(f"{ref} has no partitions.")
    if unknown_keys := sorted(requested.keys() - set(keys)):
        raise InvalidJob(
            f"{ref} is not partitioned by {unknown_keys[0]}, but by {', '.join(keys)}."
        )
    clause = [KeyComparison(key, value) for key, value in requested.items()]
    values = {name: dict(parse_partition_name(name)) for name in client.get_partition_names(ref)}
    (names_of_clause,) = matching_partitions([clause], table.key_types, values)
    return Answer(("partition",), [(name,) for name in sorted(names_of_clause)])


def _properties(table: HiveTable, name: str | None) -> Answer:
    if name is not None and name not in table.parameters:
        raise InvalidJob(f"{table.ref} has no property {name!r}.")
    properties = table.parameters if name is None else {name: table.parameters[name]}
    return Answer(("prpt_name", "prpt_value"), [*sorted(properties.items())])


def _transactions(client: MetastoreClient) -> Answer:
    columns = ("txnid", "state", "startedtime", "lastheartbeattime", "user", "host", "run")
    rows: Rows = []
    for txn in client.get_open_txns_info():
        rows.append(
            (
                txn.txn_id,
                txn.state.name,
                _time(txn.started_at),
                _time(txn.last_heartbeat),
                txn.user,
                txn.machine,
                unmarked_token(txn.token) or None,
            )
        )
    return Answer(columns, rows)


def _locks(client: MetastoreClient, ref: TableRef | None) -> Answer:
    if ref is not None:
        existing_table(client, ref)  # Of one that is missing it shows no locks.
    columns = (
        *("lockid", "database", "table", "partition", "lock_state", "lock_type"),
        *("transaction_id", "last_heartbeat", "acquired_at", "user", "hostname", "agent_info"),
    )
    rows: Rows = [
        (
            lock.lock_id,
            lock.database,
            None if lock.table is None else lock.table.name,
            lock.partition,
            lock.state.name,
            lock.type.name,
            lock.txn_id,
            _time(lock.last_heartbeat),
            _time(lock.acquired_at),
            lock.user,
            lock.host,
            lock.agent_info,
        )
        for lock in sorted(client.show_locks(ref), key=lambda lock: lock.lock_id)
    ]
    return Answer(columns, rows)


def _compactions(client: MetastoreClient, database: str | None, ref: TableRef | None) -> Answer:
    columns = (
        *("compactionid", "dbname", "tabname", "partname", "type", "state", "workerid"),
        *("enqueuetime", "starttime", "poolname", "errormessage"),
    )
    rows: Rows = [
        (
            entry.id,
            entry.table.database,
            entry.table.name,
            entry.partition,
            entry.type,
            entry.state,
            entry.worker_id,
            _time(entry.enqueued_at),
            _time(entry.started_at),
            entry.pool,
            entry.error,
        )
        for entry in CompactionQueue(client).show(ref)
        if database in (None, entry.table.database)
    ]
    return Answer(columns, rows)


def _table(table: HiveTable, extended: bool) -> Answer:
    columns = [*table.columns, *table.partition_keys]
    rows: Rows = [(column.name, column.type, column.comment) for column in columns]
    details: dict[str, Mapping[str, Cell]] = {}
    if table.partition_keys:
        details["partition"] = {key.name: key.type for key in table.partition_keys}
    if extended:
        details |= _details(table)
    return Answer(_COLUMN, rows, details)


def _column(table: HiveTable, name: str) -> Answer:
    columns = [*table.columns, *table.partition_keys]
    for column in columns:
        if column.name.lower() == name:
            row = (column.name, column.type, column.comment)
            return Answer(_COLUMN, [row])
    raise UnknownColumn(
        f"{table.ref} has no column {name}.",
        remedy=f"Its columns are {', '.join(column.name for column in columns)}.",
    )


def _partition(
    client: MetastoreClient, table: HiveTable, values: Mapping[str, str | None], extended: bool
) -> Answer:
    requested_name = partition_name([*values], [*values.values()])
    # Several partitions have the same values if engines have written these differently.
    name, *_ = requested_partitions(client, table, [requested_name])
    partitions = client.get_partitions(table, [name])
    if not partitions:
        raise InvalidJob(
            f"{table.ref} has no partition {name}.",
            remedy=f"SHOW PARTITIONS {table.ref} lists the partitions.",
        )
    columns = [*table.columns, *table.partition_keys]
    details: dict[str, Mapping[str, Cell]] = {"partition": dict(parse_partition_name(name))}
    if extended:
        details["storage"] = {"location": partitions[0].location}
        details["properties"] = dict(sorted(partitions[0].parameters.items()))
    return Answer(
        _COLUMN, [(column.name, column.type, column.comment) for column in columns], details
    )


def _details(table: HiveTable) -> Iterator[tuple[str, Mapping[str, Cell]]]:
    created = table.raw.createTime
    yield (
        "table",
        {
            "database": table.ref.database,
            "owner": table.owner,
            "create_time": _time(datetime.fromtimestamp(created, UTC)) if created else None,
            "location": table.location,
            "table_type": table.raw.tableType,
            "kind": table.kind.value,
        },
    )
    yield "properties", dict(sorted(table.parameters.items()))
    if table.is_view:
        yield "view", {"expanded_text": table.view_text}
        return
    yield (
        "storage",
        {
            "serde_library": table.serde,
            "input_format": table.input_format,
            "output_format": table.raw.sd.outputFormat,
            "num_buckets": table.num_buckets,
            "bucket_columns": ", ".join(table.bucket_columns),
            "sort_columns": ", ".join(table.sort_columns),
        },
    )
    if table.serde_parameters:
        yield "serde_properties", dict(sorted(table.serde_parameters.items()))


def _database(client: MetastoreClient, name: str, extended: bool) -> Answer:
    database = existing_database(client, name)
    columns: tuple[str, ...] = ("db_name", "comment", "location", "managedlocation", "owner_name")
    row: tuple[Cell, ...] = (
        database.name,
        database.comment,
        database.location,
        database.managed_location,
        database.owner,
    )
    details = {"properties": dict(sorted(database.parameters.items()))} if extended else {}
    return Answer(columns, [row], details)


def _time(time: datetime | None) -> str | None:
    return None if time is None else f"{time:%F %T}"
