"""The expression of each column that a change writes, by the names of the table's columns."""

from collections.abc import Collection, Mapping, Sequence

from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.table_rules import column_names
from hiveacid.plan.columns import columns_of_row, find_columns, require_all_columns
from hiveacid.rules.constraints import WriteRules, with_defaults
from hiveacid.rules.sql_names import quoted


def assigned(
    table: HiveTable, expressions: Mapping[str, str], rules: WriteRules | None, subject: str
) -> dict[str, str]:
    """Return the expressions of the columns that an UPDATE or a clause names.

    Args:
        table: The table.
        expressions: The expressions, or DEFAULT, by names in any spelling.
        rules: The constraints of the table; without them, a default value is null.
        subject: The name of the operation, at the beginning of messages.

    Raises:
        UnknownColumn: The table has no such column.
    """
    names = find_columns(table, [*expressions], subject)
    return dict(zip(names, with_defaults(expressions, rules).values(), strict=True))


def of_source(
    table: HiveTable,
    source: Sequence[str] | None,
    alias: str,
    exclude: Collection[str] = (),
    *,
    keys_only: bool = False,
) -> dict[str, str]:
    """Return the expressions of a row that takes each column from the source by its name.

    Args:
        table: The table.
        source: The columns of the source; None if they are not known: it then has all columns.
        alias: The name of the source.
        exclude: The columns of the source that are not part of its rows.
        keys_only: The source may lack columns, except partition keys.

    Raises:
        UnknownColumn: The source lacks a column.
    """
    if source is None:
        excluded = {name.lower() for name in exclude}
        row = [name for name in column_names(table) if name.lower() not in excluded]
    else:
        row = columns_of_row(source, exclude, "The merge")
        require_all_columns(table, row, "The merge", keys_only=keys_only, exclude=exclude)
    have = {name.lower(): name for name in row}
    return {
        name: quoted(alias, have[name.lower()])
        for name in column_names(table)
        if name.lower() in have
    }


def completed(
    table: HiveTable, expressions: Mapping[str, str], rules: WriteRules | None
) -> dict[str, str]:
    """Return the expressions of a new row: a column that it omits has its default value, or null."""
    keys = table.key_types
    left_out = [name for name in column_names(table) if name not in expressions]
    defaults = with_defaults(
        {name: "DEFAULT" for name in left_out if name.lower() not in keys}, rules
    )
    return {
        name: expressions.get(name) or defaults.get(name, "NULL") for name in column_names(table)
    }
