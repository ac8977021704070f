"""The CREATE TABLE statement of an existing table."""

import re
from collections.abc import Iterator, Mapping

from hiveacid.jobs.definitions.table_properties import free_properties
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.formats import StorageFormat
from hiveacid.metastore.table_rules import require_transactional
from hiveacid.rules.constraints import (
    NO_CONSTRAINTS,
    Check,
    Constraint,
    Default,
    Key,
    NotNull,
    TableConstraints,
)
from hiveacid.rules.printable import printable
from hiveacid.rules.schema import (
    Array,
    HiveType,
    Map,
    Struct,
    TableKind,
    Union,
    parse_type,
)

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
        NotTransactional: It is a plain table, or a view.
        UnsupportedTable: It is stored in a format that is not known, or has an unknown type.
    """
    require_transactional(table)
    return "\n".join(_lines(table, constraints))


def _lines(table: HiveTable, constraints: TableConstraints) -> Iterator[str]:
    yield f"CREATE TABLE {_name(table.ref.database)}.{_name(table.ref.name)} ("
    elements = [_column(column, constraints) for column in table.columns]
    elements += [f"  {_declared(each)}" for each in constraints.all if _is_of_table(each)]
    yield ",\n".join(elements)
    yield ")"
    properties = free_properties(table.parameters)
    if comment := properties.pop("comment", None):
        yield f"COMMENT {_text(comment)}"
    if table.partition_keys:
        yield "PARTITIONED BY ("
        yield ",\n".join(map(_column, table.partition_keys))
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
    shown = {"transactional": "true", "transactional_properties": kind, **properties}
    yield f"TBLPROPERTIES ({_pairs(shown)})"


def _column(column: HiveColumn, constraints: TableConstraints = NO_CONSTRAINTS) -> str:
    comment = f" COMMENT {_text(column.comment)}" if column.comment else ""
    declared = "".join(
        f" {_declared(each)}"
        for each in constraints.all
        if not _is_of_table(each) and getattr(each, "column", "").lower() == column.name.lower()
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
            return f"struct<{','.join(f'{_name(name)}:{_type(each)}' for name, each in fields)}>"
        case Union(choices):
            return f"uniontype<{','.join(map(_type, choices))}>"
    return str(type_)


def _is_of_table(constraint: Constraint) -> bool:
    """Whether a constraint is declared behind the columns."""
    return isinstance(constraint, Key) or constraint.column is None


def _declared(constraint: Constraint) -> str:
    match constraint:
        case NotNull():
            what = "NOT NULL"
        case Default():
            what = f"DEFAULT {_expression(constraint.value)}"
        case Check():
            what = f"CHECK ({_expression(constraint.expression)})"
        case Key():
            kind = {"primary": "PRIMARY KEY", "unique": "UNIQUE"}.get(constraint.type)
            what = f"{kind or 'FOREIGN KEY'} ({', '.join(map(_name, constraint.columns))})"
            if constraint.references is not None:
                other = ".".join(map(_name, constraint.references.split(".")))
                named = ", ".join(map(_name, constraint.referenced_columns))
                what += f" REFERENCES {other} ({named})"
    flags = (
        "ENABLE" if constraint.enabled else "DISABLE",
        "VALIDATE" if constraint.validated else "NOVALIDATE",
        "RELY" if constraint.rely else "NORELY",
    )
    name = constraint.name or ""
    start = f"CONSTRAINT {_name(name)} " if name and not _GENERATED.fullmatch(name) else ""
    return f"{start}{what} {' '.join(flags)}"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(
        f"{_text(name)} = {_text(value)}" for name, value in sorted(properties.items())
    )


def _name(name: str) -> str:
    return f"`{printable(name.replace('`', '``'))}`"


def _expression(text: str) -> str:
    """Return an expression in one line."""
    return printable(text.replace("\n", " "))


def _text(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{printable(plain)}'"
