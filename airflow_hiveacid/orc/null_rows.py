"""The column `row` of a file of deletes: null everywhere, and so are all columns below it."""

from collections.abc import Sequence

from airflow_hiveacid.errors import UnsupportedFile
from airflow_hiveacid.orc.compression import Codec, Compression
from airflow_hiveacid.orc.envelope import EnvelopeColumn, TypeField, TypeKind
from airflow_hiveacid.orc.key_columns import NewColumns
from airflow_hiveacid.orc.protobuf import Message
from airflow_hiveacid.orc.statistics import count_statistics
from airflow_hiveacid.orc.streams import (
    Encoding,
    Stream,
    StreamKind,
    null_flag_position,
    null_flags,
    row_index,
)

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


def null_rows(
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
    encodings: list[Encoding] = []
    for column, type_ in enumerate(row_types, EnvelopeColumn.ROW):
        kind = Message.decode(type_).number(TypeField.KIND)
        if kind not in _LAYOUT:
            raise UnsupportedFile(f"Files of deletes cannot have columns of ORC type kind {kind}.")
        encoding, streams = _LAYOUT[kind]
        encodings.append(encoding)
        if column == EnvelopeColumn.ROW:
            _add_null_flags(new, groups, compression, stride)
            continue
        new.statistics.append(count_statistics(0).encode())
        new.data += [Stream(stream, column, b"") for stream, _ in streams]
        if stride:
            place = 1 if compression.codec is Codec.NONE else 2
            start = [0] * sum(place + extra for _, extra in streams)
            index = row_index((start, count_statistics(0).encode()) for _ in groups)
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
