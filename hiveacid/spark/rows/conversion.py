"""Conversion of values to the types of table columns.

Values are converted without loss: a value of another type is stored as the equal value of the
column's type, without fraction digits that do not fit into the type, or is an error.
"""

from collections.abc import Mapping
from datetime import date

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from hiveacid.dataclass import dataclass
from hiveacid.errors import TypeMismatch
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.rules.schema import (
    LOCAL_ZONE,
    Array,
    Char,
    HiveType,
    Map,
    Primitive,
    Struct,
    Varchar,
    parse_type,
)
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import MISMATCH, translated_spark_errors
from hiveacid.spark.rows.columns import (
    all_columns,
    as_operand,
    contains_type,
    select_texts,
    spark_type,
)

_DATED = DateType | TimestampType | TimestampNTZType

# Hive's days range from the year 1 to the year 9999. Its files count them by the calendar of the
# time, where 15 October 1582 follows the 4th.
_FIRST, _LAST = "0001-01-01", "9999-12-31"
_GAP, _AFTER_GAP = "1582-10-05", "1582-10-15"
# ORC's readers confuse the last second before 1970 with the first one after it, unless its fraction
# is below a millisecond.
_LOST_MICROS = (-999_000, -1)


@dataclass(frozen=True)
class Conversion:
    """Conversion of values of one type for storage in a column.

    The conversion is SQL text: every node of an expression object costs several Java calls, and a
    table with a few dates would need hundreds.

    Attributes:
        column: The column.
        source: The type of the values.
        what: The name of the operation, at the beginning of error messages.
    """

    column: HiveColumn
    source: DataType
    what: str

    def of(self, value: str) -> str:
        """Return a value as the column stores it.

        Args:
            value: An expression that Spark resolves to the type ``source``.

        Raises:
            TypeMismatch: No value of the type can be stored.
        """
        whole = as_operand(value)
        converted = self._converted(whole, self.source, parse_type(self.column.type))
        return value if converted == whole else converted

    def impossible(self) -> TypeMismatch:
        """The error for values of a type that cannot be stored at all."""
        return TypeMismatch(
            f"{self.what}: a value of type {self.source.simpleString()} cannot be stored in column "
            f"{self.column.name} of type {self.column.type}.",
            remedy="Cast the expression to the column's type.",
        )

    def _converted(self, value: str, source: DataType, hive_type: HiveType) -> str:
        target = spark_type(hive_type, self.column.name)
        if isinstance(source, NullType):
            return f"CAST({value} AS {type_as_sql(target)})"
        # Python's text of a type is complete except for nullability and the metadata of fields.
        if source.simpleString() == target.simpleString() and not contains_type(
            _is_limited, hive_type
        ):
            return value
        match hive_type, source:
            case Array(element), ArrayType():
                return (
                    f"transform({value}, v -> {self._converted('v', source.elementType, element)})"
                )
            case Map(key, item), MapType():
                keys = self._converted("k", source.keyType, key)
                values = self._converted("v", source.valueType, item)
                keyed = f"transform_keys({value}, (k, v) -> {keys})"
                return f"transform_values({keyed}, (k, v) -> {values})"
            case Struct(), StructType():
                return self._struct(value, source, hive_type)
            case ((Array() | Map() | Struct()), _):
                raise self.impossible()
        if isinstance(source, ArrayType | MapType | StructType) or not _comparable(source, target):
            raise self.impossible()
        if source != target:
            value = self._cast(value, source, target)
        match hive_type:
            case Char() | Varchar():
                return self._fitted(value, hive_type)
            case Primitive("date"):
                return self._dated(value, value)
            case Primitive(name) if name in ("timestamp", LOCAL_ZONE):
                return self._timed(value)
        return value

    def _struct(self, value: str, source: StructType, hive_type: Struct) -> str:
        """Fields are found by name, as columns are; Spark's own cast uses positions."""
        have = {field.name.lower(): field for field in source.fields}
        if have.keys() != {name.lower() for name, _ in hive_type.fields}:
            raise self.impossible()
        fields = []
        for name, type_ in hive_type.fields:
            field = have[name.lower()]
            of_field = self._converted(f"{value}.{quoted(field.name)}", field.dataType, type_)
            fields.append(f"{of_field} AS {quoted(name)}")
        return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(fields)}) END"

    def _cast(self, value: str, source: DataType, target: DataType) -> str:
        cast = f"TRY_CAST({value} AS {type_as_sql(target)})"
        text = f" does not fit into column {self.column.name} {self.column.type}."
        wrong = f"{cast} IS NULL"
        if condition := _lost(value, source, cast, target):
            wrong = f"({wrong} OR {condition})"
        return self._unless(f"{value} IS NOT NULL AND {wrong}", cast, value, text)

    def _fitted(self, value: str, hive_type: Char | Varchar) -> str:
        """A text that fits its type's length; trailing blanks of a char do not count."""
        fitted = f"rtrim({value})" if isinstance(hive_type, Char) else value
        text = f" is longer than column {self.column.name} {self.column.type} allows."
        return self._unless(f"length({fitted}) > {hive_type.length}", fitted, value, text)

    def _timed(self, value: str) -> str:
        """A timestamp that files can store."""
        text = (
            f" cannot be stored in column {self.column.name} {self.column.type}: in ORC files the "
            "last second before 1970 is indistinguishable from the first one after it."
        )
        first, last = _LOST_MICROS
        micros = f"unix_micros({value})"
        is_storable = f"{micros} >= {first} AND {micros} <= {last}"
        return self._dated(self._unless(is_storable, value, value, text), f"to_date({value})")

    def _dated(self, value: str, day: str) -> str:
        """A value whose day exists in Hive."""
        text = (
            f" cannot be stored in column {self.column.name} {self.column.type}: Hive knows the "
            f"days from {_FIRST} to {_LAST}, but none between 1582-10-04 and {_AFTER_GAP}."
        )
        number = f"unix_date({day})"
        is_outside = f"{number} < {_days(_FIRST)} OR {number} > {_days(_LAST)}"
        in_gap = f"{number} >= {_days(_GAP)} AND {number} < {_days(_AFTER_GAP)}"
        return self._unless(f"{is_outside} OR {in_gap}", value, value, text)

    def _unless(self, wrong: str, right: str, value: str, suffix: str) -> str:
        """An expression that raises an error with the value if the value is invalid."""
        prefix = text_as_sql(f"{MISMATCH} {self.what}: '")
        text_of_value = f"substring(CAST({value} AS STRING), 1, 80)"
        error = f"raise_error(concat({prefix}, {text_of_value}, {text_as_sql(chr(39) + suffix)}))"
        return f"CASE WHEN {wrong} THEN {error} ELSE {right} END"


