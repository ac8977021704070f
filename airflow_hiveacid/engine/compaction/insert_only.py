"""Compaction of one partition of an insert-only table: fewer files with the same rows.

A rebalance also sorts the rows. They have no row ids, so that sorting conflicts with no other
writer.
"""

import re
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from airflow_hiveacid.acid.column_mapping import MappedColumns
from airflow_hiveacid.acid.compaction import CompactionPlan, CompactionType, plan_compaction
from airflow_hiveacid.acid.directory import AcidDirectory, FileStatus
from airflow_hiveacid.acid.names import Delta, OriginalFile, parse_directory, parse_file
from airflow_hiveacid.acid.proof import Balance, Tally
from airflow_hiveacid.acid.trino import Misread
from airflow_hiveacid.acid.write_ids import Range
from airflow_hiveacid.engine.compaction.column_check import check_columns
from airflow_hiveacid.engine.compaction.input_files import check_rows
from airflow_hiveacid.engine.compaction.partition import PartitionCompactor
from airflow_hiveacid.engine.compaction.proof import tally_values
from airflow_hiveacid.engine.compaction.row_order import refuse_sorted_text
from airflow_hiveacid.engine.read.nanoseconds import (
    InspectedFile,
    finer_column_in,
    timestamp_columns,
)
from airflow_hiveacid.engine.rows.partition_values import PATH
from airflow_hiveacid.engine.rows.row_format import LINE, RowFormat
from airflow_hiveacid.engine.session import scan_session
from airflow_hiveacid.engine.write.row_files import RowFiles
from airflow_hiveacid.engine.write.staged_files import (
    FlatFile,
    Folder,
    NewFile,
    StagedFile,
    staged_file,
)
from airflow_hiveacid.errors import CorruptFile, HiveAcidError, NanosecondsLost, UnsupportedFile
from airflow_hiveacid.metastore.formats import StorageFormat
from airflow_hiveacid.orc.copying.assemble import Part, assemble
from airflow_hiveacid.orc.copying.spark_files import readable
from airflow_hiveacid.orc.format.envelope import with_column_names
from airflow_hiveacid.orc.format.tail import OrcTail
from airflow_hiveacid.orc.row_keys.census import digest_of_stripe
from airflow_hiveacid.storage.folder import Storage

# As much as one task copies; a table without buckets gets a file for each.
_BYTES_OF_A_FILE = 1 << 30
_PART = re.compile(r"part-(\d+)-")


@dataclass(frozen=True, slots=True)
class _JoinTask:
    """Files that become one.

    Attributes:
        root: The folder of the partition.
        number: The number of the new file, or of the first of several.
        paths: The files, in reading order.
        folder: The folder of the new file.
        noted_rows: The number of rows that each file should have, if noted.
    """

    root: str
    number: int
    paths: tuple[str, ...]
    folder: Folder
    noted_rows: tuple[int | None, ...]


