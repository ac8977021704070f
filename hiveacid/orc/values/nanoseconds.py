"""Detection of timestamps with more digits than microseconds, which Spark would cut.

Only the streams of the nanoseconds are read, and the metadata for their assignment.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from hiveacid.errors import CorruptFile
from hiveacid.orc.format.batches import OtherStripe, Piece, read_batches, with_other_stripes
from hiveacid.orc.format.envelope import EnvelopeColumn, TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.source_and_sink import Source, read_exactly
from hiveacid.orc.format.streams import Integers, StreamKind, describe_stream
from hiveacid.orc.format.stripe_footer import UTC, StripeFooter, new_footer
from hiveacid.orc.format.tail import OrcTail, Stripe
from hiveacid.orc.values.timestamps import SECONDS_OF_2015, TIMESTAMP_KINDS, zeros_for

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
    chosen = _Chosen.of(tail.types, root, columns)
    if not chosen.timestamps:
        return None
    for stripe in range(len(tail.stripes)):
        with closing(read_batches(*_shown(source, tail, tail.stripes[stripe], chosen))) as batches:
            for batch in batches:
                for name, values in _named(batch, nested=tail.is_acid):
                    if any(map(are_finer, _nanos_in(values))):
                        return name
    return None


def checked_nanos(batch: Any) -> list[Integers]:
    """Return the nanoseconds of all split timestamps in a batch, each fewer than a second has.

    Raises:
        CorruptFile: Some are not, so that no reader would take them.
    """
    found = [nanos for column in batch.columns for nanos in _nanos_in(column)]
    for nanos in found:
        if len(nanos) and not 0 <= nanos.min() <= nanos.max() < _NANOS_OF_SECOND:
            raise CorruptFile("A timestamp has a negative number of nanoseconds, or too many.")
    return found


def are_finer(nanos: Integers) -> bool:
    """Return whether some nanoseconds have more digits than microseconds."""
    return bool((nanos % _NANOS_OF_MICROSECOND).any())


def is_finer_text(text: str) -> bool:
    """Return whether the text of a timestamp has more digits than microseconds."""
    return _FINER_TEXT.search(text) is not None


def _nanos_in(array: Any) -> Iterator[Integers]:
    """The nanoseconds of all split timestamps in an Arrow array, at any depth."""
    for known in timestamps_in(array):
        yield known - SECONDS_OF_2015 * _NANOS_OF_SECOND


def timestamps_in(array: Any) -> Iterator[Integers]:
    """The numbers of all timestamps in an Arrow array that are not null, at any depth."""
    import pyarrow as pa

    if pa.types.is_timestamp(array.type):
        known = array.drop_null() if array.null_count else array
        yield known.view(pa.int64()).to_numpy()
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
        kept: set[int] = set()
        for column, message in enumerate(messages):
            if message.number(TypeField.KIND) in TIMESTAMP_KINDS:
                above = _above(column, parents)
                inside = [
                    names[ancestor].decode(errors="surrogateescape").lower()
                    for ancestor in above
                    if ancestor in names
                ]
                if columns is None or any(name in columns for name in inside):
                    kept.update(above)
        for column in range(len(messages)):
            # In the order of their numbers, so that all that is below follows.
            parent = parents.get(column)
            if parent in kept and any(
                messages[ancestor].number(TypeField.KIND) == TypeKind.MAP
                for ancestor in _above(column, parents)[1:]
            ):
                kept.add(column)
        places = {old: new for new, old in enumerate(sorted(kept))}
        timestamps = {
            column for column in kept if messages[column].number(TypeField.KIND) in TIMESTAMP_KINDS
        }
        shown = tuple(_shown_type(messages[old], places, old in timestamps) for old in places)
        return cls(shown, places, frozenset(timestamps))


def _above(column: int, parents: Mapping[int, int]) -> list[int]:
    """Yield a column and its parents up to the root."""
    above = [column]
    while above[-1] in parents:
        above.append(parents[above[-1]])
    return above


def _shown_type(type_: Message, places: Mapping[int, int], is_timestamp: bool) -> bytes:
    if is_timestamp:
        return Message().add_number(TypeField.KIND, TypeKind.TIMESTAMP).encode()
    inside = type_.all_numbers(TypeField.SUBTYPES)
    names = type_.all_data(TypeField.FIELD_NAMES)
    shown = type_.without(TypeField.SUBTYPES, TypeField.FIELD_NAMES)
    if inside:
        shown.add_data(
            TypeField.SUBTYPES, pack(places[column] for column in inside if column in places)
        )
    for column, name in zip(inside, names, strict=False):
        if column in places:
            shown.add_data(TypeField.FIELD_NAMES, name)
    return shown.encode()


def _shown(
    source: Source, tail: OrcTail, stripe: Stripe, chosen: _Chosen
) -> tuple[Source, OrcTail]:
    """Return a view with only some columns of one stripe, whose timestamps are all in one second."""
    footer = StripeFooter.read(source, tail, stripe)
    data: list[Piece] = []
    streams: list[bytes] = []
    for stream in footer.data:
        place = chosen.places.get(stream.column)
        is_timestamp = stream.column in chosen.timestamps
        if place is None or (is_timestamp and stream.kind == StreamKind.DATA):
            continue
        data.append((stream.offset, stream.length))
        streams.append(describe_stream(stream.kind, place, stream.length))
        if is_timestamp and stream.kind == StreamKind.SECONDARY:
            nanos = read_exactly(source, stream.offset, stream.length)
            zeros = zeros_for(nanos, tail.compression, footer.encodings[stream.column])
            data.append(zeros)
            streams.append(describe_stream(StreamKind.DATA, place, len(zeros)))
    encodings = [footer.encodings[old] for old in chosen.places]
    encoded = tail.compression.compress(new_footer(streams, encodings, UTC))
    number = tail.stripes.index(stripe)
    statistics = tail.stripe_statistics[number : number + 1]
    shown = replace(
        tail,
        stride=0,
        types=chosen.types,
        stripe_statistics=tuple(
            tuple(columns[old] for old in chosen.places) for columns in statistics
        ),
        file_statistics=tuple(tail.file_statistics[old] for old in chosen.places),
    )
    return with_other_stripes(source, shown, [OtherStripe(stripe, (), data, encoded)])


def _named(batch: Any, *, nested: bool) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a batch, or those of its only column, with their names."""
    if not nested:
        yield from zip(batch.schema.names, batch.columns, strict=True)
        return
    (row,) = batch.columns
    names = [row.type.field(number).name for number in range(row.type.num_fields)]
    yield from zip(names, row.flatten(), strict=True)
