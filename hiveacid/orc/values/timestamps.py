"""Timestamps as two numbers, so that rows with them can be rewritten exactly.

ORC stores a timestamp as two columns of integers: seconds since 2015 on the clock of its writer,
and nanoseconds. Arrow combines both into one number, which holds only the years 1677 to 2262, and
splits it incorrectly before 1970. So Arrow receives a different view (`split_timestamps`), which
replaces each column of timestamps by a struct: the seconds as a plain integer, and a timestamp in
the first second of 2015 with their nanoseconds. `TimestampEncoder` makes timestamps of these again.
No number changes in either direction, for any calendar, clock or era.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile
from hiveacid.orc.format.batches import (
    OtherStripe,
    Piece,
    read_batches,
    with_other_stripes,
    with_stripes,
)
from hiveacid.orc.format.compression import Compression, Source, read_exactly
from hiveacid.orc.format.envelope import EnvelopeColumn, TypeField, TypeKind, kind_of
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.streams import (
    UTC,
    Encoding,
    Integers,
    StreamKind,
    StripeFooter,
    clock_of,
    describe_encoding,
    describe_stream,
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
    view_tail = replace(
        tail,
        stride=0,
        types=split.types,
        stripe_statistics=tuple(split.spread(tail.stripe_statistics[number]) for number in stripes),
        file_statistics=split.spread(tail.file_statistics),
    )
    split_stripes = (_split_stripe(source, tail, tail.stripes[number], split) for number in stripes)
    return with_other_stripes(source, view_tail, split_stripes)


def _split_stripe(source: Source, tail: OrcTail, stripe: Stripe, split: Split) -> OtherStripe:
    """A stripe with more data beside its own, and without row indexes."""
    old = StripeFooter.read(source, tail, stripe)
    streams: list[bytes] = []
    added_streams: list[bytes] = []
    data = b""
    for stream in old.data:
        place = split.places[stream.column]
        if stream.column in split.timestamps:
            place += _PARTS.get(stream.kind, 0)
            if stream.kind == StreamKind.SECONDARY:
                nanos = read_exactly(source, stream.offset, stream.length)
                zeros = zeros_for(nanos, tail.compression, old.encodings[stream.column])
                added_streams.append(describe_stream(StreamKind.DATA, place, len(zeros)))
                data += zeros
        streams.append(describe_stream(stream.kind, place, stream.length))
    encodings = list(split.spread(old.encodings))
    for column in split.timestamps:
        encodings[split.places[column]] = describe_encoding(Encoding.DIRECT)
    footer = tail.compression.compress(new_footer([*streams, *added_streams], encodings, UTC))
    data_range = (stripe.offset + stripe.index_length, stripe.data_length)
    return OtherStripe(stripe, (), (data_range, data), footer)


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
    remainder = message.without(TypeField.SUBTYPES)
    return remainder.add_data(
        TypeField.SUBTYPES, pack(places[number] for number in subtypes)
    ).encode()


# Detection of timestamps with more digits than microseconds, which Spark would cut.
#
# Only the streams of the nanoseconds are read, and the metadata for their assignment.


# An entry of a file's user metadata: its rows contain no timestamps with more digits. The value is
# the number of rows. A writer that makes another file of its stripes may copy the entry, but has
# other rows.
_MARK = "hiveacid.microseconds"
_NANOS_OF_SECOND = 10**9
_FINER_TEXT = re.compile(r"\.\d{6}0*[1-9]")
_NANOS_OF_MICROSECOND = 1000


def mark(rows: int) -> dict[str, bytes]:
    """Return the user metadata of a file with this number of rows, all in whole microseconds."""
    return {_MARK: b"%d" % rows}


def without_mark(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """The rest of a file's user metadata."""
    return {key: value for key, value in metadata.items() if key != _MARK}


def is_marked(tail: OrcTail) -> bool:
    """Return whether a file declares that all of its timestamps are whole microseconds."""
    return tail.user_metadata.get(_MARK) == b"%d" % tail.rows


