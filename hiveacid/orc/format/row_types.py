"""The ORC types of a table's rows, made from Hive's types."""

from hiveacid.errors import UnsupportedTable
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.rules.schema import (
    LOCAL_ZONE,
    Array,
    Char,
    Decimal,
    HiveType,
    Map,
    Primitive,
    Struct,
    Union,
    Varchar,
)

_PRIMITIVES = {
    "boolean": TypeKind.BOOLEAN,
    "tinyint": TypeKind.BYTE,
    "smallint": TypeKind.SHORT,
    "int": TypeKind.INT,
    "bigint": TypeKind.LONG,
    "float": TypeKind.FLOAT,
    "double": TypeKind.DOUBLE,
    "string": TypeKind.STRING,
    "binary": TypeKind.BINARY,
    "date": TypeKind.DATE,
    "timestamp": TypeKind.TIMESTAMP,
    LOCAL_ZONE: TypeKind.TIMESTAMP_INSTANT,
}
# Spark cannot read a timestamp from a file without a declaration of its interpretation.
_SPARK_TYPE = b"spark.sql.catalyst.type"
_SPARK_TIMESTAMP = Message().add_data(1, _SPARK_TYPE).add_data(2, b"timestamp")


def row_types(row: Struct) -> tuple[bytes, ...]:
    """The serialized types of a flat file that holds such rows, the root first.

    Raises:
        UnsupportedTable: A column has a type that ORC files cannot hold.
    """
    types: list[bytes] = []
    _append(types, row)
    return tuple(types)


def spark_types(types: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the types of a file with the declarations for Spark."""
    return tuple(_with_spark_type(type_) for type_ in types)


def _with_spark_type(type_: bytes) -> bytes:
    message = Message.decode(type_)
    known = [attribute.data(1) for attribute in message.all_messages(TypeField.ATTRIBUTES)]
    if message.number(TypeField.KIND) != TypeKind.TIMESTAMP_INSTANT or _SPARK_TYPE in known:
        return type_
    return message.add_data(TypeField.ATTRIBUTES, _SPARK_TIMESTAMP.encode()).encode()


def _append(types: list[bytes], type_: HiveType) -> None:
    """Append a type and all types below it, which is the order of ORC's column numbers."""
    number = len(types)
    types.append(b"")
    message = Message()
    match type_:
        case Primitive(name) if name in _PRIMITIVES:
            message.add_number(TypeField.KIND, _PRIMITIVES[name])
            if name == LOCAL_ZONE:
                message.add_data(TypeField.ATTRIBUTES, _SPARK_TIMESTAMP.encode())
        case Decimal(precision, scale):
            message.add_number(TypeField.KIND, TypeKind.DECIMAL)
            message.add_number(TypeField.PRECISION, precision)
            message.add_number(TypeField.SCALE, scale)
        case Char(length) | Varchar(length):
            kind = TypeKind.CHAR if isinstance(type_, Char) else TypeKind.VARCHAR
            message.add_number(TypeField.KIND, kind)
            message.add_number(TypeField.MAXIMUM_LENGTH, length)
        case Array(element):
            _nest(types, message, TypeKind.LIST, element)
        case Map(key, value):
            _nest(types, message, TypeKind.MAP, key, value)
        case Union(choices):
            _nest(types, message, TypeKind.UNION, *choices)
        case Struct(fields):
            _nest(types, message, TypeKind.STRUCT, *(nested for _, nested in fields))
            for name, _ in fields:
                message.add_data(TypeField.FIELD_NAMES, name.encode())
        case _:
            raise UnsupportedTable(f"ORC files cannot hold columns of type {type_}.")
    types[number] = message.encode()


def _nest(types: list[bytes], message: Message, kind: TypeKind, *nested: HiveType) -> None:
    subtypes = []
    for type_ in nested:
        subtypes.append(len(types))
        _append(types, type_)
    message.add_number(TypeField.KIND, kind).add_data(TypeField.SUBTYPES, pack(subtypes))
