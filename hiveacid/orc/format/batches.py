"""Rows of an ORC file as Arrow batches, independent of the size of the stripes.

Arrow reads whole files only: `FileOfPieces` and `FileOfStripes` present a part of a file as a file.

Reading a stripe at a time takes as much memory as the stripe has when it is decoded, which may be a
hundred times its size in the file. Arrow's data sets decode batch by batch instead: a thread of
theirs runs up to 32 batches ahead, so that only the size of a batch limits memory. They must run
without further threads, which would read ahead by a gigabyte.

Measured with stripes of 67 MB that hold 1.8 GB: 3.5 GB stripe by stripe, 0.25 GB this way.
"""

import io
import os
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from time import monotonic, sleep
from typing import Any
from weakref import ref

from hiveacid.errors import BeyondArrow, CorruptFile
from hiveacid.orc.format.arrow_memory import rows_at_a_time
from hiveacid.orc.format.envelope import TypeKind, kind_of
from hiveacid.orc.format.protobuf import Message
from hiveacid.orc.format.source_and_sink import Source, read_exactly
from hiveacid.orc.format.statistics import BINARIES, COUNT, STRINGS
from hiveacid.orc.format.stripe_footer import StripeFooter
from hiveacid.orc.format.tail import MAGIC, OrcTail, Stripe

_BATCH_BYTES = 2 << 20
# The threads of the library need microseconds. One that never releases a file is not worth hanging.
_POLL_SECONDS = 0.0002
_RELEASE_SECONDS = 10

# A range of the other file, by offset and length, or new bytes.
Piece = tuple[int, int] | bytes


@dataclass(frozen=True, slots=True)
class OtherStripe:
    """A stripe with other content.

    Attributes:
        stripe: The stripe that it replaces.
        index: Its row indexes.
        data: Its data.
        footer: Its footer, compressed.
    """

    stripe: Stripe
    index: Sequence[Piece]
    data: Sequence[Piece]
    footer: bytes


def read_batches(
    source: Source,
    tail: OrcTail,
    stripes: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    rows: int = 65_536,
) -> Generator[Any, None, None]:
    """Read rows in the order of the file.

    Args:
        source: The file. No other reader may use it until the last batch is returned or the
            generator is closed.
        tail: Its tail. Types of the same form may replace the file's own.
        stripes: The stripes to read; by default all.
        columns: The names of the columns to read; by default all.
        rows: The maximum number of rows of a batch. Wide rows make it smaller.

    Raises:
        BeyondArrow: A value is not representable in Arrow.
        CorruptFile: The file does not decode.
    """
    from pyarrow import ArrowException, PythonFile
    from pyarrow.dataset import OrcFileFormat

    chosen = range(len(tail.stripes)) if stripes is None else stripes
    if not chosen:
        return
    if columns is None:
        _check_types(tail)
        rows = min(rows, _rows_of_a_batch(tail, chosen))
        for number in chosen:
            allowed = rows_at_a_time(source, tail, number)
            # A whole stripe is no limit: the last one is often small.
            if allowed < tail.stripes[number].rows:
                rows = min(rows, allowed)
    else:
        for number in chosen:
            StripeFooter.read(source, tail, tail.stripes[number])
    view = FileOfStripes(source, tail, chosen)
    lent = _LentFile(view)
    batches: Iterator[Any] = iter(())
    try:
        batches = (
            OrcFileFormat()
            .make_fragment(PythonFile(lent, "r"))
            .to_batches(columns=columns, batch_size=rows, batch_readahead=0, use_threads=False)
        )
        for batch in batches:
            if batch.num_rows:
                yield batch
    except (ArrowException, OSError, ValueError) as error:
        raise CorruptFile(f"The ORC library cannot read the file: {error}") from error
    finally:
        # The read-ahead thread must end before the caller closes the file.
        view.close()
        with suppress(ArrowException, OSError, ValueError):
            for _ in batches:
                pass
        del batches
        returned = ref(lent)
        del lent
        _wait_until_gone(returned)


def _wait_until_gone(lent: "ref[_LentFile]") -> None:
    """Wait until the library's threads have released a file.

    A thread that releases an object of Python while the interpreter ends aborts the process.
    """
    deadline = monotonic() + _RELEASE_SECONDS
    while lent() is not None and monotonic() < deadline:
        sleep(_POLL_SECONDS)


def _check_types(tail: OrcTail) -> None:
    if any(kind_of(type_) == TypeKind.UNION for type_ in tail.types):
        raise BeyondArrow("There are columns of a union type, whose nulls Arrow does not keep.")


