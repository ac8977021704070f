"""Compaction of one partition of an insert-only table: fewer files with the same rows."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, SparkNeeded, UnsupportedFile
from hiveacid.metastore.catalog import HivePartition, HiveTable, StorageFormat
from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.spark_files import readable
from hiveacid.orc.format.compression import Codec
from hiveacid.orc.format.envelope import with_column_names
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.tail import OrcTail
from hiveacid.orc.row_keys.census import digest_of_stripe
from hiveacid.rules.compaction import Balance, Tally
from hiveacid.rules.directory import FileStatus
from hiveacid.rules.location import Location
from hiveacid.rules.names import OriginalFile, parse_file
from hiveacid.rules.schema import MappedColumns
from hiveacid.storage.file_columns import orc_row_types
from hiveacid.storage.folder import Storage
from hiveacid.storage.staging import Folder, StagedFile, staged_file
from hiveacid.upkeep.compaction.partition import (
    PartitionCompactor,
    PlannedCompaction,
    Planner,
    RowOrder,
)
from hiveacid.upkeep.compaction.proof import check_columns
from hiveacid.upkeep.compaction.tasks import check_rows

# As much as one task copies; a table without buckets gets a file for each.
_BYTES_OF_A_FILE = 1 << 30


@dataclass(frozen=True, slots=True)
class JoinTask:
    """Files that become one.

    Attributes:
        root: The folder of the partition.
        number: The number of the new file, or of the first of several.
        files: The files, in reading order, with paths below the folder.
        folder: The folder of the new file.
        noted_rows: The number of rows that each file should have, if noted.
    """

    root: Location
    number: int
    files: tuple[FileStatus, ...]
    folder: Folder
    noted_rows: tuple[int | None, ...]

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [file.path for file in self.files]


class InsertOnlyCompactor(PartitionCompactor):
    """Compacts one partition of an insert-only table."""

    @property
    def format(self) -> StorageFormat:
        """The format of the files."""
        return format_of(self.table, self.partition)

    @classmethod
    def require_possible(cls, planner: Planner, order: RowOrder) -> None:
        """See the base class."""
        form = format_of(planner.table, planner.partition)
        if form is not StorageFormat.ORC:
            raise SparkNeeded(f"{planner.name} is kept as {form}, which only Spark rewrites.")
        if order.by:
            raise SparkNeeded(f"The rows of {planner.name} must be sorted.")

    def write(self, compaction: PlannedCompaction) -> None:
        """See the base class."""
        plan = compaction.plan
        self._out = self.output(plan.inserts)
        inputs = self.planner.flat_files(compaction)
        columns = self.table.mapped_columns
        if not self.format.is_text:
            files = [(file.path, file.size) for file in inputs]
            check_columns(self.storage, columns, self.format, files)
        tasks = self._grouped(inputs)
        open_tasks = tasks
        copied: list[tuple[JoinTask, StagedFile]] = []
        if self.format is StorageFormat.ORC and not self.order.by:
            open_tasks = []
            for task, outcome in zip(
                tasks,
                self.tasks.tried(
                    partial(_copy_stripes, columns), tasks, effort=self.effort_of_copying
                ),
                strict=True,
            ):
                if isinstance(outcome, UnsupportedFile):
                    self.phases.note(f"Writing {task.paths[0]} and others again: {outcome.what}")
                    open_tasks.append(task)
                elif isinstance(outcome, HiveAcidError):
                    raise outcome
                else:
                    file, stripes = outcome
                    self.stripes_copied += stripes
                    self.keep(plan.inserts, file)
                    copied.append((task, file))
        self._check_copies(copied)
        for task in open_tasks:
            for file in self.write_again(task):
                self.keep(plan.inserts, file)
        if not self.keeps(plan.inserts):
            # A directory must hide the replaced ones, and Trino ignores an empty directory.
            self.keep_empty(plan.inserts)

    def write_again(self, task: JoinTask) -> list[StagedFile]:
        """Write files whose rows must be decoded, and check them.

        Raises:
            SparkNeeded: Rows are decoded by Spark only.
        """
        raise SparkNeeded(
            f"{task.root}: the stripes of {task.paths[0]} and others cannot be joined, so that their"
            " rows must be written again."
        )

    def _check_copies(self, copied: Sequence[tuple[JoinTask, StagedFile]]) -> None:
        """Make sure that each stripe was copied into the new files exactly once."""
        root = self.storage.location
        paths = [[*task.paths, file.path] for task, file in copied]
        counts = iter(
            self.tasks.run(
                partial(_count_stripes, root),
                [path for file in paths for path in file],
                effort=self.effort_of_copying,
            )
        )
        for task, _ in copied:
            read = sum((next(counts) for _ in task.paths), Tally())
            self.balance(task, Balance(read=read, written=next(counts)))

    def balance(self, task: JoinTask, balanced: Balance) -> None:
        """Check the rows of some files, and add them to the proof."""
        balanced.check(f"File {task.number} of {self.name}")
        self.rows += balanced

    def file_name(self, number: int) -> str:
        """See the base class."""
        return OriginalFile(number, 0).name

    def write_empty(self, sink: Any) -> int:
        """See the base class."""
        layout = Layout(
            orc_row_types(self.table), Codec.named(self.table.orc_codec), 1 << 18, 0, None
        )
        return assemble([], sink, layout=layout).bytes

    def _grouped(self, files: Sequence[FileStatus]) -> list[JoinTask]:
        """Group the files that become one: those of a bucket, or as many as fit the size limit.

        Files to be sorted are one group.
        """
        groups: dict[int, list[FileStatus]] = {}
        last = size = 0
        for file in files:
            self.bytes_read += file.size
            if self.planner.clustered:
                number = self._bucket(file)
            else:
                if size and size + file.size > _BYTES_OF_A_FILE and not self.order.by:
                    last, size = last + 1, 0
                size += file.size
                number = last
            groups.setdefault(number, []).append(file)
        return [
            JoinTask(
                self.storage.location,
                number,
                tuple(group),
                self._out,
                tuple(self.noted_rows.get(file.path) for file in group),
            )
            for number, group in sorted(groups.items())
        ]

    def _bucket(self, file: FileStatus) -> int:
        file_name = parse_file(file.path.rpartition("/")[2])
        if file_name is None:
            raise UnsupportedFile(
                f"{self.storage.location}/{file.path} has no bucket number in its name.",
                remedy="Rewrite the partition with INSERT OVERWRITE.",
            )
        return file_name.bucket


def format_of(table: HiveTable, partition: HivePartition | None) -> StorageFormat:
    """The format of the files of a partition, or of a table without partitions.

    Raises:
        UnsupportedTable: The format is unsupported.
    """
    storage = table.raw.sd if partition is None else partition.raw.sd
    return StorageFormat.of(storage.serdeInfo.serializationLib, table.ref.full_name)


def _count_stripes(root: Location, path: str) -> Tally:
    """Count the stripes of a file, and their rows."""
    with Storage.of(root).open_input(path) as source:
        tail = OrcTail.read(source)
        tallies = (
            Tally(stripe.rows, digest_of_stripe(source, tail, stripe)) for stripe in tail.stripes
        )
        return sum(tallies, Tally())


def _copy_stripes(columns: MappedColumns, task: JoinTask) -> tuple[StagedFile, int]:
    """Join the stripes of some files into one file; also return the number of stripes."""
    storage = Storage.of(task.root)
    with ExitStack() as stack:
        parts = []
        for name, noted in zip(task.paths, task.noted_rows, strict=True):
            source = stack.enter_context(storage.open_input(name))
            tail = OrcTail.read(source)
            check_rows(tail, name, noted)
            tail = replace(tail, types=with_column_names(tail.types, columns))
            parts.append(Part(source, readable(tail)))
        with staged_file(task.folder, OriginalFile(task.number, 0).name) as file:
            assembled = assemble(parts, file.sink)
    stripes = sum(len(part.tail.stripes) for part in parts)
    return file.result(task.number, assembled.rows, assembled.bytes), stripes
