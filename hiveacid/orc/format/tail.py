"""The tail of an ORC file: everything behind its last stripe.

It holds the post script (codec), the footer (types, stripes, statistics, user metadata) and the
statistics of each stripe.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, UnsupportedFile, UnsupportedTable
from hiveacid.foreign.budget import require_few_rows, spend
from hiveacid.orc.format.compression import Codec, Compression, Source, read_exactly
from hiveacid.orc.format.envelope import (
    TypeField,
    TypeKind,
    column_names,
    is_envelope,
)
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.statistics import (
    integer_range,
    known_statistics,
    stored_statistics,
)
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

# Limits on declared sizes in a file, checked before memory is allocated for them.
#
# A file may come from any user with write permission for the folder of a table. Libraries that
# read it trust its numbers, and end the process, or exhaust memory, if these are wrong.


# Both parts of a tail, in the file and decompressed; the largest ones have a few megabytes.
LARGEST_PART = 64 << 20
# Types within types; readers go through them by recursion.
_DEEPEST = 100
MOST_DIGITS = 38
_MOST_COLUMNS = 1 << 16
_SUBTYPES: dict[int, int] = {TypeKind.LIST: 1, TypeKind.MAP: 2}
_NESTING = (TypeKind.LIST, TypeKind.MAP, TypeKind.STRUCT, TypeKind.UNION)
# A run of equal values, compressed as far as can be, has fewer rows in a byte than this.
_ROWS_OF_A_BYTE = 1 << 16
_ROWS_OF_NOTHING = 1 << 20
_MOST_GROUPS = 1 << 17
# Statistics of this many columns are less useful than the stripes themselves.
_STATISTICS_OF_A_BYTE = 4
_STATISTICS_OF_NOTHING = 250_000
# The first day of the Gregorian calendar. Files may count earlier days in the Julian calendar.
FIRST_GREGORIAN_DAY = -141427


@lru_cache(maxsize=64)
def check_types(types: tuple[bytes, ...]) -> None:
    """Make sure that the types are a tree, no deeper or wider than readers can take.

    Raises:
        CorruptFile: They are not.
    """
    if not 0 < len(types) <= _MOST_COLUMNS:
        raise CorruptFile(f"The ORC file has {len(types)} columns.")
    depths = [0] * len(types)
    for column, type_ in enumerate(types):
        message = Message.decode(type_)
        kind = message.number(TypeField.KIND)
        subtypes = message.all_numbers(TypeField.SUBTYPES)
        subtype_count = _SUBTYPES.get(kind, len(subtypes) if kind in _NESTING else 0)
        if len(subtypes) != subtype_count:
            raise CorruptFile(f"The type of column {column} has {len(subtypes)} types within it.")
        for subtype in subtypes:
            # Nested columns come later, and once: a column cannot be a part of itself.
            if not column < subtype < len(types) or depths[subtype]:
                raise CorruptFile(f"The types of columns {column} and {subtype} are no tree.")
            depths[subtype] = depths[column] + 1
            if depths[subtype] > _DEEPEST:
                raise CorruptFile(f"The types are nested more than {_DEEPEST} deep.")
        _check_names(column, message.all_data(TypeField.FIELD_NAMES))
        if kind == TypeKind.STRUCT:
            names = len(message.all_data(TypeField.FIELD_NAMES))
            if names != len(subtypes):
                raise CorruptFile(f"Column {column} has {names} names for {len(subtypes)} types.")
        precision, scale = message.number(TypeField.PRECISION), message.number(TypeField.SCALE)
        if kind == TypeKind.DECIMAL and not scale <= (precision or MOST_DIGITS) <= MOST_DIGITS:
            raise CorruptFile(f"Column {column} is a decimal({precision},{scale}).")


def check_stripes(
    places: Sequence[tuple[int, int, int]], content: int, stride: int, rows: int
) -> None:
    """Make sure that the stripes follow each other within a file, and can hold their rows.

    Args:
        places: Offset, length and rows of each stripe.
        content: The position of the tail.
        stride: Rows of a row group.
        rows: The rows that the file claims to have.

    Raises:
        CorruptFile: They do not, or cannot.
    """
    end = 0
    for offset, length, claimed in places:
        if offset < end:
            raise CorruptFile("The stripes of the ORC file do not follow each other.")
        end = offset + length
        if end > content:
            raise CorruptFile("A stripe of the ORC file reaches into its tail.")
        groups = claimed // stride if stride else 0
        if claimed > most_rows(length) or groups > _MOST_GROUPS:
            raise CorruptFile(f"A stripe of {length} bytes claims to have {claimed} rows.")
    require_few_rows(rows, content)
    if sum(claimed for _, _, claimed in places) != rows:
        raise CorruptFile(f"The stripes of the ORC file do not have {rows} rows as declared.")


def most_rows(length: int) -> int:
    """More rows, or elements of lists, than a stripe of so many bytes can have."""
    return _ROWS_OF_NOTHING + _ROWS_OF_A_BYTE * length


def check_statistics(file: int, stripes: Sequence[int], columns: int, size: int) -> None:
    """Verify that a file has no more statistics than columns, and room for those of all stripes.

    Stripes without statistics count, too: in memory, each column of a stripe has them.

    Args:
        file: The number of columns in the statistics of the file.
        stripes: The same for each stripe.
        columns: The columns of the file.
        size: The bytes of the file.

    Raises:
        CorruptFile: There are too many statistics, or too many columns of stripes.
    """
    if max([file, *stripes]) > columns:
        raise CorruptFile("The ORC file has statistics of columns that it does not have.")
    if len(stripes) * columns > _STATISTICS_OF_NOTHING + _STATISTICS_OF_A_BYTE * size:
        raise CorruptFile(
            f"A file of {size} bytes has {len(stripes)} stripes with {columns} columns each."
        )


def _check_names(column: int, names: Sequence[bytes]) -> None:
    for name in names:
        try:
            name.decode()
        except UnicodeDecodeError:
            raise CorruptFile(
                f"A name within column {column} of the ORC file is no text: {name!r}."
            ) from None


MAGIC = b"ORC"
FILE_VERSION = (0, 12)
# ORC Java, and its release that first wrote timestamp statistics in UTC.
WRITER_JAVA = 0
WRITER_VERSION_ORC_135 = 6
# The first release of ORC Java whose statistics of a stripe exclude the preceding stripes.
_WRITER_VERSION_HIVE_8732 = 1

_PROLEPTIC = 2
_GUESSED_TAIL = 64 << 10
# The last byte of a file contains the length of the post script.
_LONGEST_POST_SCRIPT = 255


class PostScriptField:
    """Field numbers of the post script."""

    FOOTER_LENGTH = 1
    COMPRESSION = 2
    BLOCK_SIZE = 3
    VERSION = 4
    METADATA_LENGTH = 5
    WRITER_VERSION = 6
    ENCRYPTED_STATISTICS_LENGTH = 7
    MAGIC = 8000


class FooterField:
    """Field numbers of the footer."""

    HEADER_LENGTH = 1
    CONTENT_LENGTH = 2
    STRIPES = 3
    TYPES = 4
    USER_METADATA = 5
    ROWS = 6
    STATISTICS = 7
    STRIDE = 8
    WRITER = 9
    ENCRYPTION = 10
    CALENDAR = 11


@dataclass(frozen=True, slots=True)
class Stripe:
    """The position of a stripe: index, data and footer follow each other from `offset` on."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int
    other: Message

    @classmethod
    def decode(cls, data: bytes) -> "Stripe":
        """Read one entry of the footer's list of stripes."""
        message = Message.decode(data)
        offset, index, rows_data, footer, rows = (message.number(field) for field in range(1, 6))
        return cls(offset, index, rows_data, footer, rows, message.without(*range(1, 6)))

    def encode(self) -> bytes:
        """Write the entry."""
        places = (self.offset, self.index_length, self.data_length, self.footer_length, self.rows)
        message = Message()
        for field, value in enumerate(places, 1):
            message.add_number(field, value)
        return Message(message.fields + self.other.fields).encode()

    @property
    def body_length(self) -> int:
        """The bytes in front of the stripe's footer."""
        return self.index_length + self.data_length

    @property
    def length(self) -> int:
        """All bytes of the stripe."""
        return self.body_length + self.footer_length


