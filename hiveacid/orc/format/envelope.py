"""The envelope that Hive puts around the rows of a full ACID table.

`struct<operation:int, originalTransaction:bigint, bucket:int, rowId:bigint,
currentTransaction:bigint, row:struct<...>>`, plus three entries of user metadata.
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.format.protobuf import DATA, Message, pack
from hiveacid.rules.row_id import RowId
from hiveacid.rules.schema import MappedColumns

KEY_INDEX = "hive.acid.key.index"
STATS = "hive.acid.stats"
VERSION = "hive.acid.version"


class TypeKind(IntEnum):
    """ORC's kinds of types."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


class TypeField:
    """Field numbers of a type."""

    KIND = 1
    SUBTYPES = 2
    FIELD_NAMES = 3
    MAXIMUM_LENGTH = 4
    PRECISION = 5
    SCALE = 6
    ATTRIBUTES = 7


class EnvelopeColumn(IntEnum):
    """Column numbers of the envelope in the file."""

    ROOT = 0
    OPERATION = 1
    ORIGINAL_TRANSACTION = 2
    BUCKET = 3
    ROW_ID = 4
    CURRENT_TRANSACTION = 5
    ROW = 6


FIELDS: tuple[tuple[bytes, TypeKind], ...] = (
    (b"operation", TypeKind.INT),
    (b"originalTransaction", TypeKind.LONG),
    (b"bucket", TypeKind.INT),
    (b"rowId", TypeKind.LONG),
    (b"currentTransaction", TypeKind.LONG),
    (b"row", TypeKind.STRUCT),
)


class RowOperation(IntEnum):
    """The operation of a row of the file."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


# Thousands of files have the same types.
@lru_cache(maxsize=4096)
def kind_of(type_: bytes) -> int:
    """The kind of a serialized type."""
    return Message.decode(type_).number(TypeField.KIND)


def is_envelope(types: Sequence[bytes]) -> bool:
    """Return whether readers treat the file as an ACID one, by its column names in any case."""
    if len(types) <= len(FIELDS):
        return False
    names = field_names(types[0])
    return [name.lower() for name in names] == [name.lower() for name, _ in FIELDS]


@lru_cache(maxsize=1024)
def field_names(type_: bytes) -> tuple[bytes, ...]:
    """The names of the fields of a serialized type."""
    return tuple(Message.decode(type_).all_data(TypeField.FIELD_NAMES))


def wrap_types(row_types: Sequence[bytes]) -> tuple[bytes, ...]:
    """Put the types of a flat file below the column `row` of the envelope."""
    if not row_types or kind_of(row_types[0]) != TypeKind.STRUCT:
        raise UnsupportedFile("The root of the ORC file is not a struct.")
    keys = (Message().add_number(TypeField.KIND, kind).encode() for _, kind in FIELDS[:-1])
    return (envelope_root(), *keys, *map(_move_subtypes, row_types))


def envelope_root() -> bytes:
    """The type of a full ACID file's root, its names spelled as Hive's readers want them."""
    root = Message().add_number(TypeField.KIND, TypeKind.STRUCT)
    root.add_data(TypeField.SUBTYPES, pack(range(1, len(FIELDS) + 1)))
    for name, _ in FIELDS:
        root.add_data(TypeField.FIELD_NAMES, name)
    return root.encode()


def acid_metadata(keys: Sequence[RowId], operation: RowOperation, rows: int) -> dict[str, bytes]:
    """Return the user metadata of a file with rows of one operation.

    Args:
        keys: For each stripe the key of its last row.
        operation: The operation of all rows of the file.
        rows: The number of rows of the file.
    """
    counts = [0, 0, 0]
    counts[operation] = rows
    return {
        KEY_INDEX: b"".join(b"%d,%d,%d;" % key for key in keys),
        STATS: b"%d,%d,%d" % tuple(counts),
        VERSION: b"2",
    }


def parse_key_index(text: bytes) -> list[RowId]:
    """Read the value of `hive.acid.key.index`."""
    keys: list[RowId] = []
    for entry in text.split(b";"):
        if not entry:
            continue
        try:
            write_id, bucket, row = map(int, entry.split(b","))
        except ValueError:
            raise CorruptFile(f"{KEY_INDEX} has the entry {entry!r}, which is no key.") from None
        keys.append(RowId(write_id, bucket, row))
    return keys


def column_names(types: Sequence[bytes]) -> tuple[str, ...]:
    """Return the names of the columns in a flat file, or in the row of a full ACID file."""
    names = field_names(types[_row_of(types)])
    return tuple(name.decode(errors="surrogateescape") for name in names)


@lru_cache(maxsize=64)
def with_column_names(types: tuple[bytes, ...], columns: MappedColumns) -> tuple[bytes, ...]:
    """Rename the columns of a file so that a lookup by name finds the columns of its table.

    Args:
        types: The types of a flat file, or of a full ACID file.
        columns: The columns of the table.
    """
    old = column_names(types)
    new = columns.renamed(old)
    # Names that differ only in case stay as the writer spelled them.
    if [name.lower() for name in new] == [name.lower() for name in old]:
        return types
    row = _row_of(types)
    named_row = Message.decode(types[row]).without(TypeField.FIELD_NAMES)
    for name in new:
        named_row.add_data(TypeField.FIELD_NAMES, name.encode(errors="surrogateescape"))
    return (*types[:row], named_row.encode(), *types[row + 1 :])


def _row_of(types: Sequence[bytes]) -> EnvelopeColumn:
    return EnvelopeColumn.ROW if is_envelope(types) else EnvelopeColumn.ROOT


def _move_subtypes(type_: bytes) -> bytes:
    message = Message.decode(type_)
    if not message.has(TypeField.SUBTYPES):
        return type_
    moved_subtypes = pack(
        subtype + len(FIELDS) for subtype in message.all_numbers(TypeField.SUBTYPES)
    )
    fields = message.without(TypeField.SUBTYPES).fields
    kind = [field for field in fields if field[0] == TypeField.KIND]
    other_fields = [field for field in fields if field[0] != TypeField.KIND]
    return Message([*kind, (TypeField.SUBTYPES, DATA, moved_subtypes), *other_fields]).encode()
