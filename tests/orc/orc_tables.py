"""Tables with every kind of column, and a look into the row indexes of files made from them."""

import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import orc

from hiveacid.orc.format.protobuf import Message, read_varint, unzigzag
from hiveacid.orc.format.statistics import count_statistics
from hiveacid.orc.format.streams import StreamKind
from hiveacid.orc.format.tail import OrcTail, PostScriptField

CODECS = ("none", "zlib", "snappy", "lz4", "zstd")

SCHEMA = pa.schema(
    {
        "flag": pa.bool_(),
        "tiny": pa.int8(),
        "number": pa.int64(),
        "real": pa.float64(),
        "text": pa.string(),
        "blob": pa.binary(),
        "day": pa.date32(),
        "moment": pa.timestamp("ns"),
        "price": pa.decimal128(15, 2),
        "tags": pa.list_(pa.string()),
        "counts": pa.map_(pa.string(), pa.int32()),
        "place": pa.struct({"x": pa.int32(), "inner": pa.struct({"names": pa.list_(pa.string())})}),
    }
)


# The value of a column, by a random number.
_VALUES: dict[str, Callable[[int], object]] = {
    "flag": lambda draw: draw % 2 == 0,
    "tiny": lambda draw: draw % 97,
    "number": lambda draw: draw,
    "real": lambda draw: draw / 7,
    "text": lambda draw: f"text {draw % 97}",
    "blob": lambda draw: draw.to_bytes(8, "big"),
    "day": lambda draw: date(1990, 1, 1) + timedelta(days=draw % 97),
    "moment": lambda draw: datetime(2001, 2, 3) + timedelta(microseconds=draw),
    "price": lambda draw: Decimal(draw % 10**9) / 100,
    "tags": lambda draw: [None if k == 1 else f"tag {k}" for k in range(draw % 97 % 4)],
    "counts": lambda draw: [
        (f"key {k}", None if k == 2 else draw % 1000) for k in range(draw % 97 % 4)
    ],
    "place": lambda draw: {
        "x": draw % 97,
        "inner": {"names": [f"name {draw % 97}"] * (draw % 97 % 3)} if draw % 97 % 5 else None,
    },
}


def table(rows: int, seed: int = 0, columns: list[str] | None = None) -> pa.Table:
    """Return random rows with about one null in eight values, at any depth."""
    random = np.random.default_rng(seed)
    draws = random.integers(0, 1 << 40, rows).tolist()
    nulls = random.integers(0, 8, (rows, len(SCHEMA))) == 0

    def values(name: str) -> pa.Array:
        is_null = nulls[:, SCHEMA.get_field_index(name)].tolist()
        value = _VALUES[name]
        drawn = [None if null else value(draw) for draw, null in zip(draws, is_null, strict=True)]
        return pa.array(drawn, SCHEMA.field(name).type)

    return pa.table({name: values(name) for name in columns or SCHEMA.names})


def flat_file(
    rows: pa.Table,
    codec: str = "zlib",
    stride: int = 1000,
    block_size: int = 64 << 10,
    stripe_size: int = 64 << 20,
    bloom_filters: bool | list[int] = False,
) -> io.BytesIO:
    """A flat ORC file as the C++ library writes it; bloom filters go by the numbers of columns."""
    if bloom_filters is True:
        bloom_filters = list(range(rows.num_columns))
    file = io.BytesIO()
    orc.write_table(
        rows,
        file,
        compression="uncompressed" if codec == "none" else codec,
        compression_block_size=block_size,
        row_index_stride=stride,
        stripe_size=stripe_size,
        bloom_filter_columns=bloom_filters or None,
        batch_size=100,
    )
    file.seek(0)
    return file


def read(file: io.BytesIO) -> pa.Table:
    """The rows as the C++ library reads them."""
    return orc.ORCFile(pa.BufferReader(file.getvalue())).read()


def with_tail(file: io.BytesIO, tail: OrcTail) -> io.BytesIO:
    """The stripes of a file, described by another tail."""
    content = max((stripe.offset + stripe.length for stripe in tail.stripes), default=3)
    return io.BytesIO(file.getvalue()[:content] + tail.encode(content))


