"""Compress a file that Arrow wrote without compression.

Arrow deflates with zlib, which takes longer than all of its other encoding work. ISA-L needs an
eighth of the time, for files of the same size. Codecs that are as fast as Arrow's are also handled
here, because decimals can then be made of integers.

A compressed stream consists of chunks, so positions in row indexes change. The positions of a row
group are those of all streams of a column one after the other: the position in the stream, which is
one number or, with chunks, two, and the position within a run of values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from airflow_hiveacid.errors import BeyondArrow
from airflow_hiveacid.orc.format.compression import Chunks, Compression
from airflow_hiveacid.orc.format.envelope import TypeKind, kind_of
from airflow_hiveacid.orc.format.protobuf import DATA, Message, pack
from airflow_hiveacid.orc.format.source_and_sink import Output, Sink, Source, read_exactly
from airflow_hiveacid.orc.format.streams import StreamKind, describe_stream
from airflow_hiveacid.orc.format.stripe_footer import (
    DICTIONARIES,
    PlacedStream,
    StripeField,
    StripeFooter,
)
from airflow_hiveacid.orc.format.tail import MAGIC, OrcTail, Stripe
from airflow_hiveacid.orc.values.decimals import DecimalColumns

_ENTRY, _POSITIONS = 1, 1
# The count of numbers for the position within a run: 0 without runs, 1 for values, and for flags
# one more for the bits of a byte.
_BYTES, _VALUES, _FLAGS = 0, 1, 2
_PRESENT = (StreamKind.PRESENT, _FLAGS)
_NUMBERS = ((StreamKind.DATA, _VALUES),)
_TEXTS = ((StreamKind.DATA, _BYTES), (StreamKind.LENGTH, _VALUES))
_STREAMS: dict[int, tuple[tuple[StreamKind, int], ...]] = {
    TypeKind.BOOLEAN: ((StreamKind.DATA, _FLAGS),),
    TypeKind.BYTE: _NUMBERS,
    TypeKind.SHORT: _NUMBERS,
    TypeKind.INT: _NUMBERS,
    TypeKind.LONG: _NUMBERS,
    TypeKind.DATE: _NUMBERS,
    TypeKind.UNION: _NUMBERS,
    TypeKind.FLOAT: ((StreamKind.DATA, _BYTES),),
    TypeKind.DOUBLE: ((StreamKind.DATA, _BYTES),),
    TypeKind.STRING: _TEXTS,
    TypeKind.VARCHAR: _TEXTS,
    TypeKind.CHAR: _TEXTS,
    TypeKind.BINARY: _TEXTS,
    TypeKind.DECIMAL: ((StreamKind.DATA, _BYTES), (StreamKind.SECONDARY, _VALUES)),
    TypeKind.TIMESTAMP: ((StreamKind.DATA, _VALUES), (StreamKind.SECONDARY, _VALUES)),
    TypeKind.TIMESTAMP_INSTANT: ((StreamKind.DATA, _VALUES), (StreamKind.SECONDARY, _VALUES)),
    TypeKind.LIST: ((StreamKind.LENGTH, _VALUES),),
    TypeKind.MAP: ((StreamKind.LENGTH, _VALUES),),
    TypeKind.STRUCT: (),
}


def recompress(
    source: Source,
    sink: Sink,
    compression: Compression,
    decimals: DecimalColumns | None = None,
) -> None:
    """Copy a file that Arrow wrote without compression, and compress it.

    Args:
        source: The file.
        sink: Receives the copy.
        compression: The compression of the copy.
        decimals: The columns that are integers in the file, and decimals in the copy.

    Raises:
        BeyondArrow: Its row indexes differ from the known output of Arrow.
    """
    tail = OrcTail.read(source)
    if decimals is not None:
        tail = replace(
            tail,
            types=decimals.in_types(tail.types),
            stripe_statistics=tuple(map(decimals.in_statistics, tail.stripe_statistics)),
            file_statistics=decimals.in_statistics(tail.file_statistics),
        )
    output = Output(sink)
    output.write(MAGIC)
    file = _File(source, tail, compression, decimals)
    stripes = tuple(file.copy_stripe(stripe, output) for stripe in tail.stripes)
    output.write(replace(tail, stripes=stripes).compressed(compression).encode(output.position))


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A stream of the copy."""

    kind: int
    column: int
    chunks: Chunks

    def describe(self) -> bytes:
        return describe_stream(self.kind, self.column, len(self.chunks.data))


