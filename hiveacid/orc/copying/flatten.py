"""Flat files with field ids of Iceberg, made of stripes of other files without decoding them.

This is the reverse of `transplant`: of a full ACID file only the streams below its column `row` are
copied. Their columns get other numbers, which only the footers contain. The columns of a stripe
follow each other, so that the copied part is usually one range of the index and one of the data.

Iceberg finds columns by ids in the attributes of their types, on all levels. A file in which some
types lack an id would read as null, so that columns without an id are omitted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hiveacid.errors import UnsupportedFile
from hiveacid.orc.copying.assemble import Part
from hiveacid.orc.copying.stripe_copy import StripeIndex
from hiveacid.orc.format.batches import Piece, length_of
from hiveacid.orc.format.envelope import (
    EnvelopeColumn,
    TypeField,
    TypeKind,
    is_envelope,
    kind_of,
)
from hiveacid.orc.format.layout import (
    JULIAN,
    Layout,
    is_old,
    joint_writer,
    needed_calendar,
    writer_of,
)
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.source_and_sink import Output, Sink, Source
from hiveacid.orc.format.statistics import (
    COUNT,
    HAS_NULL,
    count_statistics,
    merge_columns,
)
from hiveacid.orc.format.streams import StreamKind, describe_stream
from hiveacid.orc.format.stripe_footer import StripeField, StripeFooter
from hiveacid.orc.format.tail import MAGIC, OrcTail, Stripe

_ID, _REQUIRED = b"iceberg.id", b"iceberg.required"
# The names of the fields inside of lists and maps, in the order of their columns.
ELEMENT, KEY, VALUE = "element", "key", "value"
_INSIDE = {TypeKind.LIST: (ELEMENT,), TypeKind.MAP: (KEY, VALUE)}


@dataclass(frozen=True, slots=True)
class FieldId:
    """The id of a field, and those of the fields inside.

    Attributes:
        name: The name in the new file.
        id: The id.
        inside: The fields of a struct by their names in lower case, `ELEMENT` of a list, or `KEY`
            and `VALUE` of a map.
    """

    name: str
    id: int
    inside: Mapping[str, "FieldId"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column of a flat file.

    Attributes:
        name: The name; empty for the root.
        id: The field id; 0 for the root.
        old: The number of the column in the files that it is copied from.
        repeated: Whether it is inside of a list or a map.
    """

    name: str
    id: int
    old: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class FlatColumns:
    """The columns of a flat file that are copied from a full ACID file or a flat one.

    Attributes:
        types: Their types, with ids.
        columns: The columns in their order, the root first.
    """

    types: tuple[bytes, ...]
    columns: tuple[FlatColumn, ...]

    @classmethod
    def of(cls, types: tuple[bytes, ...], fields: Mapping[str, FieldId]) -> "FlatColumns":
        """Select the columns with ids, and number them.

        Args:
            types: The types of the files.
            fields: The ids of the columns of the table by their names in lower case.

        Raises:
            UnsupportedFile: The file has two fields of one name, or types without an id.
        """
        root = EnvelopeColumn.ROW if is_envelope(types) else EnvelopeColumn.ROOT
        found = {int(root): FlatColumn("", 0, root, repeated=False)}
        _select(types, found[root], fields, found)
        columns = tuple(found[number] for number in sorted(found))
        places = {column.old: place for place, column in enumerate(columns)}
        flat = tuple(_flat_type(types[column.old], column, found, places) for column in columns)
        return cls(flat, columns)

    @property
    def places(self) -> dict[int, int]:
        """The new number of each column by its old one."""
        return {column.old: place for place, column in enumerate(self.columns)}

    def statistics(self, statistics: Sequence[bytes]) -> tuple[bytes, ...]:
        """Select the statistics of these columns."""
        return tuple(statistics[column.old] for column in self.columns)


@dataclass(frozen=True, slots=True)
class FlatFileWritten:
    """A written flat file.

    Attributes:
        tail: Its tail.
        bytes: Its length.
        columns: Its columns.
        column_bytes: The bytes of the streams of each column.
    """

    tail: OrcTail
    bytes: int
    columns: tuple[FlatColumn, ...]
    column_bytes: tuple[int, ...]


