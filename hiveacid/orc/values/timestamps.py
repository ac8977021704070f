"""Timestamps as two numbers, so that rows with them can be rewritten exactly.

ORC stores a timestamp as two columns of integers: seconds since 2015 on the clock of its writer,
and nanoseconds. Arrow combines both into one number, which holds only the years 1677 to 2262, and
splits it incorrectly before 1970. So Arrow receives a different view (`split_timestamps`), which
replaces each column of timestamps by a struct: the seconds as a plain integer, and a timestamp in
the first second of 2015 with their nanoseconds. `TimestampEncoder` makes timestamps of these again.
No number changes in either direction, for any calendar, clock or era.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.batches import (
    OtherStripe,
    with_other_stripes,
    with_stripes,
)
from hiveacid.orc.format.compression import Compression
from hiveacid.orc.format.envelope import TypeField, TypeKind, kind_of
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.source_and_sink import Source, read_exactly
from hiveacid.orc.format.streams import (
    Encoding,
    StreamKind,
    describe_encoding,
    describe_stream,
)
from hiveacid.orc.format.stripe_footer import (
    UTC,
    StripeFooter,
    clock_of,
    new_footer,
)
from hiveacid.orc.format.tail import OrcTail, Stripe

T = TypeVar("T")

# The kinds of columns that hold timestamps.
TIMESTAMP_KINDS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
SECONDS_OF_2015 = 1_420_070_400
# The column that receives a stream, among the columns of a split timestamp; the others are flags.
_PARTS: dict[int, int] = {StreamKind.DATA: 1, StreamKind.SECONDARY: 2}
# The longest possible run of zeros for its number of bytes, in either version of the integer
# encoding.
_ZEROS: dict[int, bytes] = {Encoding.DIRECT: b"\x7f\0\0", Encoding.DIRECT_V2: b"\xc1\xff\0\0"}


@dataclass(frozen=True, slots=True)
class Split:
    """The columns of a file when its timestamps are taken apart.

    Attributes:
        types: The types, each timestamp being a struct.
        places: For each column of the file the number that it has now.
        timestamps: The file's columns of timestamps.
    """

    types: tuple[bytes, ...]
    places: tuple[int, ...]
    timestamps: frozenset[int]

    @classmethod
    # Thousands of files have the same types.
    @lru_cache(maxsize=64)
    def of(cls, types: tuple[bytes, ...]) -> "Split":
        """Take the timestamps of a file of some types apart."""
        places: list[int] = []
        timestamps: set[int] = set()
        for column, type_ in enumerate(types):
            places.append(column + 2 * len(timestamps))
            if kind_of(type_) in TIMESTAMP_KINDS:
                timestamps.add(column)
        new: list[bytes] = []
        for column, type_ in enumerate(types):
            new += _pair(places[column]) if column in timestamps else [_moved(type_, places)]
        return cls(tuple(new), tuple(places), frozenset(timestamps))

    def spread(self, columns: Iterable[T]) -> tuple[T, ...]:
        """Return the file's values per column, repeated for the new columns."""
        return tuple(
            value
            for column, value in enumerate(columns)
            for _ in range(3 if column in self.timestamps else 1)
        )


def split_types(types: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The types of a file when its timestamps are taken apart."""
    return Split.of(types).types


def timestamp_clock(source: Source, tail: OrcTail, stripe: int) -> str | None:
    """Return the time zone of the timestamps of a stripe; empty if the stripe does not declare it.

    The result is null for a stripe without timestamps, or with only those that are always in UTC.
    """
    if all(kind_of(type_) != TypeKind.TIMESTAMP for type_ in tail.types):
        return None
    return clock_of(tail.stripe_footer(source, tail.stripes[stripe]))


def split_timestamps(
    source: Source, tail: OrcTail, stripes: Sequence[int]
) -> tuple[Source, OrcTail]:
    """Present some stripes of a file with split timestamps.

    Args:
        source: The file.
        tail: Its tail.
        stripes: The stripes to present.

    Returns:
        A file with only these stripes and without row indexes, and its tail. Stripes without
            timestamps remain unchanged.

    Raises:
        CorruptFile: A stripe contradicts its metadata.
    """
    split = Split.of(tail.types)
    if not split.timestamps:
        return source, with_stripes(tail, stripes)
    shown = replace(
        tail,
        stride=0,
        types=split.types,
        stripe_statistics=tuple(split.spread(tail.stripe_statistics[number]) for number in stripes),
        file_statistics=split.spread(tail.file_statistics),
    )
    others = (_split_stripe(source, tail, tail.stripes[number], split) for number in stripes)
    return with_other_stripes(source, shown, others)


def _split_stripe(source: Source, tail: OrcTail, stripe: Stripe, split: Split) -> OtherStripe:
    """A stripe with more data beside its own, and without row indexes."""
    old = StripeFooter.read(source, tail, stripe)
    streams: list[bytes] = []
    added: list[bytes] = []
    data = b""
    for stream in old.data:
        place = split.places[stream.column]
        if stream.column in split.timestamps:
            place += _PARTS.get(stream.kind, 0)
            if stream.kind == StreamKind.SECONDARY:
                nanos = read_exactly(source, stream.offset, stream.length)
                zeros = zeros_for(nanos, tail.compression, old.encodings[stream.column])
                added.append(describe_stream(StreamKind.DATA, place, len(zeros)))
                data += zeros
        streams.append(describe_stream(stream.kind, place, stream.length))
    encodings = list(split.spread(old.encodings))
    for column in split.timestamps:
        encodings[split.places[column]] = describe_encoding(Encoding.DIRECT)
    footer = tail.compression.compress(new_footer([*streams, *added], encodings, UTC))
    own = (stripe.offset + stripe.index_length, stripe.data_length)
    return OtherStripe(stripe, (), (own, data), footer)


def zeros_for(nanos: bytes, compression: Compression, encoding: bytes) -> bytes:
    """Return a stream of zero seconds, at least as many as a stream of nanoseconds has values.

    Raises:
        CorruptFile: The encoding is invalid for timestamps.
    """
    kind = Message.decode(encoding).number(1)
    if kind not in _ZEROS:
        raise CorruptFile(
            f"A column of timestamps has the encoding {kind}, which timestamps cannot have."
        )
    plain = _ZEROS[kind] * max(compression.chunk_size // len(_ZEROS[kind]), 1)
    return _compressed(plain, compression) * (compression.plain_limit(nanos) // len(plain) + 1)


@lru_cache(maxsize=8)
def _compressed(plain: bytes, compression: Compression) -> bytes:
    return compression.compress(plain)


def _pair(place: int) -> list[bytes]:
    struct = Message().add_number(TypeField.KIND, TypeKind.STRUCT)
    struct.add_data(TypeField.SUBTYPES, pack((place + 1, place + 2)))
    for name in (b"seconds", b"nanos"):
        struct.add_data(TypeField.FIELD_NAMES, name)
    parts = (Message().add_number(TypeField.KIND, k) for k in (TypeKind.LONG, TypeKind.TIMESTAMP))
    return [struct.encode(), *(part.encode() for part in parts)]


def _moved(type_: bytes, places: Sequence[int]) -> bytes:
    message = Message.decode(type_)
    subtypes = message.all_numbers(TypeField.SUBTYPES)
    if not subtypes:
        return type_
    if max(subtypes) >= len(places):
        raise CorruptFile("The ORC file names a column that it does not have.")
    rest = message.without(TypeField.SUBTYPES)
    return rest.add_data(TypeField.SUBTYPES, pack(places[number] for number in subtypes)).encode()