class InsertOnlyCompactor(PartitionCompactor):
    """Compacts one partition of an insert-only table."""

    def plan(
        self, state: AcidDirectory, type_: CompactionType, files: Sequence[FileStatus]
    ) -> CompactionPlan:
        """See the base class."""
        self._format = RowFormat.of(self.table, self.partition)
        if self.order.by and self._format.format.is_text:
            # The format of the table may differ from that of the partition.
            refuse_sorted_text(self.name)
        if not self.compaction.version.hides_compactions and type_ is CompactionType.MINOR:
            # Insert-only rows cannot be filtered: a concurrent reader would see rows of write ids
            # that are open for the reader. A reader skips a base that is not completely visible to
            # it.
            self.warnings.append(
                "Hive 3 cannot hide a delta of several write ids from those who read meanwhile: "
                "the compaction became a major one."
            )
            type_ = CompactionType.MAJOR
        # By Hive 3's rules a compactor receives aborted directories: for other tables, it drops
        # their rows individually.
        dead = [name for name in state.deltas if self._is_aborted(name)]
        live = tuple(name for name in state.deltas if name not in dead)
        state = replace(state, deltas=live, aborted=(*state.aborted, *dead))
        misread = Misread.of(state, self.compaction.write_ids)
        return plan_compaction(
            state,
            type_,
            files,
            flat=True,
            misread=misread,
            one_by_one=not self.compaction.version.hides_compactions,
        )

    def write(self, plan: CompactionPlan, state: AcidDirectory) -> None:
        """See the base class."""
        self._out = self.output(plan.inserts)
        inputs = [file for file in _inputs(plan, state) if file.size > 0]
        columns, form = self.table.mapped_columns, self._format.format
        if not form.is_text:
            check_columns(self.storage, columns, form, [(file.path, file.size) for file in inputs])
        tasks = self._grouped(inputs)
        writer = self._row_files
        left = tasks
        copied: list[tuple[_JoinTask, StagedFile]] = []
        if form is StorageFormat.ORC and not self.order.by:
            left = []
            for task, tried in zip(
                tasks, self.spark_tasks.tried(partial(_copy_stripes, columns), tasks), strict=True
            ):
                if isinstance(tried, UnsupportedFile):
                    self.phases.note(f"Writing {task.paths[0]} and others again: {tried.what}")
                    left.append(task)
                elif isinstance(tried, HiveAcidError):
                    raise tried
                else:
                    file, stripes = tried
                    self.stripes_copied += stripes
                    self.keep(plan.inserts, file)
                    copied.append((task, file))
        self._check_copies(copied)
        for task in left:
            self._check_nanoseconds(task)
            files = self.spark_tasks.run(writer.taker(), self._written_again(task, writer))
            self._check_rows(task, files)
            for file in files:
                self.keep(plan.inserts, file)
        if not self.keeps(plan.inserts):
            # A directory must hide the replaced ones, and Trino ignores an empty directory.
            self.keep_empty(plan.inserts)

    def _check_copies(self, copied: Sequence[tuple[_JoinTask, StagedFile]]) -> None:
        """Make sure that each stripe was copied into the new files exactly once."""
        root = self.storage.location
        paths = [[*task.paths, file.path] for task, file in copied]
        counts = iter(
            self.spark_tasks.run(
                partial(_count_stripes, root), [path for file in paths for path in file]
            )
        )
        for task, _ in copied:
            read = sum((next(counts) for _ in task.paths), Tally())
            self._balance(task, Balance(read=read, written=next(counts)))

    def _check_rows(self, task: _JoinTask, files: Sequence[StagedFile]) -> None:
        """Make sure that each row was written exactly once, with all its values."""
        read = self._tally(task.paths)
        noted = [rows for rows in task.noted_rows if rows is not None]
        whole = len(noted) == len(task.paths) and not self._format.format.is_text
        if whole and sum(noted) != read.rows:
            raise CorruptFile(
                f"{self.storage.location}: {', '.join(task.paths)} have {read.rows} rows, and were"
                f" written with {sum(noted)}.",
                remedy="Bring them back from a copy.",
            )
        written = self._tally([file.path for file in files if file.rows])
        self.values += written
        self._balance(task, Balance(read=read, written=written))

    def _balance(self, task: _JoinTask, balanced: Balance) -> None:
        balanced.check(f"File {task.number} of {self.name}")
        self.rows += balanced

    def _tally(self, paths: Sequence[str]) -> Tally:
        """Count the rows of some files, or their lines, by all their values."""
        if not paths:
            return Tally()
        full_paths = [f"{self.storage.location.rstrip('/')}/{path}" for path in paths]
        session = scan_session(self.spark)
        if self._format.format.is_text:
            return tally_values(self._format.lines(session, full_paths).select(LINE))
        return tally_values(self._format.scan(session, full_paths).drop(PATH))

    def file_name(self, number: int) -> str:
        """See the base class."""
        return OriginalFile(number, 0).name

    def write_empty(self, sink: Any) -> int:
        """See the base class."""
        return self._row_files.write_empty(sink)

    @property
    def _row_files(self) -> RowFiles:
        return RowFiles(self.table, self.table.orc_codec, self.partition)

    def _is_aborted(self, name: str) -> bool:
        delta = parse_directory(name)
        assert isinstance(delta, Delta), name
        extent = (delta.min_write_id, delta.max_write_id)
        return self.compaction.write_ids.range_aborted(*extent) is Range.ALL

    def _grouped(self, files: Sequence[FileStatus]) -> list[_JoinTask]:
        """Group the files that become one: those of a bucket, or as many as fit the size limit.

        Files to be sorted are one group.
        """
        groups: dict[int, list[str]] = {}
        last = size = 0
        for file in files:
            self.bytes_read += file.size
            if self.clustered:
                number = self._bucket(file)
            else:
                if size and size + file.size > _BYTES_OF_A_FILE and not self.order.by:
                    last, size = last + 1, 0
                size += file.size
                number = last
            groups.setdefault(number, []).append(file.path)
        return [
            _JoinTask(
                self.storage.location,
                number,
                tuple(paths),
                self._out,
                tuple(map(self.noted_rows.get, paths)),
            )
            for number, paths in sorted(groups.items())
        ]

    def _bucket(self, file: FileStatus) -> int:
        parsed = parse_file(file.path.rpartition("/")[2])
        if parsed is None:
            raise UnsupportedFile(
                f"{self.storage.location}/{file.path} has no bucket number in its name.",
                remedy="Rewrite the partition with INSERT OVERWRITE.",
            )
        return parsed.bucket

    def _check_nanoseconds(self, task: _JoinTask) -> None:
        """Make sure that Spark can rewrite some files without truncating a timestamp.

        Raises:
            NanosecondsLost: A timestamp has more digits than microseconds.
        """
        columns = timestamp_columns(self.table)
        if self._format.format.is_text or not columns:
            return
        paths = [f"{task.root}/{path}" for path in task.paths]
        files = [
            InspectedFile(path, None, self._format.format, self.table.mapped_columns)
            for path in paths
        ]
        finer = self.spark_tasks.run(partial(finer_column_in, columns), files)
        for path, column in zip(paths, finer, strict=True):
            if column is not None:
                raise NanosecondsLost(
                    f"{path} has nanoseconds in the column {column}, and can only be compacted by"
                    " Spark, which knows microseconds.",
                    remedy="Let Hive compact the table.",
                )

    def _written_again(self, task: _JoinTask, writer: RowFiles) -> list[NewFile]:
        """Read some files by Spark and write their rows, sorted, or their lines unchanged."""
        spark = scan_session(self.spark)
        paths = [f"{task.root}/{path}" for path in task.paths]
        flat = f"{self.folder('flat').path}/{task.number}-{uuid.uuid4().hex}"
        location = f"{task.root}/{flat}"
        if self._format.format.is_text:
            lines = self._format.lines(spark, paths).select(LINE)
            writer.save_lines(lines.coalesce(1), [], location)
        else:
            rows = self._format.scan(spark, paths).drop(PATH)
            writer.save(self._arranged(rows), [], location)
        written = self.storage.list_files(flat)
        return [
            NewFile(
                (FlatFile(task.root, f"{flat}/{file.path}", file.size),),
                task.folder,
                task.number + int(part[1]),
            )
            for file in written
            if (part := _PART.match(file.path))
        ]

    def _arranged(self, rows: DataFrame) -> DataFrame:
        """Arrange rows for the new files: each bucket has one file."""
        by = self.order.columns
        if not by:
            return rows.coalesce(1)
        if self.clustered:
            return rows.coalesce(1).sortWithinPartitions(*by)
        count = self.order.count(self.bytes_read)
        return rows.repartitionByRange(count, *by).sortWithinPartitions(*by)


def _inputs(plan: CompactionPlan, state: AcidDirectory) -> list[FileStatus]:
    """The files that are replaced, in reading order."""
    chosen = frozenset(plan.inputs)
    names = [name for name in (state.base, *state.deltas) if name in chosen]
    originals = [file for file in state.files("") if file.path in chosen]
    return originals + [file for name in names if name for file in state.files(name)]


def _count_stripes(root: str, path: str) -> Tally:
    """Count the stripes of a file, and their rows."""
    with Storage.of(root).open_input(path) as source:
        tail = OrcTail.read(source)
        counted = (
            Tally(stripe.rows, digest_of_stripe(source, tail, stripe)) for stripe in tail.stripes
        )
        return sum(counted, Tally())


def _copy_stripes(columns: MappedColumns, task: _JoinTask) -> tuple[StagedFile, int]:
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
            written = assemble(parts, file.sink)
    stripes = sum(len(part.tail.stripes) for part in parts)
    return file.made(task.number, written.rows, written.bytes), stripes
