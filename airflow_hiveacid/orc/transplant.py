"""Turn a flat ORC file into one of a full ACID table, its columns copied without decoding.

The row ids of a new file are known by position, so the five key columns are made here, and the
streams of the user's columns are copied as they are. Per stripe the result is

    row indexes of columns 0 to 5 | old indexes and data | data of columns 1 to 5 | stripe footer

The new data stands last because readers take any order of data streams, and this one leaves the
old bytes a single range.
"""

from collections.abc import Sequence
from dataclasses import replace

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
from airflow_hiveacid.orc.source_and_sink import Output, Sink, Source, Written
from airflow_hiveacid.orc.spark_files import retyped
from airflow_hiveacid.orc.statistics import count_statistics, merge_columns
from airflow_hiveacid.orc.streams import Encoding, describe_encoding
from airflow_hiveacid.orc.stripe_copy import StripeIndex
from airflow_hiveacid.orc.stripe_footer import StripeField, StripeFooter
from airflow_hiveacid.orc.tail import MAGIC, OrcTail, Stripe

_SHIFT = len(FIELDS)


def transplant(
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
        source: The flat file. Codec, block size, row groups, bloom filters and statistics stay.
        sink: Takes the new file from its first byte on.
        write_id: The write id of the insert.
        bucket: The bucket property of its rows.
        first_row: The row id of the first row.
        columns: The names that the columns get if the file has none for them.
        types: What the table calls the types of the columns of a file that Spark has just written,
            whose timestamps are whole microseconds; by default those of the file.

    Raises:
        UnsupportedFile: The file is encrypted, of another ORC version or already an ACID file.
        CorruptFile: A stripe is not what it says.
    """
    tail = OrcTail.read(source)
    tail = replace(tail, types=with_column_names(tail.types, columns))
    if types is not None:
        tail = retyped(source, tail, types)
        tail = replace(tail, user_metadata=tail.user_metadata | mark(tail.rows))
    return _Transplant(source, tail, RowId(write_id, bucket, first_row)).write(Output(sink))


class _Transplant:
    def __init__(self, source: Source, tail: OrcTail, first: RowId) -> None:
        tail.check_movable()
        if tail.is_acid:
            raise UnsupportedFile("The ORC file already has the columns of a full ACID table.")
        self._source = source
        self._tail = tail
        self._index = StripeIndex(source, tail)
        self._next = first

    def write(self, output: Output) -> Written:
        tail = self._tail
        output.write(MAGIC)
        stripes: list[Stripe] = []
        statistics: list[tuple[bytes, ...]] = []
        keys: list[RowId] = []
        for stripe, kept in zip(tail.stripes, tail.stripe_statistics, strict=True):
            new = self._key_columns(stripe.rows)
            stripes.append(self._write_stripe(output, stripe, new))
            statistics.append((*new.statistics, *kept))
            keys.append(self._next._replace(row=self._next.row - 1))
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
            user_metadata=tail.user_metadata | acid_metadata(keys, RowOperation.INSERT, tail.rows),
        )
        output.write(acid_tail.encode(output.position))
        return Written(tail.rows, output.position, tuple(keys))

    def _key_columns(self, rows: int) -> NewColumns:
        """The key columns of the next rows."""
        if not rows:
            raise CorruptFile("The ORC file has a stripe without rows.")
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
