"""Timestamps as two numbers, so that rows with them can be written anew to the last digit.

ORC keeps a timestamp as two columns of integers: seconds since 2015 on the clock of its writer, and
nanoseconds. Arrow makes one number of both, which holds the years 1677 to 2262 only, and takes it
apart wrongly before 1970. So Arrow is shown something else: in the place of each column of timestamps
a struct of the seconds, a plain integer, and of a timestamp in the first second of 2015 that has their
nanoseconds. What Arrow then writes is shown with the same streams as a column of timestamps again; see
`join_timestamps`. No number is changed on either way, whatever calendar, clock or era it is of.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.orc.compression import Compression
from airflow_hiveacid.orc.envelope import TypeField, TypeKind
from airflow_hiveacid.orc.protobuf import Message, pack
from airflow_hiveacid.orc.source_and_sink import Source, read_exactly
from airflow_hiveacid.orc.streams import Encoding, StreamKind, describe_encoding, describe_stream
from airflow_hiveacid.orc.stripe_footer import UTC, StripeFooter, clock_of, new_footer
from airflow_hiveacid.orc.tail import MAGIC, OrcTail, Stripe
from airflow_hiveacid.orc.view import FileOfPieces, Piece, with_stripes

T = TypeVar("T")

# The kinds of columns that hold timestamps.
TIMESTAMP_KINDS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
_SECONDS_OF_2015 = 1_420_070_400
_NANOS_OF_SECOND = 10**9
_NANOS_OF_MICROSECOND = 1000
# No run of integers holds more of them in as many bytes, in either version of the encoding.
# Which of the columns that a timestamp becomes takes a stream; the others are flags.
_PARTS: dict[int, int] = {StreamKind.DATA: 1, StreamKind.SECONDARY: 2}
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
    def of(cls, types: Sequence[bytes]) -> "Split":
        """Take the timestamps of a file of some types apart."""
        places: list[int] = []
        timestamps: set[int] = set()
        for column, type_ in enumerate(types):
            places.append(column + 2 * len(timestamps))
            if _kind(type_) in TIMESTAMP_KINDS:
                timestamps.add(column)
        new: list[bytes] = []
        for column, type_ in enumerate(types):
            new += _pair(places[column]) if column in timestamps else [_moved(type_, places)]
        return cls(tuple(new), tuple(places), frozenset(timestamps))

    def spread(self, columns: Iterable[T]) -> tuple[T, ...]:
        """What the file says of each of its columns, for the new ones."""
        return tuple(
            each
            for column, each in enumerate(columns)
            for _ in range(3 if column in self.timestamps else 1)
        )


def split_types(types: Sequence[bytes]) -> tuple[bytes, ...]:
    """The types of a file when its timestamps are taken apart."""
    return Split.of(types).types


def timestamp_clock(source: Source, tail: OrcTail, stripe: int) -> str | None:
    """The time zone by which the timestamps of a stripe are counted; empty if it does not say.

    None if it has no timestamps, or only those that are counted by UTC whatever the zone.
    """
    if all(_kind(type_) != TypeKind.TIMESTAMP for type_ in tail.types):
        return None
    return clock_of(tail.stripe_footer(source, tail.stripes[stripe]))


def split_timestamps(
    source: Source, tail: OrcTail, stripes: Sequence[int]
) -> tuple[Source, OrcTail]:
    """Show some stripes of a file with their timestamps taken apart.

    Args:
        source: The file.
        tail: Its tail.
        stripes: The stripes to show.

    Returns:
        A file of nothing but these stripes and without row indexes, and its tail. Stripes without
        timestamps stay as they are.

    Raises:
        CorruptFile: A stripe is not what it says.
    """
    split = Split.of(tail.types)
    if not split.timestamps:
        return source, with_stripes(tail, stripes)
    pieces: list[Piece] = [MAGIC]
    shown: list[Stripe] = []
    position = len(MAGIC)
    for number in stripes:
        stripe = tail.stripes[number]
        zeros, footer = _split_stripe(source, tail, stripe, split)
        pieces += [(stripe.offset + stripe.index_length, stripe.data_length), zeros, footer]
        new = replace(
            stripe,
            offset=position,
            index_length=0,
            data_length=stripe.data_length + len(zeros),
            footer_length=len(footer),
        )
        position += new.length
        shown.append(new)
    shown_tail = replace(
        tail,
        stride=0,
        types=split.types,
        stripes=tuple(shown),
        stripe_statistics=tuple(split.spread(tail.stripe_statistics[each]) for each in stripes),
        file_statistics=split.spread(tail.file_statistics),
    )
    return FileOfPieces(source, [*pieces, shown_tail.encode(position)]), shown_tail


def _split_stripe(
    source: Source, tail: OrcTail, stripe: Stripe, split: Split
) -> tuple[bytes, bytes]:
    """The data that a stripe gets beside its own, and its new footer."""
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
    return data, tail.compression.compress(new_footer([*streams, *added], encodings, UTC))


def zeros_for(nanos: bytes, compression: Compression, encoding: bytes) -> bytes:
    """A stream of seconds that are all zero, at least as many as a stream of nanoseconds has.

    Raises:
        CorruptFile: The encoding is none of timestamps.
    """
    kind = Message.decode(encoding).number(1)
    if kind not in _ZEROS:
        raise CorruptFile(
            f"A column of timestamps has the encoding {kind}, which is none of theirs."
        )
    plain = _ZEROS[kind] * max(compression.chunk_size // len(_ZEROS[kind]), 1)
    return _compressed(plain, compression) * (compression.plain_limit(nanos) // len(plain) + 1)


@lru_cache(maxsize=8)
def _compressed(plain: bytes, compression: Compression) -> bytes:
    return compression.compress(plain)


def check_nanos(batch: Any) -> None:
    """Make sure that all nanoseconds in a batch of split timestamps are fewer than a second has.

    Raises:
        CorruptFile: Some are not, so that no reader would take them.
    """
    for column in batch.columns:
        for nanos in nanos_in(column):
            if len(nanos) and not 0 <= nanos.min() <= nanos.max() < _NANOS_OF_SECOND:
                raise CorruptFile("A timestamp has a negative number of nanoseconds, or too many.")


def is_finer(array: Any) -> bool:
    """Whether split timestamps in an Arrow array have more digits than microseconds."""
    return any((nanos % _NANOS_OF_MICROSECOND).any() for nanos in nanos_in(array))


def nanos_in(array: Any) -> Iterator[Any]:
    """The nanoseconds of all split timestamps in an Arrow array, at any depth."""
    for known in timestamps_in(array):
        yield known - _SECONDS_OF_2015 * _NANOS_OF_SECOND


def timestamps_in(array: Any) -> Iterator[Any]:
    """The numbers of all timestamps in an Arrow array that are not null, at any depth."""
    import pyarrow as pa

    if pa.types.is_timestamp(array.type):
        known = array.drop_null() if array.null_count else array
        yield known.view(pa.int64()).to_numpy()
    elif _has_timestamps(array.type):
        if pa.types.is_struct(array.type):
            parts = array.flatten()
        elif pa.types.is_map(array.type):
            parts = [array.keys, array.items]
        else:
            parts = [array.flatten()]
        for part in parts:
            yield from timestamps_in(part)


def _has_timestamps(type_: Any) -> bool:
    from pyarrow import types

    if types.is_timestamp(type_):
        return True
    return any(_has_timestamps(type_.field(number).type) for number in range(type_.num_fields))


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


def _kind(type_: bytes) -> int:
    return Message.decode(type_).number(TypeField.KIND)