def _rows_of_a_batch(tail: OrcTail, stripes: Sequence[int]) -> int:
    """Return the number of rows whose decoded values take a few megabytes in the widest stripe."""
    return min(
        max(tail.stripes[number].rows * _BATCH_BYTES // _decoded_size(tail, number), 1)
        for number in stripes
    )


def _decoded_size(tail: OrcTail, stripe: int) -> int:
    """About how many bytes a stripe takes in memory, from the statistics of its columns."""
    size = 0
    for column in tail.stripe_statistics[stripe]:
        statistics = Message.decode(column)
        size += 8 * statistics.number(COUNT)
        texts, binaries = statistics.message(STRINGS), statistics.message(BINARIES)
        size += texts.signed(3) if texts else 0
        size += binaries.signed(1) if binaries else 0
    # Incomplete statistics must not lead to a single batch of all rows.
    return max(size, tail.stripes[stripe].length, 1)


class _LentFile:
    """The methods of a file that the library calls.

    Nothing but the library refers to it: frames of these methods, which the traceback of an error
    keeps, refer to the file itself.
    """

    def __init__(self, file: io.RawIOBase) -> None:
        self.read = file.read
        self.seek = file.seek
        self.tell = file.tell
        self.close = file.close
        self.closed = False


class FileOfPieces(io.RawIOBase):
    """Presents pieces of a file, and bytes in between, as one file.

    The pieces keep their positions. Closing the view leaves the file open.
    """

    def __init__(self, source: Source, pieces: Sequence[Piece]) -> None:
        self._source = source
        self._pieces = pieces
        self._starts = [0, *accumulate(map(length_of, pieces))]
        self._position = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes, or all that follow; less only at the end."""
        if self.closed:
            raise ValueError("The view is closed.")
        last = self._starts[-1]
        end = last if size < 0 else min(self._position + size, last)
        start, self._position = self._position, max(end, self._position)
        if start >= end:
            return b""
        number = bisect_right(self._starts, start) - 1
        parts: list[bytes] = []
        while start < end:
            piece, begin = self._pieces[number], self._starts[number]
            stop = min(end, self._starts[number + 1])
            if isinstance(piece, bytes):
                parts.append(piece[start - begin : stop - begin])
            elif stop > start:
                parts.append(read_exactly(self._source, piece[0] + start - begin, stop - start))
            start, number = stop, number + 1
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._starts[-1]}[whence]
        self._position = base + position
        return self._position

    def tell(self) -> int:
        """The current position."""
        return self._position

    def readable(self) -> bool:
        """Report that the file is readable."""
        return True

    def seekable(self) -> bool:
        """Report that the file is seekable."""
        return True


class FileOfStripes(FileOfPieces):
    """A view of an ORC file with only some of its stripes.

    The stripes keep their positions; a tail that lists only these stripes follows the last one.
    """

    def __init__(self, source: Source, tail: OrcTail, stripes: Sequence[int]) -> None:
        shown = with_stripes(tail, stripes)
        content = max((stripe.offset + stripe.length for stripe in shown.stripes), default=0)
        super().__init__(source, [(0, content), shown.encode(content)])


def with_stripes(tail: OrcTail, stripes: Sequence[int]) -> OrcTail:
    """A tail that lists only some of the stripes."""
    return replace(
        tail,
        stripes=tuple(tail.stripes[number] for number in stripes),
        stripe_statistics=tuple(tail.stripe_statistics[number] for number in stripes),
    )


def with_other_stripes(
    source: Source, tail: OrcTail, stripes: Iterable[OtherStripe]
) -> tuple[Source, OrcTail]:
    """Present a file whose stripes are made of its own ranges and of new bytes.

    Args:
        source: The file.
        tail: The tail of the result, except for its stripes.
        stripes: The new stripes, in order.

    Returns:
        The presented file, and its tail.
    """
    pieces: list[Piece] = [MAGIC]
    shown: list[Stripe] = []
    position = len(MAGIC)
    for other in stripes:
        pieces += [*other.index, *other.data, other.footer]
        new = replace(
            other.stripe,
            offset=position,
            index_length=sum(map(length_of, other.index)),
            data_length=sum(map(length_of, other.data)),
            footer_length=len(other.footer),
        )
        position += new.length
        shown.append(new)
    shown_tail = replace(tail, stripes=tuple(shown))
    return FileOfPieces(source, [*pieces, shown_tail.encode(position)]), shown_tail


def length_of(piece: Piece) -> int:
    """Return the number of bytes of a piece."""
    return len(piece) if isinstance(piece, bytes) else piece[1]
