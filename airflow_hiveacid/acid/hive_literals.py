"""Literals of Hive's SQL in CHECK and DEFAULT: parsed, cast as in Hive, and written for Spark."""

import re
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from airflow_hiveacid.acid import schema
from airflow_hiveacid.errors import UnsupportedTable

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
# The largest integer such that all smaller ones are exact floats, too.
EXACT_AS_FLOAT = 1 << 24
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2}(\.\d{1,6})?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Earlier days have other numbers in the Julian calendar.
_FIRST_DAY = date(1582, 10, 15)


def literal_as_spark(value: object) -> str:
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
            since = value.replace(tzinfo=UTC) - _EPOCH
            micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
            return f"timestamp_micros({micros}L)"
        case date():
            return f"date_from_unix_date({value.toordinal() - _EPOCH.date().toordinal()})"
    return f"CAST(X'{str(value).encode().hex()}' AS STRING)"


def parse_number(text: str) -> int | float | Decimal:
    """Parse a number, which may have a suffix for its type."""
    plain = text.rstrip("BDYSL")
    suffix = text[len(plain) :]
    if suffix == "BD":
        return Decimal(plain)
    if suffix == "D" or "e" in plain.lower():
        return float(plain)
    if "." in plain:
        return Decimal(plain)
    number = int(plain)
    if number >= 1 << {"Y": 7, "S": 15}.get(suffix, 63):
        raise UnsupportedTable(f"{text} is out of range.")
    return number


def parse_text(text: str) -> str:
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
        case schema.Primitive(name) if name in INTEGER_BITS and type(value) is int:
            if -(1 << INTEGER_BITS[name] - 1) <= value < 1 << INTEGER_BITS[name] - 1:
                return value
        case schema.Primitive("double") if number or isinstance(value, float):
            return float(str(value))
        case schema.Primitive("float") if type(value) is int and abs(value) <= EXACT_AS_FLOAT:
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
