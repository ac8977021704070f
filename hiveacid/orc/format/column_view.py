"""A view of a file with some of its columns, so that other columns are neither read nor decoded.

Arrow selects among the columns of a file, but not among those inside of its structs, where a full ACID
table stores all of its own columns.
"""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile
from hiveacid.orc.format.batches import OtherStripe, read_batches, with_other_stripes
from hiveacid.orc.format.compression import Source
from hiveacid.orc.format.envelope import TypeField, field_names
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.streams import StripeFooter, describe_stream, new_footer
from hiveacid.orc.format.tail import OrcTail, Stripe


def read_columns(source: Source, names: Sequence[str]) -> Generator[Any, None, None]:
    """Read columns outside of others as batches, with the names and in the order that are given.

    Args:
        source: The file; see ``read_batches``.
        names: The names, in any case.

    Raises:
        CorruptFile: The file does not decode, or has no such column.
        BeyondArrow: A value is not representable in Arrow.
    """
    tail = OrcTail.read(source)
    numbers = Message.decode(tail.types[0]).all_numbers(TypeField.SUBTYPES)
    stored_names = [name.decode(errors="replace") for name in field_names(tail.types[0])]
    places = {name.lower(): place for place, name in reversed([*enumerate(stored_names)])}
    exact = {name: place for place, name in reversed([*enumerate(stored_names)])}
    try:
        column_places = [exact.get(name, places.get(name.lower(), -1)) for name in names]
        view, view_tail = only_columns(
            source, tail, [numbers[place] for place in column_places if place >= 0]
        )
    except IndexError:
        raise CorruptFile("The columns of the ORC file have no types.") from None
    if min(column_places, default=-1) < 0:
        raise CorruptFile(f"The ORC file lacks one of the columns {', '.join(names)}.")
    with closing(read_batches(view, view_tail)) as batches:
        for batch in batches:
            order = sorted({*column_places})
            columns = [batch.column(order.index(place)) for place in column_places]
            yield type(batch).from_arrays(columns, names=[*names])


def only_columns(source: Source, tail: OrcTail, columns: Collection[int]) -> tuple[Source, OrcTail]:
    """Present a file with only some columns, their nested columns and their parents.

    Args:
        source: The file.
        tail: Its tail.
        columns: The numbers of the columns.

    Returns:
        A file without row indexes, and its tail.

    Raises:
        CorruptFile: A stripe contradicts its metadata.
    """
    selection = _Chosen.of(tail.types, columns)
    if len(selection.places) == len(tail.types):
        return source, tail
    view_tail = replace(
        tail,
        stride=0,
        types=selection.types,
        stripe_statistics=tuple(map(selection.statistics, tail.stripe_statistics)),
        file_statistics=selection.statistics(tail.file_statistics),
    )
    stripes = (selection.of_stripe(source, tail, stripe) for stripe in tail.stripes)
    return with_other_stripes(source, view_tail, stripes)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Some columns of a file.

    Attributes:
        types: Their types.
        places: Their old numbers, in order, and the new ones.
    """

    types: tuple[bytes, ...]
    places: Mapping[int, int]

    @classmethod
    def of(cls, types: Sequence[bytes], columns: Collection[int]) -> "_Chosen":
        messages = [Message.decode(type_) for type_ in types]
        parents = {
            child: parent
            for parent, message in enumerate(messages)
            for child in message.all_numbers(TypeField.SUBTYPES)
        }
        ancestors = {0}
        for column in columns:
            ancestor = column
            while ancestor in parents:
                ancestors.add(ancestor)
                ancestor = parents[ancestor]
        descendants = set(columns)
        # In the order of their numbers, so that all that is below follows.
        for column in range(len(types)):
            if parents.get(column) in descendants:
                descendants.add(column)
        places = {old: new for new, old in enumerate(sorted(ancestors | descendants))}
        return cls(tuple(_moved(messages[old], places) for old in places), places)

    def of_stripe(self, source: Source, tail: OrcTail, stripe: Stripe) -> OtherStripe:
        """Return a stripe of only these columns, without row indexes."""
        footer = StripeFooter.read(source, tail, stripe)
        streams = [stream for stream in footer.data if stream.column in self.places]
        descriptions = [
            describe_stream(stream.kind, self.places[stream.column], stream.length)
            for stream in streams
        ]
        encodings = [footer.encodings[old] for old in self.places]
        encoded_footer = new_footer(descriptions, encodings, footer.clock)
        data = _joined((stream.offset, stream.length) for stream in streams)
        return OtherStripe(stripe, (), data, tail.compression.compress(encoded_footer))

    def statistics(self, columns: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Select the statistics of these columns."""
        return tuple(columns[old] for old in self.places)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Combine adjacent ranges of a file."""
    joined_ranges: list[tuple[int, int]] = []
    for offset, length in ranges:
        if joined_ranges and sum(joined_ranges[-1]) == offset:
            joined_ranges[-1] = (joined_ranges[-1][0], joined_ranges[-1][1] + length)
        else:
            joined_ranges.append((offset, length))
    return joined_ranges


def _moved(type_: Message, places: Mapping[int, int]) -> bytes:
    subtypes = type_.all_numbers(TypeField.SUBTYPES)
    if not subtypes:
        return type_.encode()
    names = type_.all_data(TypeField.FIELD_NAMES)
    moved_type = type_.without(TypeField.SUBTYPES, TypeField.FIELD_NAMES)
    kept_columns = [column for column in subtypes if column in places]
    moved_type.add_data(TypeField.SUBTYPES, pack(places[column] for column in kept_columns))
    for column, name in zip(subtypes, names, strict=False):
        if column in places:
            moved_type.add_data(TypeField.FIELD_NAMES, name)
    return moved_type.encode()
