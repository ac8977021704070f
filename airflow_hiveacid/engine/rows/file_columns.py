"""Column lookup in files that were written before the table's columns changed.

Spark's readers find columns by name. So files with other names for the columns of a table are read
by their own names, and the columns are renamed afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.column_mapping import ColumnMapping, MappedColumns, is_unnamed
from airflow_hiveacid.metastore.catalog import HiveColumn

# The field names of files, or empty if a lookup by name finds the columns of the table.
Stored = tuple[str, ...]


@dataclass(frozen=True)
class FileColumns:
    """The columns to read from files that have the same names for the columns of a table.

    Attributes:
        read: The columns to read, under their names in the files.
        sources: The name of each table column in ``read``.
        whole: Whether all columns must be read, in order: the files have no names, and Spark's
            reader then uses positions.
    """

    read: tuple[HiveColumn, ...]
    sources: tuple[str, ...]
    whole: bool = False

    @classmethod
    def of(
        cls,
        columns: tuple[HiveColumn, ...],
        every: tuple[HiveColumn, ...],
        mapping: ColumnMapping,
        stored: Stored = (),
    ) -> Self:
        """Find columns of a table.

        Args:
            columns: The requested columns.
            every: All columns in files of the table.
            mapping: The mapping for finding columns.
            stored: The names of the fields of the files; see ``layout``.
        """
        names = tuple(column.name for column in columns)
        if not stored:
            return cls(columns, names)
        if is_unnamed(stored):
            return cls(every, names, whole=True)
        mapped = MappedColumns(tuple(column.name for column in every), mapping)
        fields = dict(zip(mapped.names, mapped.fields(stored), strict=True))
        # No file has a field of such a name, so that the column is null.
        sources = tuple(
            f"#{name}" if (field := fields.get(name)) is None else stored[field] for name in names
        )
        read = zip(columns, sources, strict=True)
        return cls(tuple(replace(column, name=source) for column, source in read), sources)


def layout(columns: MappedColumns, stored: Sequence[str]) -> Stored:
    """Return the field names of a file, or an empty tuple if they match the table's names."""
    shown = [name.lower() for name in columns.renamed(stored)]
    return () if shown == [name.lower() for name in stored] else tuple(stored)