def stored(
    frame: DataFrame, expressions: Mapping[str, str], table: HiveTable, subject: str
) -> dict[str, str]:
    """Convert expressions over a frame to values of their target columns.

    A value that does not fit is an error and never silently becomes null or another value; only
    fraction digits are dropped if the type has no room for them, as everywhere in SQL.

    Raises:
        TypeMismatch: No value of an expression's type can be stored in its column.
    """
    columns = {column.name: column for column in all_columns(table)}
    types_by_name = _types(frame, expressions, subject)
    values = {
        name: Conversion(columns[name], types_by_name[name], subject).of(expression)
        for name, expression in expressions.items()
    }
    converted = {name: value for name, value in values.items() if value != expressions[name]}
    for name in _unresolved(frame, converted):
        with translated_spark_errors(f"{subject}: the value of column {name}"):
            # An expression with its own name cannot be part of another expression.
            frame.selectExpr(as_operand(expressions[name]))
        raise Conversion(columns[name], types_by_name[name], subject).impossible()
    return values


def null_of(column: HiveColumn) -> str:
    """The null of a column's type."""
    return Conversion(column, NullType(), "").of("NULL")


def text_as_sql(text: str) -> str:
    """A text as SQL, independent of the session's settings for quotes."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _types(frame: DataFrame, expressions: Mapping[str, str], subject: str) -> dict[str, DataType]:
    """Resolve the types of all expressions at once, at the cost of a single one."""
    try:
        resolved = select_texts(frame, [*expressions.values()]).schema.fields
    except AnalysisException:
        for name, expression in expressions.items():
            with translated_spark_errors(f"{subject}: the value of column {name}"):
                frame.selectExpr(expression)
        raise
    return {name: field.dataType for name, field in zip(expressions, resolved, strict=True)}


def _unresolved(frame: DataFrame, expressions: Mapping[str, str]) -> list[str]:
    """The names of the expressions that Spark rejects."""
    try:
        select_texts(frame, [*expressions.values()])
    except AnalysisException:
        if len(expressions) == 1:
            return list(expressions)
        return [n for n, value in expressions.items() if _unresolved(frame, {n: value})]
    return []


def _lost(value: str, source: DataType, cast: str, target: DataType) -> str | None:
    """Return the condition under which Spark casts a value to a different one without an error.

    Args:
        value: The value.
        source: Its type.
        cast: The value in the type of the column.
        target: The type of the column.
    """
    match target, source:
        case DateType(), StringType() | TimestampType() | TimestampNTZType():
            # Spark drops the time, and any text after the day.
            time = f"TRY_CAST({value} AS TIMESTAMP_NTZ)"
            return f"NOT {time} <=> CAST({cast} AS TIMESTAMP_NTZ)"
        case FloatType(), DoubleType():
            return f"abs({cast}) = CAST('Infinity' AS DOUBLE) AND abs({value}) <> CAST('Infinity' AS DOUBLE)"
        case FloatType() | DoubleType(), StringType():
            # A text for infinity has no digits.
            return f"abs({cast}) = CAST('Infinity' AS DOUBLE) AND {value} RLIKE '[0-9]'"
    return None


def _is_limited(hive_type: HiveType) -> bool:
    """Whether Spark's type has values that Hive's type lacks."""
    names = ("date", "timestamp", LOCAL_ZONE)
    if isinstance(hive_type, Primitive):
        return hive_type.name in names
    return isinstance(hive_type, Char | Varchar)


def type_as_sql(spark_type: DataType) -> str:
    """A type as SQL, independent of the session's settings."""
    match spark_type:
        case ArrayType():
            return f"ARRAY<{type_as_sql(spark_type.elementType)}>"
        case MapType():
            return f"MAP<{type_as_sql(spark_type.keyType)}, {type_as_sql(spark_type.valueType)}>"
        case StructType():
            fields = [
                f"{quoted(field.name)}: {type_as_sql(field.dataType)}" for field in spark_type
            ]
            return f"STRUCT<{', '.join(fields)}>"
        case TimestampType():
            # The settings of the session determine the type TIMESTAMP.
            return "TIMESTAMP_LTZ"
    return spark_type.simpleString()


def _days(text: str) -> int:
    """A day number of Spark, in a calendar that extends back without a gap."""
    return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()


def _comparable(source: DataType, target: DataType) -> bool:
    """Numbers are not points in time, although Spark would count the seconds."""
    texts = isinstance(source, StringType) or isinstance(target, StringType)
    return texts or isinstance(source, _DATED) == isinstance(target, _DATED)