@dataclass(frozen=True, slots=True)
class _File:
    source: Source
    tail: OrcTail
    compression: Compression
    decimals: DecimalColumns | None

    def copy_stripe(self, stripe: Stripe, output: Output) -> Stripe:
        footer = StripeFooter.read(self.source, self.tail, stripe)
        indexes = {(stream.kind, stream.column): self._read(stream) for stream in footer.index}
        data = list(self._data(footer, indexes))
        index = [
            _Encoded(kind, column, self._index(kind, column, plain, footer, data))
            for (kind, column), plain in indexes.items()
        ]
        offset = output.position
        for stream in (*index, *data):
            output.write(stream.chunks.data)
        new = Message((StripeField.STREAMS, DATA, each.describe()) for each in (*index, *data))
        new.fields += footer.message.without(StripeField.STREAMS).fields
        encoded_footer = self.compression.compress(new.encode())
        body_length = output.position - offset
        output.write(encoded_footer)
        index_length = sum(len(stream.chunks.data) for stream in index)
        return replace(
            stripe,
            offset=offset,
            index_length=index_length,
            data_length=body_length - index_length,
            footer_length=len(encoded_footer),
        )

    def _read(self, stream: PlacedStream) -> bytes:
        return read_exactly(self.source, stream.offset, stream.length)

    def _data(
        self, footer: StripeFooter, indexes: dict[tuple[int, int], bytes]
    ) -> Iterator[_Encoded]:
        """The streams of data, compressed; where decimals come in, their index changes, too."""
        for stream in footer.data:
            column = stream.column
            if (
                self.decimals is None
                or stream.kind != StreamKind.DATA
                or column not in self.decimals
            ):
                chunks = self.compression.chunks(self._read(stream))
                yield _Encoded(stream.kind, column, chunks)
                continue
            place = (StreamKind.ROW_INDEX, column)
            made = self.decimals.in_stripe(column, indexes.get(place, b""))
            indexes[place] = made.index
            yield _Encoded(StreamKind.DATA, column, self.compression.chunks(made.numbers))
            yield _Encoded(StreamKind.SECONDARY, column, self.compression.chunks(made.scales))

    def _index(
        self, kind: int, column: int, plain: bytes, footer: StripeFooter, data: Sequence[_Encoded]
    ) -> Chunks:
        """A stream of the index, compressed; if it is a row index, for compressed streams."""
        if kind == StreamKind.ROW_INDEX:
            of_column = {each.kind: each.chunks for each in data if each.column == column}
            streams = [
                (of_column[kind], numbers)
                for kind, numbers in self._streams(column, footer)
                if kind in of_column
            ]
            entries = (
                self._entry(entry, streams) for entry in Message.decode(plain).all_messages(_ENTRY)
            )
            plain = Message((_ENTRY, DATA, entry) for entry in entries).encode()
        return self.compression.chunks(plain)

    def _streams(self, column: int, footer: StripeFooter) -> Sequence[tuple[StreamKind, int]]:
        """The streams that the row index of a column points into, in its order."""
        if Message.decode(footer.encodings[column]).number(1) in DICTIONARIES:
            return (_PRESENT, *_NUMBERS)
        return (_PRESENT, *_STREAMS[kind_of(self.tail.types[column])])

    def _entry(self, entry: Message, streams: Sequence[tuple[Chunks, int]]) -> bytes:
        old = iter(entry.all_numbers(_POSITIONS))
        new: list[int] = []
        try:
            for chunks, numbers in streams:
                new += self.compression.position(chunks, next(old))
                new += islice(old, numbers)
        except StopIteration:
            new = []
        if next(old, None) is not None or len(new) != sum(2 + numbers for _, numbers in streams):
            raise BeyondArrow("Arrow wrote a row index with positions that we do not know.")
        fields = [] if not new else [(_POSITIONS, DATA, pack(new))]
        return Message([*fields, *entry.without(_POSITIONS).fields]).encode()
