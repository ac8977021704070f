"""Combine flat ORC files into one full ACID file, copying their columns without decoding.

The row ids of a new file are known by position, so the five key columns are made here, and the
streams of the user's columns are copied as they are. Per stripe the result is

    row indexes of columns 0 to 5 | old indexes and data | data of columns 1 to 5 | stripe footer

The new data comes last because readers accept any order of data streams, and this one keeps the old
bytes in a single range.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.copying.assemble import Part, StripeIndex
from hiveacid.orc.copying.spark_files import retyped
from hiveacid.orc.format.batches import Piece, length_of
from hiveacid.orc.format.compression import Output, Sink, Source, Written
from hiveacid.orc.format.envelope import (
    FIELDS,
    EnvelopeColumn,
    RowOperation,
    TypeField,
    TypeKind,
    acid_metadata,
    is_envelope,
    kind_of,
    with_column_names,
    wrap_types,
)
from hiveacid.orc.format.layout import (
    JULIAN,
    Layout,
    is_old,
    joint_writer,
    needed_calendar,
    writer_of,
)
from hiveacid.orc.format.protobuf import DATA, Message, pack
from hiveacid.orc.format.statistics import COUNT, HAS_NULL, count_statistics, merge_columns
from hiveacid.orc.format.streams import (
    Encoding,
    PlacedStream,
    StreamKind,
    StripeField,
    StripeFooter,
    describe_encoding,
    describe_stream,
)
from hiveacid.orc.format.tail import MAGIC, OrcTail, Stripe
from hiveacid.orc.row_keys.keys import KEY_COLUMNS, KeyColumns, NewColumns, row_groups
from hiveacid.orc.values.timestamps import is_marked, mark, without_mark
from hiveacid.rules.row_id import RowId
from hiveacid.rules.schema import AS_STORED, MappedColumns

# Flat files with field ids of Iceberg, made of stripes of other files without decoding them.
#
# This is the reverse of `transplant`: of a full ACID file only the streams below its column `row`
# are copied. Their columns get other numbers, which only the footers contain. The columns of a
# stripe follow each other, so that the copied part is usually one range of the index and one of
# the data.
#
# Iceberg finds columns by ids in the attributes of their types, on all levels. A file in which
# some types lack an id would read as null, so that columns without an id are omitted.


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
        columns_by_number = {int(root): FlatColumn("", 0, root, repeated=False)}
        _select(types, columns_by_number[root], fields, columns_by_number)
        columns = tuple(columns_by_number[number] for number in sorted(columns_by_number))
        places = {column.old: place for place, column in enumerate(columns)}
        flat = tuple(
            _flat_type(types[column.old], column, columns_by_number, places) for column in columns
        )
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
                column_statistics = part.tail.stripe_statistics[number]
                stripe_statistics.append(self._columns.statistics(column_statistics))
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
        encoded_footer = part.tail.compression.compress(new.encode())
        offset = self._output.position
        _copy_pieces(part.source, pieces, self._output)
        self._output.write(encoded_footer)
        return replace(
            stripe,
            offset=offset,
            index_length=lengths[0],
            data_length=lengths[1],
            footer_length=len(encoded_footer),
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
    columns_by_number: dict[int, FlatColumn],
) -> None:
    """Collect the columns inside of a column that have an id."""
    message = Message.decode(types[parent.old])
    kind = message.number(TypeField.KIND)
    numbers = message.all_numbers(TypeField.SUBTYPES)
    names: Iterable[str] = _INSIDE.get(TypeKind(kind), ())
    if kind == TypeKind.STRUCT:
        field_names = message.all_data(TypeField.FIELD_NAMES)
        names = [name.decode(errors="surrogateescape").lower() for name in field_names]
    seen_names: set[str] = set()
    for name, number in zip(names, numbers, strict=True):
        # Of names that differ only by case, the first one counts.
        if name in seen_names or name not in fields:
            continue
        seen_names.add(name)
        field = fields[name]
        repeated = parent.repeated or kind in _INSIDE
        columns_by_number[number] = column = FlatColumn(field.name, field.id, number, repeated)
        if field.inside or Message.decode(types[number]).has(TypeField.SUBTYPES):
            _select(types, column, field.inside, columns_by_number)
    if kind != TypeKind.STRUCT and len(seen_names) < len(numbers):
        raise UnsupportedFile(f"A column of the kind {TypeKind(kind).name} has parts without ids.")


def _flat_type(
    type_: bytes,
    column: FlatColumn,
    columns_by_number: Mapping[int, FlatColumn],
    places: Mapping[int, int],
) -> bytes:
    message = Message.decode(type_)
    flat_message = Message().add_number(TypeField.KIND, kind_of(type_))
    subtypes = [number for number in message.all_numbers(TypeField.SUBTYPES) if number in places]
    if message.has(TypeField.SUBTYPES):
        flat_message.add_data(TypeField.SUBTYPES, pack(places[number] for number in subtypes))
    if kind_of(type_) == TypeKind.STRUCT:
        for number in subtypes:
            flat_message.add_data(TypeField.FIELD_NAMES, columns_by_number[number].name.encode())
    rewritten_fields = (
        TypeField.KIND,
        TypeField.SUBTYPES,
        TypeField.FIELD_NAMES,
        TypeField.ATTRIBUTES,
    )
    flat_message.fields += message.without(*rewritten_fields).fields
    if column.id:
        # Hive does not enforce that a column is not null.
        for name, value in ((_ID, b"%d" % column.id), (_REQUIRED, b"false")):
            attribute = Message().add_data(1, name).add_data(2, value)
            flat_message.add_data(TypeField.ATTRIBUTES, attribute.encode())
    return flat_message.encode()


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


# A flat ORC file to be copied into a full ACID file, without its writer's extra trailing columns.
#
# Spark's files may have columns after those of the table. The streams of a stripe are in the order
# of their columns, first those of the index, then the data. So the remaining part of a stripe is
# usually the beginning of each half, copied in two pieces; any other order takes more pieces.


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


# The user metadata that Spark gives to each file.
_OF_SPARK = "org.apache.spark.version"


class FlatFile:
    """A flat file, or only the first of its columns.

    Args:
        source: The file.
        width: The number of fields of the row to copy; by default all.
        columns: The columns of the table, which replace the names in the file.
        types: The table's types of these columns, if an engine has just written them.

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
            if _OF_SPARK in tail.user_metadata:
                # Its timestamps have microseconds. Other writers declare their own.
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
            stripe_footer = StripeFooter.read(self._source, self._whole, stripe)
            rewritten = index.rewritten(stripe, stripe_footer)
            if rewritten is None:
                footer = stripe_footer.message
                pieces: Sequence[Piece] = self._places(stripe_footer.index)
            else:
                footer = rewritten.footer
                pieces = [
                    data
                    for stream, data in zip(stripe_footer.index, rewritten.streams, strict=True)
                    if self._has(stream.column)
                ]
            yield FlatStripe(stripe, self._footer(footer), pieces, self._places(stripe_footer.data))

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

    def differences(self, other_file: "FlatFile") -> list[str]:
        """Return the properties that prevent the stripes of two files from sharing one file."""
        ours, theirs = self.tail, other_file.tail
        alike = {
            "types": ours.types == theirs.types,
            "codec": ours.codec is theirs.codec,
            "row group size": ours.stride == theirs.stride,
            "writer": writer_of(ours) == writer_of(theirs),
            # The calendar, and all other metadata for reading the stripes.
            "footer": ours.footer.fields == theirs.footer.fields,
        }
        return [name for name, is_equal in alike.items() if not is_equal]

    def _has(self, column: int) -> bool:
        return column < len(self.tail.types)

    def _places(self, streams: Sequence[PlacedStream]) -> list[Piece]:
        return [(stream.offset, stream.length) for stream in streams if self._has(stream.column)]

    def _footer(self, footer: Message) -> Message:
        reduced_footer = Message()
        for stream in footer.all_messages(StripeField.STREAMS):
            if self._has(stream.number(StripeField.STREAM_COLUMN)):
                reduced_footer.add_data(StripeField.STREAMS, stream.encode())
        for encoding in footer.all_data(StripeField.ENCODINGS)[: len(self.tail.types)]:
            reduced_footer.add_data(StripeField.ENCODINGS, encoding)
        reduced_footer.fields += footer.without(StripeField.STREAMS, StripeField.ENCODINGS).fields
        return reduced_footer


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
    nested_columns = [column for type_ in tail.types[1:end] for column in _subtypes(type_)]
    # Columns nested in the others have larger numbers than their parents.
    if max([0, *fields[:width], *nested_columns]) >= end or min([end, *fields[width:]]) < end:
        raise UnsupportedFile("The columns of the ORC file are not numbered in their order.")
    reduced_root = Message().add_number(TypeField.KIND, TypeKind.STRUCT)
    reduced_root.add_data(TypeField.SUBTYPES, pack(fields[:width]))
    for name in root.all_data(TypeField.FIELD_NAMES)[:width]:
        reduced_root.add_data(TypeField.FIELD_NAMES, name)
    reduced_root.fields += root.without(
        TypeField.KIND, TypeField.SUBTYPES, TypeField.FIELD_NAMES
    ).fields
    return replace(
        tail,
        types=(reduced_root.encode(), *tail.types[1:end]),
        stripe_statistics=tuple(columns[:end] for columns in tail.stripe_statistics),
        file_statistics=tail.file_statistics[:end],
    )


