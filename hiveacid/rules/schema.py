"""Kinds of tables, Hive's type text as a tree, and the mapping of columns to fields of files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from hiveacid.errors import UnsupportedTable

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
            name = self._match(_QUOTED_NAME, "a quoted name")[1:-1].replace("``", "`")
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

    def _match(self, pattern: re.Pattern[str], expected: str) -> str:
        if (match := pattern.match(self._text, self._at)) is None:
            raise self._error(expected)
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

    def _error(self, expected: str) -> UnsupportedTable:
        return UnsupportedTable(
            f"The type {self._text[:200]!r} cannot be read: expected {expected} before position "
            f"{self._at}."
        )


def _quoted(name: str) -> str:
    match = _PLAIN_NAME.fullmatch(name)
    return name if match and match[1] == name else "`" + name.replace("`", "``") + "`"


class ColumnMapping(StrEnum):
    """Rule of an engine for finding a column of a table in a file."""

    POSITION = "position"
    NAME = "name"


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
        mapping: The rule.
    """

    names: tuple[str, ...] = ()
    mapping: ColumnMapping = ColumnMapping.NAME

    def fields(self, stored: Sequence[str]) -> tuple[int | None, ...]:
        """Return the index of a file's field for each column, or None if the file lacks it.

        Args:
            stored: The names of the fields of the file, without the ACID envelope.
        """
        if self.mapping is ColumnMapping.POSITION or is_unnamed(stored):
            return tuple(index if index < len(stored) else None for index in range(len(self.names)))
        # Of names that differ only in case, the first one counts.
        places = {name.lower(): index for index, name in reversed([*enumerate(stored)])}
        return tuple(places.get(name.lower()) for name in self.names)

    def renamed(self, stored: Sequence[str]) -> tuple[str, ...]:
        """Return names for the fields of a file by which a lookup by name finds the mapped field.

        A field without a column keeps its name unless a column has that name, too. It then gets a name
        that no column can have.
        """
        columns = dict(zip(self.fields(stored), self.names, strict=True))
        taken = {name.lower() for name in self.names}
        return tuple(
            columns.get(index, name if name.lower() not in taken else f"#{index}")
            for index, name in enumerate(stored)
        )

    def is_ambiguous(self, stored: Sequence[str]) -> bool:
        """Whether the two rules read different values from a file."""
        by_position, by_name = (
            MappedColumns(self.names, mapping).fields(stored) for mapping in ColumnMapping
        )
        return by_position != by_name


# For a file whose table is not known.
AS_STORED = MappedColumns()


def is_unnamed(stored: Sequence[str]) -> bool:
    """Whether a file has no names for its fields."""
    return bool(stored) and all(map(_UNNAMED.fullmatch, stored))
