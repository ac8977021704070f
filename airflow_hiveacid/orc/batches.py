"""Rows of an ORC file as Arrow batches, however large the stripes are.

Reading a stripe at a time takes as much memory as the stripe has when it is decoded, which may be
a hundred times its size in the file. Arrow's data sets decode batch by batch instead: a thread of
theirs runs up to 32 batches ahead, so that memory is bound by the size of a batch alone. They must
run without further threads, because with these they run ahead by a gigabyte.

Measured with stripes of 67 MB that hold 1.8 GB: 3.5 GB stripe by stripe, 0.25 GB this way.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any

from airflow_hiveacid.errors import BeyondArrow, CorruptFile
from airflow_hiveacid.orc.arrow_memory import rows_at_a_time
from airflow_hiveacid.orc.envelope import TypeField, TypeKind
from airflow_hiveacid.orc.protobuf import Message
from airflow_hiveacid.orc.source_and_sink import Source
from airflow_hiveacid.orc.statistics import BINARIES, COUNT, STRINGS
from airflow_hiveacid.orc.stripe_footer import StripeFooter
from airflow_hiveacid.orc.tail import OrcTail
from airflow_hiveacid.orc.view import FileOfStripes

_BATCH_BYTES = 4 << 20


def read_batches(
    source: Source,
    tail: OrcTail,
    stripes: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    rows: int = 65_536,
) -> Generator[Any, None, None]:
    """Read rows in the order of the file.

    Args:
        source: The file. Nobody else may read it until the last batch came or the generator was
            closed.
        tail: Its tail. Types of the same form may stand in the place of the file's own.
        stripes: The stripes to read; None reads all.
        columns: The names of the columns to read; None reads all.
        rows: The most rows a batch may have. Wide rows make it smaller.

    Raises:
        BeyondArrow: There are values that Arrow cannot hold.
        CorruptFile: The file does not decode.
    """
    from pyarrow import ArrowException, PythonFile
    from pyarrow.dataset import OrcFileFormat

    chosen = range(len(tail.stripes)) if stripes is None else stripes
    if not chosen:
        return
    if columns is None:
        _check_types(tail)
        allowed = (rows_at_a_time(source, tail, number) for number in chosen)
        rows = min(rows, _rows_of_a_batch(tail, chosen), *allowed)
    else:
        for number in chosen:
            StripeFooter.read(source, tail, tail.stripes[number])
    view = FileOfStripes(source, tail, chosen)
    batches: Iterator[Any] = iter(())
    try:
        fragment = OrcFileFormat().make_fragment(PythonFile(view, "r"))
        batches = fragment.to_batches(
            columns=columns, batch_size=rows, batch_readahead=0, use_threads=False
        )
        for batch in batches:
            if batch.num_rows:
                yield batch
    except (ArrowException, OSError, ValueError) as error:
        raise CorruptFile(f"The ORC library cannot read the file: {error}") from error
    finally:
        # The thread that runs ahead must be gone before somebody closes the file.
        view.close()
        with suppress(ArrowException, OSError, ValueError):
            for _ in batches:
                pass


def _check_types(tail: OrcTail) -> None:
    if any(Message.decode(type_).number(TypeField.KIND) == TypeKind.UNION for type_ in tail.types):
        raise BeyondArrow("There are columns of a union type, whose nulls Arrow does not keep.")


def _rows_of_a_batch(tail: OrcTail, stripes: Sequence[int]) -> int:
    """So many rows that their decoded values take a few megabytes in the widest stripe."""
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
    # Statistics that know less than they could must not make a batch of everything.
    return max(size, tail.stripes[stripe].length, 1)
