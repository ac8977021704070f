"""The conversion of values to the type of a column, by Hive's rules and without loss."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_hiveacid.acid.schema import (
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
from airflow_hiveacid.engine.failures import MISMATCH
from airflow_hiveacid.engine.rows.types import spark_type
from airflow_hiveacid.errors import TypeMismatch
from airflow_hiveacid.metastore.catalog import HiveColumn

_DATED = DateType | TimestampType | TimestampNTZType

# Hive's days reach from the year 1 to the year 9999. Its files count them by the calendar of the
# time, in which 15 October 1582 follows upon the 4th.
_FIRST, _LAST = "0001-01-01", "9999-12-31"
_GAP, _AFTER_GAP = "1582-10-05", "1582-10-15"
# ORC's readers take the last second before 1970 for the first one after it, unless its fraction is
# below a millisecond.
_LOST_MICROS = (-999_000, -1)


@dataclass(frozen=True)
class Conversion:
    """What has to be done to values of one type before a column can store them.

    Attributes:
        column: The column.
        given: The type of the values.
        what: Who stores them, to begin an error's message with.
    """

    column: HiveColumn
    given: DataType
    what: str

    def of(self, value: SparkColumn) -> SparkColumn:
        """A value as the column stores it.

        Raises:
            TypeMismatch: No value of the type can be stored.
        """
        return self._converted(value, self.given, parse_type(self.column.type))

    def impossible(self) -> TypeMismatch:
        """The error for values of a type that cannot be stored at all."""
        return TypeMismatch(
            f"{self.what}: a value of type {self.given.simpleString()} cannot be stored in column "
            f"{self.column.name} of type {self.column.type}.",
            remedy="Cast the expression to the column's type.",
        )

    def _converted(self, value: SparkColumn, given: DataType, hive_type: HiveType) -> SparkColumn:
        target = spark_type(hive_type, self.column.name)
        if isinstance(given, NullType):
            return value.cast(target)
        # Python's text of a type has all of it but for nullability and the metadata of fields.
        if given.simpleString() == target.simpleString() and not _has(_is_limited, hive_type):
            return value
        match hive_type, given:
            case Array(element), ArrayType():
                return F.transform(value, lambda v: self._converted(v, given.elementType, element))
            case Map(key, item), MapType():
                keyed = F.transform_keys(value, lambda k, _: self._converted(k, given.keyType, key))
                return F.transform_values(
                    keyed, lambda _, v: self._converted(v, given.valueType, item)
                )
            case Struct(), StructType():
                return self._struct(value, given, hive_type)
            case ((Array() | Map() | Struct()), _):
                raise self.impossible()
        if isinstance(given, ArrayType | MapType | StructType) or not _comparable(given, target):
            raise self.impossible()
        if given != target:
            value = self._cast(value, target)
        match hive_type:
            case Char() | Varchar():
                return self._fitted(value, hive_type)
            case Primitive("date"):
                return self._dated(value, value)
            case Primitive(name) if name in ("timestamp", LOCAL_ZONE):
                return self._timed(value)
        return value

    def _struct(self, value: SparkColumn, given: StructType, hive_type: Struct) -> SparkColumn:
        """Fields are found by name, as columns are; Spark's own cast goes by position."""
        have = {field.name.lower(): field for field in given.fields}
        if have.keys() != {name.lower() for name, _ in hive_type.fields}:
            raise self.impossible()
        fields = []
        for name, type_ in hive_type.fields:
            field = have[name.lower()]
            fields.append(
                self._converted(value.getField(field.name), field.dataType, type_).alias(name)
            )
        return F.when(value.isNotNull(), F.struct(*fields))

    def _cast(self, value: SparkColumn, target: DataType) -> SparkColumn:
        cast = value.try_cast(target)
        text = f" does not fit into column {self.column.name} {self.column.type}."
        return F.when(value.isNotNull() & cast.isNull(), self._failure(value, text)).otherwise(cast)

    def _fitted(self, value: SparkColumn, hive_type: Char | Varchar) -> SparkColumn:
        """A text that is not longer than its type allows; blanks at the end of a char are none."""
        fitted = F.rtrim(value) if isinstance(hive_type, Char) else value
        text = f" is longer than column {self.column.name} {self.column.type} allows."
        return F.when(F.length(fitted) > hive_type.length, self._failure(value, text)).otherwise(
            fitted
        )

    def _timed(self, value: SparkColumn) -> SparkColumn:
        """A timestamp that files can hold."""
        text = (
            f" cannot be stored in column {self.column.name} {self.column.type}: in ORC files the "
            "last second before 1970 cannot be told from the first one after it."
        )
        lost = F.unix_micros(value).between(*_LOST_MICROS)
        return self._dated(
            F.when(lost, self._failure(value, text)).otherwise(value), F.to_date(value)
        )

    def _dated(self, value: SparkColumn, day: SparkColumn) -> SparkColumn:
        """A value whose day Hive has."""
        text = (
            f" cannot be stored in column {self.column.name} {self.column.type}: Hive knows the "
            f"days from {_FIRST} to {_LAST}, but none between 1582-10-04 and {_AFTER_GAP}."
        )
        number = F.unix_date(day)
        unknown = (number < _days(_FIRST)) | (number > _days(_LAST))
        in_gap = (number >= _days(_GAP)) & (number < _days(_AFTER_GAP))
        return F.when(unknown | in_gap, self._failure(value, text)).otherwise(value)

    def _failure(self, value: SparkColumn, after: str) -> SparkColumn:
        shown = value.cast("string").substr(1, 80)
        return F.raise_error(
            F.concat(F.lit(f"{MISMATCH} {self.what}: '"), shown, F.lit(f"'{after}"))
        )


