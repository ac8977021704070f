"""Read and write protocol buffers, the form of ORC's structures: lists of numbered fields.

ORC's structures are small and only a few of their fields change, so a message remains the list of
fields that was read. Unknown fields are written back unchanged.
"""

import struct
from collections.abc import Iterable

from hiveacid.errors import CorruptFile

VARINT = 0
FIXED64 = 1
DATA = 2
FIXED32 = 5

Field = tuple[int, int, int | bytes]

# A number takes no more bytes than these, and no structure of ORC has more parts.
_LONGEST_VARINT = 10
_MOST_PARTS = 1 << 20


def varint(value: int) -> bytes:
    """Encode an unsigned number, or a negative one as its 64-bit two's complement."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= 0xFFFF_FFFF_FFFF_FFFF
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number that starts at `position` and the position behind it."""
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    value = shift = 0
    for byte in data[position : position + _LONGEST_VARINT]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    if shift == 7 * _LONGEST_VARINT:
        raise CorruptFile("An ORC structure has a number of more than ten bytes.")
    raise CorruptFile("An ORC structure ends in the middle of a number.")


def zigzag(value: int) -> int:
    """Map a signed number to an unsigned one so that small magnitudes stay short."""
    return (value << 1) ^ (value >> 63)


def unzigzag(value: int) -> int:
    """Undo `zigzag`."""
    return (value >> 1) ^ -(value & 1)


def pack(numbers: Iterable[int]) -> bytes:
    """Encode a packed repeated field."""
    return b"".join(map(varint, numbers))


class Message:
    """One protocol buffer message, its fields in the order of the file."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Field] = ()) -> None:
        self.fields: list[Field] = list(fields)

    @classmethod
    def decode(cls, data: bytes) -> "Message":
        """Read a message; nested messages stay bytes until they are requested."""
        fields: list[Field] = []
        position, end = 0, len(data)
        while position < end:
            if len(fields) >= _MOST_PARTS:
                raise CorruptFile(f"An ORC structure has more than {_MOST_PARTS} fields.")
            # Most numbers are one byte long, and reading those here halves the duration.
            key = data[position]
            position += 1
            if key >= 0x80:
                key, position = read_varint(data, position - 1)
            number, wire_type = key >> 3, key & 7
            if wire_type in (VARINT, DATA):
                value = data[position] if position < end else 0x80
                position += 1
                if value >= 0x80:
                    value, position = read_varint(data, position - 1)
                if wire_type == VARINT:
                    fields.append((number, VARINT, value))
                    continue
                length = value
            elif wire_type in (FIXED64, FIXED32):
                length = 8 if wire_type == FIXED64 else 4
            else:
                raise CorruptFile(f"An ORC structure has a field of unknown wire type {wire_type}.")
            if length > end - position:
                raise CorruptFile("An ORC structure is shorter than declared.")
            fields.append((number, wire_type, data[position : position + length]))
            position += length
        return cls(fields)

    def encode(self) -> bytes:
        """Write the message."""
        octets = bytearray()
        for number, wire_type, value in self.fields:
            octets += varint(number << 3 | wire_type)
            if isinstance(value, int):
                octets += varint(value)
            else:
                if wire_type == DATA:
                    octets += varint(len(value))
                octets += value
        return bytes(octets)

    def has(self, number: int) -> bool:
        """Return whether the field is present."""
        return any(field[0] == number for field in self.fields)

    def number(self, number: int, default: int = 0) -> int:
        """The value of an integer field; the last one wins, as protocol buffers demand."""
        for field, _, value in reversed(self.fields):
            if field == number and isinstance(value, int):
                return value
        return default

    def signed(self, number: int) -> int:
        """The value of a zigzag field; 0 if it is absent."""
        return unzigzag(self.number(number))

    def real(self, number: int) -> float:
        """The value of a double field; 0 if it is absent."""
        value = self.data(number)
        return 0.0 if value is None or len(value) != 8 else struct.unpack("<d", value)[0]

    def data(self, number: int) -> bytes | None:
        """The value of a field that holds bytes, text or a message."""
        for field, _, value in reversed(self.fields):
            if field == number and isinstance(value, bytes):
                return value
        return None

    def message(self, number: int) -> "Message | None":
        """The value of a message field."""
        value = self.data(number)
        return None if value is None else Message.decode(value)

    def all_data(self, number: int) -> list[bytes]:
        """Every value of a repeated field of bytes, texts or messages."""
        return [
            value for field, _, value in self.fields if field == number and isinstance(value, bytes)
        ]

    def all_messages(self, number: int) -> list["Message"]:
        """Every value of a repeated message field."""
        return [Message.decode(value) for value in self.all_data(number)]

    def all_numbers(self, number: int) -> list[int]:
        """Every value of a repeated integer field, whether the writer packed it or not."""
        numbers: list[int] = []
        for field, _, value in self.fields:
            if field != number:
                continue
            if isinstance(value, int):
                numbers.append(value)
                continue
            position = 0
            while position < len(value):
                if len(numbers) >= _MOST_PARTS:
                    raise CorruptFile(f"An ORC structure has more than {_MOST_PARTS} numbers.")
                unpacked, position = read_varint(value, position)
                numbers.append(unpacked)
        return numbers

    def add_number(self, number: int, value: int) -> "Message":
        """Append an integer field."""
        self.fields.append((number, VARINT, value))
        return self

    def add_signed(self, number: int, value: int) -> "Message":
        """Append a zigzag field."""
        return self.add_number(number, zigzag(value))

    def add_real(self, number: int, value: float) -> "Message":
        """Append a double field."""
        self.fields.append((number, FIXED64, struct.pack("<d", value)))
        return self

    def add_data(self, number: int, value: bytes) -> "Message":
        """Append a field of bytes, text or an encoded message."""
        self.fields.append((number, DATA, value))
        return self

    def without(self, *numbers: int) -> "Message":
        """A copy that lacks some fields."""
        return Message(field for field in self.fields if field[0] not in numbers)

    def with_numbers(self, values: dict[int, int]) -> "Message":
        """A copy with integer fields replaced in place, or appended if they are absent."""
        new_message = Message(
            (field[0], VARINT, values[field[0]]) if field[0] in values else field
            for field in self.fields
        )
        for number, value in values.items():
            if not new_message.has(number):
                new_message.add_number(number, value)
        return new_message

    def with_data(self, values: dict[int, bytes]) -> "Message":
        """A copy with fields of bytes, texts or messages replaced in place."""
        return Message(
            (field[0], DATA, values[field[0]]) if field[0] in values else field
            for field in self.fields
        )
