"""The footer of a stripe: its streams, their encodings, and the time zone."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.format.envelope import TypeKind, kind_of
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.source_and_sink import Source
from hiveacid.orc.format.streams import StreamKind
from hiveacid.orc.format.tail import OrcTail, Stripe

UTC = "UTC"
# The encodings of a column with a dictionary, and the highest valid encoding.
DICTIONARIES = (1, 3)
_LAST_ENCODING = 3
_NAMES_OF_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z"})


class StripeField:
    """Field numbers of a stripe's footer, and of the streams that it lists."""

    STREAMS = 1
    ENCODINGS = 2
    TIME_ZONE = 3
    ENCRYPTION = 4
    STREAM_KIND = 1
    STREAM_COLUMN = 2
    STREAM_LENGTH = 3


@dataclass(frozen=True, slots=True)
class PlacedStream:
    """A stream and its position in its file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The contents of the footer of a stripe.

    Attributes:
        index: The first streams: row indexes and bloom filters.
        data: All others.
        encodings: The serialized encoding of each column.
        clock: The time zone of the writer, by a normalized name; empty if unknown.
        message: The whole footer, as in the file.
    """

    index: tuple[PlacedStream, ...]
    data: tuple[PlacedStream, ...]
    encodings: tuple[bytes, ...]
    clock: str
    message: Message

    @classmethod
    def read(cls, source: Source, tail: OrcTail, stripe: Stripe) -> "StripeFooter":
        """Read the footer of a stripe.

        Raises:
            CorruptFile: The footer contradicts its stripe or its file.
            UnsupportedFile: The file has encrypted columns.
        """
        footer = tail.stripe_footer(source, stripe)
        if footer.has(StripeField.ENCRYPTION):
            raise UnsupportedFile("The ORC file has encrypted columns.")
        placed: list[PlacedStream] = []
        offset = stripe.offset
        for stream in footer.all_data(StripeField.STREAMS):
            kind, column, length = _stream(stream)
            placed.append(PlacedStream(kind, column, offset, length))
            offset += length
        index = tuple(stream for stream in placed if StreamKind.is_index(stream.kind))
        data = tuple(placed[len(index) :])
        encodings = tuple(footer.all_data(StripeField.ENCODINGS))
        if (
            any(StreamKind.is_index(stream.kind) for stream in data)
            or sum(stream.length for stream in index) != stripe.index_length
            or sum(stream.length for stream in data) != stripe.data_length
        ):
            raise CorruptFile("The streams of a stripe do not add up to its length.")
        if len(encodings) != len(tail.types) or any(
            stream.column >= len(encodings) for stream in placed
        ):
            raise CorruptFile("A stripe has other columns than its file.")
        for type_, encoding in zip(tail.types, encodings, strict=True):
            kind = encoding_of(encoding)
            if kind > _LAST_ENCODING or (kind in DICTIONARIES and not _is_text(type_)):
                raise CorruptFile(f"A stripe has a column of the unknown encoding {kind}.")
        return cls(index, data, encodings, clock_of(footer), footer)


# A footer is read several times in a row.
@lru_cache(maxsize=4096)
def _stream(entry: bytes) -> tuple[int, int, int]:
    """Return the kind, the column, and the length of a stream."""
    stream = Message.decode(entry)
    return (
        stream.number(StripeField.STREAM_KIND),
        stream.number(StripeField.STREAM_COLUMN),
        stream.number(StripeField.STREAM_LENGTH),
    )


@lru_cache(maxsize=1024)
def encoding_of(column: bytes) -> int:
    """Return the encoding of a column, from its entry in a footer."""
    return Message.decode(column).number(1)


@lru_cache(maxsize=1024)
def _is_text(type_: bytes) -> bool:
    kind = kind_of(type_)
    return kind in (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)


def clock_of(footer: Message) -> str:
    """Return the time zone in a stripe's footer, by a normalized name.

    Raises:
        CorruptFile: The name is the path of another file, which Arrow would open.
    """
    zone = (footer.data(StripeField.TIME_ZONE) or b"").decode(errors="surrogateescape")
    if "." in zone:
        raise CorruptFile(f"A stripe of the ORC file names {zone!r} as its time zone.")
    return UTC if zone in _NAMES_OF_UTC else zone


def new_footer(streams: Sequence[bytes], encodings: Sequence[bytes], clock: str) -> bytes:
    """Serialize a footer.

    Args:
        streams: The entries of the streams.
        encodings: The entries of the columns.
        clock: The time zone; omitted if it is empty.
    """
    footer = Message()
    for stream in streams:
        footer.add_data(StripeField.STREAMS, stream)
    for encoding in encodings:
        footer.add_data(StripeField.ENCODINGS, encoding)
    if clock:
        footer.add_data(StripeField.TIME_ZONE, clock.encode(errors="surrogateescape"))
    return footer.encode()
