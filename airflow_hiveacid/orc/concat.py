"""Join ORC files by copying their stripes as they are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from airflow_hiveacid.acid.errors import UnsupportedFile
from airflow_hiveacid.acid.row_id import RowId
from airflow_hiveacid.orc.envelope import (
    Column,
    Operation,
    TypeField,
    TypeKind,
    acid_metadata,
)
from airflow_hiveacid.orc.keys import KeyReader
from airflow_hiveacid.orc.output import Output, Sink, Source
from airflow_hiveacid.orc.statistics import merge_columns
from airflow_hiveacid.orc.tail import (
    MAGIC,
    WRITER_JAVA,
    WRITER_VERSION_ORC_135,
    FooterField,
    OrcTail,
    PostScriptField,
    Stripe,
)
from airflow_hiveacid.orc.transplant import Written
from airflow_hiveacid.orc.wire import Message

_CALENDAR_KINDS = (TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)
_JULIAN = 1


def concatenate(sources: Sequence[Source], sink: Sink) -> Written:
    """Write the stripes of several files into one, in the order given.

    Row ids must ascend over all files if they are ACID files: readers take that for granted.

    Args:
        sources: At least one file; all flat, or all of full ACID tables, with the same types.
        sink: Takes the new file.

    Raises:
        UnsupportedFile: The files differ in something that their stripes rely on.
        ValueError: The row ids of the files do not ascend.
    """
    parts = [_Part(source, OrcTail.read(source)) for source in sources]
    if not parts:
        raise ValueError("There is no file to copy.")
    for number, part in enumerate(parts, 1):
        part.tail.check_movable()
        _check_compatible(parts[0].tail, part.tail, number)
    first = parts[0].tail
    metadata = dict(first.user_metadata)
    last_rows: list[RowId] = []
    if first.is_acid:
        spans = [span for part in parts for span in part.spans()]
        _check_order(spans)
        last_rows = [span.last for span in spans]
        rows = sum(part.tail.rows for part in parts)
        metadata |= acid_metadata(last_rows, _operation(spans), rows)

    output = Output(sink)
    output.write(MAGIC)
    stripes = [stripe for part in parts for stripe in _copy_stripes(part, output)]
    filled = [part.tail for part in parts if part.tail.stripes]
    tail = replace(
        _joint_tail([part.tail for part in parts]),
        stripes=tuple(stripes),
        stripe_statistics=tuple(
            columns for part in parts for columns in part.tail.stripe_statistics
        ),
        file_statistics=merge_columns([tail.file_statistics for tail in filled or [first]]),
        user_metadata=metadata,
    )
    output.write(tail.encode(output.position))
    return Written(tail.rows, output.position, tuple(last_rows))


@dataclass(frozen=True, slots=True)
class _Span:
    """What the row ids of a stripe reach from and to."""

    first: RowId
    last: RowId
    operations: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Part:
    source: Source
    tail: OrcTail

    def spans(self) -> Iterator[_Span]:
        """The spans of all stripes.

        The key index of the file is not asked: some engines write wrong ones.
        """
        reader: KeyReader | None = None
        for number in range(len(self.tail.stripes)):
            span = self._span_from_statistics(number)
            if span is None:
                reader = reader or KeyReader(self.source, self.tail)
                keys = reader.read(number)
                operations = int(keys.operations.min()), int(keys.operations.max())
                span = _Span(keys.row_id(0), keys.row_id(-1), operations)
            yield span

    def _span_from_statistics(self, number: int) -> _Span | None:
        operations, write_ids, buckets, rows = (
            self.tail.int_range(number, column)
            for column in (
                Column.OPERATION,
                Column.ORIGINAL_TRANSACTION,
                Column.BUCKET,
                Column.ROW_ID,
            )
        )
        if not (operations and write_ids and buckets and rows):
            return None
        if write_ids[0] != write_ids[1] or buckets[0] != buckets[1]:
            # The smallest row id of one write id may stand behind the largest of another.
            return None
        first, last = (RowId(write_ids[0], buckets[0], row) for row in rows)
        return _Span(first, last, operations)


def _check_order(spans: Sequence[_Span]) -> None:
    for before, after in pairwise(spans):
        if after.first <= before.last:
            raise ValueError(f"{after.first} does not come after {before.last}.")


def _operation(spans: Sequence[_Span]) -> Operation:
    found = {span.operations for span in spans}
    for operation in (Operation.INSERT, Operation.DELETE):
        if found <= {(operation, operation)}:
            return operation
    raise UnsupportedFile("The ORC files mix inserts and deletes.")


def _copy_stripes(part: _Part, output: Output) -> Iterator[Stripe]:
    """Copy all stripes, those that touch each other in one go."""
    start = end = 0
    moved: list[Stripe] = []
    for stripe in part.tail.stripes:
        if stripe.offset != end:
            output.copy(part.source, start, end - start)
            start = end = stripe.offset
        moved.append(replace(stripe, offset=output.position + end - start))
        end += stripe.length
    output.copy(part.source, start, end - start)
    yield from moved


def _joint_tail(tails: Sequence[OrcTail]) -> OrcTail:
    first = tails[0]
    joint = first.with_block_size(max(tail.block_size for tail in tails))
    if len({_writer(tail) for tail in tails}) == 1:
        return joint
    # Readers know what to expect from a writer. This much holds for all of them.
    return replace(
        joint,
        footer=joint.footer.with_numbers({FooterField.WRITER: WRITER_JAVA}),
        postscript=joint.postscript.with_numbers(
            {PostScriptField.WRITER_VERSION: WRITER_VERSION_ORC_135}
        ),
    )


def _check_compatible(first: OrcTail, other: OrcTail, number: int) -> None:
    different = [name for name, of in _MUST_AGREE.items() if of(first) != of(other)]
    if _writer(first) != _writer(other) and any(
        _writer(tail)[1] < WRITER_VERSION_ORC_135 for tail in (first, other)
    ):
        different.append("writer")
    if different:
        raise UnsupportedFile(
            f"File {number} cannot be joined to the first one; different: {', '.join(different)}."
        )


def _writer(tail: OrcTail) -> tuple[int, int]:
    return (
        tail.footer.number(FooterField.WRITER),
        tail.postscript.number(PostScriptField.WRITER_VERSION),
    )


def _shape(tail: OrcTail) -> list[tuple[object, ...]]:
    """What the types say, whichever way the writer put it."""
    return [
        (
            type_.number(TypeField.KIND),
            type_.all_numbers(TypeField.SUBTYPES),
            type_.all_data(TypeField.FIELD_NAMES),
            type_.number(TypeField.MAXIMUM_LENGTH),
            type_.number(TypeField.PRECISION),
            type_.number(TypeField.SCALE),
        )
        for type_ in map(Message.decode, tail.types)
    ]


def _calendar(tail: OrcTail) -> int | None:
    kinds = {Message.decode(type_).number(TypeField.KIND) for type_ in tail.types}
    if kinds.isdisjoint(_CALENDAR_KINDS):
        return None
    # Writers that do not say use the older calendar.
    return tail.footer.number(FooterField.CALENDAR) or _JULIAN


_MUST_AGREE: dict[str, Callable[[OrcTail], object]] = {
    "codec": lambda tail: tail.codec,
    "row group size": lambda tail: tail.stride,
    "types": _shape,
    "calendar": _calendar,
}
