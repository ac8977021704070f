"""The columns that the names in the expressions of a change mean."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field
from functools import cached_property

from hiveacid.dataclass import dataclass
from hiveacid.jobs.fields import Parameters
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.table_rules import column_names


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """The column that a name means.

    Attributes:
        side: Its table: "target", or in a merge "source".
        name: The column, in lower case.
        fields: The fields of a struct behind the column; without any, the name is the whole column.
    """

    side: str
    name: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table whose columns an expression can name.

    Attributes:
        side: The table in a ``NamedColumn``.
        alias: The name of the table, in lower case.
        columns: The names of its columns, in lower case; None if they are not known.
    """

    side: str
    alias: str
    columns: Collection[str] | None


def named_column(parts: Sequence[str], tables: Iterable[NamedTable]) -> NamedColumn | None:
    """Return the column that a name means, as Spark finds it; None if ambiguous or unknown.

    Args:
        parts: The name, split at its dots.
        tables: All tables whose columns the expression can name.
    """
    first, *later_parts = (part.lower() for part in parts)
    tables = [*tables]
    # As in Spark, `a.b` is the column `b` of the table `a` rather than the field of a column.
    for table in tables:
        if (
            later_parts
            and first == table.alias
            and (table.columns is None or later_parts[0] in table.columns)
        ):
            return NamedColumn(table.side, later_parts[0], tuple(later_parts[1:]))
    sides = [table.side for table in tables if table.columns is None or first in table.columns]
    certain = len(sides) == 1 and all(table.columns is not None for table in tables)
    return NamedColumn(sides[0], first, tuple(later_parts)) if certain else None


@dataclass(frozen=True)
class ChangeScope:
    """The columns that an expression of a change can name.

    Attributes:
        table: The target.
        target_alias: The name of the target.
        source_alias: The name of the source of a merge.
        source_columns: The columns of the source; None if they are not known.
        params: The values of parameters.
    """

    table: HiveTable
    target_alias: str
    source_alias: str | None = None
    source_columns: Sequence[str] | None = None
    params: Parameters = field(default_factory=dict)

    def column(self, parts: Sequence[str]) -> NamedColumn | None:
        """See ``named_column``."""
        return named_column(parts, self._tables)

    def key(self, parts: Sequence[str]) -> str | None:
        """Return the partition key of the target that a name means, in lower case, if it is one."""
        column = self.column(parts)
        if column is None or column.side != "target" or column.fields:
            return None
        return column.name if column.name in self.table.key_types else None

    @cached_property
    def _tables(self) -> Sequence[NamedTable]:
        columns = frozenset(name.lower() for name in column_names(self.table))
        target = NamedTable("target", self.target_alias.lower(), columns)
        if self.source_alias is None:
            return (target,)
        source = self.source_columns
        names = None if source is None else frozenset(name.lower() for name in source)
        return target, NamedTable("source", self.source_alias.lower(), names)
