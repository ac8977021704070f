"""Values in expressions of Hive's SQL: their kinds, and the kinds that operators accept."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, auto

from airflow_hiveacid.acid import schema
from airflow_hiveacid.acid.hive_literals import (
    EXACT_AS_FLOAT,
    INTEGER_BITS,
    literal_as_spark,
    parse_day,
    parse_time,
)
from airflow_hiveacid.errors import UnsupportedTable


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


def comparable(left: Value, right: Value) -> tuple[str, str]:
    """Return two operands of a comparison as Spark's text, with texts of times converted to times.

    Raises:
        UnsupportedTable: Spark compares values of these kinds differently.
    """
    left, right = _as_time_of(left, right), _as_time_of(right, left)
    kinds = {left.kind, right.kind} - {Kind.NULL}
    if Kind.OTHER in kinds:
        raise UnsupportedTable("Values of this type are not compared in the same way by Spark.")
    if len(kinds) < 2 or kinds in _COMPARABLE or kinds <= _NUMBERS:
        return left.sql, right.sql
    if Kind.FLOAT in kinds:
        other = right if left.kind is Kind.FLOAT else left
        exact = isinstance(other.literal, int) and abs(other.literal) <= EXACT_AS_FLOAT
        if other.kind is Kind.INTEGER and exact:
            return left.sql, right.sql
    names = " and ".join(sorted(kind.name.lower() for kind in kinds))
    raise UnsupportedTable(f"Hive converts the values to compare {names}.")


def _as_time_of(value: Value, other: Value) -> Value:
    """Convert the text of a day or a time, if it is compared with one."""
    if isinstance(value.literal, str) and other.kind is Kind.DATE:
        return literal_value(parse_day(value.literal))
    if isinstance(value.literal, str) and other.kind is Kind.TIMESTAMP:
        return literal_value(parse_time(value.literal))
    return value


def arithmetic(left: Value, sign: str, right: Value) -> Value:
    """Return the result of an operator on integers and doubles.

    Raises:
        UnsupportedTable: Spark may compute another result.
    """
    require_kind((Kind.INTEGER, Kind.DOUBLE), left, right)
    double = Kind.DOUBLE in (left.kind, right.kind)
    if sign in "/%":
        # A division by zero is null in Hive, and an error or null in Spark.
        if not right.is_literal or not right.literal or (sign == "%" and double):
            raise UnsupportedTable(f"{sign} takes a number that is not zero on its right.")
        double = double or sign == "/"
    kind = Kind.DOUBLE if double else Kind.INTEGER
    return Value(f"({left.sql} {sign} {right.sql})", kind)


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
    sql = literal_as_spark(value)
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
        case schema.Primitive(name) if name in INTEGER_BITS:
            return Kind.INTEGER
        case schema.Primitive(name):
            return Kind.__members__.get(name.upper(), Kind.OTHER)
    return Kind.OTHER
