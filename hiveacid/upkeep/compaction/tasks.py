"""Task code that compacts one bucket of a partition.

The work is split by stripe, not by bucket, so that one large bucket keeps all cores busy: a task
plans a bucket, many tasks rewrite the few stripes that cannot be copied, and one task assembles the
bucket and copies all other stripes. A task may be retried, or run twice at a time, so every attempt
writes a file under a name of its own.
"""

import io
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

from hiveacid.dataclass import dataclass
from hiveacid.errors import CorruptFile, DataError, ProofFailed
from hiveacid.jobs.table_properties import ORC_COMPRESS
from hiveacid.metastore.catalog import HiveTable
from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.reencode import Reencoded, reencode, reencoded_part, values_of
from hiveacid.orc.copying.spark_files import copy_readable
from hiveacid.orc.copying.stripe_plan import PlannedFile, StripeGroup, StripePlan, plan_stripes
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.compression import Codec, Source
from hiveacid.orc.format.envelope import EnvelopeColumn, RowOperation, with_column_names, wrap_types
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.process_memory import return_memory
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.key_stream import read_deletes
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.rules.directory import SyntheticIds
from hiveacid.rules.features import Features
from hiveacid.rules.location import Location
from hiveacid.rules.names import Base, BucketFile, Delta
from hiveacid.rules.schema import MappedColumns
from hiveacid.storage.filesystems import translated_os_errors
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import read_tail
from hiveacid.storage.staging import Folder, StagedFile, staged_file

# Input files of a compaction: opened, checked, copied, or given row ids first


