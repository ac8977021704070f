"""The columns that a change names, of its table and of its source."""

from collections.abc import Collection, Sequence

from hiveacid.errors import UnknownColumn
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.table_rules import column_names, columns_there
from hiveacid.rules.sql_names import unquoted
from hiveacid.rules.sql_tokens import columns_of
from hiveacid.rules.texts import plural


def find_columns(table: HiveTable, names: Sequence[str], subject: str) -> list[str]:
    """The table's own spelling of some column names.

    Raises:
        UnknownColumn: The table has no such column.
    """
    columns_by_name = {name.lower(): name for name in column_names(table)}
    unknown_names = [name for name in names if unquoted(name).lower() not in columns_by_name]
    if unknown_names:
        raise UnknownColumn(
            f"{subject} sets {', '.join(unknown_names)}, but {table.ref.full_name} has no such column.",
            remedy=columns_there(unknown_names, columns_by_name.values()),
        )
    return [columns_by_name[unquoted(name).lower()] for name in names]


def columns_of_row(names: Sequence[str], exclude: Collection[str], subject: str) -> list[str]:
    """Return the columns of a source that are part of its rows, without excluded ones.

    Args:
        names: The columns of the source.
        exclude: The names of its excluded columns, in any case.
        subject: The name of the operation, at the beginning of the message.

    Raises:
        UnknownColumn: The source lacks an excluded column.
    """
    source_names, without = {name.lower() for name in names}, {name.lower() for name in exclude}
    if unknown_names := [name for name in exclude if name.lower() not in source_names]:
        raise UnknownColumn(
            f"{subject} excludes {', '.join(unknown_names)}, but the source has no such column.",
            remedy=columns_there(unknown_names, names),
        )
    return [name for name in names if name.lower() not in without]


def require_all_columns(
    table: HiveTable,
    names: Sequence[str],
    subject: str,
    *,
    keys_only: bool = False,
    exclude: Collection[str] = (),
) -> None:
    """Reject a source without one of the columns of a table.

    Args:
        table: The table.
        names: The columns of the source that are part of its rows.
        subject: The name of the operation, at the beginning of the message.
        keys_only: Require only the partition keys.
        exclude: The excluded columns of the source, which are not required unless they are
            partition keys.

    Raises:
        UnknownColumn: The source lacks a column.
    """
    have = {name.lower() for name in names}
    optional = {name.lower() for name in exclude} - table.key_types.keys()
    required_names = (
        [key.name for key in table.partition_keys] if keys_only else column_names(table)
    )
    if missing := [name for name in required_names if name.lower() not in have | optional]:
        keys = [name for name in missing if name.lower() in table.key_types]
        grown = "" if keys else "; with merge_schema=True of the job, updates keep such columns"
        raise UnknownColumn(
            f"{subject} takes all columns from the source, which has no {', '.join(missing)}.",
            remedy=f"Add them to the source or name the columns{grown}; it has {', '.join(names)}.",
        )


def require_full_row(table: HiveTable, row: Sequence[str] | None) -> None:
    """Raise UnknownColumn unless the row of a merge has a value for each column, or is None."""
    names = column_names(table)
    if row is not None and len(names) != len(row):
        raise UnknownColumn(
            f"An insert clause of the merge has {plural(len(row), 'value')}, but "
            f"{table.ref.full_name} has {plural(len(names), 'column')}: {', '.join(names)}.",
            remedy="Give a value for each of them, or name the columns.",
        )


def require_columns(text: str, alias: str, column_names: Collection[str], subject: str) -> None:
    """Reject an expression with a column that the table certainly lacks.

    Args:
        text: The expression.
        alias: The table's name in it.
        column_names: The columns of the table.
        subject: A description of the expression for the beginning of the message.

    Raises:
        UnknownColumn: The table lacks a column of the expression.
    """
    have = {name.lower() for name in column_names}
    # A name that begins with an underscore may be a column that Spark adds to files.
    unknown_names = [
        name for name in columns_of(text, alias) if name not in have and not name.startswith("_")
    ]
    if unknown_names and alias.lower() not in have:
        qualified_names = ", ".join(f"{alias}.{name}" for name in unknown_names)
        raise UnknownColumn(
            f"{subject} names an unknown column: {qualified_names}.",
            remedy=columns_there(unknown_names, column_names),
        )
