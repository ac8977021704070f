"""The columns of a table as Spark finds them in files that were written before the columns changed.

Spark's readers find columns by name. So files that name the columns of a table in another way are read
by their own names, and the columns get the names of the table afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.column_mapping import ColumnMapping, MappedColumns, is_unnamed
from airflow_hiveacid.metastore.catalog import HiveColumn

# The names of the fields of files, or nothing if a lookup by name finds the columns of the table.
Stored = tuple[str, ...]


@dataclass(frozen=True)
class FileColumns:
    """How files are read that have the same names for the columns of a table.

    Attributes:
        read: The columns to read, under the names that the files have for them.
        sources: For each column of the table its name among those.
        whole: Whether all columns have to be read, in their order: the files have no names, and
            Spark's reader then goes by position.
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
            columns: The columns that are wanted.
            every: All columns that files of the table hold.
            mapping: How they are found.
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
    """Return the names of the fields of a file, or nothing if the table has the same ones for them."""
    shown = [name.lower() for name in columns.renamed(stored)]
    return () if shown == [name.lower() for name in stored] else tuple(stored)
