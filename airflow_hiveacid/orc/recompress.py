"""Compress a file that Arrow wrote without compression.

Arrow deflates with zlib, which takes longer than all else that it does to encode rows. ISA-L needs
an eighth of the time, for files of the same size.

A compressed stream consists of chunks, so row indexes have to point elsewhere. The positions of a row
group are those of all streams of a column one after the other: the place in the stream, which is one
number or, if there are chunks, two, and the place within a run of values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from airflow_hiveacid.errors import BeyondArrow
from airflow_hiveacid.orc.compression import Chunks, Compression
from airflow_hiveacid.orc.envelope import TypeKind, kind_of
from airflow_hiveacid.orc.protobuf import DATA, Message, pack
from airflow_hiveacid.orc.source_and_sink import Output, Sink, Source, read_exactly
from airflow_hiveacid.orc.streams import StreamKind, describe_stream
from airflow_hiveacid.orc.stripe_footer import (
    DICTIONARIES,
    PlacedStream,
    StripeField,
    StripeFooter,
)
from airflow_hiveacid.orc.tail import MAGIC, OrcTail, Stripe

_ENTRY, _POSITIONS = 1, 1
# How many numbers tell the place within a run: none where there are no runs, its values, and for flags
# the bits of a byte as well.
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


def recompress(source: Source, sink: Sink, compression: Compression) -> None:
    """Copy a file that Arrow wrote without compression, and compress it.

    Args:
        source: The file.
        sink: Takes the copy.
        compression: The compression of the copy.

    Raises:
        BeyondArrow: It has row indexes that are not those that Arrow is known to write.
    """
    tail = OrcTail.read(source)
    output = Output(sink)
    output.write(MAGIC)
    file = _File(source, tail, compression)
    stripes = tuple(file.copy_stripe(stripe, output) for stripe in tail.stripes)
    output.write(replace(tail, stripes=stripes).compressed(compression).encode(output.position))


@dataclass(frozen=True, slots=True)
class _File:
    source: Source
    tail: OrcTail
    compression: Compression

    def copy_stripe(self, stripe: Stripe, output: Output) -> Stripe:
        footer = StripeFooter.read(self.source, self.tail, stripe)
        data = [self.compression.chunks(self._read(stream)) for stream in footer.data]
        index = [self._index(stream, footer, data) for stream in footer.index]
        offset = output.position
        for encoded in index:
            output.write(encoded)
        for chunks in data:
            output.write(chunks.data)
        lengths = [*map(len, index), *(len(chunks.data) for chunks in data)]
        described = [
            describe_stream(stream.kind, stream.column, length)
            for stream, length in zip((*footer.index, *footer.data), lengths, strict=True)
        ]
        new = Message((StripeField.STREAMS, DATA, each) for each in described)
        new.fields += footer.message.without(StripeField.STREAMS).fields
        encoded_footer = self.compression.compress(new.encode())
        output.write(encoded_footer)
        index_length = sum(map(len, index))
        return replace(
            stripe,
            offset=offset,
            index_length=index_length,
            data_length=sum(lengths) - index_length,
            footer_length=len(encoded_footer),
        )

    def _read(self, stream: PlacedStream) -> bytes:
        return read_exactly(self.source, stream.offset, stream.length)

    def _index(self, stream: PlacedStream, footer: StripeFooter, data: Sequence[Chunks]) -> bytes:
        """A stream of the index, compressed; if it is a row index, for compressed streams."""
        plain = self._read(stream)
        if stream.kind == StreamKind.ROW_INDEX:
            of_column = {
                other.kind: chunks
                for other, chunks in zip(footer.data, data, strict=True)
                if other.column == stream.column
            }
            streams = [
                (of_column[kind], numbers)
                for kind, numbers in self._streams(stream.column, footer)
                if kind in of_column
            ]
            entries = (
                self._entry(entry, streams) for entry in Message.decode(plain).all_messages(_ENTRY)
            )
            plain = Message((_ENTRY, DATA, entry) for entry in entries).encode()
        return self.compression.compress(plain)

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
