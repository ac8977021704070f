"""Assemble a file from stripes of other files, which are copied unchanged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hiveacid.errors import OutOfOrder, UnsupportedFile
from hiveacid.orc.copying.stripe_copy import copy_stripes
from hiveacid.orc.format.envelope import RowOperation, acid_metadata
from hiveacid.orc.format.layout import Layout, is_old, joint_writer, writer_of
from hiveacid.orc.format.source_and_sink import Output, Sink, Source, Written
from hiveacid.orc.format.statistics import count_statistics, merge_columns
from hiveacid.orc.format.tail import MAGIC, WRITER_JAVA, WRITER_VERSION_ORC_135, OrcTail
from hiveacid.orc.row_keys.key_stream import RowIdRange, read_row_id_range
from hiveacid.orc.values.nanoseconds import is_marked, mark, without_mark


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
        named = [(f"File {number}", part.tail) for number, part in enumerate(parts, 1)]
        layout = Layout.joint(named, like=parts[0].tail)
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
    for before, after in pairwise(row_ids):
        if after.first <= before.last:
            raise OutOfOrder(f"{after.first} does not come after {before.last}.")


def _operation(row_ids: Sequence[RowIdRange]) -> RowOperation:
    operations = {stripe_ids.operations for stripe_ids in row_ids}
    for operation in (RowOperation.INSERT, RowOperation.DELETE):
        if operations <= {(operation, operation)}:
            return operation
    raise UnsupportedFile("The ORC files mix inserts and deletes.")