# Smaller files are read with one request each and then closed: a bucket may have thousands of them,
# and a process may open one thousand.
_READ_AT_ONCE = 64 << 10
# The maximum number of their bytes in memory.
_MOST_HELD = 64 << 20
# The size of the rows that one task handles, so that many tasks share a bucket.
_TASK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is compacted.

    Attributes:
        path: The path below the partition's folder.
        size: The length of its valid part in bytes.
        directory: The base or delta that its content comes from.
        exact: Whether the file cannot contain rows of an aborted write id.
        cut_off: Whether the file is longer than its valid part.
        rows: The number of rows in the writer's note, if any.
    """

    path: str
    size: int
    directory: Base | Delta
    exact: bool
    cut_off: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class RowIdTask:
    """A file without row ids, and the row ids for its rows.

    Attributes:
        root: The partition's folder.
        ids: The row ids; the path is below the partition's folder.
        directory: The base or delta that the file belongs to.
        columns: The columns of the table.
        folder: The folder of the new file.
    """

    root: Location
    ids: SyntheticIds
    directory: Base | Delta
    columns: MappedColumns
    folder: Folder


def count_rows(root: Location, path: str) -> int:
    """Number of rows of a file."""
    return read_tail(Storage.of(root), path).rows


def give_row_ids(task: RowIdTask) -> InputFile:
    """Make a full ACID file from a file without row ids, without decoding its columns."""
    ids = task.ids
    assert ids.bucket is not None, ids.path
    path = f"{task.folder.path}/{uuid.uuid4().hex}"
    with (
        Storage.of(task.root).open_input(ids.path) as source,
        new_file(task.folder, path) as sink,
        naming(task.root, ids.path),
    ):
        transplanted = transplant(
            [source],
            sink,
            write_id=ids.write_id,
            bucket=ids.bucket,
            first_row=ids.first_row,
            columns=task.columns,
        )
    return InputFile(path, transplanted.bytes, task.directory, exact=True)


def copy_file(root: Location, folder: Folder, file: InputFile) -> InputFile:
    """Copy the valid part of a file, so that Spark can read it."""
    path, storage = f"{folder.path}/{uuid.uuid4().hex}", Storage.of(root)
    tail = read_tail(storage, file.path, file.size)
    with storage.open_input(file.path) as source, new_file(folder, path) as sink:
        size = copy_readable(source, tail, sink)
    return replace(file, path=path, size=size, cut_off=False)


def open_files(
    stack: ExitStack, root: Location, files: Sequence[InputFile]
) -> list[tuple[Source, OrcTail]]:
    """Open files until a stack of contexts is closed.

    Raises:
        CorruptFile: A file is not an ORC file, or differs from its writer's note.
    """
    storage = Storage.of(root)
    sources: list[tuple[Source, OrcTail]] = []
    free_bytes = _MOST_HELD
    for file in files:
        with naming(root, file.path):
            source: BinaryIO
            if file.size <= min(_READ_AT_ONCE, free_bytes):
                free_bytes -= file.size
                with storage.open_input(file.path) as stream:
                    source = io.BytesIO(stream.read(file.size))
            else:
                source = stack.enter_context(storage.open_input(file.path))
            tail = OrcTail.read(source, file.size)
            check_rows(tail, file.path, file.rows)
            sources.append((source, tail))
    return sources


def bytes_of_a_task(deletes: int) -> int:
    """Return the size of the rows that one task handles.

    Each task also opens all delete files of its rows, so that it takes more rows if these are many.

    Args:
        deletes: The number of delete files.
    """
    return max(_TASK_BYTES, deletes * _READ_AT_ONCE)


def check_rows(tail: OrcTail, path: str, noted: int | None) -> None:
    """Refuse a file whose number of rows differs from its writer's note.

    Raises:
        CorruptFile: The numbers differ.
    """
    if noted is not None and tail.rows != noted:
        raise CorruptFile(f"{path} has {tail.rows} rows, and was written with {noted}.")


@contextmanager
def naming(root: str, *paths: str) -> Iterator[None]:
    """Add the file names to errors of the ORC layer, which has access to bytes only."""
    try:
        yield
    except DataError as error:
        names = ", ".join(f"{root}/{path}" for path in paths)
        if any(path in error.what for path in paths):
            raise
        raise type(error)(f"{names}: {error.what}", remedy=error.remedy) from error


@contextmanager
def new_file(folder: Folder, path: str) -> Iterator[Any]:
    """Create a file; its errors include its path."""
    storage = Storage.of(folder.root)
    with translated_os_errors(f"{folder.root}/{path}"), storage.create(path) as sink:
        yield sink


@dataclass(frozen=True, slots=True)
class BucketInputs:
    """The inputs of one file.

    Attributes:
        root: The partition's folder.
        bucket: The number of the file.
        inserts: The files with rows, in the order of their row ids.
        deletes: The files with the delete events to apply to the rows, or to merge.
        aborted: Write ids whose rows and events are dropped.
        types: The types of the table's row, the root first.
        columns: Its columns.
        codec: The compression that the table states; None keeps the one of most rows.
    """

    root: Location
    bucket: int
    inserts: tuple[InputFile, ...]
    deletes: tuple[InputFile, ...]
    aborted: tuple[int, ...]
    types: tuple[bytes, ...]
    columns: MappedColumns
    codec: Codec | None = None


def stated_codec(table: HiveTable, features: Features) -> Codec | None:
    """Return the codec that rewritten rows of a table get; None keeps the one of most rows."""
    codec = Codec.stated(table.parameters.get(ORC_COMPRESS))
    # A Hive without zstd could not read the rows any more.
    return None if codec is Codec.ZSTD and features.reads_zstd is False else codec


@dataclass(frozen=True, slots=True)
class EncodeTask:
    """Some stripes of a bucket that one task rewrites."""

    inputs: BucketInputs
    layout: Layout
    group: StripeGroup
    folder: Folder


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """A file of rewritten rows, without deleted and aborted rows.

    Attributes:
        path: The file.
        done: Its contents.
    """

    path: str
    done: Reencoded


@dataclass(frozen=True, slots=True)
class AssembleTask:
    """All groups of a bucket; rewritten groups are replaced by their files."""

    inputs: BucketInputs
    plan: StripePlan
    encoded: tuple[EncodedPart | None, ...]
    folder: Folder


@dataclass(frozen=True, slots=True)
class CopiedBucket:
    """A bucket that was only copied."""

    task: AssembleTask
    file: StagedFile


@dataclass(frozen=True, slots=True)
class MergeDeletesTask:
    """The delete events of a bucket, which become one file."""

    inputs: BucketInputs
    codec: str
    folder: Folder


def plan_bucket(folder: Folder, inputs: BucketInputs) -> StripePlan | CopiedBucket:
    """Determine the stripes of a bucket that can be copied.

    If all of them can be copied, copy them immediately: starting a task takes as long as copying
    100 MB.
    """
    plan = stripes_of(inputs)
    if not all(group.copy for group in plan.groups):
        return plan
    task = AssembleTask(inputs, plan, (None,) * len(plan.groups), folder)
    return CopiedBucket(task, assemble_bucket(task))


def stripes_of(inputs: BucketInputs) -> StripePlan:
    """Determine which stripes of a bucket can be copied, without writing.

    Raises:
        OutOfOrder: The row ids do not ascend over all files.
    """
    with ExitStack() as stack:
        files = [
            PlannedFile(source, tail, f"{inputs.root}/{file.path}", file.exact)
            for file, (source, tail) in zip(
                inputs.inserts, open_inputs(stack, inputs, inputs.inserts), strict=True
            )
        ]
        types = wrap_types(inputs.types)
        return plan_stripes(
            files,
            _events(stack, inputs),
            inputs.aborted,
            types=types,
            codec=inputs.codec,
            group_bytes=bytes_of_a_task(len(inputs.deletes)),
        )


def encode_group(task: EncodeTask) -> EncodedPart:
    """Rewrite some stripes, without the rows that must be dropped."""
    inputs = task.inputs
    numbers = sorted({number for number, _ in task.group.stripes})
    files = [inputs.inserts[number] for number in numbers]
    with ExitStack() as stack:
        sources = dict(zip(numbers, open_inputs(stack, inputs, files), strict=True))
        stripes = [
            (*sources[number], [stripe for file, stripe in task.group.stripes if file == number])
            for number in numbers
        ]
        path = f"{task.folder.path}/{inputs.bucket}-{uuid.uuid4().hex}"
        with new_file(task.folder, path) as sink, naming(inputs.root, *_paths(files)):
            reencoded = reencode(
                stripes,
                sink,
                layout=task.layout,
                deletes=_events(stack, inputs),
                aborted_ids=inputs.aborted,
            )
    return_memory()
    _check_values(task, path, reencoded)
    return_memory()
    return EncodedPart(path, reencoded)


def _check_values(task: EncodeTask, path: str, reencoded: Reencoded) -> None:
    """Read the rewritten rows, and make sure that no value has changed."""
    values = reencoded.values
    with Storage.of(task.folder.root).open_input(path) as source:
        read = values_of(reencoded_part(source, task.layout.types))
    if read != values:
        raise ProofFailed(
            f"Bucket {task.inputs.bucket} of {task.inputs.root}: {values} rows with their values"
            f" were to be written again, {read} were."
        )


def assemble_bucket(task: AssembleTask) -> StagedFile:
    """Assemble a bucket from copied stripes and rewritten files."""
    inputs = task.inputs
    storage = Storage.of(task.folder.root)
    copied = [group for group in task.plan.groups if group.copy]
    numbers = sorted({number for group in copied for number, _ in group.stripes})
    files = [inputs.inserts[number] for number in numbers]
    with ExitStack() as stack:
        sources = dict(zip(numbers, open_inputs(stack, inputs, files), strict=True))
        parts: list[Part] = []
        for group, encoded_part in zip(task.plan.groups, task.encoded, strict=True):
            if encoded_part is not None:
                source = stack.enter_context(storage.open_input(encoded_part.path))
                parts.append(reencoded_part(source, task.plan.layout.types))
                continue
            for number in sorted({number for number, _ in group.stripes}):
                stripes = tuple(stripe for file, stripe in group.stripes if file == number)
                parts.append(Part(*sources[number], stripes))
        with (
            staged_file(task.folder, BucketFile(inputs.bucket).name) as file,
            naming(inputs.root, *_paths(inputs.inserts)),
        ):
            assembled = assemble(parts, file.sink, layout=task.plan.layout)
    return file.result(inputs.bucket, assembled.rows, assembled.bytes)


def merge_deletes(task: MergeDeletesTask) -> StagedFile:
    """Merge the delete events of a bucket, each of them once."""
    inputs = task.inputs
    with ExitStack() as stack:
        events = _events(stack, inputs)
        with (
            staged_file(task.folder, BucketFile(inputs.bucket).name) as file,
            naming(inputs.root, *_paths(inputs.deletes)),
        ):
            delete_file = write_delete_file(
                file.sink, events, row_types=inputs.types, codec=task.codec
            )
    return file.result(inputs.bucket, delete_file.rows, delete_file.bytes)


def _events(stack: ExitStack, inputs: BucketInputs) -> Iterator[Keys]:
    sources = open_inputs(stack, inputs, inputs.deletes)
    for file, (_, tail) in zip(inputs.deletes, sources, strict=True):
        for stripe in range(len(tail.stripes)):
            operations = tail.int_range(stripe, EnvelopeColumn.OPERATION)
            if operations is not None and operations != (RowOperation.DELETE, RowOperation.DELETE):
                raise CorruptFile(f"{inputs.root}/{file.path} holds other events than deletes.")
    events = read_deletes(sources, inputs.aborted)
    # Arrow reads ahead, and must have stopped before the files are closed.
    return stack.enter_context(closing(events))


def open_inputs(
    stack: ExitStack, inputs: BucketInputs, files: Sequence[InputFile]
) -> list[tuple[Source, OrcTail]]:
    """Open files of a bucket, with columns named as in the current table."""
    return [
        (source, replace(tail, types=with_column_names(tail.types, inputs.columns)))
        for source, tail in open_files(stack, inputs.root, files)
    ]


def _paths(files: Sequence[InputFile]) -> list[str]:
    return [file.path for file in files]
