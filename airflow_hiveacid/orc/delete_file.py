"""Write a file of deletes from nothing but the row ids of the deleted rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np  # noqa: TID253
from numpy.typing import NDArray  # noqa: TID253

from airflow_hiveacid.acid.row_id import RowId, decode_bucket
from airflow_hiveacid.orc.compression import Codec, Compression
from airflow_hiveacid.orc.empty import write_empty_file
from airflow_hiveacid.orc.envelope import Column, Operation, acid_metadata, wrap_types
from airflow_hiveacid.orc.key_columns import KEY_COLUMNS, KeyColumns, row_groups
from airflow_hiveacid.orc.keys import first_disorder
from airflow_hiveacid.orc.null_rows import null_rows
from airflow_hiveacid.orc.output import Output, Sink
from airflow_hiveacid.orc.streams import Encoding, Integers, describe_encoding
from airflow_hiveacid.orc.tail import MAGIC, OrcTail, Stripe
from airflow_hiveacid.orc.transplant import Written
from airflow_hiveacid.orc.wire import DATA, Message

_TIME_ZONE = b"UTC"
_ROW_ID_COLUMNS = (Column.ORIGINAL_TRANSACTION, Column.BUCKET, Column.ROW_ID)


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
    """Write the deletes of one bucket as a file of a `delete_delta` directory.

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
    keys = [np.asarray(part, dtype=np.int64) for part in (original_write_ids, buckets, rows)]
    _check_order(keys)
    _check_writer(keys[1])
    if len(keys[0]) == 0:
        return write_empty_file(sink, row_types, codec=codec, block_size=block_size, stride=stride)
    compression = Compression(Codec.named(codec), block_size)
    tail = OrcTail.new(wrap_types(row_types), compression, stride)
    count = len(keys[0])
    last = RowId(*(int(part[-1]) for part in keys))

    groups = row_groups(count, stride)
    new = _key_columns(keys, write_id, groups).finish(compression, stride)
    nulls, encodings = null_rows(row_types, groups, compression, stride)
    index, data = new.index + nulls.index, new.data + nulls.data
    statistics = (*new.statistics, *nulls.statistics)

    footer = Message((1, DATA, stream.describe()) for stream in index + data)
    for encoding in (Encoding.DIRECT, *[Encoding.DIRECT_V2] * len(KEY_COLUMNS), *encodings):
        footer.add_data(2, describe_encoding(encoding))
    encoded_footer = compression.compress(footer.add_data(3, _TIME_ZONE).encode())

    output = Output(sink)
    output.write(MAGIC)
    for stream in index + data:
        output.write(stream.data)
    output.write(encoded_footer)
    stripe = Stripe(
        offset=len(MAGIC),
        index_length=sum(len(stream.data) for stream in index),
        data_length=sum(len(stream.data) for stream in data),
        footer_length=len(encoded_footer),
        rows=count,
        other=Message(),
    )
    tail = replace(
        tail,
        stripes=(stripe,),
        stripe_statistics=(statistics,),
        file_statistics=statistics,
        user_metadata=acid_metadata([last], Operation.DELETE, count),
    )
    output.write(tail.encode(output.position))
    return Written(count, output.position, (last,))


def _key_columns(keys: Sequence[Integers], write_id: int, groups: Sequence[int]) -> KeyColumns:
    columns = KeyColumns()
    start = 0
    for group in groups:
        columns.begin_group(group)
        columns.add_sequence(Column.OPERATION, Operation.DELETE, group)
        for column, values in zip(_ROW_ID_COLUMNS, keys, strict=True):
            columns.add_values(column, values[start : start + group])
        columns.add_sequence(Column.CURRENT_TRANSACTION, write_id, group)
        start += group
    return columns


def _check_order(keys: Sequence[Integers]) -> None:
    if any(part.shape != keys[0].shape or part.ndim != 1 for part in keys):
        raise ValueError("The three parts of the row ids differ in length.")
    at = first_disorder(keys)
    if at is not None:
        first, second = (RowId(*(int(part[row]) for part in keys)) for row in (at - 1, at))
        raise ValueError(f"{second} to delete does not come after {first}.")


def _check_writer(buckets: Integers) -> None:
    writers = sorted({decode_bucket(int(bucket)).writer_id for bucket in np.unique(buckets)})
    if len(writers) > 1:
        raise ValueError(f"One file of deletes cannot serve the buckets {writers}.")