def _subtypes(type_: bytes) -> list[int]:
    return Message.decode(type_).all_numbers(TypeField.SUBTYPES)


_SHIFT = len(FIELDS)


def transplant(
    sources: Sequence[Source],
    sink: Sink,
    *,
    write_id: int,
    bucket: int,
    first_row: int = 0,
    width: int | None = None,
    columns: MappedColumns = AS_STORED,
    types: Sequence[bytes] | None = None,
) -> Written:
    """Write flat ORC files as one insert: consecutive row ids of a single write id.

    Args:
        sources: The flat files, in the order of their rows; all of one writer and its settings.
            Codec, block size, row groups, bloom filters and statistics remain.
        sink: Receives the new file from its first byte on.
        write_id: The write id of the insert.
        bucket: The bucket property of its rows.
        first_row: The row id of the first row.
        width: The number of columns of the files to copy, from the first one on; by default all.
        columns: The columns of the table, which replace the names in the files.
        types: The table's types of these columns, if an engine has just written the files; by
            default those of the files.

    Raises:
        UnsupportedFile: A file is encrypted, of another ORC version or already an ACID file, or
            differs from the others in a property on which its stripes depend.
        CorruptFile: A stripe contradicts its metadata.
        ValueError: The list of files is empty.
    """
    if not sources:
        raise ValueError("There is no file to copy.")
    files = [FlatFile(source, width=width, columns=columns, types=types) for source in sources]
    return _Transplant(files, RowId(write_id, bucket, first_row)).write(Output(sink))


