"""Timestamps to the nanosecond: files of any of them, and the numbers in a file.

The content is read by ORC's specification in plain Python, not by any library or code of this
package.
"""

import io
from collections.abc import Iterator

import pyarrow as pa

from hiveacid.orc.copying.reencode import RowGroups, RowWriter
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.layout import JULIAN, Layout
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.tail import OrcTail

# Seconds since 2015, and nanoseconds.
Timestamp = tuple[int, int]
EPOCH = 1_420_070_400
PAIR = pa.struct({"seconds": pa.int64(), "nanos": pa.timestamp("ns")})
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)

ODD: list[Timestamp] = [
    (0, 0),
    (1, 123_456_789),
    (-EPOCH, 1),
    (-EPOCH - 1, 999_999_999),
    (-EPOCH - 1, 1),
    (-EPOCH - 86_400, 500_000_001),
    (-62_135_596_800 - EPOCH, 0),
    (-62_135_596_800 - EPOCH, 999),
    (253_402_300_799 - EPOCH, 999_999_999),
    (-12_219_292_800 - EPOCH, 100),
    (-12_219_292_801 - EPOCH, 999_999_999),
    (1_000_000_000, 120_000_000),
]


def pair(timestamp: Timestamp | None) -> dict | None:
    """A timestamp as `PAIR` holds it."""
    if timestamp is None:
        return None
    seconds, nanos = timestamp
    return {"seconds": seconds, "nanos": pa.scalar(EPOCH * 10**9 + nanos, pa.timestamp("ns"))}


def flat_timestamps(
    rows: pa.Table,
    types: tuple[bytes, ...],
    clock: str = "UTC",
    codec: str = "zlib",
    stride: int = 10_000,
    **options: int,
) -> io.BytesIO:
    """A flat file of rows with `PAIR` wherever the types have timestamps."""
    sink = io.BytesIO()
    layout = Layout(types, Codec.named(codec), 64 << 10, stride, JULIAN)
    writer, groups = RowWriter(sink, layout, clock, **options), RowGroups(stride)
    for group in (*groups.add(rows.combine_chunks().to_batches(), 0), *groups.rest()):
        writer.write(group)
    writer.close()
    return sink


def timestamps_in_file(file: io.BytesIO) -> dict[int, list[Timestamp]]:
    """The numbers of all timestamps of a file that are not null, by the numbers of their columns."""
    tail = OrcTail.read(file)
    kinds = [Message.decode(each).number(TypeField.KIND) for each in tail.types]
    wanted = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
    found: dict[int, list[Timestamp]] = {
        number: [] for number, kind in enumerate(kinds) if kind in wanted
    }
    for stripe in tail.stripes:
        offset = stripe.offset
        streams: dict[tuple[int, int], bytes] = {}
        for stream in tail.stripe_footer(file, stripe).all_messages(1):
            kind, column, length = (stream.number(field) for field in (1, 2, 3))
            file.seek(offset)
            data = file.read(length)
            offset += length
            if column in found and kind in (1, 5):
                streams[column, kind] = tail.compression.decompress(data)
        for column, timestamps in found.items():
            seconds = list(integers_of(streams.get((column, 1), b""), signed=True))
            nanos = [
                (each >> 3) * (10 ** ((each & 7) + 1) if each & 7 else 1)
                for each in integers_of(streams.get((column, 5), b""), signed=False)
            ]
            timestamps.extend(zip(seconds, nanos, strict=True))
    return found


def clocks_of(file: io.BytesIO) -> list[bytes | None]:
    """The time zones that the stripes of a file name."""
    tail = OrcTail.read(file)
    return [tail.stripe_footer(file, stripe).data(3) for stripe in tail.stripes]


def integers_of(data: bytes, *, signed: bool) -> Iterator[int]:
    """Decode runs of integers (RLE version 2)."""
    at = 0
    while at < len(data):
        kind, header = data[at] >> 6, data[at]
        if kind == 0:
            width = (header >> 3 & 7) + 1
            value = int.from_bytes(data[at + 1 : at + 1 + width], "big")
            yield from [_sign(value, signed)] * ((header & 7) + 3)
            at += 1 + width
            continue
        code, count = header >> 1 & 31, (header & 1) << 8 | data[at + 1]
        count += 1
        at += 2
        if kind == 1:
            values, at = _packed(data, at, _WIDTHS[code], count)
            yield from (_sign(value, signed) for value in values)
        elif kind == 3:
            base, at = varint(data, at)
            step, at = varint(data, at)
            value, step = _sign(base, signed), _sign(step, True)
            yield value
            steps = [abs(step)] * (count - 1)
            if code:
                rest, at = _packed(data, at, _WIDTHS[code], count - 2)
                steps = [abs(step), *rest]
            for each in steps:
                value += each if step >= 0 else -each
                yield value
        else:
            base_width, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
            gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
            at += 2
            base = int.from_bytes(data[at : at + base_width], "big")
            top = 1 << (base_width * 8 - 1)
            base = -(base & top - 1) if base & top else base
            values, at = _packed(data, at + base_width, _WIDTHS[code], count)
            width = next(each for each in _WIDTHS if each >= gap_width + patch_width)
            entries, at = _packed(data, at, width, patches)
            place = 0
            for entry in entries:
                place += entry >> patch_width
                values[place] |= (entry & (1 << patch_width) - 1) << _WIDTHS[code]
            yield from (base + value for value in values)


def _packed(data: bytes, at: int, width: int, count: int) -> tuple[list[int], int]:
    end = at + (width * count + 7) // 8
    bits = int.from_bytes(data[at:end], "big") >> -(width * count) % 8
    return [bits >> width * (count - 1 - n) & (1 << width) - 1 for n in range(count)], end


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number of any length, and return it with the next position."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def _sign(value: int, signed: bool) -> int:
    return value >> 1 ^ -(value & 1) if signed else value