def finer_column(
    source: Source, tail: OrcTail, columns: Collection[str] | None = None
) -> str | None:
    """Return the first column of a file with timestamps of more digits than microseconds.

    Args:
        source: The file.
        tail: Its tail.
        columns: The names of the columns to check, in lower case; by default all.

    Raises:
        CorruptFile: The file does not decode.
        UnsupportedFile: Timestamps exist beside the choices of a union.
    """
    if is_marked(tail):
        return None
    root = EnvelopeColumn.ROW if tail.is_acid else EnvelopeColumn.ROOT
    selection = _Chosen.of(tail.types, root, columns)
    if not selection.timestamps:
        return None
    for stripe in range(len(tail.stripes)):
        with closing(
            read_batches(*_shown(source, tail, tail.stripes[stripe], selection))
        ) as batches:
            for batch in batches:
                for name, values in _named(batch, nested=tail.is_acid):
                    if any(map(are_finer, _nanos_in(values))):
                        return name
    return None


def check_nanos(batch: Any) -> None:
    """Make sure that the timestamps of a batch, which are split, have fewer nanoseconds than a second.

    Raises:
        CorruptFile: Some do not, so that no reader would take them.
    """
    for column in batch.columns:
        for nanos in _nanos_in(column):
            if len(nanos) and not 0 <= nanos.min() <= nanos.max() < _NANOS_OF_SECOND:
                raise CorruptFile("A timestamp has a negative number of nanoseconds, or too many.")


def are_finer(nanos: Integers) -> bool:
    """Return whether some nanoseconds have more digits than microseconds."""
    return bool((nanos % _NANOS_OF_MICROSECOND).any())


def is_finer_text(text: str) -> bool:
    """Return whether the text of a timestamp has more digits than microseconds."""
    return _FINER_TEXT.search(text) is not None


def _nanos_in(array: Any) -> Iterator[Integers]:
    """The nanoseconds of all split timestamps in an Arrow array, at any depth."""
    for timestamp in timestamps_in(array):
        yield timestamp - SECONDS_OF_2015 * _NANOS_OF_SECOND


def timestamps_in(array: Any) -> Iterator[Integers]:
    """The numbers of all timestamps in an Arrow array that are not null, at any depth."""
    import pyarrow as pa

    if pa.types.is_timestamp(array.type):
        values = array.drop_null() if array.null_count else array
        yield values.view(pa.int64()).to_numpy()
    elif _has_timestamps(array.type):
        if pa.types.is_struct(array.type):
            parts = _parts_with_timestamps(array)
        elif pa.types.is_map(array.type):
            parts = [array.keys, array.items]
        else:
            parts = [array.flatten()]
        for part in parts:
            yield from timestamps_in(part)


def _parts_with_timestamps(struct: Any) -> list[Any]:
    places = _places_of_timestamps(struct.type)
    if struct.null_count:
        parts = struct.flatten()
        return [parts[place] for place in places]
    return [struct.field(place) for place in places]


# Each batch has the same types, and going through them takes longer than the values.
@lru_cache(maxsize=64)
def _places_of_timestamps(type_: Any) -> tuple[int, ...]:
    return tuple(
        place for place in range(type_.num_fields) if _has_timestamps(type_.field(place).type)
    )


