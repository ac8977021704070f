"""Encode columns of numbers, times, flags, and nested types from Arrow arrays."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.dataclass import dataclass
from hiveacid.errors import BeyondArrow
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.statistics import (
    BINARIES,
    BUCKETS,
    COLLECTIONS,
    COUNT,
    DATES,
    DECIMALS,
    DOUBLES,
    HAS_NULL,
    STRINGS,
    count_statistics,
    integer_statistics,
    merge,
    reliable_range,
    timestamp_statistics,
)
from hiveacid.orc.format.streams import (
    UTC,
    Encoding,
    Integers,
    StreamKind,
    arithmetic_runs,
    describe_encoding,
    encode_bytes,
    encode_flags,
    encode_integers,
    exact_sum,
)
from hiveacid.orc.values.timestamps import SECONDS_OF_2015, are_finer

# The parts that the encoders of all columns have in common: streams, null flags, statistics.
#
# Each row group starts new runs, so that a row index never points into a run of numbers. Columns
# have an encoder each, those of nested types one for each nested column; parents hand over the
# values of rows that are not null.


@dataclass(slots=True)
class PlainStream:
    """A stream of a column in a stripe, before its compression.

    Attributes:
        kind: Its kind.
        parts: The bytes of its row groups.
        size: The number of all these bytes.
        positions: The position of each row group: the place in the stream, and numbers of values,
            and of bits, to skip there; empty for a stream that has none.
    """

    kind: StreamKind
    parts: list[bytes] = field(default_factory=list)
    positions: list[tuple[int, ...]] = field(default_factory=list)
    size: int = 0

    @classmethod
    def of(cls, kind: StreamKind, content: bytes) -> "PlainStream":
        """Return a stream that the row index does not point into."""
        return cls(kind, [content], [], len(content))


class ColumnEncoder(ABC):
    """Encodes a column of one stripe after the other."""

    def __init__(self, column: int) -> None:
        """Begin with an empty stripe.

        Args:
            column: The number of the column.
        """
        self.column = column
        self.children: tuple[ColumnEncoder, ...] = ()
        self._begin()

    def _begin(self) -> None:
        self.groups: list[Message] = []
        # Of a row group without nulls only the number of rows.
        self._known: list[NDArray[np.bool_] | int] = []
        self._has_null = self._shows_null = False
        self._streams: dict[StreamKind, PlainStream] = {}

    @property
    def size(self) -> int:
        """About the number of bytes of the present stripe, nested columns included."""
        own_size = sum(stream.size for stream in self._streams.values())
        return own_size + sum(child.size for child in self.children)

    def add(self, values: Any, *, in_nulls: bool = False) -> None:
        """Encode the values of the next row group.

        Args:
            values: An Arrow array.
            in_nulls: Whether the column also lacks a value in structs that are null.
        """
        nulls = values.null_count
        if nulls:
            self._has_null = True
            self._known.append(values.is_valid().to_numpy(zero_copy_only=False))
            values = values.drop_null()
        else:
            self._known.append(len(values))
        self._shows_null = bool(nulls) or in_nulls
        self.groups.append(self._add(values))
        if self._shows_null:
            self.groups[-1] = self.groups[-1].with_numbers({HAS_NULL: 1})

    @abstractmethod
    def _add(self, values: Any) -> Message:
        """Encode values without nulls, possibly none, and return their statistics."""

    def finish(self) -> "FinishedColumn":
        """Return the column of the present stripe, and begin the next one."""
        streams: list[PlainStream] = []
        if self._has_null:
            flag_groups = (
                np.ones(group, np.bool_) if isinstance(group, int) else group
                for group in self._known
            )
            streams.append(flag_stream(StreamKind.PRESENT, list(flag_groups)))
        streams += self._finish()
        finished = FinishedColumn(
            self.column, self._encoding(), streams, self.groups, merge(self.groups)
        )
        self._begin()
        return finished

    def _finish(self) -> list[PlainStream]:
        """Return the streams besides the null flags."""
        return list(self._streams.values())

    def _encoding(self) -> bytes:
        return describe_encoding(Encoding.DIRECT)

    def _append(self, kind: StreamKind, content: bytes, *, is_run: bool) -> None:
        """Append the content of a row group to a stream."""
        stream = self._streams.setdefault(kind, PlainStream(kind))
        stream.positions.append((stream.size, 0) if is_run else (stream.size,))
        stream.parts.append(content)
        stream.size += len(content)

    def _append_integers(
        self, kind: StreamKind, values: Integers, *, signed: bool
    ) -> tuple[int, int]:
        """Append integers; return the smallest and the largest one, or zeros."""
        if not len(values):
            self._append(kind, b"", is_run=True)
            return 0, 0
        encoded_integers = encode_integers(values, signed=signed)
        self._append(kind, encoded_integers.runs, is_run=True)
        return encoded_integers.smallest, encoded_integers.largest


@dataclass(frozen=True, slots=True)
class FinishedColumn:
    """A column of a stripe.

    Attributes:
        column: Its number.
        encoding: The entry of its encoding in the footer.
        streams: Its streams, in the order of the positions in a row index.
        groups: The statistics of each row group.
        statistics: Those of the stripe.
    """

    column: int
    encoding: bytes
    streams: Sequence[PlainStream]
    groups: Sequence[Message]
    statistics: bytes


class RunEncoder(ColumnEncoder):
    """A column with runs of the second version of the integer encoding."""

    def _encoding(self) -> bytes:
        return describe_encoding(Encoding.DIRECT_V2)


def flag_stream(kind: StreamKind, groups: Sequence[NDArray[np.bool_]]) -> PlainStream:
    """Return a stream of the flags of all row groups."""
    flags = encode_flags(groups)
    return PlainStream(kind, [flags.stream], list(flags.positions), len(flags.stream))


def value_statistics(count: int, number: int, details: Message | None) -> Message:
    """Return statistics of values without nulls, with details if there is a value."""
    message = Message().add_number(COUNT, count)
    if count and details is not None:
        message.add_data(number, details.encode())
    return message.add_number(HAS_NULL, 0)


# Decimals as ORC stores them: a number without its point, in a variable number of bytes


_WORD = 64
_DIGIT_BITS, _DIGIT = 7, 0x7F
_HALF_BITS = 32
_HALF = np.int64((1 << _HALF_BITS) - 1)


class Numbers:
    """The numbers of decimals without their points, each of 128 bits."""

    def __init__(self, low: Integers, high: Integers) -> None:
        """Take the two words of each number; there is at least one."""
        self._low = low
        self._high: Integers | None = high
        if (high == low >> 63).all():
            # Nearly all decimals fit into one word.
            self._high = None

    @classmethod
    def of(cls, values: Any) -> "Numbers":
        """Take the numbers of an Arrow array of decimals without nulls."""
        words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
        words = words[values.offset : values.offset + len(values)]
        return cls(np.ascontiguousarray(words[:, 0]), words[:, 1])

    def encode(self) -> bytes:
        """Encode the numbers one by one, seven bits in a byte."""
        if self._high is None:
            return varints(self._low)
        sign = self._high >> 63
        low = ((self._low << 1) ^ sign).view(np.uint64)
        carried = (self._low.view(np.uint64) >> np.uint64(63)).view(np.int64)
        high = ((self._high << 1 | carried) ^ sign).view(np.uint64)
        return _digits(low, high)

    def bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest number."""
        if self._high is None:
            return int(self._low.min()), int(self._low.max())
        smallest, largest = int(self._high.min()), int(self._high.max())
        unsigned = self._low.view(np.uint64)
        return (
            (smallest << _WORD) + int(unsigned[self._high == smallest].min()),
            (largest << _WORD) + int(unsigned[self._high == largest].max()),
        )

    def total(self) -> int:
        """Return the sum of the numbers."""
        low = int((self._low & _HALF).sum())
        if self._high is None:
            return low + (int((self._low >> _HALF_BITS).sum()) << _HALF_BITS)
        # The lower word has no sign if there is another one.
        low += int((self._low >> _HALF_BITS & _HALF).sum()) << _HALF_BITS
        high = int((self._high & _HALF).sum())
        high += int((self._high >> _HALF_BITS).sum()) << _HALF_BITS
        return low + (high << _WORD)


