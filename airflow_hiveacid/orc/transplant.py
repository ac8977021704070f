"""Turn a flat ORC file into one of a full ACID table, its columns copied without decoding.

The row ids of a new file are known by position, so the five key columns are made here, and the
streams of the user's columns are copied as they are. Per stripe the result is

    row indexes of columns 0 to 5 | old indexes and data | data of columns 1 to 5 | stripe footer

The new data stands last because readers take any order of data streams, and this one leaves the
old bytes a single range.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.errors import CorruptFile, UnsupportedFile
from airflow_hiveacid.orc.envelope import (
    FIELDS,
    EnvelopeColumn,
    RowOperation,
    acid_metadata,
    with_column_names,
    wrap_types,
)
from airflow_hiveacid.orc.key_columns import KEY_COLUMNS, KeyColumns, NewColumns, row_groups
from airflow_hiveacid.orc.nanoseconds import mark
from airflow_hiveacid.orc.protobuf import DATA, Message
from airflow_hiveacid.orc.source_and_sink import Output, Sink, Source
from airflow_hiveacid.orc.spark_files import retyped
from airflow_hiveacid.orc.statistics import count_statistics, merge_columns
from airflow_hiveacid.orc.streams import Encoding, describe_encoding
from airflow_hiveacid.orc.stripe_copy import StripeIndex
from airflow_hiveacid.orc.stripe_footer import StripeField, StripeFooter
from airflow_hiveacid.orc.tail import MAGIC, OrcTail, Stripe

_SHIFT = len(FIELDS)


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive rows of a file whose row ids are consecutive, too.

    Attributes:
        rows: How many rows of the file.
        original_write_id: The write id that inserted them.
        bucket: Their bucket property, which is not the bucket number.
        first_row: The row id of the first of them.
        current_write_id: The write id of the operation.
        operation: What they stand for.
    """

    rows: int
    original_write_id: int
    bucket: int
    first_row: int
    current_write_id: int
    operation: RowOperation = RowOperation.INSERT

    def split(self, rows: int) -> "tuple[Segment, Segment]":
        """The first `rows` of the segment, and what remains."""
        rest = replace(self, rows=self.rows - rows, first_row=self.first_row + rows)
        return replace(self, rows=rows), rest

    @property
    def last_row(self) -> RowId:
        """The row id of the segment's last row."""
        return RowId(self.original_write_id, self.bucket, self.first_row + self.rows - 1)


@dataclass(frozen=True, slots=True)
class Written:
    """What a new file holds.

    Attributes:
        rows: Its rows.
        bytes: Its length.
        key_index: For each stripe the row id of its last row.
    """

    rows: int
    bytes: int
    key_index: tuple[RowId, ...]


def transplant(source: Source, sink: Sink, segments: Sequence[Segment]) -> Written:
    """Write the rows of a flat ORC file as rows of a full ACID table.

    Args:
        source: The flat file. Codec, block size, row groups, bloom filters and statistics stay.
        sink: Takes the new file from its first byte on.
        segments: The row ids, in ascending order, for all rows of the file.

    Raises:
        UnsupportedFile: The file is encrypted, of another ORC version or already an ACID file.
        ValueError: The segments do not fit the file or do not ascend.
    """
    return _Transplant(source, OrcTail.read(source), segments).write(Output(sink))


def transplant_all(
    source: Source,
    sink: Sink,
    *,
    write_id: int,
    bucket: int,
    first_row: int = 0,
    columns: Sequence[str] = (),
    types: Sequence[bytes] | None = None,
) -> Written:
    """Write a flat ORC file as one insert: consecutive row ids of a single write id.

    Args:
        source: The flat file.
        sink: Takes the new file.
        write_id: The write id of the insert.
        bucket: The bucket property of its rows.
        first_row: The row id of the first row.
        columns: The names that the columns get if the file has none for them.
        types: What the table calls the types of the columns of a file that Spark has just written,
            whose timestamps are whole microseconds; by default those of the file.
    """
    tail = OrcTail.read(source)
    tail = replace(tail, types=with_column_names(tail.types, columns))
    if types is not None:
        tail = retyped(source, tail, types)
        tail = replace(tail, user_metadata=tail.user_metadata | mark(tail.rows))
    everything = Segment(tail.rows, write_id, bucket, first_row, write_id)
    segments = [everything] if tail.rows else []
    return _Transplant(source, tail, segments).write(Output(sink))


def _check_segments(segments: Sequence[Segment], rows: int) -> None:
    covered = sum(segment.rows for segment in segments)
    if covered != rows or any(segment.rows < 1 for segment in segments):
        raise ValueError(f"The segments cover {covered} of the file's {rows} rows.")
    previous: RowId | None = None
    for segment in segments:
        first = RowId(segment.original_write_id, segment.bucket, segment.first_row)
        if previous is not None and first <= previous:
            raise ValueError(f"{first} of a segment does not come after {previous}.")
        previous = segment.last_row
    if len({segment.operation for segment in segments}) > 1:
        raise ValueError("A file holds rows of one operation.")


