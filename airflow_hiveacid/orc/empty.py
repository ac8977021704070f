"""Write a file without rows."""

from collections.abc import Sequence
from dataclasses import replace

from airflow_hiveacid.orc.compression import Codec, Compression
from airflow_hiveacid.orc.envelope import RowOperation, acid_metadata, wrap_types
from airflow_hiveacid.orc.source_and_sink import Output, Sink
from airflow_hiveacid.orc.statistics import count_statistics
from airflow_hiveacid.orc.tail import MAGIC, OrcTail
from airflow_hiveacid.orc.transplant import Written


def write_empty_file(
    sink: Sink,
    row_types: Sequence[bytes],
    *,
    codec: str = "zlib",
    block_size: int = 262_144,
    stride: int = 10_000,
) -> Written:
    """Write a full ACID file with the right schema and no rows, for inserts or for deletes.

    Every reader understands such a file in a new base as "there is nothing".

    Args:
        sink: Takes the file.
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
