"""Encode columns of numbers, times, flags, and nested types from Arrow arrays."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.errors import BeyondArrow
from hiveacid.orc.format.byte_streams import encode_bytes
from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.integer_streams import exact_sum
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.statistics import (
    BUCKETS,
    COLLECTIONS,
    DATES,
    DECIMALS,
    DOUBLES,
    count_statistics,
    integer_statistics,
    reliable_range,
    timestamp_statistics,
)
from hiveacid.orc.format.streams import Integers, StreamKind, arithmetic_runs
from hiveacid.orc.format.stripe_footer import UTC
from hiveacid.orc.values.column_encoder import (
    ColumnEncoder,
    PlainStream,
    RunEncoder,
    flag_stream,
    value_statistics,
)
from hiveacid.orc.values.decimals import Numbers
from hiveacid.orc.values.texts import BinaryEncoder, TextEncoder
from hiveacid.orc.values.timestamps import SECONDS_OF_2015

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

    def _add(self, values: Any) -> Message:
        seconds, nanos = (_numbers(part) for part in values.flatten())
        nanos = nanos - SECONDS_OF_2015 * _NANOS_OF_SECOND if len(nanos) else nanos
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
    encoded = nanos << _ZERO_BITS
    for zeros in range(_FEWEST_ZEROS, _MOST_ZEROS + 1):
        places = np.flatnonzero((nanos % 10**zeros == 0) & (nanos != 0))
        if not len(places):
            break
        encoded[places] = nanos[places] // 10**zeros << _ZERO_BITS | zeros - 1
    return encoded


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
        least, most = self._append_integers(StreamKind.LENGTH, lengths, signed=False)
        parts = (values.keys, values.items) if types.is_map(values.type) else (values.values,)
        start, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        for child, part in zip(self.children, parts, strict=True):
            child.add(part[start:end])
        counts = Message().add_number(1, least).add_number(2, most).add_number(3, end - start)
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