def with_block_size(tail: OrcTail, block_size: int) -> OrcTail:
    """A tail that allows chunks of another size."""
    return replace(
        tail,
        compression=replace(tail.compression, block_size=block_size),
        postscript=tail.postscript.with_numbers({PostScriptField.BLOCK_SIZE: block_size}),
    )


def row_ids(rows: pa.Table) -> list[tuple[int, int, int]]:
    """The row ids of a file's rows."""
    columns = (rows[name].to_pylist() for name in ("originalTransaction", "bucket", "rowId"))
    return list(zip(*columns, strict=True))


def group_starts(file: BinaryIO, column: int) -> Iterator[int]:
    """The first value of each row group of a key column, found through the row index alone."""
    compression = OrcTail.read(file).compression
    for streams in _stripes(file):
        for *place, run in _positions(file, streams, column):
            assert run == 0
            plain = compression.decompress(streams[StreamKind.DATA, column][place[0] :])
            yield _first_value(plain[place[1] :] if len(place) == 2 else plain)


def index_positions(file: BinaryIO, column: int) -> Iterator[list[int]]:
    """Return the positions in the row index of a column for each row group."""
    for streams in _stripes(file):
        yield from _positions(file, streams, column)


def _stripes(file: BinaryIO) -> Iterator[dict[tuple[int, int], bytes]]:
    tail = OrcTail.read(file)
    for stripe in tail.stripes:
        streams = {}
        offset = stripe.offset
        for stream in tail.stripe_footer(file, stripe).all_messages(1):
            length = stream.number(3)
            file.seek(offset)
            streams[stream.number(1), stream.number(2)] = file.read(length)
            offset += length
        yield streams


def _positions(
    file: BinaryIO, streams: dict[tuple[int, int], bytes], column: int
) -> Iterator[list[int]]:
    index = OrcTail.read(file).compression.decompress(streams[StreamKind.ROW_INDEX, column])
    for entry in Message.decode(index).all_messages(1):
        yield entry.all_numbers(1)


def _first_value(run: bytes) -> int:
    if run[0] >> 6 == 3:
        return unzigzag(read_varint(run, 2)[0])
    assert run[0] >> 6 == 1
    widths = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]
    width = widths[run[0] >> 1 & 31]
    bits = "".join(f"{byte:08b}" for byte in itertools.islice(run[2:], (width + 7) // 8))
    return unzigzag(int(bits[:width], 2))


def without_row_index(file: io.BytesIO) -> io.BytesIO:
    """A file like those of ORC Java without a row index: its statistics count no values."""
    tail = OrcTail.read(file)
    nothing = (count_statistics(0).encode(),) * len(tail.types)
    changed = replace(
        tail,
        stride=0,
        stripe_statistics=(nothing,) * len(tail.stripes),
        file_statistics=nothing,
    )
    return with_tail(file, changed)


def double_ranges(file: BinaryIO) -> Iterator[list[float]]:
    """Smallest value, largest value and sum of all statistics of doubles in a file."""
    for statistics in all_statistics(file):
        doubles = statistics.message(3)
        if doubles is not None:
            yield [doubles.real(field) for field in (1, 2, 3) if doubles.has(field)]


def text_ranges(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Lower and upper bound of all statistics of texts in a file."""
    for statistics in all_statistics(file):
        texts = statistics.message(4)
        if texts is not None:
            low, high = (texts.data(exact) or texts.data(cut) for exact, cut in ((1, 4), (2, 5)))
            assert low is not None
            assert high is not None
            yield low, high


def all_statistics(file: BinaryIO) -> Iterator[Message]:
    """The statistics of a file, of its stripes and of its row groups."""
    tail = OrcTail.read(file)
    found = [*tail.file_statistics, *(data for each in tail.stripe_statistics for data in each)]
    for streams in _stripes(file):
        for (kind, _), data in streams.items():
            if kind == StreamKind.ROW_INDEX:
                index = Message.decode(tail.compression.decompress(data))
                found += [entry.data(2) or b"" for entry in index.all_messages(1)]
    return map(Message.decode, found)