def _has_timestamps(type_: Any) -> bool:
    from pyarrow import types

    if types.is_timestamp(type_):
        return True
    return bool(type_.num_fields and _places_of_timestamps(type_))


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A selection of a file's columns.

    Attributes:
        types: Their types, with plain timestamps.
        places: Their old numbers, and the new ones.
        timestamps: The old numbers of the timestamps.
    """

    types: tuple[bytes, ...]
    places: Mapping[int, int]
    timestamps: frozenset[int]

    @classmethod
    def of(cls, types: Sequence[bytes], root: int, columns: Collection[str] | None) -> "_Chosen":
        """Select the timestamps in some columns, their parents, and the other halves of maps."""
        messages = [Message.decode(type_) for type_ in types]
        parents = {
            child: parent
            for parent, message in enumerate(messages)
            for child in message.all_numbers(TypeField.SUBTYPES)
        }
        names = dict(
            zip(
                messages[root].all_numbers(TypeField.SUBTYPES),
                messages[root].all_data(TypeField.FIELD_NAMES),
                strict=False,
            )
        )
        kept_columns: set[int] = set()
        for column, message in enumerate(messages):
            if message.number(TypeField.KIND) in TIMESTAMP_KINDS:
                ancestors = _above(column, parents)
                column_names = [
                    names[ancestor].decode(errors="surrogateescape").lower()
                    for ancestor in ancestors
                    if ancestor in names
                ]
                if columns is None or any(name in columns for name in column_names):
                    kept_columns.update(ancestors)
        for column in range(len(messages)):
            # In the order of their numbers, so that all that is below follows.
            parent = parents.get(column)
            if parent in kept_columns and any(
                messages[ancestor].number(TypeField.KIND) == TypeKind.MAP
                for ancestor in _above(column, parents)[1:]
            ):
                kept_columns.add(column)
        places = {old: new for new, old in enumerate(sorted(kept_columns))}
        timestamps = {
            column
            for column in kept_columns
            if messages[column].number(TypeField.KIND) in TIMESTAMP_KINDS
        }
        view_types = tuple(_shown_type(messages[old], places, old in timestamps) for old in places)
        return cls(view_types, places, frozenset(timestamps))


def _above(column: int, parents: Mapping[int, int]) -> list[int]:
    """Yield a column and its parents up to the root."""
    ancestors = [column]
    while ancestors[-1] in parents:
        ancestors.append(parents[ancestors[-1]])
    return ancestors


def _shown_type(type_: Message, places: Mapping[int, int], is_timestamp: bool) -> bytes:
    if is_timestamp:
        return Message().add_number(TypeField.KIND, TypeKind.TIMESTAMP).encode()
    subtypes = type_.all_numbers(TypeField.SUBTYPES)
    names = type_.all_data(TypeField.FIELD_NAMES)
    view_type = type_.without(TypeField.SUBTYPES, TypeField.FIELD_NAMES)
    if subtypes:
        view_type.add_data(
            TypeField.SUBTYPES, pack(places[column] for column in subtypes if column in places)
        )
    for column, name in zip(subtypes, names, strict=False):
        if column in places:
            view_type.add_data(TypeField.FIELD_NAMES, name)
    return view_type.encode()


def _shown(
    source: Source, tail: OrcTail, stripe: Stripe, selection: _Chosen
) -> tuple[Source, OrcTail]:
    """Return a view with only some columns of one stripe, whose timestamps are all in one second."""
    footer = StripeFooter.read(source, tail, stripe)
    data: list[Piece] = []
    streams: list[bytes] = []
    for stream in footer.data:
        place = selection.places.get(stream.column)
        is_timestamp = stream.column in selection.timestamps
        if place is None or (is_timestamp and stream.kind == StreamKind.DATA):
            continue
        data.append((stream.offset, stream.length))
        streams.append(describe_stream(stream.kind, place, stream.length))
        if is_timestamp and stream.kind == StreamKind.SECONDARY:
            nanos = read_exactly(source, stream.offset, stream.length)
            zeros = zeros_for(nanos, tail.compression, footer.encodings[stream.column])
            data.append(zeros)
            streams.append(describe_stream(StreamKind.DATA, place, len(zeros)))
    encodings = [footer.encodings[old] for old in selection.places]
    encoded_footer = tail.compression.compress(new_footer(streams, encodings, UTC))
    number = tail.stripes.index(stripe)
    statistics = tail.stripe_statistics[number : number + 1]
    view_tail = replace(
        tail,
        stride=0,
        types=selection.types,
        stripe_statistics=tuple(
            tuple(columns[old] for old in selection.places) for columns in statistics
        ),
        file_statistics=tuple(tail.file_statistics[old] for old in selection.places),
    )
    return with_other_stripes(source, view_tail, [OtherStripe(stripe, (), data, encoded_footer)])


def _named(batch: Any, *, nested: bool) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a batch, or those of its only column, with their names."""
    if not nested:
        yield from zip(batch.schema.names, batch.columns, strict=True)
        return
    (row,) = batch.columns
    names = [row.type.field(number).name for number in range(row.type.num_fields)]
    yield from zip(names, row.flatten(), strict=True)