class _Transplant:
    def __init__(self, source: Source, tail: OrcTail, segments: Sequence[Segment]) -> None:
        tail.check_movable()
        if tail.is_acid:
            raise UnsupportedFile("The ORC file already has the columns of a full ACID table.")
        _check_segments(segments, tail.rows)
        self._source = source
        self._tail = tail
        self._index = StripeIndex(source, tail)
        self._operation = segments[0].operation if segments else RowOperation.INSERT
        self._pieces = _Pieces(segments)

    def write(self, output: Output) -> Written:
        tail = self._tail
        output.write(MAGIC)
        stripes: list[Stripe] = []
        statistics: list[tuple[bytes, ...]] = []
        keys: list[RowId] = []
        for stripe, kept in zip(tail.stripes, tail.stripe_statistics, strict=True):
            new, last_row = self._key_columns(stripe.rows)
            stripes.append(self._write_stripe(output, stripe, new))
            statistics.append((*new.statistics, *kept))
            keys.append(last_row)
        new_columns = [columns[:_SHIFT] for columns in statistics]
        nothing = (count_statistics(0).encode(),) * _SHIFT
        acid_tail = replace(
            tail,
            types=wrap_types(tail.types),
            stripes=tuple(stripes),
            stripe_statistics=tuple(statistics),
            file_statistics=(
                *(merge_columns(new_columns) if new_columns else nothing),
                *tail.file_statistics,
            ),
            user_metadata=tail.user_metadata | acid_metadata(keys, self._operation, tail.rows),
        )
        output.write(acid_tail.encode(output.position))
        return Written(tail.rows, output.position, tuple(keys))

    def _key_columns(self, rows: int) -> tuple[NewColumns, RowId]:
        columns = KeyColumns()
        last: Segment | None = None
        for group in row_groups(rows, self._tail.stride):
            columns.begin_group(group)
            for piece in self._pieces.take(group):
                columns.add_sequence(EnvelopeColumn.OPERATION, piece.operation, piece.rows)
                columns.add_sequence(
                    EnvelopeColumn.ORIGINAL_TRANSACTION, piece.original_write_id, piece.rows
                )
                columns.add_sequence(EnvelopeColumn.BUCKET, piece.bucket, piece.rows)
                columns.add_sequence(EnvelopeColumn.ROW_ID, piece.first_row, piece.rows, step=1)
                columns.add_sequence(
                    EnvelopeColumn.CURRENT_TRANSACTION, piece.current_write_id, piece.rows
                )
                last = piece
        if last is None:
            raise CorruptFile("The ORC file has a stripe without rows.")
        return columns.finish(self._tail.compression, self._tail.stride), last.last_row

    def _write_stripe(self, output: Output, stripe: Stripe, new: NewColumns) -> Stripe:
        # Its bytes are moved unread: it must be what we think it is.
        StripeFooter.read(self._source, self._tail, stripe)
        sound = self._index.sound(stripe)
        footer = self._tail.stripe_footer(self._source, stripe) if sound is None else sound.footer
        encoded_footer = self._tail.compression.compress(_acid_stripe_footer(footer, new).encode())
        offset = output.position
        for stream in new.index:
            output.write(stream.data)
        index_length = output.position - offset
        if sound is None:
            index_length += stripe.index_length
            output.copy(self._source, stripe.offset, stripe.body_length)
        else:
            index_length += len(sound.data)
            output.write(sound.data)
            output.copy(self._source, stripe.offset + stripe.index_length, stripe.data_length)
        for stream in new.data:
            output.write(stream.data)
        data_length = output.position - offset - index_length
        output.write(encoded_footer)
        return replace(
            stripe,
            offset=offset,
            index_length=index_length,
            data_length=data_length,
            footer_length=len(encoded_footer),
        )


class _Pieces:
    """Hands out the segments in pieces that end where row groups end."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._waiting = iter(segments)
        self._current: Segment | None = None

    def take(self, rows: int) -> Iterator[Segment]:
        while rows > 0:
            current = self._current or next(self._waiting)
            if current.rows > rows:
                piece, self._current = current.split(rows)
            else:
                piece, self._current = current, None
            rows -= piece.rows
            yield piece


def _acid_stripe_footer(footer: Message, new: NewColumns) -> Message:
    listed = [stream.describe() for stream in new.index]
    for stream in footer.all_messages(StripeField.STREAMS):
        column = stream.number(StripeField.STREAM_COLUMN)
        listed.append(stream.with_numbers({StripeField.STREAM_COLUMN: column + _SHIFT}).encode())
    listed += [stream.describe() for stream in new.data]
    encodings = [describe_encoding(Encoding.DIRECT)]
    encodings += [describe_encoding(Encoding.DIRECT_V2)] * len(KEY_COLUMNS)
    encodings += footer.all_data(StripeField.ENCODINGS)
    result = Message((StripeField.STREAMS, DATA, data) for data in listed)
    result.fields += [(StripeField.ENCODINGS, DATA, data) for data in encodings]
    result.fields += footer.without(StripeField.STREAMS, StripeField.ENCODINGS).fields
    return result
