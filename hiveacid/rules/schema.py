"""Kinds of tables, Hive's type text as a tree, and the mapping of columns to fields of files."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, UnknownColumn, UnsupportedTable
from hiveacid.rules.notes import written_files
from hiveacid.rules.sql_names import quoted, unquoted
from hiveacid.rules.texts import did_you_mean

# A point in time; a plain timestamp is the local time of a clock.
LOCAL_ZONE = "timestamp with local time zone"
MAX_DECIMAL_PRECISION = 38
MAX_CHAR_LENGTH = 255
MAX_VARCHAR_LENGTH = 65535
# Maximum nesting of types: this package and other programs parse them by recursion.
_DEEPEST = 100

_PRIMITIVES = frozenset(
    {
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        LOCAL_ZONE,
        "interval_year_month",
        "interval_day_time",
        "void",
    }
)
_SYNONYMS = {
    "integer": "int",
    "real": "double",
    "double precision": "double",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamplocaltz": LOCAL_ZONE,
}
_WORDS = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*(?:\s+[A-Za-z_][A-Za-z_0-9]*)*)\s*")
_NUMBER = re.compile(r"\s*([0-9]+)\s*")
_QUOTED_NAME = re.compile(r"\s*(`(?:[^`]|``)+`)\s*")
_PLAIN_NAME = re.compile(r"\s*([^:`<>,\s](?:[^:`<>,]*[^:`<>,\s])?)\s*")
_UNNAMED = re.compile(r"_col[0-9]+")


class TableKind(StrEnum):
    """Kind of a table, by its parameters in the metastore."""

    FULL_ACID = "full_acid"
    INSERT_ONLY = "insert_only"
    NOT_ACID = "not_acid"

    @staticmethod
    def of(parameters: Mapping[str, str]) -> "TableKind":
        """Return the kind by a table's parameters."""
        if parameters.get("transactional", "").lower() != "true":
            return TableKind.NOT_ACID
        if parameters.get("transactional_properties", "").lower() == "insert_only":
            return TableKind.INSERT_ONLY
        return TableKind.FULL_ACID


@dataclass(frozen=True, slots=True)
class Primitive:
    """Type without parameters, by Hive's name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number of fixed scale."""

    precision: int = 10
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Char:
    """A text that is padded with blanks."""

    length: int

    def __str__(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True, slots=True)
