"""Values in expressions of Hive's SQL: their kinds, those that operators accept, and literals."""

import math
import re
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from enum import Enum, auto

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedTable
from hiveacid.rules import schema

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
# The largest integer such that all smaller ones are exact floats, too.
_EXACT_AS_FLOAT = 1 << 24
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2}(\.\d{1,6})?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Texts that mean the same between quotes under all settings: without escapes and variables.
_PLAIN = re.compile(r"[ !#%&()*+,./0-9:;<=>?@A-Z\[\]^_`a-z{|}~-]*")
# Earlier days have other numbers in the Julian calendar.
_FIRST_DAY = date(1582, 10, 15)


class Kind(Enum):
    """Kind of values, whose types compare with each other in the same way in Hive and in Spark."""

    BOOLEAN = auto()
    INTEGER = auto()
    DECIMAL = auto()
    FLOAT = auto()
    DOUBLE = auto()
    STRING = auto()
    DATE = auto()
    TIMESTAMP = auto()
    NULL = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Value:
    """Translated expression.

    Attributes:
        sql: The text for Spark.
        kind: The kind of its values.
        literal: The value itself, if the expression is a literal.
        is_literal: Whether the expression is a literal.
    """

    sql: str
    kind: Kind
    literal: object = None
    is_literal: bool = False


# Different kinds that Spark converts as Hive does before it compares them.
_NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE})
_COMPARABLE = ({Kind.DATE, Kind.TIMESTAMP}, {Kind.FLOAT, Kind.DOUBLE})


def comparable(left_value: Value, right: Value) -> tuple[str, str]:
    """Return two operands of a comparison as Spark's text, with texts of times converted to times.

    Raises:
        UnsupportedTable: Spark compares values of these kinds differently.
    """
    left_value, right = _as_time_of(left_value, right), _as_time_of(right, left_value)
    kinds = {left_value.kind, right.kind} - {Kind.NULL}
    if Kind.OTHER in kinds:
        raise UnsupportedTable("Values of this type are not compared in the same way by Spark.")
    if len(kinds) < 2 or kinds in _COMPARABLE or kinds <= _NUMBERS:
        return left_value.sql, right.sql
    if Kind.FLOAT in kinds:
        operand = right if left_value.kind is Kind.FLOAT else left_value
        exact = isinstance(operand.literal, int) and abs(operand.literal) <= _EXACT_AS_FLOAT
        if operand.kind is Kind.INTEGER and exact:
            return left_value.sql, right.sql
    names = " and ".join(sorted(kind.name.lower() for kind in kinds))
    raise UnsupportedTable(f"Hive converts the values to compare {names}.")


def _as_time_of(value: Value, partner: Value) -> Value:
    """Convert the text of a day or a time, if it is compared with one."""
    if isinstance(value.literal, str) and partner.kind is Kind.DATE:
        return literal_value(parse_day(value.literal))
    if isinstance(value.literal, str) and partner.kind is Kind.TIMESTAMP:
        return literal_value(parse_time(value.literal))
    return value


def arithmetic(left_value: Value, sign: str, right: Value) -> Value:
    """Return the result of an operator on integers and doubles.

    Raises:
        UnsupportedTable: Spark may compute another result.
    """
    require_kind((Kind.INTEGER, Kind.DOUBLE), left_value, right)
    double = Kind.DOUBLE in (left_value.kind, right.kind)
    if sign in "/%":
        # A division by zero is null in Hive, and an error or null in Spark.
        if not right.is_literal or not right.literal or (sign == "%" and double):
            raise UnsupportedTable(f"{sign} takes a number that is not zero on its right.")
        double = double or sign == "/"
    kind = Kind.DOUBLE if double else Kind.INTEGER
    return Value(f"({left_value.sql} {sign} {right.sql})", kind)


def require_kind(kinds: Collection[Kind], *values: Value) -> None:
    """Refuse operands of other kinds.

    Raises:
        UnsupportedTable: An operand is of another kind.
    """
    for value in values:
        if value.kind not in kinds:
            name = value.kind.name.lower()
            raise UnsupportedTable(f"A value of the kind {name} is not supported there.")


def literal_value(value: object) -> Value:
    """Return a literal as a value."""
    kinds: Sequence[tuple[type, Kind]] = (
        (bool, Kind.BOOLEAN),
        (int, Kind.INTEGER),
        (Decimal, Kind.DECIMAL),
        (float, Kind.DOUBLE),
        (datetime, Kind.TIMESTAMP),
        (date, Kind.DATE),
        (str, Kind.STRING),
    )
    kind = next((kind for type_, kind in kinds if isinstance(value, type_)), Kind.NULL)
    sql = _literal_as_spark(value)
    return Value(f"({sql})" if sql.startswith("-") else sql, kind, value, is_literal=True)


def one_kind(values: Sequence[Value]) -> Kind:
    """Return the common kind of some values, nulls excluded.

    Raises:
        UnsupportedTable: The values are of several kinds, which Spark may convert differently.
    """
    kinds = {value.kind for value in values} - {Kind.NULL}
    if len(kinds) > 1 or Kind.OTHER in kinds:
        raise UnsupportedTable("Values of several kinds are converted to a common type.")
    return kinds.pop() if kinds else Kind.NULL


