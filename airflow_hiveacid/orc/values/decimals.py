"""Decimals as integers: Arrow writes four integers in the time that it takes for one decimal.

ORC stores a decimal as a number without its point, in a variable number of bytes, and a scale.
Arrow receives only the numbers (`DecimalColumns.as_integers`): its output provides null flags, rows
of row groups, ranges and sums. Streams of decimals, which are made here
(`DecimalColumns.in_stripe`), replace its streams of integers. Sums of more than 64 bits are
omitted, as for integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airflow_hiveacid.errors import BeyondArrow
from airflow_hiveacid.orc.format.envelope import EnvelopeColumn, TypeField, TypeKind, kind_of
from airflow_hiveacid.orc.format.protobuf import Message
from airflow_hiveacid.orc.format.statistics import COUNT, DECIMALS, INTEGERS
from airflow_hiveacid.orc.format.streams import Integers, arithmetic_runs, row_index

# More digits need more than 64 bits.
_MOST_DIGITS = 18
# The maximum number of decimals in memory until their file is compressed, three or four bytes each.
_MOST_VALUES = 16_000_000
_DIGITS = Context(prec=80)
# The last of Hive's six columns.
_ROW = EnvelopeColumn.ROW - 1
_ENTRY, _POSITIONS, _STATISTICS = 1, 1, 2
# Of integers: the place in the stream, and within a run.
_PLACES = 2


class DecimalColumns:
    """The columns of a table that are decimals of few digits, and their values in the order of rows."""

    def __init__(self, types: Sequence[bytes], rows: int) -> None:
        """Find the columns.

        Args:
            types: The types of a full ACID file.
            rows: The maximum number of rows: above a limit all columns remain unchanged.
        """
        inside = Message.decode(types[EnvelopeColumn.ROW]).all_numbers(TypeField.SUBTYPES)
        self._columns: dict[int, _Column] = {}
        for place, number in enumerate(inside):
            type_ = Message.decode(types[number])
            digits = type_.number(TypeField.PRECISION)
            if type_.number(TypeField.KIND) == TypeKind.DECIMAL and 0 < digits <= _MOST_DIGITS:
                self._columns[number] = _Column(place, types[number], type_.number(TypeField.SCALE))
        if rows * len(self._columns) > _MOST_VALUES:
            self._columns = {}

    def __contains__(self, column: int) -> bool:
        return column in self._columns

    def as_integers(self, batch: Any) -> Any:
        """A batch of ACID events with integers in the place of the decimals, which are kept.

        Raises:
            BeyondArrow: A decimal has more digits than its column may have.
        """
        import pyarrow as pa

        if not self._columns:
            return batch
        row = batch.column(_ROW)
        values, fields = row.flatten(), list(row.type)
        for column in self._columns.values():
            values[column.place] = column.add(values[column.place])
            fields[column.place] = fields[column.place].with_type(pa.int64())
        nulls = row.is_null() if row.null_count else None
        rows = pa.StructArray.from_arrays(values, fields=fields, mask=nulls)
        return batch.set_column(_ROW, batch.schema.field(_ROW).with_type(rows.type), rows)

    def in_types(self, types: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the types of the file that Arrow wrote, with decimals restored.

        Raises:
            BeyondArrow: The types differ from the input of Arrow.
        """
        if any(kind_of(types[number]) != TypeKind.LONG for number in self._columns):
            raise BeyondArrow("Arrow wrote other columns than it was given.")
        return tuple(
            self._columns[number].type if number in self._columns else type_
            for number, type_ in enumerate(types)
        )

    def in_statistics(self, columns: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the statistics of all columns, with those of decimals restored."""
        return tuple(
            self._columns[number].statistics(statistics) if number in self._columns else statistics
            for number, statistics in enumerate(columns)
        )

    def in_stripe(self, number: int, index: bytes) -> "DecimalStreams":
        """Return the streams of a column in the next stripe, all uncompressed.

        Args:
            number: The column.
            index: The row index that Arrow wrote for its integers.

        Raises:
            BeyondArrow: Its row groups differ from those of the decimals.
        """
        return self._columns[number].next_stripe(index)


@dataclass(frozen=True, slots=True)
class DecimalStreams:
    """The data of a column of decimals in a stripe, besides its null flags.

    Attributes:
        index: The row index.
        numbers: The numbers without their points.
        scales: The number of digits after the points.
    """

    index: bytes
    numbers: bytes
    scales: bytes


@dataclass(slots=True)
class _Column:
    place: int
    type: bytes
    scale: int
    # The numbers as encoded in the file, and the number of bytes of each.
    numbers: bytearray = field(default_factory=bytearray)
    lengths: list[NDArray[np.uint8]] = field(default_factory=list)
    taken_values: int = 0
    taken_bytes: int = 0

    def add(self, values: Any) -> Any:
        """Keep decimals that Arrow holds, and make integers of them."""
        import pyarrow as pa

        words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
        words = words[values.offset : values.offset + len(values)]
        nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        known = words if nulls is None else words[~nulls]
        if (known[:, 1] != known[:, 0] >> 63).any():
            raise BeyondArrow("There is a decimal with more digits than its column may have.")
        encoded, lengths = varints(known[:, 0])
        self.numbers += encoded
        self.lengths.append(lengths)
        return pa.array(np.ascontiguousarray(words[:, 0]), mask=nulls)

    def next_stripe(self, index: bytes) -> DecimalStreams:
        if len(self.lengths) > 1:
            self.lengths = [np.concatenate(self.lengths)]
        start, scales = self.taken_bytes, bytearray()
        groups: list[tuple[list[int], bytes]] = []
        for entry in Message.decode(index).all_messages(_ENTRY):
            statistics = entry.data(_STATISTICS) or b""
            # Null flags come first.
            positions = entry.all_numbers(_POSITIONS)[:-_PLACES]
            positions += [self.taken_bytes - start, len(scales), 0]
            groups.append((positions, self.statistics(statistics)))
            count = Message.decode(statistics).number(COUNT)
            lengths = self.lengths[0][self.taken_values : self.taken_values + count]
            if len(lengths) < count:
                raise BeyondArrow("Arrow wrote more decimals than it was given.")
            self.taken_values += count
            self.taken_bytes += int(lengths.sum(dtype=np.int64))
            scales += arithmetic_runs(self.scale, count, 0)
        numbers = bytes(self.numbers[start : self.taken_bytes])
        return DecimalStreams(row_index(groups), numbers, bytes(scales))

    def statistics(self, statistics: bytes) -> bytes:
        """Convert the statistics of integers into those of the decimals."""
        message = Message.decode(statistics)
        integers = message.message(INTEGERS)
        decimals = Message()
        for number in (1, 2, 3):
            if integers is not None and integers.has(1) and integers.has(number):
                exact = Decimal(integers.signed(number)).scaleb(-self.scale, _DIGITS)
                decimals.add_data(number, format(exact, "f").encode())
        message = message.without(INTEGERS)
        if decimals.fields:
            message.add_data(DECIMALS, decimals.encode())
        message.fields.sort(key=lambda each: each[0])
        return message.encode()


def varints(values: Integers) -> tuple[bytes, NDArray[np.uint8]]:
    """Encode integers one by one, seven bits in a byte; also return the number of bytes of each."""
    rest: NDArray[Any] = ((values << 1) ^ (values >> 63)).view(np.uint64)
    largest = int(rest.max()) if len(rest) else 0
    if largest < 1 << 32:
        rest = rest.astype(np.uint32)
    widest = max(-(-largest.bit_length() // 7), 1)
    octets = np.empty((len(values), widest), np.uint8)
    held = np.ones((len(values), widest), np.bool_)
    lengths = np.ones(len(values), np.uint8)
    for place in range(widest):
        octets[:, place] = rest & 0x7F
        rest = rest >> 7
        if place + 1 < widest:
            follows = rest != 0
            octets[:, place] |= follows.view(np.uint8) << 7
            held[:, place + 1] = follows
            lengths += follows
    return octets[held].tobytes(), lengths
