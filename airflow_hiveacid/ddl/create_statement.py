"""The CREATE TABLE that makes a table like one that is there."""

from collections.abc import Iterator, Mapping

from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.errors import NotTransactional
from airflow_hiveacid.jobs.catalog_jobs import free_properties
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.metastore.formats import StorageFormat

# How to say what a serde cannot be told apart by.
_ROW_FORMAT = (StorageFormat.CSV, StorageFormat.JSON)


def create_statement(table: HiveTable) -> str:
    """A statement that `hiveacid sql` and Hive understand.

    It has no LOCATION: run under another name or in another database, it would create a second
    table in the folder of the first one.

    Args:
        table: A transactional table.

    Raises:
        NotTransactional: It is a plain table, or a view.
        UnsupportedTable: It is stored in a format that is not known.
    """
    if table.kind is TableKind.NOT_ACID:
        raise NotTransactional(f"{table.ref} is not a transactional table.")
    return "\n".join(_lines(table))


def _lines(table: HiveTable) -> Iterator[str]:
    yield f"CREATE TABLE {_name(table.ref.database)}.{_name(table.ref.name)} ("
    yield ",\n".join(map(_column, table.columns))
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
    # Hive adds it to every table, and it says the same as the default.
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


def _column(column: HiveColumn) -> str:
    comment = f" COMMENT {_text(column.comment)}" if column.comment else ""
    return f"  {_name(column.name)} {column.type}{comment}"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(
        f"{_text(name)} = {_text(value)}" for name, value in sorted(properties.items())
    )


def _name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _text(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{plain}'"
