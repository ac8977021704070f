"""What runs inside of Spark's tasks to compact one bucket of a partition.

The work is cut by stripe and not by bucket, so that one large bucket keeps all cores busy: a task
plans a bucket, many tasks write anew the few stripes that cannot stay as they are, and one task
puts the bucket together, copying all others. A task may be tried twice, or run twice at a time, so
every attempt writes a file that only it knows.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from airflow_hiveacid.acid.names import Base, BucketFile, Delta
from airflow_hiveacid.acid.originals import SyntheticIds
from airflow_hiveacid.acid.proof import Tally
from airflow_hiveacid.engine.write.staged_files import Folder, StagedFile
from airflow_hiveacid.errors import (
    CorruptFile,
    DataError,
    NanosecondsLost,
    ProofFailed,
)
from airflow_hiveacid.filesystems import storage_error
from airflow_hiveacid.listing import read_tail
from airflow_hiveacid.orc.assemble import Part, assemble
from airflow_hiveacid.orc.batches import read_batches
from airflow_hiveacid.orc.delete_file import write_delete_stripes
from airflow_hiveacid.orc.digests import ValueDigest
from airflow_hiveacid.orc.envelope import (
    EnvelopeColumn,
    RowOperation,
    with_column_names,
    wrap_types,
)
from airflow_hiveacid.orc.key_stream import read_deletes
from airflow_hiveacid.orc.keys import Keys
from airflow_hiveacid.orc.layout import Layout
from airflow_hiveacid.orc.nanoseconds import finer_column, mark
from airflow_hiveacid.orc.reencode import Reencoded, reencode, reencoded_part
from airflow_hiveacid.orc.source_and_sink import Source
from airflow_hiveacid.orc.spark_files import copy_readable, retyped
from airflow_hiveacid.orc.stripe_plan import PlannedFile, StripeGroup, StripePlan, plan_stripes
from airflow_hiveacid.orc.tail import OrcTail
from airflow_hiveacid.orc.timestamps import split_timestamps
from airflow_hiveacid.orc.transplant import transplant_all
from airflow_hiveacid.storage import Storage

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is compacted.

    Attributes:
        path: Its place below the partition's folder.
        size: How many bytes of it count.
        directory: The base or delta that its content comes from.
        exact: Whether no row in it can be of an aborted write id.
        cut_off: Whether there is more in it than counts.
        rows: How many rows its writer noted; None when nobody did.
    """

    path: str
    size: int
    directory: Base | Delta
    exact: bool
    cut_off: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class RowIdTask:
    """A file without row ids, and those that its rows get.

    Attributes:
        root: The partition's folder.
        ids: The row ids; the path is below the partition's folder.
        directory: The base or delta that the file belongs to.
        columns: The names of the table's columns.
        folder: Where the file with row ids goes.
    """

    root: str
    ids: SyntheticIds
    directory: Base | Delta
    columns: tuple[str, ...]
    folder: Folder