class _Transplant:
    def __init__(self, files: Sequence[FlatFile], first: RowId) -> None:
        for number, file in enumerate(files[1:], 2):
            different = files[0].differences(file)
            if different:
                raise UnsupportedFile(
                    f"File {number} cannot be joined to the first one; "
                    f"different: {', '.join(different)}."
                )
        self._files = files
        # Spark's writer uses smaller blocks for more columns; a file declares its maximum block
        # size.
        self._tail = max((file.tail for file in files), key=lambda tail: tail.block_size)
        self._next = first

    def write(self, output: Output) -> Written:
        output.write(MAGIC)
        stripes: list[Stripe] = []
        statistics: list[tuple[bytes, ...]] = []
        keys: list[RowId] = []
        for file in self._files:
            for stripe, column_statistics in zip(
                file.stripes(), file.tail.stripe_statistics, strict=True
            ):
                new = self._key_columns(stripe.place.rows)
                stripes.append(self._write_stripe(output, file, stripe, new))
                statistics.append((*new.statistics, *column_statistics))
                keys.append(self._next._replace(row=self._next.row - 1))
        acid_tail = replace(
            self._tail,
            types=wrap_types(self._tail.types),
            stripes=tuple(stripes),
            stripe_statistics=tuple(statistics),
            file_statistics=(
                *_united([columns[:_SHIFT] for columns in statistics], _NOTHING),
                *_united(
                    [file.tail.file_statistics for file in self._files if file.tail.stripes],
                    self._tail.file_statistics,
                ),
            ),
        )
        acid_tail = replace(acid_tail, user_metadata=self._metadata(keys, acid_tail.rows))
        output.write(acid_tail.encode(output.position))
        return Written(acid_tail.rows, output.position, tuple(keys))

    def _metadata(self, keys: Sequence[RowId], rows: int) -> dict[str, bytes]:
        metadata = without_mark(self._tail.user_metadata)
        if all(is_marked(file.tail) for file in self._files):
            metadata |= mark(rows)
        return metadata | acid_metadata(keys, RowOperation.INSERT, rows)

    def _key_columns(self, rows: int) -> NewColumns:
        """The key columns of the next rows."""
        columns = KeyColumns()
        for group in row_groups(rows, self._tail.stride):
            write_id, bucket, row = self._next
            columns.begin_group(group)
            columns.add_sequence(EnvelopeColumn.OPERATION, RowOperation.INSERT, group)
            columns.add_sequence(EnvelopeColumn.ORIGINAL_TRANSACTION, write_id, group)
            columns.add_sequence(EnvelopeColumn.BUCKET, bucket, group)
            columns.add_sequence(EnvelopeColumn.ROW_ID, row, group, step=1)
            columns.add_sequence(EnvelopeColumn.CURRENT_TRANSACTION, write_id, group)
            self._next = self._next._replace(row=row + group)
        return columns.finish(self._tail.compression, self._tail.stride)

    def _write_stripe(
        self, output: Output, file: FlatFile, stripe: FlatStripe, new: NewColumns
    ) -> Stripe:
        footer = self._tail.compression.compress(_acid_stripe_footer(stripe.footer, new).encode())
        offset = output.position
        for stream in new.index:
            output.write(stream.data)
        index_length = output.position - offset + stripe.index_length
        file.copy(stripe, output)
        for stream in new.data:
            output.write(stream.data)
        data_length = output.position - offset - index_length
        output.write(footer)
        return replace(
            stripe.place,
            offset=offset,
            index_length=index_length,
            data_length=data_length,
            footer_length=len(footer),
        )


_NOTHING = (count_statistics(0).encode(),) * _SHIFT


def _united(parts: Sequence[tuple[bytes, ...]], nothing: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Merge the statistics of all parts; those of a single part remain unchanged."""
    return merge_columns(parts) if len(parts) > 1 else (*parts, nothing)[0]


def _acid_stripe_footer(footer: Message, new: NewColumns) -> Message:
    descriptions = [stream.describe() for stream in new.index]
    for stream in footer.all_messages(StripeField.STREAMS):
        column = stream.number(StripeField.STREAM_COLUMN)
        descriptions.append(
            stream.with_numbers({StripeField.STREAM_COLUMN: column + _SHIFT}).encode()
        )
    descriptions += [stream.describe() for stream in new.data]
    encodings = [describe_encoding(Encoding.DIRECT)]
    encodings += [describe_encoding(Encoding.DIRECT_V2)] * len(KEY_COLUMNS)
    encodings += footer.all_data(StripeField.ENCODINGS)
    result = Message((StripeField.STREAMS, DATA, data) for data in descriptions)
    result.fields += [(StripeField.ENCODINGS, DATA, data) for data in encodings]
    result.fields += footer.without(StripeField.STREAMS, StripeField.ENCODINGS).fields
    return result
