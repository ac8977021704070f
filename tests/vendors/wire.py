"""Messages of Thrift's binary protocol as trees, without knowledge of their structs.

A struct is a dictionary of fields by number, a field is its type and its value.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from thrift.Thrift import TMessageType, TType

_VERSION = 0x80010000
_NUMBERS = {
    TType.BOOL: struct.Struct(">?"),
    TType.BYTE: struct.Struct(">b"),
    TType.DOUBLE: struct.Struct(">d"),
    TType.I16: struct.Struct(">h"),
    TType.I32: struct.Struct(">i"),
    TType.I64: struct.Struct(">q"),
}
_I16, _I32 = _NUMBERS[TType.I16], _NUMBERS[TType.I32]
_HEAD = struct.Struct(">Ii")
_FIELD = struct.Struct(">bh")
_ITEMS = struct.Struct(">bi")
_PAIRS = struct.Struct(">bbi")


class Field(NamedTuple):
    """A typed value: of a field, or of an element of a container."""

    type: int
    value: Any


class Items(NamedTuple):
    """The elements of a list or a set."""

    type: int
    values: list[Any]


class Pairs(NamedTuple):
    """The entries of a map."""

    key: int
    value: int
    entries: list[tuple[Any, Any]]


Fields = dict[int, Field]


@dataclass(frozen=True)
class Message:
    """A call, or its answer."""

    name: str
    kind: int
    sequence: int
    fields: Fields

    @property
    def is_answer(self) -> bool:
        """Whether the call was executed, instead of a failure of the protocol."""
        return self.kind == TMessageType.REPLY


def failure(call: Message, type_: int, text: str) -> Message:
    """Return the answer of a server that does not execute a call."""
    fields = {1: Field(TType.STRING, text.encode()), 2: Field(TType.I32, type_)}
    return Message(call.name, TMessageType.EXCEPTION, call.sequence, fields)


def read(stream: Callable[[int], bytes]) -> Message | None:
    """Read a message.

    Args:
        stream: Returns the next bytes, fewer only at the end.

    Returns:
        The message; None at the end.

    Raises:
        ValueError: It is not Thrift's binary protocol, or it ends in the middle.
    """
    head = stream(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        raise ValueError("The message ends in its head.")
    version, length = _HEAD.unpack(head)
    if version & 0xFFFF0000 != _VERSION:
        raise ValueError(f"{head!r} begins no message.")

    def exactly(size: int) -> bytes:
        found = stream(size)
        if len(found) < size:
            raise ValueError("The message ends in the middle.")
        return found

    name = exactly(length).decode()
    (sequence,) = _I32.unpack(exactly(4))
    return Message(name, version & 0xFF, sequence, _fields(exactly))


def _fields(exactly: Callable[[int], bytes]) -> Fields:
    fields: Fields = {}
    while kind := exactly(1)[0]:
        (number,) = _I16.unpack(exactly(2))
        fields[number] = Field(kind, _value(exactly, kind))
    return fields


def _value(exactly: Callable[[int], bytes], kind: int) -> Any:
    if number := _NUMBERS.get(kind):
        return number.unpack(exactly(number.size))[0]
    match kind:
        case TType.STRING:
            return exactly(_I32.unpack(exactly(4))[0])
        case TType.STRUCT:
            return _fields(exactly)
        case TType.LIST | TType.SET:
            element, count = _ITEMS.unpack(exactly(_ITEMS.size))
            return Items(element, [_value(exactly, element) for _ in range(count)])
        case TType.MAP:
            key, value, count = _PAIRS.unpack(exactly(_PAIRS.size))
            entries = [(_value(exactly, key), _value(exactly, value)) for _ in range(count)]
            return Pairs(key, value, entries)
    raise ValueError(f"{kind} is no type.")


def written(message: Message) -> bytes:
    """Return the bytes of a message."""
    name = message.name.encode()
    out = [_HEAD.pack(_VERSION | message.kind, len(name)), name, _I32.pack(message.sequence)]
    _write_fields(out, message.fields)
    return b"".join(out)


def _write_fields(out: list[bytes], fields: Fields) -> None:
    for number, (kind, value) in fields.items():
        out.append(_FIELD.pack(kind, number))
        _write_value(out, kind, value)
    out.append(b"\0")


def _write_value(out: list[bytes], kind: int, value: Any) -> None:
    if number := _NUMBERS.get(kind):
        out.append(number.pack(value))
        return
    match kind:
        case TType.STRING:
            out += (_I32.pack(len(value)), value)
        case TType.STRUCT:
            _write_fields(out, value)
        case TType.LIST | TType.SET:
            out.append(_ITEMS.pack(value.type, len(value.values)))
            for each in value.values:
                _write_value(out, value.type, each)
        case _:
            out.append(_PAIRS.pack(value.key, value.value, len(value.entries)))
            for pair in value.entries:
                _write_value(out, value.key, pair[0])
                _write_value(out, value.value, pair[1])