def flatten(
    parts: Sequence[Part],
    sink: Sink,
    *,
    layout: Layout,
    fields: Mapping[str, FieldId],
    user_metadata: Mapping[str, bytes] | None = None,
) -> FlatFileWritten:
    """Write a flat file with the rows of some stripes, in the given order.

    The days of the new file are in the proleptic Gregorian calendar and its footer does not name
    it, as in the files that Iceberg writes: its Java reader would convert days of a file that does.

    Args:
        parts: The stripes; all of full ACID files, or all of flat ones. Their columns have the
            names of the columns of the table.
        sink: Receives the new file.
        layout: The layout of the parts.
        fields: The ids of the columns of the table by their names in lower case.
        user_metadata: User metadata of the new file.

    Raises:
        UnsupportedFile: The stripes cannot be copied.
    """
    for part in parts:
        _check(part, layout)
    writers = {writer_of(part.tail) for part in parts}
    if len(writers) > 1 and any(map(is_old, writers)):
        raise UnsupportedFile("Files of an old writer cannot be joined to those of another one.")
    return _Flattener(layout, FlatColumns.of(layout.types, fields), Output(sink)).write(
        parts, joint_writer(writers), user_metadata or {}
    )


def require_proleptic(tail: OrcTail) -> None:
    """Refuse a file with days whose number depends on the calendar.

    Raises:
        UnsupportedFile: The file has dates before 1582 in the Julian calendar, or may have them.
    """
    if needed_calendar(tail) == JULIAN:
        raise UnsupportedFile(
            "There are, or may be, dates before 15 October 1582 in the Julian calendar, which"
            " readers of Iceberg do not convert.",
            remedy="Export Parquet files, with format='parquet', to another name: their dates are"
            " converted.",
        )


class _Flattener:
    def __init__(self, layout: Layout, columns: FlatColumns, output: Output) -> None:
        self._layout = layout
        self._columns = columns
        self._places = columns.places
        self._output = output
        self._sizes = [0] * len(columns.columns)

    def write(
        self, parts: Sequence[Part], writer: tuple[int, int], user_metadata: Mapping[str, bytes]
    ) -> FlatFileWritten:
        self._output.write(MAGIC)
        stripes: list[Stripe] = []
        stripe_statistics: list[tuple[bytes, ...]] = []
        for part in parts:
            index = StripeIndex(part.source, part.tail)
            for number in part.chosen:
                stripe = part.tail.stripes[number]
                stripes.append(self._copy(part, stripe, index))
                known = part.tail.stripe_statistics[number]
                stripe_statistics.append(self._columns.statistics(known))
        nothing = (count_statistics(0).encode(),) * len(self._columns.types)
        layout = replace(self._layout, types=self._columns.types, calendar=None)
        block_size = max([layout.block_size, *(part.tail.block_size for part in parts)])
        tail = replace(
            layout.tail(block_size, writer),
            stripes=tuple(stripes),
            user_metadata=dict(user_metadata),
            stripe_statistics=tuple(stripe_statistics),
            file_statistics=merge_columns(stripe_statistics) if stripes else nothing,
        )
        self._output.write(tail.encode(self._output.position))
        return FlatFileWritten(
            tail, self._output.position, self._columns.columns, tuple(self._sizes)
        )

    def _copy(self, part: Part, stripe: Stripe, index: StripeIndex) -> Stripe:
        """Copy the streams of the chosen columns."""
        footer = StripeFooter.read(part.source, part.tail, stripe)
        rewritten = index.rewritten(stripe, footer)
        pieces: list[Piece] = []
        new = Message()
        lengths = [0, 0]
        streams = (*footer.index, *footer.data)
        for number, stream in enumerate(streams):
            place = self._places.get(stream.column)
            if place is None or (place == 0 and stream.kind == StreamKind.PRESENT):
                continue
            is_data = number >= len(footer.index)
            piece: Piece = (stream.offset, stream.length)
            if rewritten is not None and not is_data:
                piece = rewritten.streams[number]
            pieces.append(piece)
            length = length_of(piece)
            lengths[is_data] += length
            self._sizes[place] += length
            new.add_data(StripeField.STREAMS, describe_stream(stream.kind, place, length))
        for column in self._columns.columns:
            new.add_data(StripeField.ENCODINGS, footer.encodings[column.old])
        new.fields += footer.message.without(StripeField.STREAMS, StripeField.ENCODINGS).fields
        encoded = part.tail.compression.compress(new.encode())
        offset = self._output.position
        _copy_pieces(part.source, pieces, self._output)
        self._output.write(encoded)
        return replace(
            stripe,
            offset=offset,
            index_length=lengths[0],
            data_length=lengths[1],
            footer_length=len(encoded),
        )


