"""Footers of Parquet files, with other field ids and other user metadata.

A footer is a struct in the compact protocol of Thrift. All of its fields are kept as they are, known
or not, apart from the ids and the user metadata, and so are the offsets of pages, which are counted
from the beginning of the file.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TMemoryBuffer

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile

# Fields of the structs of a footer.
_SCHEMA, _USER_METADATA = 2, 5
_REPETITION, _NAME, _CHILDREN, _CONVERTED, _FIELD_ID = 3, 4, 5, 6, 9
_REPEATED = 2
_KEY, _VALUE = 1, 2

# Errors of the functions that read a footer with bytes in wrong places.
_MALFORMED = (
    TException,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

# The type of a field, and its value.
_Typed = tuple[int, Any]
# A struct by the numbers of its fields.
_Struct = dict[int, _Typed]


@dataclass(frozen=True, slots=True)
class SchemaNode:
    """A column of a Parquet file, or a group of columns.

    Attributes:
        place: Its place among all nodes, in the order of the footer.
        name: Its name.
        repeated: Whether it contains any number of values.
        converted: The number of its annotation; null without one.
        children: The nodes inside of it.
    """

    place: int
    name: str
    repeated: bool
    converted: int | None
    children: tuple["SchemaNode", ...]


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """The footer of a Parquet file.

    Attributes:
        root: The node of the row.
    """

    root: SchemaNode
    _struct: _Struct

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Parse a footer.

        Raises:
            CorruptFile: It has another form.
        """
        try:
            struct = _read(TCompactProtocol(TMemoryBuffer(content)), TType.STRUCT)
            _, elements = struct[_SCHEMA][1]
            root, end = _node(elements, 0)
        except _MALFORMED as error:
            raise CorruptFile(f"The footer of a Parquet file cannot be read: {error}") from error
        if end != len(elements):
            raise CorruptFile("The footer of a Parquet file has columns without a place.")
        return cls(root, struct)

    def encode(self, ids: Mapping[int, int], metadata: Mapping[bytes, bytes]) -> bytes:
        """Format the footer with other field ids and user metadata.

        Args:
            ids: The ids by the places of their nodes. Other nodes have none.
            metadata: The user metadata.
        """
        kind, elements = self._struct[_SCHEMA][1]
        new_elements = []
        for place, element in enumerate(elements):
            copied = {number: typed for number, typed in element.items() if number != _FIELD_ID}
            if place in ids:
                copied[_FIELD_ID] = TType.I32, ids[place]
            new_elements.append(copied)
        pairs = [
            {_KEY: (TType.STRING, key), _VALUE: (TType.STRING, value)}
            for key, value in metadata.items()
        ]
        struct = {
            **self._struct,
            _SCHEMA: (TType.LIST, (kind, new_elements)),
            _USER_METADATA: (TType.LIST, (TType.STRUCT, pairs)),
        }
        buffer = TMemoryBuffer()
        _write(TCompactProtocol(buffer), TType.STRUCT, struct)
        encoded_footer: bytes = buffer.getvalue()
        return encoded_footer


def _node(elements: Sequence[_Struct], place: int) -> tuple[SchemaNode, int]:
    """Return the node at a place, and the place of the node behind it."""
    element = elements[place]
    children = []
    following = place + 1
    for _ in range(element.get(_CHILDREN, (TType.I32, 0))[1]):
        child, following = _node(elements, following)
        children.append(child)
    number = (TType.I32, None)
    node = SchemaNode(
        place,
        element[_NAME][1].decode(),
        element.get(_REPETITION, number)[1] == _REPEATED,
        element.get(_CONVERTED, number)[1],
        tuple(children),
    )
    return node, following


def _read(protocol: TCompactProtocol, kind: int) -> Any:
    match kind:
        case TType.STRUCT:
            fields: _Struct = {}
            protocol.readStructBegin()
            while True:
                _, inner_kind, number = protocol.readFieldBegin()
                if inner_kind == TType.STOP:
                    break
                fields[number] = inner_kind, _read(protocol, inner_kind)
                protocol.readFieldEnd()
            protocol.readStructEnd()
            return fields
        case TType.LIST | TType.SET:
            inner_kind, size = protocol.readListBegin()
            values = [_read(protocol, inner_kind) for _ in range(size)]
            protocol.readListEnd()
            return inner_kind, values
        case TType.STRING:
            return protocol.readBinary()
        case _ if kind in _SCALARS:
            return getattr(protocol, f"read{_SCALARS[kind]}")()
    raise ValueError(f"There is no type {kind} in a footer.")


def _write(protocol: TCompactProtocol, kind: int, value: Any) -> None:
    match kind:
        case TType.STRUCT:
            protocol.writeStructBegin(None)
            for number, (inner_kind, content) in sorted(value.items()):
                protocol.writeFieldBegin(None, inner_kind, number)
                _write(protocol, inner_kind, content)
                protocol.writeFieldEnd()
            protocol.writeFieldStop()
            protocol.writeStructEnd()
        case TType.LIST | TType.SET:
            inner_kind, values = value
            protocol.writeListBegin(inner_kind, len(values))
            for element in values:
                _write(protocol, inner_kind, element)
            protocol.writeListEnd()
        case TType.STRING:
            protocol.writeBinary(value)
        case _:
            getattr(protocol, f"write{_SCALARS[kind]}")(value)


_SCALARS = {
    TType.BOOL: "Bool",
    TType.BYTE: "Byte",
    TType.I16: "I16",
    TType.I32: "I32",
    TType.I64: "I64",
    TType.DOUBLE: "Double",
}