def kind_of(type_: schema.HiveType) -> Kind:
    """Return the kind of the values of a type."""
    match type_:
        case schema.Decimal():
            return Kind.DECIMAL
        case schema.Varchar():
            return Kind.STRING
        case schema.Primitive(name) if name in _INTEGER_BITS:
            return Kind.INTEGER
        case schema.Primitive(name):
            return Kind.__members__.get(name.upper(), Kind.OTHER)
    return Kind.OTHER


def _literal_as_spark(value: object) -> str:
    """Write a value as SQL with the same meaning for Spark under all settings of a session."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}L" if abs(value) >= 1 << 31 else str(value)
        case Decimal():
            return f"{value:f}BD"
        case float():
            return f"{value!r}D"
        case datetime():
            offset = value.replace(tzinfo=UTC) - _EPOCH
            micros = (offset.days * 86_400 + offset.seconds) * 1_000_000 + offset.microseconds
            return f"timestamp_micros({micros}L)"
        case date():
            return f"DATE '{value.isoformat()}'"
    try:
        text = str(value)
        return (
            f"'{text}'" if _PLAIN.fullmatch(text) else f"CAST(X'{text.encode().hex()}' AS STRING)"
        )
    except UnicodeEncodeError as error:
        raise UnsupportedTable("A text has half of a character.") from error


def parse_literal(text: str) -> object:
    """Parse a number, a text in quotes, or one that begins with DATE or TIMESTAMP."""
    if text[-1] not in "'\"":
        return _parse_number(text)
    word = text[: text.index(text[-1])]
    literal = _parse_text(text[len(word) :])
    match word.strip().lower():
        case "date":
            return parse_day(literal)
        case "timestamp":
            return parse_time(literal)
    return literal


def _parse_number(text: str) -> int | float | Decimal:
    """Parse a number, which may have a suffix for its type."""
    plain = text.rstrip("BDYSL")
    suffix = text[len(plain) :]
    if suffix == "BD":
        return Decimal(plain)
    if suffix == "D" or "e" in plain.lower():
        if math.isfinite(float(plain)):
            return float(plain)
    elif "." in plain:
        return Decimal(plain)
    elif Decimal(plain) < 1 << {"Y": 7, "S": 15}.get(suffix, 63):
        return int(plain)
    raise UnsupportedTable(f"{text} is out of range.")


def _parse_text(text: str) -> str:
    """Parse a text in quotes."""

    def character(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise UnsupportedTable(f"The escape sequence {match[0]} is not supported.")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", character, text[1:-1], flags=re.DOTALL)


def parse_day(text: str) -> date:
    """Parse a day of the only form that Hive and Spark read alike."""
    try:
        day = date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None or day < _FIRST_DAY:
        raise UnsupportedTable(f"{text!r} is no day of the form 2026-01-31 since {_FIRST_DAY}.")
    return day


def parse_time(text: str) -> datetime:
    """Parse a time of the only form that Hive and Spark read alike."""
    try:
        time = datetime.fromisoformat(text) if _TIME.fullmatch(text) else None
    except ValueError:
        time = None
    if time is None or time.date() < _FIRST_DAY:
        raise UnsupportedTable(f"{text!r} is no time of the form 2026-01-31 12:30:00.")
    return time


def cast_literal(value: object, type_: schema.HiveType) -> object:
    """Cast a literal to another type as Hive does."""
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    match type_:
        case _ if value is None:
            return None
        case schema.Primitive("string") if isinstance(value, str):
            return value
        case schema.Varchar(length) | schema.Char(length) if isinstance(value, str):
            return value[:length]
        case schema.Primitive("date") if isinstance(value, str):
            return parse_day(value)
        case schema.Primitive("date") if type(value) is date:
            return value
        case schema.Primitive("string") if type(value) is date:
            return str(value)
        case schema.Primitive("timestamp") if isinstance(value, str):
            return parse_time(value)
        case schema.Primitive("timestamp") if isinstance(value, datetime):
            return value
        case schema.Primitive("boolean") if isinstance(value, bool):
            return value
        case schema.Primitive(name) if name in _INTEGER_BITS and type(value) is int:
            if -(1 << _INTEGER_BITS[name] - 1) <= value < 1 << _INTEGER_BITS[name] - 1:
                return value
        case schema.Primitive("double") if number or isinstance(value, float):
            return float(str(value))
        case schema.Primitive("float") if type(value) is int and abs(value) <= _EXACT_AS_FLOAT:
            return float(value)
        case schema.Primitive("float") if isinstance(value, Decimal):
            return value
        case schema.Decimal(precision, scale) if number:
            try:
                rounded = Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
            except InvalidOperation:
                rounded = Decimal(10) ** precision
            if abs(rounded) < Decimal(10) ** (precision - scale):
                return rounded
    raise UnsupportedTable(f"The cast of {value!r} to {type_} is not supported.")
