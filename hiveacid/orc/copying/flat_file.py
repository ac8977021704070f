"""A flat ORC file to be copied into a full ACID file, without its writer's extra trailing columns.

Spark's files may have columns after those of the table. The streams of a stripe are in the order of
their columns, first those of the index, then the data. So the remaining part of a stripe is usually
the beginning of each half, copied in two pieces; any other order takes more pieces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.copying.spark_files import retyped
from hiveacid.orc.copying.stripe_copy import StripeIndex
from hiveacid.orc.format.batches import Piece, length_of
from hiveacid.orc.format.envelope import TypeField, TypeKind, kind_of, with_column_names
from hiveacid.orc.format.layout import writer_of
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.source_and_sink import Output, Source
from hiveacid.orc.format.stripe_footer import PlacedStream, StripeField, StripeFooter
from hiveacid.orc.format.tail import OrcTail, Stripe
from hiveacid.orc.values.nanoseconds import mark
from hiveacid.rules.schema import MappedColumns


@dataclass(frozen=True, slots=True)
class FlatStripe:
    """The copied part of a stripe.

    Attributes:
        place: The stripe in its file.
        footer: Its footer, for these columns only.
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
    """A flat file, or only the first of its columns.

    Args:
        source: The file.
        width: The number of fields of the row to copy; by default all.
        columns: The columns of the table, which replace the names in the file.
        types: The table's types of these columns, if Spark has just written them.

    Attributes:
        tail: The tail of a file with only these columns.

    Raises:
        UnsupportedFile: The file is encrypted, of another ORC version or already an ACID file.
        CorruptFile: Its columns are fewer than, or different from, those of its table.
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
            CorruptFile: A stripe contradicts its metadata.
        """
        index = StripeIndex(self._source, self._whole)
        for stripe in self._whole.stripes:
            if not stripe.rows:
                raise CorruptFile("The ORC file has a stripe without rows.")
            # Its bytes are copied without decoding: the structure must be as expected.
            found = StripeFooter.read(self._source, self._whole, stripe)
            rewritten = index.rewritten(stripe, found)
            if rewritten is None:
                footer = found.message
                pieces: Sequence[Piece] = self._places(found.index)
            else:
                footer = rewritten.footer
                pieces = [
                    data
                    for stream, data in zip(found.index, rewritten.streams, strict=True)
                    if self._has(stream.column)
                ]
            yield FlatStripe(stripe, self._footer(footer), pieces, self._places(found.data))

    def copy(self, stripe: FlatStripe, output: Output) -> None:
        """Append the index and the data of a stripe, adjacent ranges in one operation."""
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
        """Return the properties that prevent the stripes of two files from sharing one file."""
        ours, theirs = self.tail, other.tail
        alike = {
            "types": ours.types == theirs.types,
            "codec": ours.codec is theirs.codec,
            "row group size": ours.stride == theirs.stride,
            "writer": writer_of(ours) == writer_of(theirs),
            # The calendar, and all other metadata for reading the stripes.
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
    """Return the tail of a file with only the first fields of the row.

    The number of a column is not its position in the row: nested columns have numbers, too.
    """
    root = Message.decode(tail.types[0])
    if kind_of(tail.types[0]) != TypeKind.STRUCT:
        raise UnsupportedFile("The root of the ORC file is not a struct.")
    fields = root.all_numbers(TypeField.SUBTYPES)
    if width > len(fields):
        raise CorruptFile(f"The ORC file has {len(fields)} columns, not {width}.")
    end = fields[width] if width < len(fields) else len(tail.types)
    inside = [column for type_ in tail.types[1:end] for column in _subtypes(type_)]
    # Columns nested in the others have larger numbers than their parents.
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
