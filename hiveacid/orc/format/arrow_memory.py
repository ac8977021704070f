"""Limits on the rows of a stripe that Arrow's ORC library decodes at a time, to protect memory.

The library allocates memory for all lengths declared in a stripe, and whole blocks even for short
streams, without checking the available amount: forged lengths end the process, and genuine ones may
exhaust memory. It multiplies decimals by ten as often as their scales require: decimals of a few
bytes keep it busy for hours.
"""

from dataclasses import dataclass

from hiveacid.errors import BeyondArrow, CorruptFile
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.lengths import Lengths
from hiveacid.orc.format.limits import MOST_DIGITS, most_rows
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.source_and_sink import Source, read_exactly
from hiveacid.orc.format.streams import StreamKind
from hiveacid.orc.format.stripe_footer import DICTIONARIES, StripeFooter
from hiveacid.orc.format.tail import OrcTail, Stripe

# Memory limit for a batch and the blocks of all streams, and the memory of a value besides its
# text.
_MEMORY = 512 << 20
_VALUE_MEMORY = 16
# It holds one of the stream as stored in the file, and one of its decompressed form.
_BLOCKS_OF_A_STREAM = 2
# Texts that claim at most this size do no harm, even if they are missing.
_HARMLESS = 64 << 20
_TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR, TypeKind.BINARY)
_LISTS = (TypeKind.LIST, TypeKind.MAP)
_DIGITS_OF_64_BITS = 18
# The encodings of a column that have the first version of the integer encoding.
_OLD = (0, 1)


def rows_at_a_time(source: Source, tail: OrcTail, stripe: int) -> int:
    """Return the number of rows of a stripe that fit into memory with all columns read.

    Raises:
        CorruptFile: The stripe declares more data than it contains.
        BeyondArrow: A single row may take too much memory, or the blocks of the streams do, or the
            stripe has too much data to check.
    """
    return _Stripe(source, tail, tail.stripes[stripe]).rows_at_a_time()


@dataclass(slots=True)
class _Values:
    """The values of a column in a stripe.

    Attributes:
        all: The maximum number of values.
        of_row: The maximum number of values of one row.
    """

    all: int
    of_row: int


class _Stripe:
    def __init__(self, source: Source, tail: OrcTail, stripe: Stripe) -> None:
        self._source = source
        self._tail = tail
        self._stripe = stripe
        footer = StripeFooter.read(source, tail, stripe)
        self._encodings = [Message.decode(encoding) for encoding in footer.encodings]
        self._streams = {(stream.kind, stream.column): stream for stream in footer.data}

    def rows_at_a_time(self) -> int:
        memory = _MEMORY - self._blocks()
        if memory <= 0:
            raise BeyondArrow(
                f"The blocks of all columns take more than {_MEMORY >> 20} MB of memory."
            )
        rows = self._stripe.rows
        values = {0: _Values(rows, 1)}
        everything = row = 0
        for column, type_ in enumerate(self._tail.types):
            message = Message.decode(type_)
            kind = message.number(TypeField.KIND)
            mine = inside = values.get(column, _Values(rows, 1))
            everything += mine.all * _VALUE_MEMORY
            row += mine.of_row * _VALUE_MEMORY
            if kind in _TEXTS:
                texts, longest = self._texts(column, mine)
                everything += texts
                row += min(mine.of_row * longest, texts)
            elif kind in _LISTS:
                inside = self._elements(column, mine)
            elif kind == TypeKind.DECIMAL:
                self._check_scales(column, message.number(TypeField.PRECISION))
            values |= dict.fromkeys(message.all_numbers(TypeField.SUBTYPES), inside)
        if everything <= memory:
            return max(rows, 1)
        if row > memory:
            raise BeyondArrow(f"A row may take more than {memory >> 20} MB of memory.")
        return memory // row

    def _blocks(self) -> int:
        if self._tail.codec is Codec.NONE:
            return 0
        return len(self._streams) * _BLOCKS_OF_A_STREAM * self._tail.block_size

    def _texts(self, column: int, values: _Values) -> tuple[int, int]:
        """The length of all texts of a column, and that of the longest."""
        lengths = self._lengths(column)
        encoding = self._encodings[column]
        is_dictionary = encoding.number(1) in DICTIONARIES
        if is_dictionary and encoding.number(2) > lengths.count:
            raise CorruptFile("A dictionary in the ORC file has fewer entries than declared.")
        contents = StreamKind.DICTIONARY_DATA if is_dictionary else StreamKind.DATA
        if lengths.total > _HARMLESS and lengths.total > self._room(contents, column):
            raise CorruptFile("Texts in a stripe of the ORC file are shorter than declared.")
        return values.all * lengths.largest if is_dictionary else lengths.total, lengths.largest

    def _elements(self, column: int, lists: _Values) -> _Values:
        """The elements of the lists of a column."""
        lengths = self._lengths(column)
        if lengths.total > most_rows(self._stripe.length):
            raise CorruptFile("Lists in a stripe of the ORC file are shorter than declared.")
        return _Values(lengths.total, min(lists.of_row * lengths.largest, lengths.total))

    def _check_scales(self, column: int, precision: int) -> None:
        # The library itself checks decimals that fit 64 bits. Decimals of Hive 0.11 have no
        # precision.
        if 0 < precision <= _DIGITS_OF_64_BITS:
            return
        largest = self._lengths(column, StreamKind.SECONDARY, signed=True).largest
        if largest > MOST_DIGITS:
            raise CorruptFile(f"A decimal in column {column} of the ORC file has scale {largest}.")

    def _lengths(
        self, column: int, kind: StreamKind = StreamKind.LENGTH, *, signed: bool = False
    ) -> Lengths:
        stream = self._streams.get((kind, column))
        if stream is None:
            return Lengths()
        encoded = read_exactly(self._source, stream.offset, stream.length)
        plain = self._tail.compression.decompress(encoded)
        version = 1 if self._encodings[column].number(1) in _OLD else 2
        return Lengths.of(plain, version=version, signed=signed)

    def _room(self, kind: StreamKind, column: int) -> int:
        """Return the maximum number of bytes of a decompressed stream."""
        stream = self._streams.get((kind, column))
        if stream is None or self._tail.codec is Codec.NONE:
            return 0 if stream is None else stream.length
        offset, end, room = stream.offset, stream.offset + stream.length, 0
        while offset < end:
            header = int.from_bytes(read_exactly(self._source, offset, 3), "little")
            room += header >> 1 if header & 1 else self._tail.block_size
            offset += 3 + (header >> 1)
        return room
