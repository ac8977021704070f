"""Write a file of deletes from nothing but the row ids of the deleted rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airflow_hiveacid.acid.row_id import RowId, decode_bucket
from airflow_hiveacid.orc.compression import Codec, Compression
from airflow_hiveacid.orc.empty import write_empty_file
from airflow_hiveacid.orc.envelope import RowOperation, acid_metadata, wrap_types
from airflow_hiveacid.orc.key_columns import KEY_COLUMNS, KeyColumns, row_groups
from airflow_hiveacid.orc.keys import Keys
from airflow_hiveacid.orc.null_rows import null_rows
from airflow_hiveacid.orc.protobuf import DATA, Message
from airflow_hiveacid.orc.source_and_sink import Output, Sink
from airflow_hiveacid.orc.statistics import merge_columns
from airflow_hiveacid.orc.streams import Encoding, describe_encoding
from airflow_hiveacid.orc.tail import MAGIC, OrcTail, Stripe
from airflow_hiveacid.orc.transplant import Written

# A stripe is built in memory, where its events take some 100 bytes each.
STRIPE_EVENTS = 1_000_000
_TIME_ZONE = b"UTC"


def write_delete_file(
    sink: Sink,
    original_write_ids: NDArray[Any],
    buckets: NDArray[Any],
    rows: NDArray[Any],
    *,
    write_id: int,
    row_types: Sequence[bytes],
    codec: str = "zlib",
    block_size: int = 262_144,
    stride: int = 10_000,
) -> Written:
    """Write the deletes of one write id and one bucket as a file of a `delete_delta` directory.

    Args:
        sink: Takes the file.
        original_write_ids: Write ids that inserted the rows to be deleted.
        buckets: Their bucket properties.
        rows: Their row ids. The three together must ascend and be free of repetition: readers
            merge and search these files, and miss deletes in unordered ones.
        write_id: The write id of the delete.
        row_types: The types of the table's row, as `row_types` or a flat file gives them.
        codec: ORC's name of the compression.
        block_size: Plain bytes of a compressed chunk.
        stride: Rows of a row group; 0 leaves out the row indexes.

    Raises:
        ValueError: The row ids do not ascend, repeat, or belong to several bucket files.
    """
    write_ids, buckets, rows = (
        np.asarray(part, dtype=np.int64) for part in (original_write_ids, buckets, rows)
    )
    if not write_ids.shape == buckets.shape == rows.shape or rows.ndim != 1:
        raise ValueError("The three parts of the row ids differ in length.")
    keys = Keys(
        operations=np.broadcast_to(np.int64(RowOperation.DELETE), rows.shape),
        original_write_ids=write_ids,
        buckets=buckets,
        rows=rows,
        current_write_ids=np.broadcast_to(np.int64(write_id), rows.shape),
    )
    return write_delete_stripes(
        sink,
        [keys],
        row_types=row_types,
        codec=codec,
        block_size=block_size,
        stride=stride,
    )


def write_delete_stripes(
    sink: Sink,
    chunks: Iterable[Keys],
    *,
    row_types: Sequence[bytes],
    codec: str = "zlib",
    block_size: int = 262_144,
    stride: int = 10_000,
) -> Written:
    """Write the deletes of one bucket, each with the write id that it has, however many they are.

    Args:
        sink: Takes the file.
        chunks: The events, whose row ids ascend without repetition over all chunks.
        row_types: The types of the table's row.
        codec: ORC's name of the compression.
        block_size: Plain bytes of a compressed chunk.
        stride: Rows of a row group; 0 leaves out the row indexes.

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
        file_statistics=merge_columns(statistics),
    )
    tail = replace(tail, user_metadata=acid_metadata(last_rows, RowOperation.DELETE, tail.rows))
    output.write(tail.encode(output.position))
    return Written(tail.rows, output.position, tuple(last_rows))


def _write_stripe(
    output: Output, keys: Keys, row_types: Sequence[bytes], compression: Compression, stride: int
) -> tuple[Stripe, tuple[bytes, ...]]:
    """Write a stripe; the answer has the statistics of its columns."""
    groups = row_groups(len(keys), stride)
    new = _key_columns(keys, groups).finish(compression, stride)
    nulls, encodings = null_rows(row_types, groups, compression, stride)
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
        at = keys.first_disorder()
        if at is not None:
            raise ValueError(
                f"{keys.row_id(at)} to delete does not come after {keys.row_id(at - 1)}."
            )
        writers |= {decode_bucket(int(bucket)).writer_id for bucket in np.unique(chunk.buckets)}
        if len(writers) > 1:
            raise ValueError(f"One file of deletes cannot serve the buckets {sorted(writers)}.")
        last = chunk[-1:]
        yield chunk
