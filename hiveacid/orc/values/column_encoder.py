"""The parts that the encoders of all columns have in common: streams, null flags, statistics.

Each row group starts new runs, so that a row index never points into a run of numbers. Columns have
an encoder each, those of nested types one for each nested column; parents hand over the values of
rows that are not null.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiveacid.orc.format.byte_streams import encode_flags
from hiveacid.orc.format.integer_streams import encode_integers
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.statistics import COUNT, HAS_NULL, merge
from hiveacid.orc.format.streams import (
    Encoding,
    Integers,
    StreamKind,
    describe_encoding,
)


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
        own = sum(stream.size for stream in self._streams.values())
        return own + sum(child.size for child in self.children)

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
            known = (
                np.ones(group, np.bool_) if isinstance(group, int) else group
                for group in self._known
            )
            streams.append(flag_stream(StreamKind.PRESENT, list(known)))
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
        encoded = encode_integers(values, signed=signed)
        self._append(kind, encoded.runs, is_run=True)
        return encoded.smallest, encoded.largest


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