@dataclass(frozen=True, slots=True)
class BucketInputs:
    """What becomes one file.

    Attributes:
        root: The partition's folder.
        bucket: The number of the file.
        inserts: The files with rows, in the order of their row ids.
        deletes: The files with the delete events to apply to them, or to put together.
        aborted: Write ids whose rows and events are dropped.
        types: The types of the table's row, the root first.
        columns: The names of its columns.
    """

    root: str
    bucket: int
    inserts: tuple[InputFile, ...]
    deletes: tuple[InputFile, ...]
    aborted: tuple[int, ...]
    types: tuple[bytes, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EncodeTask:
    """Some stripes of a bucket that one task writes anew."""

    inputs: BucketInputs
    layout: Layout
    group: StripeGroup
    folder: Folder


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """What became of them: a file of rows, less those that were deleted or aborted.

    Attributes:
        path: The file.
        done: What is in it.
    """

    path: str
    done: Reencoded


@dataclass(frozen=True, slots=True)
class AssembleTask:
    """All groups of stripes of a bucket, those that were written anew replaced by their files."""

    inputs: BucketInputs
    plan: StripePlan
    encoded: tuple[EncodedPart | None, ...]
    folder: Folder


@dataclass(frozen=True, slots=True)
class SortTask:
    """A bucket that Spark has sorted."""

    bucket: int
    path: str
    folder: Folder
    types: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CopiedBucket:
    """A bucket that needed nothing but copying."""

    work: AssembleTask
    file: StagedFile


@dataclass(frozen=True, slots=True)
class MergeDeletesTask:
    """The delete events of a bucket, which become one file."""

    inputs: BucketInputs
    codec: str
    folder: Folder


def count_rows(root: str, path: str) -> int:
    """The rows of a file."""
    return read_tail(Storage.of(root), path).rows


def give_row_ids(work: RowIdTask) -> InputFile:
    """Make a full ACID file of one without row ids, without decoding its columns."""
    ids = work.ids
    assert ids.bucket is not None, ids.path
    path = f"{work.folder.path}/{uuid.uuid4().hex}"
    with (
        Storage.of(work.root).open_input(ids.path) as source,
        _sink(work.folder, path) as sink,
        naming(work.root, ids.path),
    ):
        written = transplant_all(
            source,
            sink,
            write_id=ids.write_id,
            bucket=ids.bucket,
            first_row=ids.first_row,
            columns=work.columns,
        )
    return InputFile(path, written.bytes, work.directory, exact=True)


def copy_file(root: str, folder: Folder, file: InputFile) -> InputFile:
    """Copy what counts of a file, so that Spark can read it."""
    path, storage = f"{folder.path}/{uuid.uuid4().hex}", Storage.of(root)
    tail = read_tail(storage, file.path, file.size)
    with storage.open_input(file.path) as source, _sink(folder, path) as sink:
        size = copy_readable(source, tail, sink)
    return replace(file, path=path, size=size, cut_off=False)


def plan_bucket(folder: Folder, inputs: BucketInputs) -> StripePlan | CopiedBucket:
    """Find out which stripes of a bucket can be copied.

    Where all of them can, it is done at once: starting a task takes as long as copying 100 MB.
    """
    with ExitStack() as stack:
        files = [
            PlannedFile(source, tail, f"{inputs.root}/{file.path}", file.exact)
            for file, (source, tail) in zip(
                inputs.inserts, _open(stack, inputs, inputs.inserts), strict=True
            )
        ]
        types = wrap_types(inputs.types)
        plan = plan_stripes(files, _events(stack, inputs), inputs.aborted, types=types)
    if not all(group.copy for group in plan.groups):
        return plan
    work = AssembleTask(inputs, plan, (None,) * len(plan.groups), folder)
    return CopiedBucket(work, assemble_bucket(work))


def encode_group(work: EncodeTask) -> EncodedPart:
    """Write some stripes anew, without the rows that must not stay."""
    inputs = work.inputs
    numbers = sorted({number for number, _ in work.group.stripes})
    files = [inputs.inserts[number] for number in numbers]
    with ExitStack() as stack:
        opened = dict(zip(numbers, _open(stack, inputs, files), strict=True))
        stripes = [
            (*opened[number], [stripe for file, stripe in work.group.stripes if file == number])
            for number in numbers
        ]
        path = f"{work.folder.path}/{inputs.bucket}-{uuid.uuid4().hex}"
        with _sink(work.folder, path) as sink, naming(inputs.root, *_paths(files)):
            done = reencode(
                stripes,
                sink,
                layout=work.layout,
                deletes=_events(stack, inputs),
                aborted=inputs.aborted,
            )
    _check_values(work, path, done)
    return EncodedPart(path, done)


def _check_values(work: EncodeTask, path: str, done: Reencoded) -> None:
    """Read what was written anew once more, and make sure that no value has changed."""
    digest = ValueDigest()
    with Storage.of(work.folder.root).open_input(path) as source:
        part = reencoded_part(source, done, work.layout.types)
        if part.tail.stripes:
            shown = split_timestamps(part.source, part.tail, part.chosen)
            with closing(read_batches(*shown)) as batches:
                for batch in batches:
                    digest.add(batch)
    wanted, found = done.values, Tally(digest.rows, digest.value)
    if found != wanted:
        raise ProofFailed(
            f"Bucket {work.inputs.bucket} of {work.inputs.root}: {wanted} rows with their values"
            f" were to be written anew, {found} were."
        )


def assemble_bucket(work: AssembleTask) -> StagedFile:
    """Put a bucket together out of copied stripes and of files that were written anew."""
    inputs = work.inputs
    storage = Storage.of(work.folder.root)
    with ExitStack() as stack:
        opened = _open(stack, inputs, inputs.inserts)
        parts: list[Part] = []
        for group, encoded in zip(work.plan.groups, work.encoded, strict=True):
            if encoded is not None:
                source = stack.enter_context(storage.open_input(encoded.path))
                parts.append(reencoded_part(source, encoded.done, work.plan.layout.types))
                continue
            for number in sorted({number for number, _ in group.stripes}):
                stripes = tuple(stripe for file, stripe in group.stripes if file == number)
                parts.append(Part(*opened[number], stripes, reencoded=False))
        path = f"{work.folder.path}/{BucketFile(inputs.bucket).name}.{uuid.uuid4().hex}"
        with _sink(work.folder, path) as sink, naming(inputs.root, *_paths(inputs.inserts)):
            written = assemble(parts, sink, layout=work.plan.layout)
    return StagedFile(path, inputs.bucket, written.rows, written.bytes)


def check_nanoseconds(inputs: BucketInputs, file: InputFile) -> None:
    """Make sure that Spark can sort the rows of a file without cutting a timestamp.

    Raises:
        NanosecondsLost: There are some with more digits than microseconds.
    """
    with ExitStack() as stack:
        ((source, tail),) = _open(stack, inputs, [file])
        with naming(inputs.root, file.path):
            column = finer_column(source, tail, {name.lower() for name in inputs.columns})
    if column is not None:
        raise NanosecondsLost(
            f"{inputs.root}/{file.path} has nanoseconds in the column {column}, and can only be"
            " compacted by Spark, which knows microseconds.",
            remedy="Let Hive compact the table, or overwrite the partition with its own rows after"
            " setting the table property hiveacid.nanoseconds to truncate.",
        )


def assemble_sorted(work: SortTask) -> StagedFile:
    """Make an ACID file out of one in which Spark has written its six columns, in their order."""
    storage = Storage.of(work.folder.root)
    path = f"{work.folder.path}/{BucketFile(work.bucket).name}.{uuid.uuid4().hex}"
    with ExitStack() as stack:
        source = stack.enter_context(storage.open_input(work.path))
        tail = retyped(source, OrcTail.read(source), wrap_types(work.types))
        tail = replace(tail, user_metadata=mark(tail.rows))
        with _sink(work.folder, path) as sink:
            written = assemble([Part(source, tail)], sink)
    return StagedFile(path, work.bucket, written.rows, written.bytes)


def merge_deletes(work: MergeDeletesTask) -> StagedFile:
    """Put the delete events of a bucket together, each of them once."""
    inputs = work.inputs
    path = f"{work.folder.path}/{BucketFile(inputs.bucket).name}.{uuid.uuid4().hex}"
    with ExitStack() as stack:
        events = _events(stack, inputs)
        with _sink(work.folder, path) as sink, naming(inputs.root, *_paths(inputs.deletes)):
            written = write_delete_stripes(sink, events, row_types=inputs.types, codec=work.codec)
    return StagedFile(path, inputs.bucket, written.rows, written.bytes)


def _events(stack: ExitStack, inputs: BucketInputs) -> Iterator[Keys]:
    opened = _open(stack, inputs, inputs.deletes)
    for file, (_, tail) in zip(inputs.deletes, opened, strict=True):
        for stripe in range(len(tail.stripes)):
            found = tail.int_range(stripe, EnvelopeColumn.OPERATION)
            if found is not None and found != (RowOperation.DELETE, RowOperation.DELETE):
                raise CorruptFile(f"{inputs.root}/{file.path} holds other events than deletes.")
    events = read_deletes(opened, inputs.aborted)
    # Arrow reads ahead, and must have stopped before the files are closed.
    return stack.enter_context(closing(events))


def open_files(
    stack: ExitStack, root: str, files: Sequence[InputFile]
) -> list[tuple[Source, OrcTail]]:
    """Open files, for as long as a stack of contexts lasts.

    Raises:
        CorruptFile: One is no ORC file, or not what its writer noted.
    """
    storage = Storage.of(root)
    opened: list[tuple[Source, OrcTail]] = []
    for file in files:
        with naming(root, file.path):
            source = stack.enter_context(storage.open_input(file.path))
            tail = OrcTail.read(source, file.size)
            check_rows(tail, file.path, file.rows)
            opened.append((source, tail))
    return opened


def _open(
    stack: ExitStack, inputs: BucketInputs, files: Sequence[InputFile]
) -> list[tuple[Source, OrcTail]]:
    return [
        (source, replace(tail, types=with_column_names(tail.types, inputs.columns)))
        for source, tail in open_files(stack, inputs.root, files)
    ]


def check_rows(tail: OrcTail, path: str, noted: int | None) -> None:
    """Refuse a file that has not as many rows as its writer noted.

    Raises:
        CorruptFile: It has more or less.
    """
    if noted is not None and tail.rows != noted:
        raise CorruptFile(
            f"{path} has {tail.rows} rows, and was written with {noted}.",
            remedy="Bring it back from a copy.",
        )


def _paths(files: Sequence[InputFile]) -> list[str]:
    return [file.path for file in files]


@contextmanager
def naming(root: str, *paths: str) -> Iterator[None]:
    """Say of an error of the ORC layer, which sees bytes only, which files it is about."""
    try:
        yield
    except DataError as error:
        names = ", ".join(f"{root}/{path}" for path in paths)
        if any(path in error.what for path in paths):
            raise
        raise type(error)(f"{names}: {error.what}", remedy=error.remedy) from error


@contextmanager
def _sink(folder: Folder, path: str) -> Iterator[Any]:
    storage = Storage.of(folder.root)
    try:
        with storage.create(path) as sink:
            yield sink
    except OSError as error:
        raise storage_error(error, f"{folder.root}/{path}") from error
