"""Column changes that do not affect how any engine reads the files of a table."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hiveacid.errors import InvalidJob, UnknownColumn, UnsupportedTable
from hiveacid.rules.schema import (
    MAX_DECIMAL_PRECISION,
    Char,
    Decimal,
    HiveType,
    Primitive,
    Varchar,
    parse_type,
)
from hiveacid.rules.spelling import did_you_mean

# Hive's integer types, with the digits of their largest values.
_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_FRACTIONS = ("float", "double")
_NEW_TABLE = "CREATE TABLE ... AS SELECT the columns as you want them."


class Column(NamedTuple):
    """Column with its name, its type in Hive's words, and its comment."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """Change of one column; a field that is None keeps the present value.

    Attributes:
        column: The column.
        name: Its new name.
        type: Its new type in Hive's words.
        comment: Its new comment.
        first: Whether it becomes the first column.
        after: The column that it comes after.
    """

    column: str
    name: str | None = None
    type: str | None = None
    comment: str | None = None
    first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """Properties of a table that decide which changes are safe.

    Attributes:
        table: Its name, for messages.
        by_position: Whether engines find the columns of its files by position.
        keys: The partition keys, in lower case.
        buckets: The columns that its rows are distributed by, in lower case.
        constrained: The columns that a constraint names, in lower case.
    """

    table: str
    by_position: bool
    keys: Collection[str] = ()
    buckets: Collection[str] = ()
    constrained: Collection[str] = ()

    def changed(self, columns: Sequence[Column], change: ColumnChange) -> list[Column]:
        """Return the columns after a change.

        Raises:
            UnknownColumn: The table has no such column.
            InvalidJob: The new name is taken.
            UnsupportedTable: Rows would be lost, or read differently.
        """
        old = columns[self._index(columns, change.column)]
        new = Column(
            (change.name or old.name).lower(),
            change.type or old.type,
            old.comment if change.comment is None else change.comment,
        )
        others = [column for column in columns if column is not old]
        if new.name in {*(column.name.lower() for column in others), *self.keys}:
            raise InvalidJob(f"{self.table} has the column {new.name} already.")
        self._require_safe(old, new)
        at = columns.index(old)
        if change.first:
            at = 0
        elif change.after is not None:
            at = self._index(others, change.after) + 1
        others.insert(at, new)
        if others.index(new) != columns.index(old) and self.by_position:
            raise UnsupportedTable(
                f"{self.table}: the column {old.name} cannot be moved: engines find the columns of its"
                " files by position.",
                remedy=_NEW_TABLE,
            )
        return others

    def is_renamed(self, columns: Sequence[Column], change: ColumnChange) -> bool:
        """Whether a column already has the new name and the type of a change."""
        types = {column.name.lower(): column.type for column in columns}
        new = (change.name or change.column).lower()
        is_there = change.column.lower() not in types and new in types
        return is_there and change.type in (None, types[new])

    def replaced(self, columns: Sequence[Column], wanted: Sequence[Column]) -> list[Column]:
        """Return the columns of REPLACE COLUMNS: all current ones, perhaps wider, then new ones.

        Raises:
            UnsupportedTable: Rows would be lost, or read differently.
            InvalidJob: A new column has the name of a partition key.
        """
        names = [column.name.lower() for column in wanted]
        for column in columns:
            if column.name.lower() not in names:
                raise UnsupportedTable(
                    f"{self.table}: REPLACE COLUMNS would drop the column {column.name}, whose values"
                    " stay in the files and would belong to a later column.",
                    remedy=f"CHANGE COLUMN gives it another name. To drop it, {_NEW_TABLE}",
                )
        if taken := [name for name in names if name in self.keys]:
            raise InvalidJob(f"{self.table} has the partition key {taken[0]} already.")
        kept = names[: len(columns)]
        if kept != [column.name.lower() for column in columns] and (
            self.by_position or set(kept) != {column.name.lower() for column in columns}
        ):
            raise UnsupportedTable(
                f"{self.table}: REPLACE COLUMNS would move columns.",
                remedy="Keep the order of the columns, and add new ones behind them.",
            )
        by_name = dict(zip(names, wanted, strict=True))
        for column in columns:
            self._require_safe(column, by_name[column.name.lower()])
        return [Column(name, by_name[name].type, by_name[name].comment) for name in names]

    def _index(self, columns: Sequence[Column], name: str) -> int:
        if name.lower() in self.keys:
            raise UnsupportedTable(
                f"{name} is a partition key of {self.table}, and part of the names of its folders."
            )
        names = [column.name.lower() for column in columns]
        if name.lower() not in names:
            raise UnknownColumn(
                f"{self.table} has no column {name}.",
                remedy=did_you_mean(name, names) or f"The columns are {', '.join(names)}.",
            )
        return names.index(name.lower())

    def _require_safe(self, old: Column, new: Column) -> None:
        renamed = new.name.lower() != old.name.lower()
        before, after = parse_type(old.type), parse_type(new.type)
        is_same = not renamed and before == after
        # The metastore forgets the constraints of a column that changes in any way.
        changes = not is_same or (new.comment or "") != (old.comment or "")
        if changes and old.name.lower() in self.constrained:
            raise UnsupportedTable(
                f"{self.table}: the column {old.name} has a constraint, which a change of the column"
                " would drop.",
                remedy="Drop the constraint in Hive first, and add it again after the change.",
            )
        if is_same:
            return
        if renamed and not self.by_position:
            raise UnsupportedTable(
                f"{self.table}: the column {old.name} cannot be renamed: engines find the columns of"
                " its files by name, and the values that are there would be null.",
                remedy=_NEW_TABLE,
            )
        if old.name.lower() in self.buckets:
            raise UnsupportedTable(
                f"{self.table}: the rows are distributed by the column {old.name}.",
                remedy=_NEW_TABLE,
            )
        if not is_wider(before, after):
            raise UnsupportedTable(
                f"{self.table}: the column {old.name} cannot become {after}: not all values of the type"
                f" {before} that are there fit, or not all engines read them so.",
                remedy=_NEW_TABLE,
            )


def is_wider(old: HiveType, new: HiveType) -> bool:
    """Whether engines read all values of files of one type as the same values of another type."""
    if old == new:
        return True
    match old, new:
        case (Varchar(), Primitive("string")):
            return True
        case (Varchar(length), Varchar(longer)) | (Char(length), Char(longer)):
            return longer > length
    return is_number(old) and is_number(new) and wider(old, new) == new


def is_number(type_: HiveType) -> bool:
    """Whether a type is one of Hive's numbers."""
    names = (*_INTEGERS, *_FRACTIONS)
    return isinstance(type_, Decimal) or (isinstance(type_, Primitive) and type_.name in names)


def wider(current: HiveType, given: HiveType) -> HiveType | None:
    """Return the type for the numbers of both types, if a column may be changed to it."""
    if current == Primitive("double"):
        return current
    if current == Primitive("float"):
        return given if given == Primitive("double") else current
    digits, other_digits = _digits(current), _digits(given)
    if digits is None or other_digits is None:
        return None
    whole, scale = max(digits[0], other_digits[0]), max(digits[1], other_digits[1])
    if (whole, scale) == digits:
        return current
    if (whole, scale) == other_digits and isinstance(given, Primitive):
        return given
    return Decimal(whole + scale, scale) if whole + scale <= MAX_DECIMAL_PRECISION else None


def _digits(type_: HiveType) -> tuple[int, int] | None:
    """Return the numbers of digits before and after the decimal point."""
    match type_:
        case Decimal(precision, scale):
            return precision - scale, scale
        case Primitive(name) if name in _INTEGERS:
            return _INTEGERS[name], 0
    return None
