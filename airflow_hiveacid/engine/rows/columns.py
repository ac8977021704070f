"""Column names of a table, in SQL and in its files."""

import re
from collections.abc import Sequence

from airflow_hiveacid.acid.schema import row_struct
from airflow_hiveacid.errors import UnknownColumn
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.orc.format.row_types import row_types

# A column name, with or without the name of its table.
_COLUMN = re.compile(r"(`([^`]|``)*`\.)?`([^`]|``)*`")


def all_columns(table: HiveTable) -> tuple[HiveColumn, ...]:
    """The columns of the files, then those of the partition name."""
    return (*table.columns, *table.partition_keys)


def columns_by_name(
    table: HiveTable, names: Sequence[str], what: str, alias: str, *, some: bool = False
) -> dict[str, str]:
    """Map every column of the table to the source's column of the same name, as an expression.

    Args:
        table: The table.
        names: The columns of the source.
        what: The name of the operation, at the beginning of error messages.
        alias: The name of the source.
        some: Omit columns that the source lacks, except partition keys.

    Raises:
        UnknownColumn: The source lacks one of the columns.
    """
    have = {name.lower(): name for name in names}
    wanted = table.partition_keys if some else all_columns(table)
    missing = [column.name for column in wanted if column.name.lower() not in have]
    if missing:
        raise UnknownColumn(
            f"{what} takes all columns from the source, which has no {', '.join(missing)}.",
            remedy=f"Add them to the source or name the columns; it has {', '.join(names)}.",
        )
    return {
        column.name: f"`{alias}`.{quoted(have[column.name.lower()])}"
        for column in all_columns(table)
        if column.name.lower() in have
    }


def quoted(name: str) -> str:
    """A column name as SQL text."""
    return "`" + name.replace("`", "``") + "`"


def as_operand(expression: str) -> str:
    """An expression as a part of another expression."""
    # After a comment at its end, other SQL needs a line of its own.
    return expression if _COLUMN.fullmatch(expression) else f"({expression}\n)"


def orc_row_types(table: HiveTable) -> tuple[bytes, ...]:
    """The types of the row of a full ACID table, as its ORC files declare them."""
    return row_types(row_struct([(column.name, column.type) for column in table.columns]))
