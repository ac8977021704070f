"""Combine flat ORC files into one full ACID file, copying their columns without decoding.

The row ids of a new file are known by position, so the five key columns are made here, and the
streams of the user's columns are copied as they are. Per stripe the result is

    row indexes of columns 0 to 5 | old indexes and data | data of columns 1 to 5 | stripe footer

The new data comes last because readers accept any order of data streams, and this one keeps the old
bytes in a single range.
"""

from collections.abc import Sequence
from dataclasses import replace

from hiveacid.errors import UnsupportedFile
from hiveacid.orc.copying.flat_file import FlatFile, FlatStripe
from hiveacid.orc.format.envelope import (
    FIELDS,
    EnvelopeColumn,
    RowOperation,
    acid_metadata,
    wrap_types,
)
from hiveacid.orc.format.protobuf import DATA, Message
from hiveacid.orc.format.source_and_sink import Output, Sink, Source, Written
from hiveacid.orc.format.statistics import count_statistics, merge_columns
from hiveacid.orc.format.streams import Encoding, describe_encoding
from hiveacid.orc.format.stripe_footer import StripeField
from hiveacid.orc.format.tail import MAGIC, Stripe
from hiveacid.orc.row_keys.key_columns import (
    KEY_COLUMNS,
    KeyColumns,
    NewColumns,
    row_groups,
)
from hiveacid.orc.values.nanoseconds import is_marked, mark, without_mark
from hiveacid.rules.row_id import RowId
from hiveacid.rules.schema import AS_STORED, MappedColumns

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
        types: The table's types of these columns, if Spark has just written the files, so that
            their timestamps are whole microseconds; by default those of the files.

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
            for stripe, kept in zip(file.stripes(), file.tail.stripe_statistics, strict=True):
                new = self._key_columns(stripe.place.rows)
                stripes.append(self._write_stripe(output, file, stripe, new))
                statistics.append((*new.statistics, *kept))
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