class Varchar:
    """A text of limited length."""

    length: int

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True, slots=True)
class Array:
    """A list of values of one type."""

    element: "HiveType"

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Keys and values."""

    key: "HiveType"
    value: "HiveType"

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields in order."""

    fields: tuple[tuple[str, "HiveType"], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{_quoted(name)}:{type_}' for name, type_ in self.fields)}>"


@dataclass(frozen=True, slots=True)
class Union:
    """A value of one of several types."""

    choices: tuple["HiveType", ...]

    def __str__(self) -> str:
        return f"uniontype<{','.join(map(str, self.choices))}>"


NestedType = Array | Map | Struct | Union
HiveType = Primitive | Decimal | Char | Varchar | NestedType


# Thousands of batches have the same columns.
@lru_cache(maxsize=1024)
def parse_type(text: str) -> HiveType:
    """Parse Hive's text of a type; str() returns the text of a type.

    Raises:
        UnsupportedTable: The text is not a type of Hive.
    """
    parser = _Parser(text)
    type_ = parser.type()
    parser.end()
    return type_


def row_struct(columns: Sequence[tuple[str, str]]) -> Struct:
    """Return the type of a row, from names and type texts of the columns without partition keys."""
    return Struct(tuple((name, parse_type(type_)) for name, type_ in columns))


class _Parser:
    """Parses one type text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._at = 0

    def type(self, depth: int = 0) -> HiveType:
        if depth > _DEEPEST:
            raise self._error(f"at most {_DEEPEST} types in one another")
        name = " ".join(self._match(_WORDS, "the name of a type").lower().split())
        name = _SYNONYMS.get(name, name)
        if name in _PRIMITIVES:
            return Primitive(name)
        if name == "decimal":
            return self._decimal()
        if name in ("char", "varchar"):
            self._expect("(")
            longest = MAX_CHAR_LENGTH if name == "char" else MAX_VARCHAR_LENGTH
            length = self._number(1, longest)
            self._expect(")")
            return Char(length) if name == "char" else Varchar(length)
        if name not in ("array", "map", "struct", "uniontype"):
            raise self._error("the name of a type")
        self._expect("<")
        nested = self._nested(name, depth + 1)
        self._expect(">")
        return nested

    def end(self) -> None:
        if self._at < len(self._text):
            raise self._error("the end")

    def _nested(self, name: str, depth: int) -> HiveType:
        if name == "array":
            return Array(self.type(depth))
        if name == "map":
            key = self.type(depth)
            self._expect(",")
            return Map(key, self.type(depth))
        if name == "struct":
            fields = [self._field(depth)]
            while self._take(","):
                fields.append(self._field(depth))
            # Engines find fields by their names, and most of them in any case.
            if len({field.lower() for field, _ in fields}) < len(fields):
                raise self._error("fields whose names also differ in lower case")
            return Struct(tuple(fields))
        choices = [self.type(depth)]
        while self._take(","):
            choices.append(self.type(depth))
        return Union(tuple(choices))

    def _decimal(self) -> Decimal:
        if not self._take("("):
            return Decimal()
        precision = self._number(1, MAX_DECIMAL_PRECISION)
        scale = self._number(0, precision) if self._take(",") else 0
        self._expect(")")
        return Decimal(precision, scale)

    def _field(self, depth: int) -> tuple[str, HiveType]:
        if _QUOTED_NAME.match(self._text, self._at):
            name = unquoted(self._match(_QUOTED_NAME, "a quoted name"))
        else:
            name = self._match(_PLAIN_NAME, "the name of a field")
        self._expect(":")
        return name, self.type(depth)

    def _number(self, smallest: int, largest: int) -> int:
        digits = self._match(_NUMBER, "a number").lstrip("0")
        number = int(digits or 0) if len(digits) <= len(str(largest)) else largest + 1
        if not smallest <= number <= largest:
            raise self._error(f"a number from {smallest} to {largest}")
        return number

    def _match(self, pattern: re.Pattern[str], expectation: str) -> str:
        if (match := pattern.match(self._text, self._at)) is None:
            raise self._error(expectation)
        self._at = match.end()
        return match[1]

    def _take(self, symbol: str) -> bool:
        while self._text.startswith(" ", self._at):
            self._at += 1
        matches = self._text.startswith(symbol, self._at)
        self._at += len(symbol) if matches else 0
        return matches

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            raise self._error(repr(symbol))

    def _error(self, expectation: str) -> UnsupportedTable:
        return UnsupportedTable(
            f"The type {self._text[:200]!r} cannot be read: expected {expectation} before position "
            f"{self._at}."
        )


def _quoted(name: str) -> str:
    match = _PLAIN_NAME.fullmatch(name)
    return name if match and match[1] == name else quoted(name)


class ColumnMapping(StrEnum):
    """Rule of an engine for finding a column of a table in a file."""

    POSITION = "position"
    NAME = "name"


# The remedy for files whose columns depend on an unknown mapping.
STATE_MAPPING = (
    "State the metastore_profile or the column_mapping of the metastore, or the table property"
    " hiveacid.column_mapping."
)


@dataclass(frozen=True, slots=True)
class MappedColumns:
    """The columns that the files of a table hold, and the rule that finds them there.

    Engines map the top-level columns either by position or by name, also to files that were written
    before the columns changed. Fields of nested structs are always mapped by name. Both rules give
    the same result unless a column was renamed, moved, or dropped from the middle. Files of old
    versions of Hive name their fields `_col0`, `_col1`, and so on; those have no names, and both
    rules map them by position.

    Attributes:
        names: The names of all columns but the partition keys, in the order of the table.
        mapping: The rule; None if it is unknown.
    """

    names: tuple[str, ...] = ()
    mapping: ColumnMapping | None = ColumnMapping.NAME

    def fields(self, stored_names: Sequence[str]) -> tuple[int | None, ...]:
        """Return the index of a file's field for each column, or None if the file lacks it.

        Args:
            stored_names: The names of the fields of the file, without the ACID envelope.

        Raises:
            UnsupportedTable: The rules differ for this file, and the one to apply is unknown.
        """
        if self.mapping is None and self.is_ambiguous(stored_names):
            raise UnsupportedTable(
                f"A file has the columns {', '.join(stored_names)}, and its table has"
                f" {', '.join(self.names)}: an engine that maps columns by position reads other values"
                " than one that maps them by name, and it is not known how this Hive does.",
                remedy=STATE_MAPPING,
            )
        if self.mapping is ColumnMapping.POSITION or is_unnamed(stored_names):
            return tuple(
                index if index < len(stored_names) else None for index in range(len(self.names))
            )
        # Of names that differ only in case, the first one counts.
        places = {name.lower(): index for index, name in reversed([*enumerate(stored_names)])}
        return tuple(places.get(name.lower()) for name in self.names)

    def renamed(self, stored_names: Sequence[str]) -> tuple[str, ...]:
        """Return names for the fields of a file by which a lookup by name finds the mapped field.

        A field without a column keeps its name unless a column has that name, too. It then gets a name
        that no column can have.
        """
        columns = dict(zip(self.fields(stored_names), self.names, strict=True))
        used_names = {name.lower() for name in self.names}
        return tuple(
            columns.get(index, name if name.lower() not in used_names else f"#{index}")
            for index, name in enumerate(stored_names)
        )

    def is_ambiguous(self, stored_names: Sequence[str]) -> bool:
        """Whether the two rules read different values from a file."""
        by_position, by_name = (
            MappedColumns(self.names, mapping).fields(stored_names) for mapping in ColumnMapping
        )
        return by_position != by_name


# For a file whose table is not known.
AS_STORED = MappedColumns()


def is_unnamed(stored_names: Sequence[str]) -> bool:
    """Whether a file has no names for its fields."""
    return bool(stored_names) and all(map(_UNNAMED.fullmatch, stored_names))


# Column changes that do not affect how any engine reads the files of a table


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
        by_position: Whether engines find the columns of its files by position; None if it is unknown.
        keys: The partition keys, in lower case.
        buckets: The columns that its rows are distributed by, in lower case.
        constrained: The columns that a constraint names, in lower case.
    """

    table: str
    by_position: bool | None
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
        remaining_columns = [column for column in columns if column is not old]
        if new.name in {*(column.name.lower() for column in remaining_columns), *self.keys}:
            raise InvalidJob(f"{self.table} has the column {new.name} already.")
        self._require_safe(old, new)
        index = columns.index(old)
        if change.first:
            index = 0
        elif change.after is not None:
            index = self._index(remaining_columns, change.after) + 1
        remaining_columns.insert(index, new)
        if remaining_columns.index(new) != columns.index(old) and self.by_position is not False:
            raise UnsupportedTable(
                f"{self.table}: the column {old.name} cannot be moved: engines find the columns of its"
                " files by position.",
                remedy=_NEW_TABLE,
            )
        return remaining_columns

    def is_renamed(self, columns: Sequence[Column], change: ColumnChange) -> bool:
        """Whether a column already has the new name and the type of a change."""
        types = {column.name.lower(): column.type for column in columns}
        new = (change.name or change.column).lower()
        is_there = change.column.lower() not in types and new in types
        return is_there and change.type in (None, types[new])

    def replaced(self, columns: Sequence[Column], new_columns: Sequence[Column]) -> list[Column]:
        """Return the columns of REPLACE COLUMNS: all current ones, perhaps wider, then new ones.

        Raises:
            UnsupportedTable: Rows would be lost, or read differently.
            InvalidJob: A new column has the name of a partition key.
        """
        names = [column.name.lower() for column in new_columns]
        for column in columns:
            if column.name.lower() not in names:
                raise UnsupportedTable(
                    f"{self.table}: REPLACE COLUMNS would drop the column {column.name}, whose values"
                    " stay in the files and would belong to a later column.",
                    remedy=f"CHANGE COLUMN gives it another name. To drop it, {_NEW_TABLE}",
                )
        if key_names := [name for name in names if name in self.keys]:
            raise InvalidJob(f"{self.table} has the partition key {key_names[0]} already.")
        leading_names = names[: len(columns)]
        if leading_names != [column.name.lower() for column in columns] and (
            self.by_position is not False
            or set(leading_names) != {column.name.lower() for column in columns}
        ):
            raise UnsupportedTable(
                f"{self.table}: REPLACE COLUMNS would move columns.",
                remedy="Keep the order of the columns, and add new ones behind them.",
            )
        by_name = dict(zip(names, new_columns, strict=True))
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
        old_type, new_type = parse_type(old.type), parse_type(new.type)
        is_same = not renamed and old_type == new_type
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
        if not is_wider(old_type, new_type):
            raise UnsupportedTable(
                f"{self.table}: the column {old.name} cannot become {new_type}: not all values of the type"
                f" {old_type} that are there fit, or not all engines read them so.",
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


def wider(current: HiveType, source_type: HiveType) -> HiveType | None:
    """Return the type for the numbers of both types, if a column may be changed to it."""
    if current == Primitive("double"):
        return current
    if current == Primitive("float"):
        return source_type if source_type == Primitive("double") else current
    digits, other_digits = _digits(current), _digits(source_type)
    if digits is None or other_digits is None:
        return None
    whole, scale = max(digits[0], other_digits[0]), max(digits[1], other_digits[1])
    if (whole, scale) == digits:
        return current
    if (whole, scale) == other_digits and isinstance(source_type, Primitive):
        return source_type
    return Decimal(whole + scale, scale) if whole + scale <= MAX_DECIMAL_PRECISION else None


def _digits(type_: HiveType) -> tuple[int, int] | None:
    """Return the numbers of digits before and after the decimal point."""
    match type_:
        case Decimal(precision, scale):
            return precision - scale, scale
        case Primitive(name) if name in _INTEGERS:
            return _INTEGERS[name], 0
    return None


# Columns for sorting, parsed from a job or from the text after ORDER BY in Hive's SQL


_DIRECTION = re.compile(r"(?is)(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?")
_QUOTED = re.compile(r"`((?:[^`]|``)+)`")
# The text between two commas outside of quotes.
_PART = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
_PLAIN = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class SortColumn:
    """Column to sort by.

    Attributes:
        name: Its name.
        descending: Whether the largest value comes first.
        nulls_last: Whether nulls come last; None uses the default of the direction, as in Spark.
    """

    name: str
    descending: bool = False
    nulls_last: bool | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a column with its direction, like "ts DESC NULLS LAST" or "`my column`"."""
        match_ = _DIRECTION.fullmatch(text.strip())
        if match_ is None:
            raise InvalidJob(f"Rows cannot be sorted by {text!r}: that names no column.")
        name, direction, nulls = match_.groups()
        if _QUOTED.fullmatch(name):
            name = unquoted(name)
        return cls(
            name,
            descending=(direction or "").lower() == "desc",
            nulls_last=None if nulls is None else nulls.lower() == "last",
        )

    def __str__(self) -> str:
        name = self.name
        words = [name if _PLAIN.fullmatch(name) else quoted(name)]
        words += ["DESC"] if self.descending else []
        if self.nulls_last is not None:
            words += ["NULLS", "LAST" if self.nulls_last else "FIRST"]
        return " ".join(words)


def split_order_by(clause: str) -> tuple[str, ...]:
    """Split the ORDER BY of a statement into columns, each in the form of ``SortColumn.parse``.

    Args:
        clause: The clause, with or without its first two words.

    Raises:
        InvalidJob: The clause sorts by an expression other than a column.
    """
    text = re.sub(r"(?i)\s*order\s+by\s+", "", clause, count=1)
    columns = tuple(part.strip() for part in _PART.findall(text))
    if ",".join(_PART.findall(text)) != text:
        raise InvalidJob(f"{clause!r} is no list of columns.")
    for column in columns:
        name = _DIRECTION.fullmatch(column)
        if name is None or not (_QUOTED.fullmatch(name[1]) or _PLAIN.fullmatch(name[1])):
            raise InvalidJob(
                f"{clause!r} sorts by {column!r}, and only columns can be sorted by.",
                remedy="Sort by columns, or let Hive do it.",
            )
    return columns


# Distribution of rows over numbered files: the columns, and the number of files.
#
# The metastore keeps one such definition for a table and one for each of its partitions. Neither
# proves how the rows of an existing file were distributed: ``ALTER TABLE ... CLUSTERED BY``
# changes a definition under files that stay as they are. Hive and Trino then write new rows of old
# partitions by the definition of the table, and Hive 4 gives it to a partition that an insert
# names. Only the writer of a file knows, so this package records the layout of its files in the
# note of their directory.


# The field of a note that holds a layout.
NOTED_LAYOUT = "buckets"


@dataclass(frozen=True, slots=True)
class BucketColumn:
    """A clustering column when the rows were written.

    Attributes:
        position: The index among the columns of the table.
        name: The name in lower case.
        type: The Hive type in lower case; the hash of a value depends on it.
    """

    position: int
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """A distribution of rows over files.

    Attributes:
        columns: The clustering columns, in the order in which they are hashed.
        count: The number of buckets.
        version: The version of Hive's hash function.
    """

    columns: tuple[BucketColumn, ...]
    count: int
    version: int

    def to_note(self) -> dict[str, Any]:
        """Return the fields for the note of a directory."""
        columns = [
            {"position": column.position, "name": column.name, "type": column.type}
            for column in self.columns
        ]
        return {NOTED_LAYOUT: {"columns": columns, "count": self.count, "version": self.version}}

    @classmethod
    def of_note(cls, note: Mapping[str, Any]) -> Self | None:
        """Read the layout in a note; None if the note has no layout, or no valid one."""
        noted = note.get(NOTED_LAYOUT)
        if not isinstance(noted, dict) or not isinstance(noted.get("columns"), list):
            return None
        count, version = noted.get("count"), noted.get("version")
        columns = [_column(noted_column) for noted_column in noted["columns"]]
        valid_columns = tuple(column for column in columns if column is not None)
        if type(count) is not int or count < 1 or version not in (1, 2):
            return None
        if not valid_columns or len(valid_columns) < len(columns):
            return None
        return cls(valid_columns, count, version)


def common_layout(notes: Iterable[Mapping[str, Any]]) -> BucketLayout | None:
    """Return the layout that a compaction of some directories keeps.

    Args:
        notes: The notes of all directories that rows come from; an empty note for a directory
            without one.

    Returns:
        None if a note records no layout or lists no files, or if the layouts differ.
    """
    layouts = {
        None if written_files(note) is None else BucketLayout.of_note(note) for note in notes
    }
    return layouts.pop() if len(layouts) == 1 else None


def _column(noted: object) -> BucketColumn | None:
    if not isinstance(noted, dict):
        return None
    position, name, type_ = (noted.get(key) for key in ("position", "name", "type"))
    if type(position) is not int or not isinstance(name, str) or not isinstance(type_, str):
        return None
    return BucketColumn(position, name, type_)
