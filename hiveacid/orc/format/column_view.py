"""A view of a file with some of its columns, so that other columns are neither read nor decoded.

Arrow selects among the columns of a file, but not among those inside of its structs, where a full ACID
table stores all of its own columns.
"""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

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
    stored = [name.decode(errors="replace") for name in field_names(tail.types[0])]
    places = {name.lower(): place for place, name in reversed([*enumerate(stored)])}
    exact = {name: place for place, name in reversed([*enumerate(stored)])}
    try:
        chosen = [exact.get(name, places.get(name.lower(), -1)) for name in names]
        view, shown = only_columns(source, tail, [numbers[place] for place in chosen if place >= 0])
    except IndexError:
        raise CorruptFile("The columns of the ORC file have no types.") from None
    if min(chosen, default=-1) < 0:
        raise CorruptFile(f"The ORC file lacks one of the columns {', '.join(names)}.")
    with closing(read_batches(view, shown)) as batches:
        for batch in batches:
            order = sorted({*chosen})
            columns = [batch.column(order.index(place)) for place in chosen]
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
    chosen = _Chosen.of(tail.types, columns)
    if len(chosen.places) == len(tail.types):
        return source, tail
    shown = replace(
        tail,
        stride=0,
        types=chosen.types,
        stripe_statistics=tuple(map(chosen.statistics, tail.stripe_statistics)),
        file_statistics=chosen.statistics(tail.file_statistics),
    )
    stripes = (chosen.of_stripe(source, tail, stripe) for stripe in tail.stripes)
    return with_other_stripes(source, shown, stripes)


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
        kept = {0}
        for column in columns:
            above = column
            while above in parents:
                kept.add(above)
                above = parents[above]
        inside = set(columns)
        # In the order of their numbers, so that all that is below follows.
        for column in range(len(types)):
            if parents.get(column) in inside:
                inside.add(column)
        places = {old: new for new, old in enumerate(sorted(kept | inside))}
        return cls(tuple(_moved(messages[old], places) for old in places), places)

    def of_stripe(self, source: Source, tail: OrcTail, stripe: Stripe) -> OtherStripe:
        """Return a stripe of only these columns, without row indexes."""
        footer = StripeFooter.read(source, tail, stripe)
        streams = [stream for stream in footer.data if stream.column in self.places]
        described = [
            describe_stream(stream.kind, self.places[stream.column], stream.length)
            for stream in streams
        ]
        encodings = [footer.encodings[old] for old in self.places]
        encoded = new_footer(described, encodings, footer.clock)
        data = _joined((each.offset, each.length) for each in streams)
        return OtherStripe(stripe, (), data, tail.compression.compress(encoded))

    def statistics(self, columns: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Select the statistics of these columns."""
        return tuple(columns[old] for old in self.places)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Combine adjacent ranges of a file."""
    joined: list[tuple[int, int]] = []
    for offset, length in ranges:
        if joined and sum(joined[-1]) == offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((offset, length))
    return joined


def _moved(type_: Message, places: Mapping[int, int]) -> bytes:
    inside = type_.all_numbers(TypeField.SUBTYPES)
    if not inside:
        return type_.encode()
    names = type_.all_data(TypeField.FIELD_NAMES)
    moved = type_.without(TypeField.SUBTYPES, TypeField.FIELD_NAMES)
    kept = [column for column in inside if column in places]
    moved.add_data(TypeField.SUBTYPES, pack(places[column] for column in kept))
    for column, name in zip(inside, names, strict=False):
        if column in places:
            moved.add_data(TypeField.FIELD_NAMES, name)
    return moved.encode()
