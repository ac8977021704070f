"""The conversion of values to the type of a column, by Hive's rules and without loss."""

from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812
from pyspark.sql.types import (  # noqa: TID253
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

from airflow_hiveacid.acid.errors import TypeMismatch
from airflow_hiveacid.acid.schema import Array, Char, HiveType, Map, Struct, Varchar, parse_type
from airflow_hiveacid.engine.failures import MISMATCH
from airflow_hiveacid.engine.types import spark_type
from airflow_hiveacid.metastore.catalog import Column

_DATED = DateType | TimestampType | TimestampNTZType


@dataclass(frozen=True)
class Conversion:
    """What has to be done to values of one type before a column can store them.

    Attributes:
        column: The column.
        given: The type of the values.
        what: Who stores them, to begin an error's message with.
    """

    column: Column
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
        if given.simpleString() == target.simpleString() and not _has_length(hive_type):
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
        return self._fitted(value, hive_type) if isinstance(hive_type, Char | Varchar) else value

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
        """A char padded to its length, or a varchar checked against it, as Hive stores them."""
        is_char, length = isinstance(hive_type, Char), hive_type.length
        bare = F.rtrim(value) if is_char else value
        fitted = F.rpad(bare, length, " ") if is_char else value
        text = f" is longer than column {self.column.name} {self.column.type} allows."
        return F.when(F.length(bare) > length, self._failure(value, text)).otherwise(fitted)

    def _failure(self, value: SparkColumn, after: str) -> SparkColumn:
        shown = F.substring(value.cast(StringType()), 1, 80)
        return F.raise_error(
            F.concat(F.lit(f"{MISMATCH} {self.what}: '"), shown, F.lit(f"'{after}"))
        )


def _has_length(hive_type: HiveType) -> bool:
    """Whether values can be too long for a type that is a plain text to Spark."""
    match hive_type:
        case Char() | Varchar():
            return True
        case Array(element):
            return _has_length(element)
        case Map(key, value):
            return _has_length(key) or _has_length(value)
        case Struct(fields):
            return any(_has_length(type_) for _, type_ in fields)
    return False


def _comparable(given: DataType, target: DataType) -> bool:
    """Numbers are no points in time, although Spark would count the seconds."""
    texts = isinstance(given, StringType) or isinstance(target, StringType)
    return texts or isinstance(given, _DATED) == isinstance(target, _DATED)