@dataclass(frozen=True)
class OrcTail:
    """A decoded tail; `dataclasses.replace` and `encode` make the tail of a rewritten file.

    Attributes:
        postscript: The post script as found.
        footer: The parts of the footer that have no attribute of their own.
        compression: Codec and block size of the file.
        stride: Rows of a row group; 0 means the file has no row index.
        stripes: The stripes in file order.
        types: Serialized types, the root first.
        user_metadata: Key and value pairs, for instance Hive's `hive.acid.stats`.
        stripe_statistics: For each stripe the serialized statistics of every column; `UNKNOWN`
            ones where the file has none, or misleading ones.
        file_statistics: The statistics of every column over the whole file, likewise.
    """

    postscript: Message
    footer: Message
    compression: Compression
    stride: int
    stripes: tuple[Stripe, ...]
    types: tuple[bytes, ...]
    user_metadata: dict[str, bytes]
    stripe_statistics: tuple[tuple[bytes, ...], ...]
    file_statistics: tuple[bytes, ...]

    @classmethod
    def read(cls, source: Source, length: int | None = None) -> "OrcTail":
        """Read the tail of an ORC file, with one request if it is not unusually long.

        Args:
            source: The file.
            length: The number of valid bytes: a streaming writer appends stripes to a file, and
                after each of them a tail, so that every state of the file remains readable. By
                default all.

        Raises:
            CorruptFile: The ORC file is incomplete or invalid.
        """
        source.seek(0, os.SEEK_END)
        size = source.tell()
        if length is not None and length > size:
            raise CorruptFile(f"The file has {size} bytes, but its writer recorded {length}.")
        size = size if length is None else length
        guess = min(size, _GUESSED_TAIL)
        end = read_exactly(source, size - guess, guess)
        postscript_length = end[-1] if end else 0
        if postscript_length + 1 > len(end):
            raise CorruptFile("This is not an ORC file: it is too short.")
        postscript = Message.decode(end[-1 - postscript_length : -1])
        if postscript.data(PostScriptField.MAGIC) != MAGIC:
            raise CorruptFile("This is not an ORC file: its last bytes are not an ORC post script.")
        compression = Compression(
            _codec(postscript), postscript.number(PostScriptField.BLOCK_SIZE, 256 << 10)
        )
        footer_length = postscript.number(PostScriptField.FOOTER_LENGTH)
        metadata_length = postscript.number(PostScriptField.METADATA_LENGTH)
        tail_length = metadata_length + footer_length + postscript_length + 1
        if tail_length > size:
            raise CorruptFile("The ORC file is shorter than its own footer.")
        if tail_length > LARGEST_PART:
            raise UnsupportedFile(f"The tail of the ORC file has {tail_length >> 20} MB.")
        spend(tail_length, "The tail of an ORC file")
        if tail_length > len(end):
            end = read_exactly(source, size - tail_length, tail_length)
        metadata_start = len(end) - tail_length
        footer_start = metadata_start + metadata_length
        footer = Message.decode(
            compression.decompress(end[footer_start : footer_start + footer_length], LARGEST_PART)
        )
        types = tuple(footer.all_data(FooterField.TYPES))
        check_types(types)
        stripes = tuple(map(Stripe.decode, footer.all_data(FooterField.STRIPES)))
        stride = footer.number(FooterField.STRIDE)
        check_stripes(
            [(stripe.offset, stripe.length, stripe.rows) for stripe in stripes],
            size - tail_length,
            stride,
            footer.number(FooterField.ROWS),
        )
        metadata = Message.decode(
            compression.decompress(end[metadata_start:footer_start], LARGEST_PART)
        )
        file_statistics = tuple(footer.all_data(FooterField.STATISTICS))
        stripe_statistics = _statistics(metadata, len(stripes))
        check_statistics(len(file_statistics), list(map(len, stripe_statistics)), len(types), size)
        version = postscript.number(PostScriptField.WRITER_VERSION)
        if version < _WRITER_VERSION_HIVE_8732 or footer.has(FooterField.ENCRYPTION):
            file_statistics, stripe_statistics = (), ((),) * len(stripes)
        return cls(
            postscript=postscript,
            footer=footer.without(*range(FooterField.HEADER_LENGTH, FooterField.STRIDE + 1)),
            compression=compression,
            stride=stride,
            stripes=stripes,
            types=types,
            user_metadata={
                (item.data(1) or b"").decode(errors="surrogateescape"): item.data(2) or b""
                for item in footer.all_messages(FooterField.USER_METADATA)
            },
            stripe_statistics=tuple(
                known_statistics(columns, stripe.rows, types)
                for columns, stripe in zip(stripe_statistics, stripes, strict=True)
            ),
            file_statistics=known_statistics(
                file_statistics, footer.number(FooterField.ROWS), types
            ),
        )

    @classmethod
    def new(cls, types: tuple[bytes, ...], compression: Compression, stride: int) -> "OrcTail":
        """Return the tail of a new file."""
        postscript = (
            Message()
            .add_number(PostScriptField.FOOTER_LENGTH, 0)
            .add_number(PostScriptField.COMPRESSION, compression.codec)
            .add_number(PostScriptField.BLOCK_SIZE, compression.block_size)
            .add_data(PostScriptField.VERSION, bytes(FILE_VERSION))
            .add_number(PostScriptField.METADATA_LENGTH, 0)
            .add_number(PostScriptField.WRITER_VERSION, WRITER_VERSION_ORC_135)
            .add_data(PostScriptField.MAGIC, MAGIC)
        )
        # Trino requires the writer even though Java is the default.
        footer = Message().add_number(FooterField.WRITER, WRITER_JAVA)
        return cls(postscript, footer, compression, stride, (), types, {}, (), ())

    @property
    def rows(self) -> int:
        """The rows of the whole file."""
        return sum(stripe.rows for stripe in self.stripes)

    @property
    def codec(self) -> Codec:
        """The codec of every stream and of the footers."""
        return self.compression.codec

    @property
    def block_size(self) -> int:
        """The plain bytes a compressed chunk may hold."""
        return self.compression.block_size

    @cached_property
    def is_acid(self) -> bool:
        """Return whether the columns are those of a full ACID file."""
        return is_envelope(self.types)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, without the ACID envelope."""
        return column_names(self.types)

    @property
    def is_encrypted(self) -> bool:
        """Return whether some of the columns are encrypted."""
        return self.footer.has(FooterField.ENCRYPTION)

    @property
    def is_julian(self) -> bool:
        """Return whether days before October 1582 are in the Julian calendar.

        Files without a declaration are in that calendar.
        """
        return self.footer.number(FooterField.CALENDAR) != _PROLEPTIC

    def int_range(self, stripe: int, column: int) -> tuple[int, int] | None:
        """Return the range of an integer column of a stripe, if its statistics contain one."""
        if stripe >= len(self.stripe_statistics) or column >= len(self.stripe_statistics[stripe]):
            return None
        return integer_range(self.stripe_statistics[stripe][column])

    def stripe_footer(self, source: Source, stripe: Stripe) -> Message:
        """Read the list of streams and encodings of a stripe."""
        if stripe.footer_length > LARGEST_PART:
            raise UnsupportedFile(
                f"A stripe of the ORC file has a footer of {stripe.footer_length >> 20} MB."
            )
        encoded_footer = read_exactly(
            source, stripe.offset + stripe.body_length, stripe.footer_length
        )
        return Message.decode(self.compression.decompress(encoded_footer, LARGEST_PART))

    def compressed(self, compression: Compression) -> "OrcTail":
        """The tail of the same file in another compression."""
        numbers = {
            PostScriptField.COMPRESSION: compression.codec,
            PostScriptField.BLOCK_SIZE: compression.block_size,
        }
        postscript = self.postscript.with_numbers(numbers)
        return replace(self, postscript=postscript, compression=compression)

    def check_movable(self) -> None:
        """Reject files whose stripes would change their meaning in another file."""
        if self.is_encrypted:
            raise UnsupportedFile("The ORC file has encrypted columns.")
        version = tuple(self.postscript.all_numbers(PostScriptField.VERSION))
        if version != FILE_VERSION:
            version_text = ".".join(map(str, version)) or "unknown"
            raise UnsupportedFile(f"The ORC file has format version {version_text}, not 0.12.")

    def encode(self, content_length: int) -> bytes:
        """Write the tail of a file whose stripes end at `content_length`.

        Misleading statistics are omitted; see `stored_statistics`.

        Raises:
            UnsupportedFile: The post script was as long as it may be, and would become longer.
        """
        metadata = Message()
        for columns in self.stripe_statistics:
            stripe_statistics = Message()
            for column in columns:
                stripe_statistics.add_data(1, stored_statistics(column, self.rows))
            metadata.add_data(1, stripe_statistics.encode())
        encoded_metadata = self.compression.compress(metadata.encode())
        encoded_footer = self.compression.compress(self._footer(content_length).encode())
        postscript = (
            self.postscript.without(PostScriptField.ENCRYPTED_STATISTICS_LENGTH)
            .with_numbers(
                {
                    PostScriptField.FOOTER_LENGTH: len(encoded_footer),
                    PostScriptField.METADATA_LENGTH: len(encoded_metadata),
                }
            )
            .encode()
        )
        if len(postscript) > _LONGEST_POST_SCRIPT:
            raise UnsupportedFile("The post script of the ORC file has no room for other lengths.")
        return encoded_metadata + encoded_footer + postscript + bytes((len(postscript),))

    def _footer(self, content_length: int) -> Message:
        footer = Message()
        footer.add_number(FooterField.HEADER_LENGTH, len(MAGIC))
        footer.add_number(FooterField.CONTENT_LENGTH, content_length)
        for stripe in self.stripes:
            footer.add_data(FooterField.STRIPES, stripe.encode())
        for type_ in self.types:
            footer.add_data(FooterField.TYPES, type_)
        for key, value in self.user_metadata.items():
            item = Message().add_data(1, key.encode(errors="surrogateescape")).add_data(2, value)
            footer.add_data(FooterField.USER_METADATA, item.encode())
        footer.add_number(FooterField.ROWS, self.rows)
        for statistics in self.file_statistics:
            footer.add_data(FooterField.STATISTICS, stored_statistics(statistics, self.rows))
        footer.add_number(FooterField.STRIDE, self.stride)
        return Message(footer.fields + self.footer.fields)


def _codec(postscript: Message) -> Codec:
    kind = postscript.number(PostScriptField.COMPRESSION)
    if kind not in Codec._value2member_map_:
        raise UnsupportedFile(f"The ORC file uses compression kind {kind}, which is unknown.")
    return Codec(kind)


def _statistics(metadata: Message, stripes: int) -> tuple[tuple[bytes, ...], ...]:
    encoded_stripes = metadata.all_data(1)
    if len(encoded_stripes) > stripes:
        raise CorruptFile("The ORC file has statistics of stripes that it does not have.")
    stripe_statistics = tuple(tuple(Message.decode(data).all_data(1)) for data in encoded_stripes)
    return stripe_statistics + ((),) * (stripes - len(stripe_statistics))


# The ORC types of a table's rows, made from Hive's types


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
    attribute_names = [
        attribute.data(1) for attribute in message.all_messages(TypeField.ATTRIBUTES)
    ]
    if (
        message.number(TypeField.KIND) != TypeKind.TIMESTAMP_INSTANT
        or _SPARK_TYPE in attribute_names
    ):
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
