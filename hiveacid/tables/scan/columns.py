"""The columns of a table: their types in Arrow, and the conversion of rows of its files.

Columns, and fields of structs, are found by name, like in Hive: a field that the file lacks is
null, and a field that the table lacks is omitted. Only type changes with an unambiguous result are
made here; all others require Spark's reader.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import pyarrow as pa
from pyarrow import compute, types

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedFile, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn
from hiveacid.rules.schema import (
    LOCAL_ZONE,
    Array,
    Char,
    Decimal,
    HiveType,
    Map,
    Primitive,
    Struct,
    Varchar,
    parse_type,
)
from hiveacid.tables.scan.times import (
    TIMESTAMP,
    as_unit,
    elements,
    entries,
    list_of,
    map_of,
    parse_timestamp,
)

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
}
_TIMES = {"timestamp": None, LOCAL_ZONE: "UTC"}
# The maximum digits of a 64-bit integer, and of Arrow's decimals, which equal Hive's.
_DIGITS, _MOST_DIGITS = 19, 38
_REMEDY = "Read the table with AcidTable(...).to_df(), or with Hive."


@dataclass(frozen=True)
class TableColumns:
    """Some columns of a table, as in batches.

    Attributes:
        columns: The columns stored in files.
        keys: The partition keys, which the names of partitions contain.
        unit: The unit of timestamps, "us" or "ns"; if unset, they keep the type of ``scan.times``.
    """

    columns: Sequence[HiveColumn]
    keys: Sequence[HiveColumn] = ()
    unit: str | None = "us"

    @cached_property
    def schema(self) -> pa.Schema:
        """Their types.

        Raises:
            UnsupportedTable: A type does not exist in Arrow.
        """
        return pa.schema(
            [
                pa.field(column.name, self._type(parse_type(column.type), column.name))
                for column in (*self.columns, *self.keys)
            ]
        )

    def values(self, texts: Mapping[str, str | None]) -> list[pa.Scalar]:
        """The values of the partition keys, from their texts."""
        return [self._value(key, texts[key.name]) for key in self.keys]

    def batch(self, rows: pa.RecordBatch, keys: Sequence[pa.Scalar]) -> pa.RecordBatch:
        """Convert rows of a file into rows of the table.

        Args:
            rows: Some columns of a file, under any names.
            keys: The values of the partition keys.

        Raises:
            UnsupportedFile: A column's type in the file has no supported conversion.
        """
        numbered_names = reversed(list(enumerate(rows.schema.names)))
        places = {name.lower(): place for place, name in numbered_names}
        arrays = []
        for column, field in zip(self.columns, self.schema, strict=False):
            place = places.get(column.name.lower())
            if place is None:
                arrays.append(_nulls(len(rows), field.type))
                continue
            try:
                arrays.append(self._converted(rows.column(place), parse_type(column.type)))
            except pa.ArrowInvalid as error:
                raise UnsupportedFile(
                    f"The column {column.name} has values that are invalid for its type {column.type}:"
                    f" {error}",
                    remedy=_REMEDY,
                ) from error
        arrays += [
            pa.repeat(value, len(rows)) if value.is_valid else _nulls(len(rows), value.type)
            for value in keys
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _type(self, type_: HiveType, name: str) -> pa.DataType:
        match type_:
            case Primitive(type_name) if type_name in _PRIMITIVES:
                return _PRIMITIVES[type_name]
            case Primitive(type_name) if type_name in _TIMES:
                return (
                    TIMESTAMP if self.unit is None else pa.timestamp(self.unit, _TIMES[type_name])
                )
            case Char() | Varchar():
                return pa.string()
            case Decimal(precision, scale):
                return pa.decimal128(precision, scale)
            case Array(element):
                return pa.list_(self._type(element, name))
            case Map(key, value):
                return pa.map_(self._type(key, name), self._type(value, name))
            case Struct(fields):
                return pa.struct(
                    [(field, self._type(field_type, name)) for field, field_type in fields]
                )
        raise UnsupportedTable(
            f"The column {name} is of type {type_}, which Arrow lacks.", remedy="Read the others."
        )

    def _value(self, key: HiveColumn, text: str | None) -> pa.Scalar:
        type_ = parse_type(key.type)
        kind = self._type(type_, key.name)
        if text is None:
            return pa.scalar(None, kind)
        trimmed = text if kind == pa.string() else text.rstrip(" ")
        try:
            if isinstance(type_, Primitive) and type_.name in _TIMES:
                return self._times(parse_timestamp(trimmed), type_.name)[0]
            value = pa.array([trimmed]).cast(kind)
        except ValueError as error:
            raise UnsupportedTable(
                f"A partition has {key.name}={text!r}, which is not a valid {key.type}.",
                remedy="Name the partitions that are to be read.",
            ) from error
        return compute.ascii_rtrim(value, " ")[0] if isinstance(type_, Char) else value[0]

    def _converted(self, values: pa.Array, type_: HiveType) -> pa.Array:
        match type_:
            case Struct(fields) if types.is_struct(values.type) and values.type != TIMESTAMP:
                return self._struct(values, fields)
            case Array(element) if types.is_list(values.type):
                converted = list_of(values, self._converted(elements(values), element))
                return converted.cast(self._type(type_, ""))
            case Map(key, value) if types.is_map(values.type):
                keys, items = entries(values)
                converted = map_of(
                    values, self._converted(keys, key), self._converted(items, value)
                )
                return converted.cast(self._type(type_, ""))
            case Char(length) | Varchar(length) if types.is_string(values.type):
                texts = compute.ascii_rtrim(values, " ") if isinstance(type_, Char) else values
                longest = compute.max(compute.utf8_length(texts)).as_py()
                if longest is not None and longest > length:
                    texts = compute.utf8_slice_codeunits(texts, 0, length)
                    return compute.ascii_rtrim(texts, " ") if isinstance(type_, Char) else texts
                return texts
            case Primitive(name) if name in _TIMES:
                return self._times(values, name)
            case Primitive("string") | Char() | Varchar():
                texts = _text_of(values, type_)
                return texts if type_ == Primitive("string") else self._converted(texts, type_)
        return _number(values, self._type(type_, ""), type_)

    def _struct(self, values: pa.Array, fields: Sequence[tuple[str, HiveType]]) -> pa.Array:
        # Of names that differ only by case, the first one counts.
        field_names = [field.name.lower() for field in values.type]
        parts = [
            self._converted(values.field(field_names.index(name.lower())), field_type)
            if name.lower() in field_names
            else _nulls(len(values), self._type(field_type, name))
            for name, field_type in fields
        ]
        kinds = [pa.field(name, part.type) for (name, _), part in zip(fields, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=kinds, mask=values.is_null())

    def _times(self, values: pa.Array, name: str) -> pa.Array:
        if types.is_date32(values.type):
            days = values.cast(pa.int32()).cast(pa.int64())
            seconds = compute.multiply(days, 86_400)
            nanos = pa.nulls(len(values), pa.int32()).fill_null(0)
            parts = [seconds.fill_null(0), nanos]
            values = pa.StructArray.from_arrays(
                parts, fields=list(TIMESTAMP), mask=values.is_null()
            )
        if values.type != TIMESTAMP:
            raise _changed(values.type, Primitive(name))
        return values if self.unit is None else as_unit(values, self.unit, _TIMES[name])


def _nulls(length: int, kind: pa.DataType) -> pa.Array:
    # The nulls of Arrow's own functions have null fields, which the type TIMESTAMP excludes.
    return pa.array([None] * length, kind)


def _number(values: pa.Array, target: pa.DataType, type_: HiveType) -> pa.Array:
    """Convert numbers to a wider type, or to a narrower type that has room for all of them."""
    old = values.type
    if old == target:
        return values
    real = types.is_floating(target)
    if types.is_integer(old) and (types.is_integer(target) or real):
        return values.cast(target, safe=not real)
    if types.is_float32(old) and types.is_float64(target):
        return values.cast(target)
    if types.is_integer(old) and types.is_decimal(target):
        room = pa.decimal128(min(_DIGITS + target.scale, _MOST_DIGITS), target.scale)
        return values.cast(room).cast(target)
    if types.is_decimal(old) and types.is_decimal(target):
        return values.cast(target)
    if types.is_binary(target) and types.is_string(old):
        return values.cast(target)
    raise _changed(old, type_)


def _text_of(values: pa.Array, type_: HiveType) -> pa.Array:
    """Values as Hive writes them where they became texts."""
    if types.is_string(values.type):
        return values
    if types.is_boolean(values.type):
        return compute.if_else(values, "TRUE", "FALSE")
    if types.is_integer(values.type) or types.is_date32(values.type):
        return values.cast(pa.string())
    raise _changed(values.type, type_)


def _changed(old: pa.DataType, new: HiveType) -> UnsupportedFile:
    old_type = "timestamp" if old == TIMESTAMP else old
    return UnsupportedFile(f"A column was {old_type} and has become {new}.", remedy=_REMEDY)
