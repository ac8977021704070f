"""A flat ORC file on its way into one of a full ACID table, without what its writer put last.

Spark's files may have columns behind those of the table. The streams of a stripe stand in the order
of their columns, first those of the index, then the data. So what remains of a stripe is the
beginning of each half as a rule, and copied in two pieces; in any other order it takes more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_hiveacid.acid.column_mapping import MappedColumns
from airflow_hiveacid.errors import CorruptFile, UnsupportedFile
from airflow_hiveacid.orc.copying.spark_files import retyped
from airflow_hiveacid.orc.copying.stripe_copy import StripeIndex
from airflow_hiveacid.orc.format.batches import Piece, length_of
from airflow_hiveacid.orc.format.envelope import TypeField, TypeKind, kind_of, with_column_names
from airflow_hiveacid.orc.format.layout import writer_of
from airflow_hiveacid.orc.format.protobuf import Message, pack
from airflow_hiveacid.orc.format.source_and_sink import Output, Source
from airflow_hiveacid.orc.format.stripe_footer import PlacedStream, StripeField, StripeFooter
from airflow_hiveacid.orc.format.tail import OrcTail, Stripe
from airflow_hiveacid.orc.values.nanoseconds import mark


@dataclass(frozen=True, slots=True)
class FlatStripe:
    """What goes along of a stripe.

    Attributes:
        place: The stripe as it is in its file.
        footer: Its footer, of these columns alone.
        index: The streams of the index, as ranges of the file or rewritten.
        data: All other streams.
    """

    place: Stripe
    footer: Message
    index: Sequence[Piece]
    data: Sequence[Piece]

    @property
    def index_length(self) -> int:
        """The bytes of the index."""
        return sum(map(length_of, self.index))


class FlatFile:
    """A flat file, or no more than the first of its columns.

    Args:
        source: The file.
        width: How many fields of the row go along; None is all.
        columns: The columns of the table, whose names those of the file get.
        types: What the table calls the types of these columns, if Spark has just written them.

    Attributes:
        tail: The tail of a file that has only these columns.

    Raises:
        UnsupportedFile: The file is encrypted, of another ORC version or already an ACID file.
        CorruptFile: It has fewer columns, or others than its table.
    """

    def __init__(
        self,
        source: Source,
        *,
        width: int | None,
        columns: MappedColumns,
        types: Sequence[bytes] | None,
    ) -> None:
        whole = OrcTail.read(source)
        whole.check_movable()
        if whole.is_acid:
            raise UnsupportedFile("The ORC file already has the columns of a full ACID table.")
        self._source = source
        self._whole = whole
        tail = whole if width is None else _first_columns(whole, width)
        tail = replace(tail, types=with_column_names(tail.types, columns))
        if types is not None:
            tail = retyped(source, tail, types)
            tail = replace(tail, user_metadata=tail.user_metadata | mark(tail.rows))
        self.tail = tail

    def stripes(self) -> Iterator[FlatStripe]:
        """The stripes in the order of the file.

        Raises:
            CorruptFile: One is not what it says.
        """
        index = StripeIndex(self._source, self._whole)
        for stripe in self._whole.stripes:
            if not stripe.rows:
                raise CorruptFile("The ORC file has a stripe without rows.")
            # Its bytes are moved unread: it must be what we think it is.
            found = StripeFooter.read(self._source, self._whole, stripe)
            sound = index.sound(stripe, found)
            if sound is None:
                footer = found.message
                pieces: Sequence[Piece] = self._places(found.index)
            else:
                footer = sound.footer
                pieces = [
                    data
                    for stream, data in zip(found.index, sound.streams, strict=True)
                    if self._has(stream.column)
                ]
            yield FlatStripe(stripe, self._footer(footer), pieces, self._places(found.data))

    def copy(self, stripe: FlatStripe, output: Output) -> None:
        """Append the index and the data of a stripe, ranges that touch each other in one go."""
        start = end = 0
        for piece in (*stripe.index, *stripe.data):
            if isinstance(piece, tuple) and piece[0] == end:
                end += piece[1]
                continue
            output.copy(self._source, start, end - start)
            start = end = 0
            if isinstance(piece, tuple):
                start, end = piece[0], sum(piece)
            else:
                output.write(piece)
        output.copy(self._source, start, end - start)

    def differences(self, other: "FlatFile") -> list[str]:
        """What keeps the stripes of another file from standing in one file with these."""
        ours, theirs = self.tail, other.tail
        alike = {
            "types": ours.types == theirs.types,
            "codec": ours.codec is theirs.codec,
            "row group size": ours.stride == theirs.stride,
            "writer": writer_of(ours) == writer_of(theirs),
            # The calendar, and whatever else says how to read the stripes.
            "footer": ours.footer.fields == theirs.footer.fields,
        }
        return [name for name, same in alike.items() if not same]

    def _has(self, column: int) -> bool:
        return column < len(self.tail.types)

    def _places(self, streams: Sequence[PlacedStream]) -> list[Piece]:
        return [(stream.offset, stream.length) for stream in streams if self._has(stream.column)]

    def _footer(self, footer: Message) -> Message:
        kept = Message()
        for stream in footer.all_messages(StripeField.STREAMS):
            if self._has(stream.number(StripeField.STREAM_COLUMN)):
                kept.add_data(StripeField.STREAMS, stream.encode())
        for encoding in footer.all_data(StripeField.ENCODINGS)[: len(self.tail.types)]:
            kept.add_data(StripeField.ENCODINGS, encoding)
        kept.fields += footer.without(StripeField.STREAMS, StripeField.ENCODINGS).fields
        return kept


def _first_columns(tail: OrcTail, width: int) -> OrcTail:
    """The tail of a file that has only the first fields of the row.

    The number of a column is not its place in the row: what is nested has numbers, too.
    """
    root = Message.decode(tail.types[0])
    if kind_of(tail.types[0]) != TypeKind.STRUCT:
        raise UnsupportedFile("The root of the ORC file is not a struct.")
    fields = root.all_numbers(TypeField.SUBTYPES)
    if width > len(fields):
        raise CorruptFile(f"The ORC file has {len(fields)} columns, not {width}.")
    end = fields[width] if width < len(fields) else len(tail.types)
    inside = [column for type_ in tail.types[1:end] for column in _subtypes(type_)]
    # What is nested in the others has larger numbers than they have.
    if max([0, *fields[:width], *inside]) >= end or min([end, *fields[width:]]) < end:
        raise UnsupportedFile("The columns of the ORC file are not numbered in their order.")
    kept = Message().add_number(TypeField.KIND, TypeKind.STRUCT)
    kept.add_data(TypeField.SUBTYPES, pack(fields[:width]))
    for name in root.all_data(TypeField.FIELD_NAMES)[:width]:
        kept.add_data(TypeField.FIELD_NAMES, name)
    kept.fields += root.without(TypeField.KIND, TypeField.SUBTYPES, TypeField.FIELD_NAMES).fields
    return replace(
        tail,
        types=(kept.encode(), *tail.types[1:end]),
        stripe_statistics=tuple(columns[:end] for columns in tail.stripe_statistics),
        file_statistics=tail.file_statistics[:end],
    )


def _subtypes(type_: bytes) -> list[int]:
    return Message.decode(type_).all_numbers(TypeField.SUBTYPES)
