"""Write files without the user's columns: files of deletes, from row ids alone, and empty files.

The column `row` of a file of deletes is null everywhere, and so are all columns below it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hiveacid.errors import UnsupportedFile
from hiveacid.orc.format.compression import Codec, Compression, Output, Sink, Written
from hiveacid.orc.format.envelope import (
    EnvelopeColumn,
    RowOperation,
    TypeKind,
    acid_metadata,
    kind_of,
    wrap_types,
)
from hiveacid.orc.format.protobuf import DATA, Message
from hiveacid.orc.format.statistics import count_statistics, of_all_stripes
from hiveacid.orc.format.streams import (
    Encoding,
    Stream,
    StreamKind,
    describe_encoding,
    null_flag_position,
    null_flags,
    row_index,
)
from hiveacid.orc.format.tail import MAGIC, OrcTail, Stripe
from hiveacid.orc.row_keys.keys import (
    KEY_COLUMNS,
    KeyColumns,
    Keys,
    NewColumns,
    row_groups,
)
from hiveacid.rules.row_id import RowId, decode_bucket

# A stripe is built in memory, where its events take some 100 bytes each.
STRIPE_EVENTS = 1_000_000
_TIME_ZONE = b"UTC"
# For each kind of type: its encoding, and the streams it has even when it holds nothing, each with
# the numbers that a row index position adds to the place of a byte (run of values, bit).
_RUNS, _BYTES, _BITS = 1, 0, 2
_INTEGERS = (Encoding.DIRECT_V2, ((StreamKind.DATA, _RUNS),))
_TEXT = (Encoding.DIRECT_V2, ((StreamKind.DATA, _BYTES), (StreamKind.LENGTH, _RUNS)))
_TIME = (Encoding.DIRECT_V2, ((StreamKind.DATA, _RUNS), (StreamKind.SECONDARY, _RUNS)))
_LENGTHS = (Encoding.DIRECT_V2, ((StreamKind.LENGTH, _RUNS),))
_LAYOUT: dict[int, tuple[Encoding, tuple[tuple[StreamKind, int], ...]]] = {
    TypeKind.BOOLEAN: (Encoding.DIRECT, ((StreamKind.DATA, _BITS),)),
    TypeKind.BYTE: (Encoding.DIRECT, ((StreamKind.DATA, _RUNS),)),
    TypeKind.SHORT: _INTEGERS,
    TypeKind.INT: _INTEGERS,
    TypeKind.LONG: _INTEGERS,
    TypeKind.DATE: _INTEGERS,
    TypeKind.FLOAT: (Encoding.DIRECT, ((StreamKind.DATA, _BYTES),)),
    TypeKind.DOUBLE: (Encoding.DIRECT, ((StreamKind.DATA, _BYTES),)),
    TypeKind.STRING: _TEXT,
    TypeKind.VARCHAR: _TEXT,
    TypeKind.CHAR: _TEXT,
    TypeKind.BINARY: _TEXT,
    TypeKind.TIMESTAMP: _TIME,
    TypeKind.TIMESTAMP_INSTANT: _TIME,
    TypeKind.DECIMAL: (
        Encoding.DIRECT_V2,
        ((StreamKind.DATA, _BYTES), (StreamKind.SECONDARY, _RUNS)),
    ),
    TypeKind.LIST: _LENGTHS,
    TypeKind.MAP: _LENGTHS,
    TypeKind.STRUCT: (Encoding.DIRECT, ()),
    TypeKind.UNION: (Encoding.DIRECT, ((StreamKind.DATA, _RUNS),)),
}


def write_delete_file(
    sink: Sink,
    chunks: Iterable[Keys],
    *,
    row_types: Sequence[bytes],
    codec: str = "zlib",
    block_size: int = 262_144,
    stride: int = 10_000,
) -> Written:
    """Write deletes of one bucket, each with its own write id, as a file of a `delete_delta` directory.

    Args:
        sink: Receives the file.
        chunks: The events. Their row ids must ascend without repetition over all chunks: readers
            merge and search these files, and miss deletes in unordered ones.
        row_types: The types of the table's row, as `row_types` or a flat file gives them.
        codec: ORC's name of the compression.
        block_size: Plain bytes of a compressed chunk.
        stride: Rows of a row group; 0 omits the row indexes.

    Raises:
        ValueError: The row ids do not ascend, repeat, or belong to several bucket files.
    """
    compression = Compression(Codec.named(codec), block_size)
    output = Output(sink)
    stripes: list[Stripe] = []
    statistics: list[tuple[bytes, ...]] = []
    last_rows: list[RowId] = []
    for keys in _in_stripes(_checked(chunks)):
        if not stripes:
            output.write(MAGIC)
        stripe, columns = _write_stripe(output, keys, row_types, compression, stride)
        stripes.append(stripe)
        statistics.append(columns)
        last_rows.append(keys.row_id(-1))
    if not stripes:
        return write_empty_file(sink, row_types, codec=codec, block_size=block_size, stride=stride)
    tail = replace(
        OrcTail.new(wrap_types(row_types), compression, stride),
        stripes=tuple(stripes),
        stripe_statistics=tuple(statistics),
        file_statistics=of_all_stripes(statistics),
    )
    tail = replace(tail, user_metadata=acid_metadata(last_rows, RowOperation.DELETE, tail.rows))
    output.write(tail.encode(output.position))
    return Written(tail.rows, output.position, tuple(last_rows))


def write_empty_file(
    sink: Sink,
    row_types: Sequence[bytes],
    *,
    codec: str = "zlib",
    block_size: int = 262_144,
    stride: int = 10_000,
) -> Written:
    """Write a full ACID file with the right schema and no rows, for inserts or for deletes.

    Every reader interprets such a file in a new base as an empty table or partition.

    Args:
        sink: Receives the file.
        row_types: The types of the table's row, as `row_types` or a flat file gives them.
        codec: ORC's name of the compression.
        block_size: Plain bytes of a compressed chunk.
        stride: The row group size that the file declares.
    """
    types = wrap_types(row_types)
    tail = replace(
        OrcTail.new(types, Compression(Codec.named(codec), block_size), stride),
        file_statistics=(count_statistics(0).encode(),) * len(types),
        user_metadata=acid_metadata([], RowOperation.INSERT, 0),
    )
    output = Output(sink)
    output.write(MAGIC)
    output.write(tail.encode(output.position))
    return Written(0, output.position, ())


def _write_stripe(
    output: Output, keys: Keys, row_types: Sequence[bytes], compression: Compression, stride: int
) -> tuple[Stripe, tuple[bytes, ...]]:
    """Write a stripe; the answer has the statistics of its columns."""
    groups = row_groups(len(keys), stride)
    new = _key_columns(keys, groups).finish(compression, stride)
    nulls, encodings = _null_rows(row_types, groups, compression, stride)
    index, data = new.index + nulls.index, new.data + nulls.data
    footer = Message((1, DATA, stream.describe()) for stream in index + data)
    for encoding in (Encoding.DIRECT, *[Encoding.DIRECT_V2] * len(KEY_COLUMNS), *encodings):
        footer.add_data(2, describe_encoding(encoding))
    encoded_footer = compression.compress(footer.add_data(3, _TIME_ZONE).encode())
    stripe = Stripe(
        offset=output.position,
        index_length=sum(len(stream.data) for stream in index),
        data_length=sum(len(stream.data) for stream in data),
        footer_length=len(encoded_footer),
        rows=len(keys),
        other=Message(),
    )
    for stream in index + data:
        output.write(stream.data)
    output.write(encoded_footer)
    return stripe, (*new.statistics, *nulls.statistics)


def _key_columns(keys: Keys, groups: Sequence[int]) -> KeyColumns:
    columns = KeyColumns()
    start = 0
    for group in groups:
        columns.begin_group(group)
        for column, values in keys[start : start + group].columns().items():
            columns.add_values(column, values)
        start += group
    return columns


def _null_rows(
    row_types: Sequence[bytes], groups: Sequence[int], compression: Compression, stride: int
) -> tuple[NewColumns, list[Encoding]]:
    """Build column 6 and all columns below it for rows that are null.

    Args:
        row_types: The types of the row, as in a flat file.
        groups: The sizes of the row groups.
        compression: The compression of the file.
        stride: Rows of a row group; 0 for a file without row indexes.
    """
    new = NewColumns()
    _add_null_flags(new, groups, compression, stride)
    below, encodings = _columns_below(tuple(row_types), len(groups) if stride else 0, compression)
    new.statistics += below.statistics
    new.index += below.index
    new.data += below.data
    return new, encodings


@lru_cache(maxsize=16)
def _columns_below(
    row_types: tuple[bytes, ...], groups: int, compression: Compression
) -> tuple[NewColumns, list[Encoding]]:
    """Build the columns below column 6, which hold nothing: the same for all files of a statement."""
    new = NewColumns()
    encodings: list[Encoding] = []
    for column, type_ in enumerate(row_types, EnvelopeColumn.ROW):
        kind = kind_of(type_)
        if kind not in _LAYOUT:
            raise UnsupportedFile(f"Files of deletes cannot have columns of ORC type kind {kind}.")
        encoding, streams = _LAYOUT[kind]
        encodings.append(encoding)
        if column == EnvelopeColumn.ROW:
            continue
        new.statistics.append(count_statistics(0).encode())
        new.data += [Stream(stream, column, b"") for stream, _ in streams]
        if groups:
            place = 1 if compression.codec is Codec.NONE else 2
            start = [0] * sum(place + extra for _, extra in streams)
            index = row_index((start, count_statistics(0).encode()) for _ in range(groups))
            new.index.append(Stream(StreamKind.ROW_INDEX, column, compression.compress(index)))
    return new, encodings


def _add_null_flags(
    new: NewColumns, groups: Sequence[int], compression: Compression, stride: int
) -> None:
    statistics = count_statistics(0, has_null=True).encode()
    new.statistics.append(statistics)
    chunks = compression.chunks(null_flags(sum(groups)))
    new.data.append(Stream(StreamKind.PRESENT, EnvelopeColumn.ROW, chunks.data))
    if stride:
        places = (null_flag_position(group * stride) for group in range(len(groups)))
        index = row_index(
            ([*compression.position(chunks, run), byte, bit], statistics)
            for run, byte, bit in places
        )
        new.index.append(
            Stream(StreamKind.ROW_INDEX, EnvelopeColumn.ROW, compression.compress(index))
        )


def _in_stripes(chunks: Iterable[Keys]) -> Iterator[Keys]:
    waiting: list[Keys] = []
    count = 0
    for chunk in chunks:
        waiting.append(chunk)
        count += len(chunk)
        while count >= STRIPE_EVENTS:
            keys = Keys.joined(waiting)
            yield keys[:STRIPE_EVENTS]
            waiting = [keys[STRIPE_EVENTS:]]
            count -= STRIPE_EVENTS
    if count:
        yield Keys.joined(waiting)


def _checked(chunks: Iterable[Keys]) -> Iterator[Keys]:
    last: Keys | None = None
    writers: set[int] = set()
    for chunk in chunks:
        if len(chunk) == 0:
            continue
        keys = chunk if last is None else Keys.joined([last, chunk])
        position = keys.first_disorder()
        if position is not None:
            raise ValueError(
                f"{keys.row_id(position)} to delete does not come after {keys.row_id(position - 1)}."
            )
        writers |= {decode_bucket(int(bucket)).writer_id for bucket in np.unique(chunk.buckets)}
        if len(writers) > 1:
            raise ValueError(f"One file of deletes cannot serve the buckets {sorted(writers)}.")
        last = chunk[-1:]
        yield chunk
