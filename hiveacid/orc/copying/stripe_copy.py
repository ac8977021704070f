"""Copy stripes as they are, except for row indexes that mislead readers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hiveacid.orc.format.protobuf import DATA, Field, Message
from hiveacid.orc.format.source_and_sink import Output, Source, read_exactly
from hiveacid.orc.format.statistics import has_ranges, reliable_index
from hiveacid.orc.format.streams import StreamKind
from hiveacid.orc.format.stripe_footer import PlacedStream, StripeField, StripeFooter
from hiveacid.orc.format.tail import OrcTail, Stripe


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
        self._columns = {number for number, type_ in enumerate(tail.types) if has_ranges(type_)}

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
        streams = [read_exactly(self._source, stream.offset, stream.length) for stream in placed]
        rewritten = [
            self._reliable_stream(stream, data)
            for stream, data in zip(placed, streams, strict=True)
        ]
        if rewritten == streams:
            return None
        lengths = iter(map(len, rewritten))
        listed: list[Field] = []
        for stream in footer.message.all_messages(StripeField.STREAMS):
            # The streams of the index come first.
            length = next(lengths, stream.number(StripeField.STREAM_LENGTH))
            described = stream.with_numbers({StripeField.STREAM_LENGTH: length})
            listed.append((StripeField.STREAMS, DATA, described.encode()))
        listed += footer.message.without(StripeField.STREAMS).fields
        return RewrittenIndex(tuple(rewritten), Message(listed))

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
    moved = replace(
        stripe,
        offset=output.position,
        index_length=len(index),
        footer_length=len(footer),
    )
    output.write(index)
    output.copy(source, stripe.offset + stripe.index_length, stripe.data_length)
    output.write(footer)
    return moved
