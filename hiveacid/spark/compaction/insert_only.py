"""Compaction of one partition of an insert-only table whose rows only Spark can write again.

A rebalance also sorts the rows. They have no row ids, so that sorting conflicts with no other
writer.
"""

import re
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.errors import CorruptFile, NanosecondsLost
from hiveacid.rules.proof import Balance, Tally
from hiveacid.spark.compaction.sort_columns import sort_columns
from hiveacid.spark.compaction.spark_scheduler import spark_of
from hiveacid.spark.compaction.value_tally import tally_values
from hiveacid.spark.read.nanoseconds import (
    InspectedFile,
    finer_column_in,
    timestamp_columns,
)
from hiveacid.spark.rows.file_scan import PART, PlainFile
from hiveacid.spark.rows.row_format import LINE, RowFormat
from hiveacid.spark.session import scan_session
from hiveacid.spark.write.row_files import RowFiles
from hiveacid.storage.staged_files import FlatFile, NewFile, StagedFile
from hiveacid.upkeep.compaction.insert_only import InsertOnlyCompactor, JoinTask
from hiveacid.upkeep.compaction.row_order import refuse_sorted_text

_PART = re.compile(r"part-(\d+)-")


class RewritingCompactor(InsertOnlyCompactor):
    """Compacts one partition of an insert-only table in any format, also sorted."""

    def require_possible(self) -> None:
        """See the base class."""
        self._format = RowFormat.of(self.table, self.partition)
        if self.order.by and self._format.format.is_text:
            # The format of the table may differ from that of the partition.
            refuse_sorted_text(self.name)

    def write_again(self, task: JoinTask) -> list[StagedFile]:
        """See the base class."""
        self._check_nanoseconds(task)
        writer = self._row_files
        files = self.tasks.run(writer.taker(), self._written_again(task, writer))
        self._check_rows(task, files)
        return files

    def write_empty(self, sink: Any) -> int:
        """See the base class."""
        return self._row_files.write_empty(sink)

    @property
    def _row_files(self) -> RowFiles:
        return RowFiles(self.table, self.table.orc_codec, self.partition)

    def _check_rows(self, task: JoinTask, files: Sequence[StagedFile]) -> None:
        """Make sure that each row was written exactly once, with all its values."""
        read = self._tally(self._inputs(task))
        noted = [rows for rows in task.noted_rows if rows is not None]
        whole = len(noted) == len(task.paths) and not self._format.format.is_text
        if whole and sum(noted) != read.rows:
            raise CorruptFile(
                f"{self.storage.location}: {', '.join(task.paths)} have {read.rows} rows, and were"
                f" written with {sum(noted)}.",
                remedy="Bring them back from a copy.",
            )
        root = self.storage.location.rstrip("/")
        made = [PlainFile(f"{root}/{file.path}", file.bytes) for file in files if file.rows]
        written = self._tally(made)
        self.values += written
        self.balance(task, Balance(read=read, written=written))

    def _tally(self, files: Sequence[PlainFile]) -> Tally:
        """Count the rows of some files, or their lines, by all their values."""
        if not files:
            return Tally()
        session = scan_session(spark_of(self.scheduler))
        if self._format.format.is_text:
            return tally_values(self._format.lines(session, files).select(LINE))
        return tally_values(self._format.scan(session, files).drop(PART))

    @staticmethod
    def _inputs(task: JoinTask) -> list[PlainFile]:
        root = task.root.rstrip("/")
        return [PlainFile(f"{root}/{file.path}", file.size) for file in task.files]

    def _check_nanoseconds(self, task: JoinTask) -> None:
        """Make sure that Spark can rewrite some files without truncating a timestamp.

        Raises:
            NanosecondsLost: A timestamp has more digits than microseconds.
        """
        columns = timestamp_columns(self.table)
        if self._format.format.is_text or not columns:
            return
        files = [
            InspectedFile(file.path, file.size, self._format.format, self.table.mapped_columns)
            for file in self._inputs(task)
        ]
        finer = self.tasks.run(partial(finer_column_in, columns), files)
        for file, column in zip(files, finer, strict=True):
            if column is not None:
                raise NanosecondsLost(
                    f"{file.path} has nanoseconds in the column {column}, and can only be compacted by"
                    " Spark, which knows microseconds.",
                    remedy="Let Hive compact the table.",
                )

    def _written_again(self, task: JoinTask, writer: RowFiles) -> list[NewFile]:
        """Read some files by Spark and write their rows, sorted, or their lines unchanged."""
        spark = scan_session(spark_of(self.scheduler))
        files = self._inputs(task)
        flat = f"{self.folder('flat').path}/{task.number}-{uuid.uuid4().hex}"
        location = f"{task.root}/{flat}"
        if self._format.format.is_text:
            lines = self._format.lines(spark, files).select(LINE)
            writer.save_lines(lines.coalesce(1), [], location)
        else:
            rows = self._format.scan(spark, files).drop(PART)
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
        by = sort_columns(self.order)
        if not by:
            return rows.coalesce(1)
        if self.planner.clustered:
            return rows.coalesce(1).sortWithinPartitions(*by)
        count = self.order.count(self.bytes_read)
        return rows.repartitionByRange(count, *by).sortWithinPartitions(*by)
