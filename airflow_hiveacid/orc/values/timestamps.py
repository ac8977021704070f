"""Timestamps as two numbers, so that rows with them can be rewritten exactly.

ORC stores a timestamp as two columns of integers: seconds since 2015 on the clock of its writer,
and nanoseconds. Arrow combines both into one number, which holds only the years 1677 to 2262, and
splits it incorrectly before 1970. So Arrow receives a different view (`split_timestamps`), which
replaces each column of timestamps by a struct: the seconds as a plain integer, and a timestamp in
the first second of 2015 with their nanoseconds. The output of Arrow is presented, with the same
streams, as a column of timestamps again (`join_timestamps`). No number changes in either direction,
for any calendar, clock or era.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.orc.format.batches import (
    OtherStripe,
    Piece,
    length_of,
    with_other_stripes,
    with_stripes,
)
from airflow_hiveacid.orc.format.compression import Codec, Compression
from airflow_hiveacid.orc.format.envelope import TypeField, TypeKind, kind_of
from airflow_hiveacid.orc.format.protobuf import Message, pack
from airflow_hiveacid.orc.format.source_and_sink import Source, read_exactly
from airflow_hiveacid.orc.format.statistics import (
    COUNT,
    HAS_NULL,
    count_statistics,
    integer_range,
    timestamp_statistics,
)
from airflow_hiveacid.orc.format.streams import (
    Encoding,
    StreamKind,
    describe_encoding,
    describe_stream,
    row_index,
)
from airflow_hiveacid.orc.format.stripe_footer import (
    UTC,
    PlacedStream,
    StripeFooter,
    clock_of,
    new_footer,
)
from airflow_hiveacid.orc.format.tail import OrcTail, Stripe

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


def join_timestamps(
    source: Source, tail: OrcTail, types: Sequence[bytes], clock: str
) -> tuple[Source, OrcTail]:
    """Present a file of split timestamps as a file of timestamps.

    Args:
        source: The file; see `split_timestamps`.
        tail: Its tail.
        types: The types of the result.
        clock: The time zone of its seconds.

    Raises:
        CorruptFile: The columns of the file are not the expected ones.
    """
    file = _SplitFile(source, tail, tuple(types), Split.of(types), clock)
    if len(tail.types) != len(file.split.types):
        raise CorruptFile("The ORC file has other columns than its table.")
    shown = replace(
        tail,
        types=tuple(types),
        stripe_statistics=tuple(map(file.statistics, tail.stripe_statistics)),
        file_statistics=file.statistics(tail.file_statistics),
    )
    return with_other_stripes(source, shown, map(file.joined, tail.stripes))


@dataclass(frozen=True)
class _SplitFile:
    source: Source
    tail: OrcTail
    types: tuple[bytes, ...]
    split: Split
    clock: str

    def joined(self, stripe: Stripe) -> OtherStripe:
        """A stripe of timestamps."""
        footer = StripeFooter.read(self.source, self.tail, stripe)
        columns = {place: column for column, place in enumerate(self.split.places)}
        # Each timestamp's seconds and nanoseconds.
        parts = {
            self.split.places[column] + step: column
            for column in self.split.timestamps
            for step in (1, 2)
        }
        streams: list[bytes] = []
        index: list[Piece] = []
        indexes = {stream.column: stream for stream in footer.index}
        for stream in footer.index:
            if stream.column in parts:
                continue
            column = columns[stream.column]
            piece: Piece = (stream.offset, stream.length)
            if column in self.split.timestamps:
                piece = self._row_index(column, indexes)
            index.append(piece)
            streams.append(describe_stream(stream.kind, column, length_of(piece)))
        data: list[Piece] = []
        for stream in footer.data:
            column = parts.get(stream.column, columns.get(stream.column, -1))
            if stream.column in parts and not self._is_kept(stream, column):
                continue
            data.append((stream.offset, stream.length))
            streams.append(describe_stream(stream.kind, column, stream.length))
        encodings = [
            footer.encodings[place + 1 if column in self.split.timestamps else place]
            for column, place in enumerate(self.split.places)
        ]
        encoded = new_footer(streams, encodings, self.clock)
        return OtherStripe(stripe, index, data, self.tail.compression.compress(encoded))

    def _is_kept(self, stream: PlacedStream, column: int) -> bool:
        """Return whether a stream belongs to its timestamp: neither zeros nor flags without nulls."""
        part = stream.column - self.split.places[column]
        return stream.kind == (StreamKind.DATA if part == 1 else StreamKind.SECONDARY)

    def _row_index(self, column: int, indexes: dict[int, PlacedStream]) -> bytes:
        place = self.split.places[column]
        entries = [
            Message.decode(
                self.tail.compression.decompress(
                    read_exactly(self.source, indexes[part].offset, indexes[part].length)
                )
            ).all_messages(1)
            for part in (place, place + 1, place + 2)
        ]
        numbers = 2 if self.tail.codec is Codec.NONE else 3
        groups = []
        for whole, seconds, nanos in zip(*entries, strict=True):
            positions = whole.all_numbers(1)
            for part in (seconds, nanos):
                # All positions before these belong to omitted streams.
                positions += part.all_numbers(1)[-numbers:]
            statistics = [part.data(2) or b"" for part in (whole, seconds, nanos)]
            groups.append((positions, self._timestamps_of(column, *statistics)))
        return self.tail.compression.compress(row_index(groups))

    def statistics(self, columns: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the statistics of the columns, from those of the split columns."""
        return tuple(
            self._timestamps_of(column, *columns[place : place + 3])
            if column in self.split.timestamps
            else columns[place]
            for column, place in enumerate(self.split.places)
        )

    def _timestamps_of(self, column: int, whole: bytes, seconds: bytes, nanos: bytes) -> bytes:
        message = Message.decode(whole)
        count, has_null = message.number(COUNT), bool(message.number(HAS_NULL, 1))
        if any(Message.decode(part).number(COUNT) != count for part in (seconds, nanos)):
            raise CorruptFile("There are timestamps without seconds, or without nanoseconds.")
        instant = kind_of(self.types[column]) == (TypeKind.TIMESTAMP_INSTANT)
        range_ = integer_range(seconds) if instant or self.clock == UTC else None
        if range_ is None:
            # Statistics are in UTC, the only clock without changes of its offset.
            return count_statistics(count, has_null=has_null).encode()
        first, last = (second + SECONDS_OF_2015 for second in range_)
        # Before 1970, seconds are rounded towards 1970.
        millis = (first - (first <= 0)) * 1000, last * 1000 + 999
        return timestamp_statistics(count, millis, has_null=has_null).encode()


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