def varints(values: Integers) -> bytes:
    """Encode integers one by one, seven bits in a byte."""
    remainders: NDArray[Any] = ((values << 1) ^ (values >> 63)).view(np.uint64)
    if len(remainders) and int(remainders.max()) < 1 << 32:
        remainders = remainders.astype(np.uint32)
    return _digits(remainders, None)


def _digits(remainders: NDArray[Any], high: NDArray[np.uint64] | None) -> bytes:
    """Encode unsigned numbers of one word or two."""
    bits = int(remainders.max()).bit_length() if len(remainders) else 0
    if high is not None:
        bits = _WORD + int(high.max()).bit_length()
    widest = max(-(-bits // _DIGIT_BITS), 1)
    octets = np.empty((len(remainders), widest), np.uint8)
    octet_mask = np.ones((len(remainders), widest), np.bool_)
    shift = remainders.dtype.type(_DIGIT_BITS)
    for place in range(widest):
        octets[:, place] = remainders & remainders.dtype.type(_DIGIT)
        remainders = remainders >> shift
        if high is not None:
            remainders |= high << np.uint64(_WORD - _DIGIT_BITS)
            high = high >> np.uint64(_DIGIT_BITS)
        if place + 1 < widest:
            follows = remainders != 0 if high is None else (remainders | high) != 0
            octets[:, place] |= follows.view(np.uint8) << 7
            octet_mask[:, place + 1] = follows
    return octets[octet_mask].tobytes()


# Encode columns of texts and of bytes, with a dictionary where texts repeat


# Texts with fewer distinct values than this share of the first row group are worth a dictionary.
_DICTIONARY_SHARE = 0.8
# Longer bounds, two for each stripe of long texts, would soon be more metadata than readers accept.
_LONGEST_BOUND = 1024


class BinaryEncoder(RunEncoder):
    """Encodes bytes, without a dictionary."""

    def _add(self, values: Any) -> Message:
        size = self._append_bytes(values)
        return value_statistics(len(values), BINARIES, Message().add_signed(1, size))

    def _append_bytes(self, values: Any) -> int:
        """Append the bytes of values and their lengths, and return the number of bytes."""
        content, lengths = _parts(values)
        self._append(StreamKind.DATA, content, is_run=False)
        self._append_integers(StreamKind.LENGTH, lengths, signed=False)
        return len(content)


class TextEncoder(BinaryEncoder):
    """Encodes texts.

    The first row group with values determines whether the stripe has a dictionary, like in Java's
    writer.
    """

    def _begin(self) -> None:
        super()._begin()
        # The distinct texts of each row group, and the places of its texts among them.
        self._coded: list[tuple[Any, NDArray[Any]]] = []
        self._coded_size = 0
        # Unknown while no row group has values.
        self._repeats: bool | None = None
        self._dictionary_length: int | None = None

    @property
    def size(self) -> int:
        """See the base class."""
        return super().size + self._coded_size

    def _add(self, values: Any) -> Message:
        import pyarrow as pa

        values = values.view(pa.binary())
        if self._repeats is False:
            return self._add_direct(values)
        coded = values.dictionary_encode()
        distinct = coded.dictionary
        if self._repeats is None and len(values):
            self._repeats = len(distinct) <= len(values) * _DICTIONARY_SHARE
            if not self._repeats:
                self._append_empty_groups()
                return self._add_direct(values)
        places = coded.indices.to_numpy().astype(np.min_scalar_type(len(distinct)))
        self._coded.append((distinct, places))
        self._coded_size += distinct.nbytes + places.nbytes
        # The rest follows when the whole dictionary is known.
        return count_statistics(len(values))

    def _append_empty_groups(self) -> None:
        """Append the row groups without values."""
        for nothing, _ in self._coded:
            self._append_bytes(nothing)

    def _add_direct(self, values: Any) -> Message:
        from pyarrow import compute

        size = self._append_bytes(values)
        if not len(values):
            return count_statistics(0)
        bounds = compute.min_max(values)
        return _text_statistics(len(values), bounds["min"].as_py(), bounds["max"].as_py(), size)

    def _finish(self) -> list[PlainStream]:
        if not self._repeats:
            if self._repeats is None:
                self._append_empty_groups()
            return super()._finish()
        texts, groups = _united(self._coded)
        content, lengths = _parts(texts)
        for number, places in enumerate(groups):
            first, last = self._append_integers(StreamKind.DATA, places, signed=False)
            if len(places):
                size = int(lengths[places].sum())
                bounds = texts[first].as_py(), texts[last].as_py()
                nulls = self.groups[number].number(HAS_NULL)
                statistics = _text_statistics(len(places), *bounds, size)
                self.groups[number] = statistics.with_numbers({HAS_NULL: nulls})
        self._dictionary_length = len(texts)
        encoded_lengths = encode_integers(lengths, signed=False).runs
        return [
            *super()._finish(),
            PlainStream.of(StreamKind.LENGTH, encoded_lengths),
            PlainStream.of(StreamKind.DICTIONARY_DATA, content),
        ]

    def _encoding(self) -> bytes:
        if self._dictionary_length is None:
            return super()._encoding()
        encoding = Message().add_number(1, Encoding.DICTIONARY_V2)
        return encoding.add_number(2, self._dictionary_length).encode()


def _parts(values: Any) -> tuple[bytes, Integers]:
    """Return the bytes of all values, one after the other, and their lengths."""
    if not len(values):
        return b"", np.zeros(0, np.int64)
    _, starts, data = values.buffers()
    offsets = np.frombuffer(starts, np.int32)[values.offset : values.offset + len(values) + 1]
    content = data[int(offsets[0]) : int(offsets[-1])].to_pybytes() if data is not None else b""
    return content, np.diff(offsets).astype(np.int64)


def _united(coded: list[tuple[Any, NDArray[Any]]]) -> tuple[Any, list[Integers]]:
    """Return the sorted texts of all row groups, and for each row group their places there."""
    import pyarrow as pa
    from pyarrow import compute

    joined_texts = pa.concat_arrays([distinct for distinct, _ in coded]).dictionary_encode()
    order = compute.array_sort_indices(joined_texts.dictionary)
    ranks: Integers = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    ranks = ranks[joined_texts.indices.to_numpy()]
    groups: list[Integers] = []
    start = 0
    for distinct, places in coded:
        groups.append(ranks[start : start + len(distinct)][places])
        start += len(distinct)
    return joined_texts.dictionary.take(order), groups


def _text_statistics(count: int, smallest: bytes, largest: bytes, size: int) -> Message:
    if max(len(smallest), len(largest)) > _LONGEST_BOUND:
        # Hive 3 does not know bounds that are cut, and takes a missing bound for a lack of values.
        return count_statistics(count)
    texts = Message().add_data(1, smallest).add_data(2, largest).add_signed(3, size)
    return value_statistics(count, STRINGS, texts)


_NANOS_OF_SECOND = 10**9
# Nanoseconds that end in two to nine zeros are stored without these, and the number of zeros less
# one in the lowest bits.
_FEWEST_ZEROS, _MOST_ZEROS, _ZERO_BITS = 2, 9, 3
_LARGEST_DECIMAL = 10**38


def encoder_of(types: Sequence[bytes], clock: str, column: int = 0) -> ColumnEncoder:
    """Return an encoder for a column and the columns inside of it.

    Args:
        types: The types of the file.
        clock: The time zone of its timestamps.
        column: The number of the column.

    Raises:
        BeyondArrow: A column has a type that Arrow does not hold.
    """
    type_ = Message.decode(types[column])
    kind = type_.number(TypeField.KIND)
    if kind in _SIMPLE:
        return _SIMPLE[TypeKind(kind)](column)
    if kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return TimestampEncoder(column, in_utc=kind == TypeKind.TIMESTAMP_INSTANT or clock == UTC)
    if kind not in _NESTED:
        raise BeyondArrow(f"There are columns of the ORC type {kind}, which are not written.")
    encoder = _NESTED[TypeKind(kind)](column)
    encoder.children = tuple(
        encoder_of(types, clock, child) for child in type_.all_numbers(TypeField.SUBTYPES)
    )
    return encoder


def all_encoders(encoder: ColumnEncoder) -> Iterator[ColumnEncoder]:
    """Yield an encoder and all nested ones, in the order of their columns."""
    yield encoder
    for child in encoder.children:
        yield from all_encoders(child)


class _Integers(RunEncoder):
    def _add(self, values: Any) -> Message:
        numbers = _numbers(values)
        bounds = self._append_integers(StreamKind.DATA, numbers, signed=True)
        if not len(numbers):
            return count_statistics(0)
        return integer_statistics(len(numbers), *bounds, exact_sum(numbers, *bounds))


class _Dates(RunEncoder):
    def _add(self, values: Any) -> Message:
        numbers = _numbers(values)
        first, last = self._append_integers(StreamKind.DATA, numbers, signed=True)
        days = Message().add_signed(1, first).add_signed(2, last)
        return value_statistics(len(numbers), DATES, days)


class _Bytes(ColumnEncoder):
    def _add(self, values: Any) -> Message:
        numbers = _numbers(values)
        octets = numbers.astype(np.int8).view(np.uint8)
        self._append(StreamKind.DATA, encode_bytes(octets), is_run=True)
        if not len(numbers):
            return count_statistics(0)
        bounds = int(numbers.min()), int(numbers.max())
        return integer_statistics(len(numbers), *bounds, exact_sum(numbers, *bounds))


class _Flags(ColumnEncoder):
    def _begin(self) -> None:
        super()._begin()
        self._flags: list[NDArray[np.bool_]] = []

    @property
    def size(self) -> int:
        return sum(map(len, self._flags))

    def _add(self, values: Any) -> Message:
        flags = values.to_numpy(zero_copy_only=False)
        self._flags.append(flags)
        counts = Message().add_data(1, pack([int(flags.sum())]))
        return value_statistics(len(flags), BUCKETS, counts)

    def _finish(self) -> list[PlainStream]:
        return [flag_stream(StreamKind.DATA, self._flags)]


class _Reals(ColumnEncoder):
    def _add(self, values: Any) -> Message:
        numbers = values.to_numpy(zero_copy_only=False)
        self._append(StreamKind.DATA, numbers.tobytes(), is_run=False)
        if not len(numbers):
            return count_statistics(0)
        with np.errstate(invalid="ignore", over="ignore"):
            total = float(numbers.sum(dtype=np.float64))
            range_ = Message().add_real(1, float(numbers.min()))
            range_.add_real(2, float(numbers.max())).add_real(3, total)
        return value_statistics(len(numbers), DOUBLES, reliable_range(range_))


class _Decimals(RunEncoder):
    def _add(self, values: Any) -> Message:
        count, scale = len(values), values.type.scale
        numbers = Numbers.of(values) if count else None
        self._append(StreamKind.DATA, numbers.encode() if numbers else b"", is_run=False)
        scales = arithmetic_runs(scale, count, 0)
        self._append(StreamKind.SECONDARY, scales, is_run=True)
        if numbers is None:
            return count_statistics(0)
        smallest, largest = numbers.bounds()
        decimals = Message().add_data(1, _decimal(smallest, scale))
        decimals.add_data(2, _decimal(largest, scale))
        total = numbers.total()
        if abs(total) < _LARGEST_DECIMAL:
            decimals.add_data(3, _decimal(total, scale))
        return value_statistics(count, DECIMALS, decimals)


def _decimal(number: int, scale: int) -> bytes:
    """Return the text of a decimal whose number has no point."""
    if not scale:
        return b"%d" % number
    digits = f"{abs(number):0{scale + 1}d}"
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}".encode()


class TimestampEncoder(RunEncoder):
    """Encodes timestamps that are structs of seconds and nanoseconds; see `split_timestamps`."""

    def __init__(self, column: int, *, in_utc: bool) -> None:
        """Begin with an empty stripe.

        Args:
            column: The number of the column.
            in_utc: Whether the clock of the seconds is that of the statistics.
        """
        super().__init__(column)
        self._in_utc = in_utc
        # Whether a timestamp has more digits than microseconds.
        self.is_finer = False

    def _add(self, values: Any) -> Message:
        seconds, nanos = (_numbers(part) for part in values.flatten())
        nanos = nanos - SECONDS_OF_2015 * _NANOS_OF_SECOND if len(nanos) else nanos
        self.is_finer |= are_finer(nanos)
        first, last = self._append_integers(StreamKind.DATA, seconds, signed=True)
        self._append_integers(StreamKind.SECONDARY, _without_zeros(nanos), signed=False)
        if not self._in_utc:
            # Statistics are in UTC, the only clock without changes of its offset.
            return count_statistics(len(seconds))
        first, last = first + SECONDS_OF_2015, last + SECONDS_OF_2015
        # Before 1970, seconds are rounded towards 1970.
        millis = (first - (first <= 0)) * 1000, last * 1000 + 999
        return timestamp_statistics(len(seconds), millis, has_null=False)


def _without_zeros(nanos: Integers) -> Integers:
    """Return nanoseconds as ORC stores them."""
    if not nanos.any():
        return nanos
    encoded_nanos = nanos << _ZERO_BITS
    for zeros in range(_FEWEST_ZEROS, _MOST_ZEROS + 1):
        places = np.flatnonzero((nanos % 10**zeros == 0) & (nanos != 0))
        if not len(places):
            break
        encoded_nanos[places] = nanos[places] // 10**zeros << _ZERO_BITS | zeros - 1
    return encoded_nanos


class _Structs(ColumnEncoder):
    def _add(self, values: Any) -> Message:
        for child, part in zip(self.children, values.flatten(), strict=True):
            child.add(part, in_nulls=self._shows_null)
        return count_statistics(len(values))


class _Lists(RunEncoder):
    """Lists and maps."""

    def _add(self, values: Any) -> Message:
        from pyarrow import types

        offsets = values.offsets.to_numpy()
        lengths = np.diff(offsets).astype(np.int64)
        least, maximum = self._append_integers(StreamKind.LENGTH, lengths, signed=False)
        parts = (values.keys, values.items) if types.is_map(values.type) else (values.values,)
        start, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        for child, part in zip(self.children, parts, strict=True):
            child.add(part[start:end])
        counts = Message().add_number(1, least).add_number(2, maximum).add_number(3, end - start)
        return value_statistics(len(values), COLLECTIONS, counts)


_SIMPLE: dict[TypeKind, type[ColumnEncoder]] = {
    TypeKind.BOOLEAN: _Flags,
    TypeKind.BYTE: _Bytes,
    TypeKind.SHORT: _Integers,
    TypeKind.INT: _Integers,
    TypeKind.LONG: _Integers,
    TypeKind.FLOAT: _Reals,
    TypeKind.DOUBLE: _Reals,
    TypeKind.STRING: TextEncoder,
    TypeKind.CHAR: TextEncoder,
    TypeKind.VARCHAR: TextEncoder,
    TypeKind.BINARY: BinaryEncoder,
    TypeKind.DATE: _Dates,
    TypeKind.DECIMAL: _Decimals,
}
_NESTED: dict[TypeKind, type[ColumnEncoder]] = {
    TypeKind.STRUCT: _Structs,
    TypeKind.LIST: _Lists,
    TypeKind.MAP: _Lists,
}


def _numbers(values: Any) -> Integers:
    """Return the numbers of an Arrow array of integers, dates, or timestamps without nulls."""
    import pyarrow as pa

    if not pa.types.is_integer(values.type):
        values = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    numbers: Integers = values.to_numpy().astype(np.int64, copy=False)
    return numbers