def _check(part: Part, layout: Layout) -> None:
    tail = part.tail
    tail.check_movable()
    different = layout.differences(tail)
    if different:
        raise UnsupportedFile(f"The stripes of a file differ in: {', '.join(different)}.")
    if not part.reencoded:
        require_proleptic(tail)
    if tail.is_acid:
        for number in part.chosen:
            row = Message.decode(tail.stripe_statistics[number][EnvelopeColumn.ROW])
            if row.number(COUNT) != tail.stripes[number].rows or row.number(HAS_NULL):
                raise UnsupportedFile(
                    "There are, or may be, rows that are null as a whole, like deletes: the"
                    " statistics do not exclude them.",
                    remedy="Export Parquet files, with format='parquet', to another name.",
                )


def _select(
    types: Sequence[bytes],
    parent: FlatColumn,
    fields: Mapping[str, FieldId],
    found: dict[int, FlatColumn],
) -> None:
    """Collect the columns inside of a column that have an id."""
    message = Message.decode(types[parent.old])
    kind = message.number(TypeField.KIND)
    numbers = message.all_numbers(TypeField.SUBTYPES)
    names: Iterable[str] = _INSIDE.get(TypeKind(kind), ())
    if kind == TypeKind.STRUCT:
        given = message.all_data(TypeField.FIELD_NAMES)
        names = [name.decode(errors="surrogateescape").lower() for name in given]
    seen: set[str] = set()
    for name, number in zip(names, numbers, strict=True):
        # Of names that differ only by case, the first one counts.
        if name in seen or name not in fields:
            continue
        seen.add(name)
        own = fields[name]
        repeated = parent.repeated or kind in _INSIDE
        found[number] = column = FlatColumn(own.name, own.id, number, repeated)
        if own.inside or Message.decode(types[number]).has(TypeField.SUBTYPES):
            _select(types, column, own.inside, found)
    if kind != TypeKind.STRUCT and len(seen) < len(numbers):
        raise UnsupportedFile(f"A column of the kind {TypeKind(kind).name} has parts without ids.")


def _flat_type(
    type_: bytes,
    column: FlatColumn,
    found: Mapping[int, FlatColumn],
    places: Mapping[int, int],
) -> bytes:
    message = Message.decode(type_)
    kept = Message().add_number(TypeField.KIND, kind_of(type_))
    inside = [number for number in message.all_numbers(TypeField.SUBTYPES) if number in places]
    if message.has(TypeField.SUBTYPES):
        kept.add_data(TypeField.SUBTYPES, pack(places[number] for number in inside))
    if kind_of(type_) == TypeKind.STRUCT:
        for number in inside:
            kept.add_data(TypeField.FIELD_NAMES, found[number].name.encode())
    named = (TypeField.KIND, TypeField.SUBTYPES, TypeField.FIELD_NAMES, TypeField.ATTRIBUTES)
    kept.fields += message.without(*named).fields
    if column.id:
        # Hive does not enforce that a column is not null.
        for name, value in ((_ID, b"%d" % column.id), (_REQUIRED, b"false")):
            attribute = Message().add_data(1, name).add_data(2, value)
            kept.add_data(TypeField.ATTRIBUTES, attribute.encode())
    return kept.encode()


def _copy_pieces(source: Source, pieces: Sequence[Piece], output: Output) -> None:
    """Append pieces of a file, adjacent ranges in one operation."""
    start = end = 0
    for piece in pieces:
        if isinstance(piece, tuple) and piece[0] == end:
            end += piece[1]
            continue
        output.copy(source, start, end - start)
        start = end = 0
        if isinstance(piece, tuple):
            start, end = piece[0], sum(piece)
        else:
            output.write(piece)
    output.copy(source, start, end - start)