def padded(value: SparkColumn, hive_type: HiveType) -> SparkColumn:
    """A value as files hold it: every char in it filled up with blanks."""

    def fill(text: SparkColumn, type_: Char | Varchar) -> SparkColumn:
        return F.rpad(text, type_.length, " ") if isinstance(type_, Char) else text

    return _with_texts(value, hive_type, fill) if _has(_is_char, hive_type) else value


def within(value: SparkColumn, hive_type: HiveType) -> SparkColumn:
    """A value as readers show it: no text in it longer than its type, no blanks after a char.

    A file is older than its column's type if that was something else before, and longer.
    """

    def cut(text: SparkColumn, type_: Char | Varchar) -> SparkColumn:
        cut = F.substring(text, 1, type_.length)
        return F.rtrim(cut) if isinstance(type_, Char) else cut

    return _with_texts(value, hive_type, cut)


def _with_texts(
    value: SparkColumn,
    hive_type: HiveType,
    change: Callable[[SparkColumn, Char | Varchar], SparkColumn],
) -> SparkColumn:
    """A value with every char and varchar in it changed."""
    if not _has(_is_text, hive_type):
        return value
    match hive_type:
        case Char() | Varchar():
            return change(value, hive_type)
        case Array(element):
            return F.transform(value, lambda v: _with_texts(v, element, change))
        case Map(key, item):
            keyed = F.transform_keys(value, lambda k, _: _with_texts(k, key, change))
            return F.transform_values(keyed, lambda _, v: _with_texts(v, item, change))
        case Struct(fields):
            made = [
                _with_texts(value.getField(name), type_, change).alias(name)
                for name, type_ in fields
            ]
            return F.when(value.isNotNull(), F.struct(*made))
    raise AssertionError(hive_type)


def _is_text(hive_type: HiveType) -> bool:
    return isinstance(hive_type, Char | Varchar)


def _is_char(hive_type: HiveType) -> bool:
    return isinstance(hive_type, Char)


def _is_limited(hive_type: HiveType) -> bool:
    """Whether Spark's type has values that Hive's type has not."""
    names = ("date", "timestamp", LOCAL_ZONE)
    if isinstance(hive_type, Primitive):
        return hive_type.name in names
    return isinstance(hive_type, Char | Varchar)


def _has(kind: Callable[[HiveType], bool], hive_type: HiveType) -> bool:
    """Whether a type is of a kind, or a part of it is."""
    match hive_type:
        case Array(element):
            return _has(kind, element)
        case Map(key, value):
            return _has(kind, key) or _has(kind, value)
        case Struct(fields):
            return any(_has(kind, type_) for _, type_ in fields)
    return kind(hive_type)


def _days(text: str) -> int:
    """A day as Spark counts it, of a calendar that reaches back without a gap."""
    return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()


def _comparable(given: DataType, target: DataType) -> bool:
    """Numbers are no points in time, although Spark would count the seconds."""
    texts = isinstance(given, StringType) or isinstance(target, StringType)
    return texts or isinstance(given, _DATED) == isinstance(target, _DATED)
