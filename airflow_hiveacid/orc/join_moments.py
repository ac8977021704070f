"""Files that Arrow has written of split timestamps, shown as what they are meant to be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_hiveacid.errors import CorruptFile
from airflow_hiveacid.orc.compression import Codec
from airflow_hiveacid.orc.envelope import TypeField, TypeKind
from airflow_hiveacid.orc.protobuf import Message
from airflow_hiveacid.orc.source_and_sink import Source, read_exactly
from airflow_hiveacid.orc.statistics import (
    COUNT,
    HAS_NULL,
    count_statistics,
    integer_range,
    timestamp_statistics,
)
from airflow_hiveacid.orc.streams import StreamKind, describe_stream, row_index
from airflow_hiveacid.orc.stripe_footer import UTC, PlacedStream, StripeFooter, new_footer
from airflow_hiveacid.orc.tail import MAGIC, OrcTail, Stripe
from airflow_hiveacid.orc.timestamps import Split
from airflow_hiveacid.orc.view import FileOfPieces, Piece, length_of

_SECONDS_OF_2015 = 1_420_070_400


def join_timestamps(
    source: Source, tail: OrcTail, types: Sequence[bytes], clock: str
) -> tuple[Source, OrcTail]:
    """Show a file of split timestamps as one of timestamps.

    Args:
        source: The file; see `split_timestamps`.
        tail: Its tail.
        types: The types that it shall have.
        clock: The time zone by which its seconds are counted.

    Raises:
        CorruptFile: The file has other columns than it should have.
    """
    file = _SplitFile(source, tail, tuple(types), Split.of(types), clock)
    if len(tail.types) != len(file.split.types):
        raise CorruptFile("The ORC file has other columns than its table.")
    pieces: list[Piece] = [MAGIC]
    shown: list[Stripe] = []
    position = len(MAGIC)
    for stripe in tail.stripes:
        index, data, footer = file.joined(stripe)
        pieces += [*index, *data, footer]
        new = replace(
            stripe,
            offset=position,
            index_length=sum(map(length_of, index)),
            data_length=sum(map(length_of, data)),
            footer_length=len(footer),
        )
        position += new.length
        shown.append(new)
    shown_tail = replace(
        tail,
        types=tuple(types),
        stripes=tuple(shown),
        stripe_statistics=tuple(map(file.statistics, tail.stripe_statistics)),
        file_statistics=file.statistics(tail.file_statistics),
    )
    return FileOfPieces(source, [*pieces, shown_tail.encode(position)]), shown_tail


@dataclass(frozen=True)
class _SplitFile:
    source: Source
    tail: OrcTail
    types: tuple[bytes, ...]
    split: Split
    clock: str

    def joined(self, stripe: Stripe) -> tuple[list[Piece], list[Piece], bytes]:
        """The index, the data and the footer of a stripe."""
        footer = StripeFooter.read(self.source, self.tail, stripe)
        columns = {place: column for column, place in enumerate(self.split.places)}
        # Each timestamp's seconds and nanoseconds.
        parts = {
            self.split.places[column] + step: column
            for column in self.split.timestamps
            for step in (1, 2)
        }
        streams: list[bytes] = []
        index: list[Piece] = []
        indexes = {each.column: each for each in footer.index}
        for stream in footer.index:
            if stream.column in parts:
                continue
            column = columns[stream.column]
            piece: Piece = (stream.offset, stream.length)
            if column in self.split.timestamps:
                piece = self._row_index(column, indexes)
            index.append(piece)
            streams.append(describe_stream(stream.kind, column, length_of(piece)))
        data: list[Piece] = []
        for stream in footer.data:
            column = parts.get(stream.column, columns.get(stream.column, -1))
            if stream.column in parts and not self._is_kept(stream, column):
                continue
            data.append((stream.offset, stream.length))
            streams.append(describe_stream(stream.kind, column, stream.length))
        encodings = [
            footer.encodings[place + 1 if column in self.split.timestamps else place]
            for column, place in enumerate(self.split.places)
        ]
        encoded = new_footer(streams, encodings, self.clock)
        return index, data, self.tail.compression.compress(encoded)

    def _is_kept(self, stream: PlacedStream, column: int) -> bool:
        """Whether a stream of a part is one of its timestamp: neither zeros nor flags without nulls."""
        part = stream.column - self.split.places[column]
        return stream.kind == (StreamKind.DATA if part == 1 else StreamKind.SECONDARY)

    def _row_index(self, column: int, indexes: dict[int, PlacedStream]) -> bytes:
        place = self.split.places[column]
        entries = [
            Message.decode(
                self.tail.compression.decompress(
                    read_exactly(self.source, indexes[each].offset, indexes[each].length)
                )
            ).all_messages(1)
            for each in (place, place + 1, place + 2)
        ]
        numbers = 2 if self.tail.codec is Codec.NONE else 3
        groups = []
        for whole, seconds, nanos in zip(*entries, strict=True):
            positions = whole.all_numbers(1)
            for part in (seconds, nanos):
                # Whatever stands in front belongs to streams that are left out.
                positions += part.all_numbers(1)[-numbers:]
            found = [each.data(2) or b"" for each in (whole, seconds, nanos)]
            groups.append((positions, self._timestamps_of(column, *found)))
        return self.tail.compression.compress(row_index(groups))

    def statistics(self, columns: Sequence[bytes]) -> tuple[bytes, ...]:
        """The statistics of the columns, from those of the split ones."""
        return tuple(
            self._timestamps_of(column, *columns[place : place + 3])
            if column in self.split.timestamps
            else columns[place]
            for column, place in enumerate(self.split.places)
        )

    def _timestamps_of(self, column: int, whole: bytes, seconds: bytes, nanos: bytes) -> bytes:
        message = Message.decode(whole)
        count, has_null = message.number(COUNT), bool(message.number(HAS_NULL, 1))
        if any(Message.decode(part).number(COUNT) != count for part in (seconds, nanos)):
            raise CorruptFile("There are timestamps without seconds, or without nanoseconds.")
        instant = Message.decode(self.types[column]).number(TypeField.KIND) == (
            TypeKind.TIMESTAMP_INSTANT
        )
        range_ = integer_range(seconds) if instant or self.clock == UTC else None
        if range_ is None:
            # Statistics count by UTC, and only its clock is never put forward or back.
            return count_statistics(count, has_null=has_null).encode()
        first, last = (each + _SECONDS_OF_2015 for each in range_)
        # Before 1970, seconds are those towards 1970.
        millis = (first - (first <= 0)) * 1000, last * 1000 + 999
        return timestamp_statistics(count, millis, has_null=has_null).encode()
