"""Assemble a file from stripes of other files, which are copied unchanged."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from hiveacid.dataclass import dataclass
from hiveacid.errors import OutOfOrder, UnsupportedFile
from hiveacid.orc.format.compression import Output, Sink, Source, Written, read_exactly
from hiveacid.orc.format.envelope import RowOperation, acid_metadata
from hiveacid.orc.format.layout import Layout, is_old, joint_writer, writer_of
from hiveacid.orc.format.protobuf import DATA, Field, Message
from hiveacid.orc.format.statistics import (
    count_statistics,
    may_mislead,
    merge_columns,
    reliable_index,
)
from hiveacid.orc.format.streams import PlacedStream, StreamKind, StripeField, StripeFooter
from hiveacid.orc.format.tail import MAGIC, WRITER_JAVA, WRITER_VERSION_ORC_135, OrcTail, Stripe
from hiveacid.orc.row_keys.key_stream import RowIdRange, read_row_id_range
from hiveacid.orc.values.timestamps import is_marked, mark, without_mark

# Copy stripes as they are, except for row indexes that mislead readers


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """The index part of a stripe, rewritten.

    Attributes:
        streams: Its streams.
        footer: The stripe's footer, which contains their lengths.
    """

    streams: tuple[bytes, ...]
    footer: Message


def copy_stripes(
    source: Source, tail: OrcTail, numbers: Sequence[int], output: Output
) -> Iterator[Stripe]:
    """Copy stripes, adjacent ones in one operation, and yield their new positions.

    Args:
        source: The file.
        tail: Its tail.
        numbers: The stripes, in the order of the output.
        output: Receives the stripes.
    """
    index = StripeIndex(source, tail)
    start = end = 0
    for number in numbers:
        stripe = tail.stripes[number]
        rewritten = index.rewritten(stripe)
        if rewritten is not None or stripe.offset != end:
            output.copy(source, start, end - start)
            start = end = stripe.offset
        if rewritten is not None:
            yield _copy_with(rewritten, source, tail, stripe, output)
            start = end = stripe.offset + stripe.length
            continue
        # No data after `start` is copied so far.
        yield replace(stripe, offset=output.position + end - start)
        end += stripe.length
    output.copy(source, start, end - start)


class StripeIndex:
    """Looks for ranges in the row indexes of a file that mislead readers."""

    def __init__(self, source: Source, tail: OrcTail) -> None:
        self._source = source
        self._tail = tail
        self._columns = {number for number, type_ in enumerate(tail.types) if may_mislead(type_)}

    def rewritten(
        self, stripe: Stripe, footer: StripeFooter | None = None
    ) -> RewrittenIndex | None:
        """Return the index part for a copy of a stripe, if it must change.

        Args:
            stripe: The stripe.
            footer: Its footer, if already read.
        """
        if not self._columns or not stripe.index_length:
            return None
        footer = footer or StripeFooter.read(self._source, self._tail, stripe)
        placed = footer.index
        part = read_exactly(self._source, stripe.offset, stripe.index_length)
        streams = [part[stream.offset - stripe.offset :][: stream.length] for stream in placed]
        rewritten = [
            self._reliable_stream(stream, data)
            for stream, data in zip(placed, streams, strict=True)
        ]
        if rewritten == streams:
            return None
        lengths = iter(map(len, rewritten))
        footer_fields: list[Field] = []
        for stream in footer.message.all_messages(StripeField.STREAMS):
            # The streams of the index come first.
            length = next(lengths, stream.number(StripeField.STREAM_LENGTH))
            description = stream.with_numbers({StripeField.STREAM_LENGTH: length})
            footer_fields.append((StripeField.STREAMS, DATA, description.encode()))
        footer_fields += footer.message.without(StripeField.STREAMS).fields
        return RewrittenIndex(tuple(rewritten), Message(footer_fields))

    def _reliable_stream(self, stream: PlacedStream, data: bytes) -> bytes:
        if stream.kind != StreamKind.ROW_INDEX or stream.column not in self._columns:
            return data
        plain = self._tail.compression.decompress(data)
        rewritten = reliable_index(plain)
        return data if rewritten == plain else self._tail.compression.compress(rewritten)


def _copy_with(
    rewritten: RewrittenIndex, source: Source, tail: OrcTail, stripe: Stripe, output: Output
) -> Stripe:
    index = b"".join(rewritten.streams)
    footer = tail.compression.compress(rewritten.footer.encode())
    moved_stripe = replace(
        stripe,
        offset=output.position,
        index_length=len(index),
        footer_length=len(footer),
    )
    output.write(index)
    output.copy(source, stripe.offset + stripe.index_length, stripe.data_length)
    output.write(footer)
    return moved_stripe


@dataclass(frozen=True, slots=True)
class Part:
    """Stripes of a file.

    Attributes:
        source: The file.
        tail: Its tail.
        stripes: The numbers of the stripes; by default all.
        reencoded: Whether `reencode` made the file, from stripes that have been checked.
    """

    source: Source
    tail: OrcTail
    stripes: Sequence[int] | None = None
    reencoded: bool = False

    @property
    def chosen(self) -> Sequence[int]:
        """The numbers of the stripes."""
        return range(len(self.tail.stripes)) if self.stripes is None else self.stripes

    @property
    def statistics(self) -> Iterator[tuple[bytes, ...]]:
        """The statistics of all columns, of the whole file or of each chosen stripe."""
        if len(self.chosen) == len(self.tail.stripes):
            return iter([self.tail.file_statistics] if self.tail.stripes else [])
        return (self.tail.stripe_statistics[number] for number in self.chosen)


def assemble(parts: Sequence[Part], sink: Sink, *, layout: Layout | None = None) -> Written:
    """Write a file with stripes of other files, in the given order.

    Args:
        parts: The stripes; all flat, or all of full ACID tables.
        sink: Receives the new file.
        layout: The layout that the new file declares; by default that of the parts, which must
            agree.

    Raises:
        OutOfOrder: The row ids of ACID files do not ascend, as readers require.
        UnsupportedFile: The parts differ in something that their stripes rely on.
        ValueError: Both parts and layout are missing.
    """
    for part in parts:
        part.tail.check_movable()
    if layout is None:
        if not parts:
            raise ValueError("There is no file to copy.")
        named_tails = [(f"File {number}", part.tail) for number, part in enumerate(parts, 1)]
        layout = Layout.joint(named_tails, like=parts[0].tail)
    writers = {writer_of(part.tail) for part in parts} or {(WRITER_JAVA, WRITER_VERSION_ORC_135)}
    for number, part in enumerate(parts, 1):
        different = layout.differences(part.tail)
        if len(writers) > 1 and any(map(is_old, writers)):
            different.append("writer")
        if different:
            raise UnsupportedFile(
                f"File {number} cannot be joined to the others; different: {', '.join(different)}."
            )

    metadata = without_mark(parts[0].tail.user_metadata) if parts else {}
    if all(is_marked(part.tail) for part in parts):
        metadata |= mark(
            sum(part.tail.stripes[number].rows for part in parts for number in part.chosen)
        )
    row_ids: list[RowIdRange] = []
    if layout.is_acid:
        row_ids = [
            read_row_id_range(part.source, part.tail, number)
            for part in parts
            for number in part.chosen
        ]
        _check_order(row_ids)
        rows = sum(part.tail.stripes[number].rows for part in parts for number in part.chosen)
        metadata |= acid_metadata(
            [stripe_ids.last for stripe_ids in row_ids], _operation(row_ids), rows
        )

    output = Output(sink)
    output.write(MAGIC)
    stripes = [
        stripe
        for part in parts
        for stripe in copy_stripes(part.source, part.tail, part.chosen, output)
    ]
    statistics = [columns for part in parts for columns in part.statistics]
    nothing = (count_statistics(0).encode(),) * len(layout.types)
    tail = replace(
        layout.tail(
            max([layout.block_size, *(part.tail.block_size for part in parts)]),
            joint_writer(writers),
        ),
        stripes=tuple(stripes),
        stripe_statistics=tuple(
            part.tail.stripe_statistics[number] for part in parts for number in part.chosen
        ),
        file_statistics=merge_columns(statistics) if statistics else nothing,
        user_metadata=metadata,
    )
    output.write(tail.encode(output.position))
    return Written(tail.rows, output.position, tuple(stripe_ids.last for stripe_ids in row_ids))


def _check_order(row_ids: Sequence[RowIdRange]) -> None:
    for previous_ids, next_ids in pairwise(row_ids):
        if next_ids.first <= previous_ids.last:
            raise OutOfOrder(f"{next_ids.first} does not come after {previous_ids.last}.")


def _operation(row_ids: Sequence[RowIdRange]) -> RowOperation:
    operations = {stripe_ids.operations for stripe_ids in row_ids}
    for operation in (RowOperation.INSERT, RowOperation.DELETE):
        if operations <= {(operation, operation)}:
            return operation
    raise UnsupportedFile("The ORC files mix inserts and deletes.")
