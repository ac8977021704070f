"""Schema growth: adding a source's columns to a table."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from pyspark.sql.types import DataType, StructType

from hiveacid.errors import TypeMismatch, UnknownColumn
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.partition_alteration import change_columns
from hiveacid.rules.column_changes import is_number, wider
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import parse_type
from hiveacid.spark.rows.columns import hive_type
from hiveacid.spark.rows.table_support import check_writable
from hiveacid.spark.write.statement import Preparation


def grown_columns(
    table: HiveTable, source: StructType, only: Collection[str] | None = None
) -> tuple[HiveColumn, ...]:
    """Return the columns that a table needs to store all columns of a source.

    New columns are last. Numbers are widened if Hive can read older files as the wider type; no
    column is ever dropped or narrowed.

    Args:
        table: The current table.
        source: The columns of the source.
        only: The columns, in lower case, that get any values from the source: they may be new, and
            are not widened. All by default.

    Raises:
        TypeMismatch: A column of the source has a type that Hive lacks, or a number that the
            table's column cannot be widened to.
        UnknownColumn: A new column has a name that some engines do not support.
    """
    given = {field.name.lower(): field.dataType for field in source.fields}
    if only is not None:
        given = {name: type_ for name, type_ in given.items() if name in only}
    # With another type of a clustering column, rows would belong into other buckets.
    fixed = {name.lower() for name in table.bucket_columns}
    columns = [
        column
        if only is not None or column.name.lower() in fixed or column.name.lower() not in given
        else _widened(table, column, given[column.name.lower()])
        for column in table.columns
    ]
    known = {column.name.lower() for column in (*table.columns, *table.partition_keys)}
    columns += [_new(table.ref, name, type_) for name, type_ in given.items() if name not in known]
    return tuple(columns)


def new_columns(ref: TableRef, source: StructType) -> tuple[HiveColumn, ...]:
    """Return the columns of a new table for all columns of a source.

    Raises:
        TypeMismatch: A column of the source has a type that Hive lacks.
        UnknownColumn: A column has a name that some engines do not support.
    """
    return tuple(_new(ref, field.name.lower(), field.dataType) for field in source.fields)


@dataclass(frozen=True)
class SchemaGrowth:
    """A table before and after adding all columns of a source.

    Attributes:
        table: The current table.
        source: The columns of the source.
        only: See ``grown_columns``.
    """

    table: HiveTable
    source: StructType
    only: Collection[str] | None = None

    def grown(self, preparation: Preparation) -> HiveTable:
        """Return the changed table without storing it, to validate the statement first.

        Raises:
            TypeMismatch: The columns are incompatible.
            UnknownColumn: A new column has a name that some engines do not support.
        """
        grown = replace(self.table, columns=self._columns(self.table))
        check_writable(grown, preparation.client.version)
        return grown

    def made(self, preparation: Preparation) -> HiveTable:
        """Store the change, if any, and return the changed table."""
        if self._columns(self.table) == self.table.columns:
            return self.table
        preparation.phases.note(f"Changing the columns of {self.table.ref.full_name}")
        return change_columns(
            preparation.client,
            self.table,
            self._columns,
            run_token=preparation.options.run_token,
            lock_wait_seconds=preparation.options.lock_wait_seconds,
        )

    def _columns(self, table: HiveTable) -> tuple[HiveColumn, ...]:
        return grown_columns(table, self.source, self.only)


def _new(ref: TableRef, name: str, given: DataType) -> HiveColumn:
    if not re.fullmatch(r"\w+", name):
        raise UnknownColumn(
            f"{ref.full_name} gets no column {name!r}: not every engine reads such a name.",
            remedy="Give it a name of letters, digits and underscores in the source.",
        )
    return HiveColumn(name, str(hive_type(given, name)))


def _widened(table: HiveTable, column: HiveColumn, given: DataType) -> HiveColumn:
    current = parse_type(column.type)
    if not is_number(current):
        return column
    try:
        wanted = hive_type(given, column.name)
    except TypeMismatch:
        return column  # Its values are converted or refused, as without schema growth.
    if not is_number(wanted):
        return column
    both = wider(current, wanted)
    if both is None:
        raise TypeMismatch(
            f"Column {column.name} of {table.ref.full_name} is {current}, the source has {wanted}: "
            "no type that Hive reads the older files as holds both.",
            remedy="Cast it in the source.",
        )
    return column if both == current else replace(column, type=str(both))
